//! Who hears that the list of tools has changed.
//!
//! A client that opened with `initialize` hears it by itself, if what it was shown is no longer so.
//! From MCP 2026-07-28 on, whoever holds a `subscriptions/listen` open hears it there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ErrorData, ResultType, Tool};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::catalog::Catalog;
use crate::message::Id;
use crate::reply::{self, Reply};
use crate::stdio::Outbox;

const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Subscriptions at once; one is all a client needs.
const MAX_OPEN: usize = 16;

/// The listeners of one session.
pub(super) struct Listeners {
    catalog: Catalog,
    outbox: Outbox,
    initialized: bool,
    shown: Shown,
    open: Vec<Subscription>,
}

/// The list the client was shown last. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Shown(Arc<Mutex<Option<Arc<Vec<Tool>>>>>);

struct Subscription {
    reply: Reply,
    tools: bool,
}

impl Listeners {
    pub(super) fn new(catalog: Catalog, outbox: Outbox) -> Self {
        Self {
            catalog,
            outbox,
            initialized: false,
            shown: Shown::default(),
            open: Vec::new(),
        }
    }

    /// The client has sent `initialize`, so it expects to be told without a subscription.
    pub(super) fn tell_client(&mut self) {
        self.initialized = true;
    }

    /// Where to note what the client is shown.
    pub(super) fn shown(&self) -> Shown {
        self.shown.clone()
    }

    /// Opens a subscription; its request is answered when it ends.
    pub(super) async fn open(&mut self, params: Option<&RawValue>, reply: Reply) {
        let asked = params.map(|params| serde_json::from_str::<ListenParams>(params.get()));
        let Some(Ok(ListenParams { notifications })) = asked else {
            let text = "params.notifications must say what to listen to.";
            return reply.error(&ErrorData::invalid_params(text, None)).await;
        };
        if self.open.len() >= MAX_OPEN {
            let text = format!("{MAX_OPEN} subscriptions are open; close one first.");
            return reply.error(&ErrorData::invalid_request(text, None)).await;
        }
        let tools = notifications.tools_list_changed == Some(true);
        let granted = Filter {
            tools_list_changed: tools.then_some(true),
        };
        let body = ListenParams {
            notifications: granted,
        };
        self.send(
            "notifications/subscriptions/acknowledged",
            &Tagged::new(&reply, body),
        )
        .await;
        self.open.push(Subscription { reply, tools });
    }

    /// Closes a subscription its client has cancelled.
    pub(super) fn close(&mut self, id: &Id) {
        for closed in self.open.extract_if(.., |open| open.reply.id() == id) {
            closed.reply.withdraw();
        }
    }

    /// Tells whoever listens, if the list is another than the client was shown.
    pub(super) async fn tools_changed(&self) {
        // Before it was shown a list there is nothing for it to throw away.
        let shown = self.shown.get();
        if shown.is_none_or(|shown| shown == self.catalog.last_known()) {
            return;
        }
        if self.initialized {
            self.send(LIST_CHANGED, &Nothing {}).await;
        }
        for subscription in self.open.iter().filter(|open| open.tools) {
            self.send(LIST_CHANGED, &Tagged::new(&subscription.reply, Nothing {}))
                .await;
        }
    }

    /// Ends every subscription, because the session ends.
    pub(super) async fn end(&mut self) {
        for Subscription { reply, .. } in self.open.drain(..) {
            let id = reply.id().clone();
            let meta = Meta {
                subscription_id: &id,
            };
            reply
                .result(&Tagged {
                    meta,
                    body: Complete {
                        result_type: ResultType::COMPLETE,
                    },
                })
                .await;
        }
    }

    async fn send(&self, method: &str, params: &impl Serialize) {
        // A client that has closed its end need not hear of it.
        self.outbox
            .send(reply::notification(method, params))
            .await
            .unwrap_or_default();
    }
}

impl Shown {
    /// Notes the list the client is about to be shown.
    pub(super) fn set(&self, tools: &Arc<Vec<Tool>>) {
        *self.lock() = Some(Arc::clone(tools));
    }

    fn get(&self) -> Option<Arc<Vec<Tool>>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Vec<Tool>>>> {
        // Nothing that can panic happens under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parameters or a result that name their subscription.
#[derive(Serialize)]
struct Tagged<'a, T> {
    #[serde(rename = "_meta")]
    meta: Meta<'a>,
    #[serde(flatten)]
    body: T,
}

impl<'a, T> Tagged<'a, T> {
    fn new(subscription: &'a Reply, body: T) -> Self {
        Self {
            meta: Meta {
                subscription_id: subscription.id(),
            },
            body,
        }
    }
}

#[derive(Serialize)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    subscription_id: &'a Id,
}

#[derive(Deserialize, Serialize)]
struct ListenParams {
    notifications: Filter,
}

/// rmcp's filter keeps what we do not offer; a client must not be told it will hear of that.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools_list_changed: Option<bool>,
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Complete {
    result_type: ResultType,
}
