//! From a call to a request: parse, count, write down, decide. Nothing has an effect before its event
//! is durable, and every refusal leaves one.

use std::time::Duration;

use sandbox_core::audit::{Event, EventName};
use sandbox_core::ids::RequestId;
use sandbox_core::names::PrincipalName;
use sandbox_core::parameters::{ActionName, FieldError, Parameters};
use sandbox_core::policy::Decision;

use super::limits::Slot;
use super::live::{Ended, Live, Report};
use super::{Request, Requests, perform};
use crate::actions;
use crate::audit::AuditError;
use crate::peer::Peer;
use crate::report::{Code, Failure, chain};
use crate::store::{Opened, StoredApproval};

/// The longest text a client may call itself by, in characters; more is cut.
const MAX_CLIENT: usize = 128;
const MAX_KEY: usize = 128;

/// A call as it came over the wire.
#[derive(Clone, Debug)]
pub struct Call {
    /// The action's name.
    pub action: String,
    /// Its parameters, JSON.
    pub parameters: String,
    /// The caller's idempotency key, empty for none.
    pub key: String,
    /// What the client calls itself. Unverified.
    pub client: String,
}

/// What became of a call.
#[derive(Debug)]
pub enum Admitted {
    /// A request that runs, or ran before under the same key.
    Live(Live),
    /// Answered at once, without a request.
    Answered(Report),
}

impl Requests {
    /// Takes one call of `principal`.
    ///
    /// # Errors
    /// [`Failure`], after its event was written where that was possible.
    pub async fn admit(
        &self,
        peer: &Peer,
        principal: &PrincipalName,
        call: Call,
    ) -> Result<Admitted, Failure> {
        if self.parts.lifetime.stop.is_cancelled() {
            return Err(Failure::new(
                Code::Stopping,
                "sandboxd is stopping and takes no new calls.",
            ));
        }
        let id = self.new_id()?;
        match self.try_admit(id, peer, principal, &call).await {
            Err(failure) if failure.request.is_none() => {
                // Refused before it became a request: the trail keeps that too, a flood once a minute.
                if failure.code == Code::RateLimited {
                    self.parts
                        .refusals
                        .note(principal.as_str(), failure.code, &failure.message);
                    return Err(failure);
                }
                let event = Event::new(EventName::RequestRefused)
                    .principal(principal)
                    .with("action", clip(&call.action, 64))
                    .with("code", failure.code.as_str())
                    .with("reason", failure.message.as_str());
                self.parts
                    .audit
                    .record(event)
                    .await
                    .map_err(|e| audit_unavailable(&e))?;
                Err(failure)
            }
            other => other,
        }
    }

    async fn try_admit(
        &self,
        id: RequestId,
        peer: &Peer,
        principal: &PrincipalName,
        call: &Call,
    ) -> Result<Admitted, Failure> {
        let now_ms = self.parts.clock.now_ms();
        self.limiter.arrive(principal, now_ms)?;
        let action = ActionName::find(&call.action).ok_or_else(|| {
            let name = clip(&call.action, 64).escape_debug().to_string();
            Failure::new(Code::UnknownAction, format!("There is no action {name}."))
        })?;
        let parameters = Parameters::parse(action, &call.parameters)?;
        let key = parse_key(&call.key)?;
        if let Parameters::GetRequest(ask) = &parameters {
            let wait = Duration::from_secs(ask.wait_seconds.into());
            let (action, state) = self.find(principal, ask.request_id, wait).await?;
            let approval = self.approval_of(principal, &state).await;
            return Ok(Admitted::Answered(actions::get_request::report(
                ask.request_id,
                &action,
                &state,
                approval.as_ref(),
            )));
        }
        actions::check(&parameters, &self.parts.page_key)?;
        let root = self.parts.roots.find(&parameters)?;
        let slot = self.limiter.start(principal)?;

        let stored = (action, parameters.canonical());
        match self
            .parts
            .store
            .open_request(id, principal.clone(), stored, key, now_ms)
            .await
        {
            Ok(Opened::New) => {}
            Ok(Opened::Repeated(before)) => return self.repeated(principal, before).await,
            Ok(Opened::KeyTaken) => {
                let message = "The idempotency key was used before, with other parameters.";
                return Err(Failure::new(Code::KeyReused, message));
            }
            Err(e) => {
                tracing::error!(error = chain(&e), "could not open a request");
                return Err(Failure::new(
                    Code::StoreUnavailable,
                    "sandboxd could not write the request down.",
                ));
            }
        }
        let (live, progress) = self.registry.open(id, principal, action, now_ms);
        let request = Request {
            id,
            principal: principal.clone(),
            parameters,
            root,
            uid: peer.credentials().map(|c| c.uid),
            client: clip(&call.client, MAX_CLIENT),
            cancel: live.cancel.clone(),
        };

        let decision = self.parts.policy.decide(
            principal,
            &request.parameters,
            request.root.as_ref().map(|root| &root.name),
            None,
        );
        let refusal = self
            .write_down(&request, peer, call, &decision)
            .await
            .err()
            .or(match decision {
                // What people must say yes to is worked out first.
                Decision::Allow { .. } | Decision::RequireApproval { .. } => None,
                Decision::Deny { reason, .. } => Some(Failure::new(
                    Code::PolicyDenied,
                    format!("The policy refuses this: {reason}."),
                )),
            });
        if let Some(failure) = refusal {
            let failure = failure.of(id);
            let ended = Ended::new(id, Err(failure.clone()));
            perform::close(&self.parts, &self.registry, &request, &progress, ended).await;
            return Err(failure);
        }
        self.launch(request, progress, slot);
        Ok(Admitted::Live(live))
    }

