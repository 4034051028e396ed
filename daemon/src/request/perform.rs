//! One allowed request, from lease and sandbox to proof. Whatever happens on the way, the lease is
//! revoked and the Job deleted before the end is told.

use std::time::Duration;

use sandbox_core::audit::{Event, EventName};
use tokio::sync::watch;

use super::live::{Ended, Phase, Registry, Report, State};
use super::{Parts, Request};
use crate::actions;
use crate::broker::{Lease, Scope};
use crate::crash::{self, Step};
use crate::report::{Code, Failure, chain};
use crate::sandbox::{Claimed, Seen};

/// Runs the request and gives what its caller gets. The result is withheld unless the credential was
/// refused once afterwards.
pub(super) async fn perform(
    parts: &Parts,
    request: &Request,
    progress: &watch::Sender<State>,
) -> Result<Report, Failure> {
    let limit = Duration::from_secs(parts.limits.read_seconds);
    let deadline = tokio::time::Instant::now() + limit;
    let mut held = Held::default();
    let work = attempt(parts, request, progress, &mut held);
    let result = tokio::select! {
        result = tokio::time::timeout_at(deadline, work) => result.unwrap_or_else(|_| {
            let message = format!("The work took longer than {} seconds.", limit.as_secs());
            Err(Failure::new(Code::DeadlineExceeded, message))
        }),
        () = request.cancel.cancelled() => {
            Err(Failure::new(Code::Cancelled, "The caller ended the request."))
        }
        () = parts.lifetime.stop.cancelled() => {
            Err(Failure::new(Code::Stopping, "sandboxd is stopping; the request was ended."))
        }
    };
    progress.send_replace(State::Running(Phase::Revoke));
    match held.let_go(parts, request, &result).await {
        Ok(()) => result,
        // A failure of the work itself is the more useful answer.
        Err(unproven) => result.and(Err(unproven)),
    }
}

/// Ends a request: trail, journal, and then whoever waits for it.
pub(super) async fn close(
    parts: &Parts,
    registry: &Registry,
    request: &Request,
    progress: &watch::Sender<State>,
    ended: Ended,
) {
    let event = request
        .event(EventName::ToolResult)
        .with("outcome", ended.outcome);
    let event = match &ended.result {
        Ok(report) => event.with(
            "result_bytes",
            i64::try_from(report.text.len()).unwrap_or(i64::MAX),
        ),
        Err(failure) => event
            .with("code", failure.code.as_str())
            .with("message", failure.message.as_str()),
    };
    if let Err(e) = parts.audit.record_closing(event).await {
        tracing::error!(request = %request.id, error = chain(&e), "tool.result is not in the trail");
    }
    let now_ms = parts.clock.now_ms();
    if let Err(e) = parts
        .store
        .end_request(request.id, ended.outcome, now_ms)
        .await
    {
        tracing::error!(request = %request.id, error = chain(&e), "the journal did not take the end");
    }
    registry.ended(request.id, now_ms);
    progress.send_replace(State::Ended(std::sync::Arc::new(ended)));
}

/// What a request holds and must give back.
#[derive(Default)]
struct Held {
    lease: Option<Lease>,
    sandbox: Option<Claimed>,
}

async fn attempt(
    parts: &Parts,
    request: &Request,
    progress: &watch::Sender<State>,
    held: &mut Held,
) -> Result<Report, Failure> {
    prepare(parts, request, held).await?;
    progress.send_replace(State::Running(Phase::Run));
    let (Some(lease), Some(sandbox)) = (&held.lease, &mut held.sandbox) else {
        return Err(Failure::new(
            Code::Internal,
            "Neither lease nor sandbox is there.",
        ));
    };
    let start = actions::start(request.id, &request.parameters, parts)?;
    let ran = sandbox
        .run(start, lease, |seen| tell(parts, request, seen))
        .await;
    let completed = request
        .event(EventName::SandboxCompleted)
        .with("job", sandbox.job())
        .with("outcome", if ran.is_ok() { "done" } else { "failed" });
    let completed = match &ran {
        Ok(_) => completed,
        Err(failure) => completed.with("reason", failure.message.as_str()),
    };
    parts
        .audit
        .record_closing(completed)
        .await
        .map_err(|e| lost_trail(&e))?;
    actions::report(request.id, &request.parameters, ran?, parts)
}

