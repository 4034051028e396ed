//! The requests of this run: where each stands, and for ten minutes how it ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_core::ids::{ApprovalId, RequestId};
use sandbox_core::names::PrincipalName;
use sandbox_core::parameters::ActionName;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::report::{Code, Failure};

/// How long a result can be asked for after the end.
const KEPT_MS: u64 = 10 * 60 * 1000;

/// A step of a request that its caller hears of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Phase {
    /// What is going on.
    pub name: &'static str,
    /// How many steps have ended.
    pub done: u32,
    /// How many there are.
    pub total: u32,
}

impl Phase {
    /// Before anything was done.
    pub const FIRST: Self = Self {
        name: "accepted",
        done: 0,
        total: 1,
    };
}

/// Where a request stands.
#[derive(Clone, Debug)]
pub enum State {
    /// On its way.
    Running(Phase),
    /// Over.
    Ended(Arc<Ended>),
}

/// How a request ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Which request.
    pub id: RequestId,
    /// What it gave, or why not.
    pub result: Result<Report, Failure>,
    /// The word in journal and audit: succeeded, failed, denied, cancelled or unknown.
    pub outcome: &'static str,
}

/// What an action gives its caller.
#[derive(Clone, Debug)]
pub struct Report {
    /// Fits the action's output schema.
    pub structured: serde_json::Value,
    /// The same for a reader, complete in itself.
    pub text: String,
}

impl Ended {
    /// With its result.
    #[must_use]
    pub fn new(id: RequestId, result: Result<Report, Failure>) -> Self {
        let outcome = match &result {
            Ok(_) => "succeeded",
            Err(f) if f.code == Code::PolicyDenied => "denied",
            Err(f) if f.code == Code::ApplyUnknown => "unknown",
            Err(f) if matches!(f.code, Code::Cancelled | Code::Stopping) => "cancelled",
            Err(_) => "failed",
        };
        Self {
            id,
            result: result.map_err(|f| f.of(id)),
            outcome,
        }
    }

    /// The approval it opened, or found open, if that is what came of it.
    #[must_use]
    pub fn opened(&self) -> Option<ApprovalId> {
        let report = self.result.as_ref().ok()?;
        report.structured.get("approval_id")?.as_str()?.parse().ok()
    }

    /// Of a request whose result is no longer kept.
    pub(super) fn forgotten(id: RequestId, outcome: Option<&str>) -> Self {
        let (outcome, message) = match outcome {
            Some("succeeded") => ("succeeded", "It succeeded; its result is no longer kept."),
            Some("denied") => ("denied", "It was denied."),
            Some("cancelled") => ("cancelled", "It was cancelled."),
            Some("failed") => ("failed", "It failed; why is in the audit."),
            _ => (
                "unknown",
                "sandboxd lost sight of it; the audit says what was seen.",
            ),
        };
        Self {
            id,
            result: Err(Failure::new(Code::ApiError, message).of(id)),
            outcome,
        }
    }
}

/// One request of this run, as its owner sees it.
#[derive(Clone, Debug)]
pub struct Live {
    /// Its id.
    pub id: RequestId,
    /// What it runs.
    pub action: ActionName,
    /// Ends it early.
    pub cancel: CancellationToken,
    principal: PrincipalName,
    state: watch::Receiver<State>,
}

impl Live {
    /// Where it stands, and what follows.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Whether it is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(*self.state.borrow(), State::Ended(_))
    }

    /// Waits up to `limit` for its end, then says where it stands.
    pub async fn wait(&self, limit: Duration) -> State {
        let mut state = self.watch();
        let ended = state.wait_for(|s| matches!(s, State::Ended(_)));
        if let Ok(Ok(end)) = tokio::time::timeout(limit, ended).await {
            return end.clone();
        }
        self.state.borrow().clone()
    }
}

/// The requests of this run. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Mutex<HashMap<RequestId, Known>>>);

/// A request, and when it ended.
type Known = (Live, Option<u64>);

impl Registry {
    /// Adds a request, and hands out the end where its progress goes in.
    pub(super) fn open(
        &self,
        id: RequestId,
        principal: &PrincipalName,
        action: ActionName,
        now_ms: u64,
    ) -> (Live, watch::Sender<State>) {
        let (sender, state) = watch::channel(State::Running(Phase::FIRST));
        let cancel = CancellationToken::new();
        let live = Live {
            id,
            action,
            cancel,
            principal: principal.clone(),
            state,
        };
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests.retain(|_, (_, ended)| ended.is_none_or(|t| t + KEPT_MS > now_ms));
        requests.insert(id, (live.clone(), None));
        (live, sender)
    }

    /// Starts the time an ended request is kept for.
    pub(super) fn ended(&self, id: RequestId, now_ms: u64) {
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, ended)) = requests.get_mut(&id) {
            *ended = Some(now_ms);
        }
    }

    pub(super) fn find(&self, principal: &PrincipalName, id: RequestId) -> Option<Live> {
        let requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests
            .get(&id)
            .filter(|(live, _)| live.principal == *principal)
            .map(|(l, _)| l.clone())
    }

    pub(super) fn running(&self) -> usize {
        let requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests
            .values()
            .filter(|(_, ended)| ended.is_none())
            .count()
    }
}