    /// `tool.request` and `guardrail.decision`, durable before anything else happens.
    async fn write_down(
        &self,
        request: &Request,
        peer: &Peer,
        call: &Call,
        decision: &Decision,
    ) -> Result<(), Failure> {
        let asked = request
            .event(EventName::ToolRequest)
            .with("action", request.parameters.action().as_str())
            .with("parameters", request.parameters.to_json())
            .with("client_unverified", clip(&call.client, MAX_CLIENT))
            .with("uid", peer.credentials().map_or(-1, |c| i64::from(c.uid)))
            .with(
                "pid",
                peer.credentials().and_then(|c| c.pid).map_or(-1, i64::from),
            );
        let decided = request.decided(decision);
        // One after the other in the trail, one fsync for both.
        let (first, second) =
            tokio::join!(biased; self.parts.audit.record(asked), self.parts.audit.record(decided));
        first
            .and(second)
            .map(drop)
            .map_err(|e| audit_unavailable(&e))
    }

    fn launch(
        &self,
        request: Request,
        progress: tokio::sync::watch::Sender<super::State>,
        slot: Slot,
    ) {
        let (parts, registry) = (self.parts.clone(), self.registry.clone());
        let lifetime = self.parts.lifetime.clone();
        self.parts.lifetime.spawn(async move {
            let _slot = slot;
            // A panic in the work must still end the request; what it held is let go by its guards.
            let work = {
                let (parts, request, progress) = (parts.clone(), request.clone(), progress.clone());
                lifetime.spawn(async move { perform::perform(&parts, &request, &progress).await })
            };
            let result = work.await.unwrap_or_else(|panic| {
                tracing::error!(request = %request.id, %panic, "a request's task panicked");
                Err(Failure::new(
                    Code::Internal,
                    "sandboxd failed inside; the request is closed.",
                ))
            });
            let ended = Ended::new(request.id, result);
            perform::close(&parts, &registry, &request, &progress, ended).await;
        });
    }

    /// Where the approval stands now that a request has opened, if it has opened one.
    async fn approval_of(
        &self,
        principal: &PrincipalName,
        state: &super::State,
    ) -> Option<StoredApproval> {
        let super::State::Ended(ended) = state else {
            return None;
        };
        let id = ended.opened()?;
        self.parts.approvals.find_own(principal, id).await.ok()
    }

    async fn repeated(
        &self,
        principal: &PrincipalName,
        id: RequestId,
    ) -> Result<Admitted, Failure> {
        if let Some(live) = self.registry.find(principal, id) {
            return Ok(Admitted::Live(live));
        }
        let (_, state) = self.find(principal, id, Duration::ZERO).await?;
        match state {
            super::State::Ended(ended) => match &ended.result {
                Ok(report) => Ok(Admitted::Answered(report.clone())),
                Err(failure) => Err(failure.clone()),
            },
            super::State::Running(_) => {
                Err(Failure::new(Code::Internal, "The request is in an impossible state.").of(id))
            }
        }
    }

    fn new_id(&self) -> Result<RequestId, Failure> {
        let random = crate::random::bytes().map_err(|e| {
            tracing::error!(error = %e, "no random bytes");
            Failure::new(Code::Internal, "The system gave no random bytes.")
        })?;
        Ok(RequestId::new(self.parts.clock.now_ms(), random))
    }
}

fn audit_unavailable(error: &AuditError) -> Failure {
    tracing::error!(error = chain(error), "the audit trail takes no events");
    Failure::new(
        Code::AuditUnavailable,
        format!("The audit trail cannot take this call, so it does not happen: {error}."),
    )
}

fn parse_key(key: &str) -> Result<Option<String>, FieldError> {
    if key.is_empty() {
        return Ok(None);
    }
    if key.len() > MAX_KEY || !key.bytes().all(|b| b.is_ascii_graphic()) {
        let problem = format!("must be 1 to {MAX_KEY} visible ASCII characters");
        return Err(FieldError::new("idempotency_key", problem));
    }
    Ok(Some(key.to_owned()))
}

fn clip(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}
