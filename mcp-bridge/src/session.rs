//! One client's session: each of its lines, in order, to what it asks for.
//!
//! rmcp lends its model of MCP (versions, tools, results) but not its server loop. That loop ends the
//! session where clients in use go on: on a request before `initialize`, or `initialize` without
//! parameters. It keeps ids in 64 bits and arguments as parsed values, so an id or a number that does
//! not fit is lost; it drops an oversized line without an answer; and at the end of input it gives a
//! call five seconds, while ours may take 45. All of that happens in its types, behind its transport
//! trait: a transport that hid it would have to be a session of its own, with rmcp's on top.

use std::sync::Arc;

use rmcp::model::{CacheScope, ErrorCode, ErrorData, ListToolsResult, ResultType};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use crate::call::{Calls, Parts, ToolCall};
use crate::catalog::Catalog;
use crate::daemon::Invocation;
use crate::escape;
use crate::identity;
use crate::line::{Line, MAX_LINE_BYTES};
use crate::log::Log;
use crate::message::{Id, Incoming, Message, Notification, Request};
use crate::reply::{self, Reply};
use crate::stdio::Outbox;
use crate::version::{self, ClientInfo, Era, RequestMeta};

mod listeners;
mod params;

use listeners::Listeners;
use params::{CallParams, CancelParams, InitializeParams};

/// Messages in one batch. Longer ones would multiply what a single line can make us hold.
const MAX_BATCH: usize = 64;

/// Batches and lists being answered at once. Every answer that waits for the client to read it costs
/// memory; past these limits we stop reading, or refuse.
const MAX_BATCHES: usize = 8;
const MAX_LISTINGS: usize = 8;

/// The state of a session; one task owns it.
pub(crate) struct Session {
    outbox: Outbox,
    catalog: Catalog,
    calls: Calls,
    log: Arc<Log>,
    /// Requests being answered. All of them are waited for at the end of input.
    tasks: TaskTracker,
    batches: Arc<Semaphore>,
    listings: Arc<Semaphore>,
    /// What the client called itself in `initialize`.
    client: ClientInfo,
    listeners: Listeners,
}

impl Session {
    /// A session that has not begun.
    pub fn new(parts: Parts) -> Self {
        Self {
            outbox: parts.outbox.clone(),
            catalog: parts.catalog.clone(),
            log: Arc::clone(&parts.log),
            tasks: TaskTracker::new(),
            batches: Arc::new(Semaphore::new(MAX_BATCHES)),
            listings: Arc::new(Semaphore::new(MAX_LISTINGS)),
            client: ClientInfo::default(),
            listeners: Listeners::new(parts.catalog.clone(), parts.outbox.clone()),
            calls: Calls::new(parts),
        }
    }

    /// Serves the client until its input ends and everything it asked is answered, or it stops
    /// listening.
    pub async fn run(mut self, mut lines: mpsc::Receiver<Line>) {
        let mut changes = self.catalog.changes();
        let outbox = self.outbox.clone();
        let served = async {
            loop {
                tokio::select! {
                    line = lines.recv() => match line {
                        Some(line) => self.line(line).await,
                        None => break,
                    },
                    Ok(()) = changes.changed() => self.listeners.tools_changed().await,
                }
            }
            self.listeners.end().await;
            self.tasks.close();
            self.tasks.wait().await;
        };
        tokio::select! {
            () = served => {}
            () = outbox.closed() => {}
        }
    }

    async fn line(&mut self, line: Line) {
        match line {
            Line::Text(text) => match Message::parse(&text) {
                Message::One(message) => self.message(message, &self.outbox.clone()).await,
                Message::Batch(messages) => self.batch(messages).await,
                Message::NotJson(why) => {
                    self.log.note(&format!("a line is not JSON: {why}"));
                    let error =
                        ErrorData::parse_error(format!("The line is not JSON: {why}"), None);
                    self.fault(None, &error).await;
                }
            },
            Line::TooLong(id) => {
                let text = format!("A message is one line of at most {MAX_LINE_BYTES} bytes.");
                self.fault(id, &ErrorData::invalid_request(text, None))
                    .await;
            }
            Line::NotUtf8(id) => {
                self.fault(id, &ErrorData::parse_error("The line is not UTF-8.", None))
                    .await;
            }
        }
    }

    /// Says what is wrong with something that is no message.
    async fn fault(&self, id: Option<Id>, error: &ErrorData) {
        match id {
            Some(id) => Reply::new(id, self.outbox.clone()).error(error).await,
            // A client that has closed its end needs no answer.
            None => self
                .outbox
                .send(reply::error_without_id(error))
                .await
                .unwrap_or_default(),
        }
    }