/// A lease and a sandbox, at the same time; then both are in the trail before either is used.
async fn prepare(parts: &Parts, request: &Request, held: &mut Held) -> Result<(), Failure> {
    let scope = Scope::of(&request.parameters)
        .ok_or_else(|| Failure::new(Code::Internal, "The action needs no credential."))?;
    let Held { lease, sandbox } = held;
    // Each branch stores what it got before it ends, so that neither is lost when the other fails.
    let issue = async {
        *lease = Some(parts.broker.issue(request.id, &scope).await?);
        Ok::<_, Failure>(())
    };
    let claim = async {
        *sandbox = Some(parts.sandboxes.claim(request.id).await?);
        Ok::<_, Failure>(())
    };
    // Both run to their end: a lease whose sibling failed must be seen, told and revoked.
    let (issued, claimed) = tokio::join!(issue, claim);
    let told = tokio::join!(
        biased;
        async {
            match lease {
                Some(lease) => parts.audit.record(issued_event(request, lease)).await.map(drop),
                None => Ok(()),
            }
        },
        async {
            match sandbox {
                Some(sandbox) => parts.audit.record(started_event(request, sandbox)).await.map(drop),
                None => Ok(()),
            }
        },
    );
    issued.and(claimed)?;
    told.0.and(told.1).map_err(|e| lost_trail(&e))?;
    crash::after(Step::SandboxStarted);
    Ok(())
}

fn issued_event(request: &Request, lease: &Lease) -> Event {
    request
        .event(EventName::CredentialIssued)
        .with("lease_id", lease.id())
        .with("scope", lease.scope())
        .with("service_account", lease.service_account())
        .with("ttl_seconds", i64::from(lease.ttl_seconds()))
}

fn started_event(request: &Request, sandbox: &Claimed) -> Event {
    let proof = sandbox.proof();
    request
        .event(EventName::SandboxStarted)
        .with("job", sandbox.job())
        .with("pod", sandbox.pod())
        .with("pod_uid", sandbox.pod_uid())
        .with("node", sandbox.node())
        .with("runtime_class", sandbox.runtime_class())
        .with("image", sandbox.image())
        .with("kernel_reported", proof.kernel.as_str())
        .with("egress", proof.egress.as_str())
        .with("pooled", sandbox.was_pooled())
}

async fn tell(parts: &Parts, request: &Request, seen: Seen) -> Result<(), Failure> {
    let Seen {
        method,
        path,
        status,
        elapsed_ms,
    } = seen;
    let event = request
        .event(EventName::ApiCall)
        .with("method", method)
        .with("path", path)
        .with("status", i64::from(status))
        .with("elapsed_ms", i64::from(elapsed_ms));
    parts
        .audit
        .record_closing(event)
        .await
        .map(drop)
        .map_err(|e| lost_trail(&e))
}

impl Held {
    /// Revokes, deletes, proves. Fails only when the credential could not be shown to be refused.
    async fn let_go(
        self,
        parts: &Parts,
        request: &Request,
        result: &Result<Report, Failure>,
    ) -> Result<(), Failure> {
        let Self { lease, sandbox } = self;
        // The pod goes in the background: it ends what the token could still keep open, but the
        // caller waits only for the refusal.
        let pod_gone = sandbox.map(Claimed::delete);
        let Some(lease) = lease else { return Ok(()) };
        let revoked = parts.broker.revoke(lease).await;
        let event = request
            .event(EventName::CredentialRevoked)
            .with("lease_id", revoked.lease_id());
        let event = match revoked.refusal() {
            Ok(status) => event.with("refused_with", i64::from(status)),
            Err(why) => event.with("not_refused_yet", why),
        };
        if let Err(e) = parts.audit.record_closing(event).await {
            tracing::error!(request = %request.id, error = chain(&e), "credential.revoked is not in the trail");
        }
        let refused = revoked.refusal().is_ok();
        let after = super::Request {
            cancel: request.cancel.clone(),
            ..request.clone()
        };
        parts.broker.prove_dead(revoked, pod_gone, after);
        if refused || result.is_err() {
            return Ok(());
        }
        Err(Failure::new(
            Code::RevocationUnproven,
            "The work was done, but the API server did not refuse its credential afterwards, so the result is withheld.",
        ))
    }
}

fn lost_trail(error: &crate::audit::AuditError) -> Failure {
    tracing::error!(error = chain(error), "the audit trail takes no events");
    Failure::new(
        Code::AuditUnavailable,
        format!("The audit trail could not take the next step, so it did not happen: {error}."),
    )
}