    /// Handles an array of messages; its answers leave together, as one array.
    async fn batch(&mut self, messages: Vec<Incoming>) {
        if messages.is_empty() || messages.len() > MAX_BATCH {
            let text = format!("A batch holds 1 to {MAX_BATCH} messages.");
            return self
                .fault(None, &ErrorData::invalid_request(text, None))
                .await;
        }
        let Ok(room) = Arc::clone(&self.batches).try_acquire_owned() else {
            let text = format!("{MAX_BATCHES} batches are being answered; wait for one of them.");
            return self
                .fault(None, &ErrorData::invalid_request(text, None))
                .await;
        };
        // Room for every answer, so none waits for the others.
        let (to, mut answers) = mpsc::channel(MAX_BATCH);
        let outbox = self.outbox.clone();
        self.tasks.spawn(async move {
            let _room = room;
            let mut batch = Vec::new();
            while let Some(answer) = answers.recv().await {
                batch.push(answer);
            }
            if !batch.is_empty() {
                outbox
                    .send(format!("[{}]", batch.join(",")))
                    .await
                    .unwrap_or_default();
            }
        });
        for message in messages {
            // MCP 2025-03-26: "The initialize request MUST NOT be part of a JSON-RPC batch".
            if let Incoming::Request(request) = &message
                && request.method == "initialize"
            {
                let error = ErrorData::invalid_request("initialize cannot be in a batch.", None);
                Reply::new(request.id.clone(), to.clone())
                    .error(&error)
                    .await;
            } else {
                self.message(message, &to).await;
            }
        }
    }

    /// Handles one message; its answer, if it gets one, goes to `to`.
    async fn message(&mut self, message: Incoming, to: &Outbox) {
        match message {
            Incoming::Request(request) => self.request(request, to).await,
            Incoming::Notification(notification) => self.notification(&notification),
            // We ask the client nothing. An echo of our own errors ends here, too.
            Incoming::Response => {}
            Incoming::Invalid(id, why) => {
                let error =
                    ErrorData::invalid_request(format!("Not a JSON-RPC 2.0 message: {why}."), None);
                match id {
                    Some(id) => Reply::new(id, to.clone()).error(&error).await,
                    None => to
                        .send(reply::error_without_id(&error))
                        .await
                        .unwrap_or_default(),
                }
            }
        }
    }

    /// No request waits for an opening: some clients list tools before they say `initialized`, some
    /// ping before `initialize`, and the daemon knows the caller from the socket anyway.
    async fn request(&mut self, request: Request, to: &Outbox) {
        let reply = Reply::new(request.id, to.clone());
        let params = request.params.as_deref();
        let meta = RequestMeta::of(params);
        let era = match meta.era() {
            Ok(era) => era,
            Err(error) => return reply.error(&error).await,
        };
        match request.method.as_str() {
            "initialize" => reply.result(&self.initialize(params)).await,
            "ping" => reply.result(&Empty::in_era(era)).await,
            "server/discover" => match meta.require_per_request() {
                Ok(()) => reply.result(&identity::discover_result()).await,
                Err(error) => reply.error(&error).await,
            },
            "tools/list" => self.list_tools(era, reply).await,
            "tools/call" => match params::read::<CallParams<'_>>(params) {
                Ok(call) => self.call_tool(call, meta, era, reply).await,
                Err(error) => reply.error(&error).await,
            },
            "logging/setLevel" => match params::check_level(params) {
                Ok(()) => reply.result(&Empty::in_era(era)).await,
                Err(error) => reply.error(&error).await,
            },
            "subscriptions/listen" if era == Era::PerRequest => {
                self.listeners.open(params, reply).await;
            }
            method => {
                let text = format!(
                    "The method {:?} does not exist here.",
                    escape::for_reader(method)
                );
                reply
                    .error(&ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None))
                    .await;
            }
        }
    }

    fn notification(&mut self, notification: &Notification) {
        // `initialized` changes nothing, and what we do not know is ignored, as JSON-RPC has it.
        if notification.method != "notifications/cancelled" {
            return;
        }
        // A cancellation that is malformed, late or repeated is ignored, as MCP has it.
        let Ok(CancelParams { request_id }) = params::read(notification.params.as_deref()) else {
            return;
        };
        if let Some(id) = Id::parse(request_id.get()) {
            self.calls.cancel(&id);
            self.listeners.close(&id);
        }
    }

    fn initialize(&mut self, params: Option<&RawValue>) -> impl Serialize + use<> {
        let params = InitializeParams::read(params);
        self.client = params.client;
        self.listeners.tell_client();
        identity::initialize_result(version::negotiate(params.version.as_deref()))
    }

    /// In a task of its own: the daemon may take its time, and `ping` must not wait for it.
    async fn list_tools(&mut self, era: Era, reply: Reply) {
        let room = Arc::clone(&self.listings).acquire_owned().await;
        let (catalog, shown) = (self.catalog.clone(), self.listeners.shown());
        self.tasks.spawn(async move {
            let _room = room;
            let tools = catalog.tools().await;
            shown.set(&tools);
            let mut result = ListToolsResult::with_all_items(tools.to_vec());
            result.result_type = era.result_type();
            result.meta = era.result_meta();
            if era == Era::PerRequest {
                // Asking costs a millisecond, and a list from a cache may be an old one.
                result.ttl_ms = Some(0);
                result.cache_scope = Some(CacheScope::Private);
            }
            reply.result(&result).await;
        });
    }

    async fn call_tool(&self, params: CallParams<'_>, meta: RequestMeta, era: Era, reply: Reply) {
        let invocation = Invocation {
            action: params.name,
            parameters_json: params
                .arguments
                .map_or_else(String::new, |json| json.get().to_owned()),
            client: meta.client.as_ref().unwrap_or(&self.client).to_string(),
        };
        let call = ToolCall {
            invocation,
            progress_token: meta.progress_token,
            era,
        };
        self.calls.start(call, reply, &self.tasks).await;
    }
}

/// A result that says nothing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Empty {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<ResultType>,
}

impl Empty {
    fn in_era(era: Era) -> Self {
        Self {
            result_type: era.result_type(),
        }
    }
}
