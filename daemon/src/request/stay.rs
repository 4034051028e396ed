//! One stay of a request in a sandbox: a lease where one is needed, the work, and everything given back.
//! Whatever happens on the way, the lease is revoked and the Job deleted before the end is told.

use std::time::Duration;

use sandbox_core::audit::{Event, EventName};
use sandbox_proto::runner::v1 as wire;
use tokio::sync::watch;
use tokio::time::Instant;

use super::live::{Phase, State};
use super::{Parts, Request};
use crate::broker::{Lease, Scope};
use crate::crash::{self, Step};
use crate::report::{Code, Failure, chain};
use crate::sandbox::{Claimed, Class, Input, Made, Seen, Tell};

/// How long a pod is left alone while its credential is revoked. Seen: 20 to 50 ms.
const DELETE_AFTER: Duration = Duration::from_millis(150);
/// The steps of one stay.
const STEPS: u32 = 3;

/// What is done in a sandbox.
pub(crate) struct Work {
    pub(crate) class: Class,
    /// `None`: nothing it could do needs a credential.
    pub(crate) scope: Option<Scope>,
    pub(crate) start: wire::Start,
    pub(crate) inputs: Vec<Input>,
}

/// Takes what work makes and tells, as it comes.
pub(crate) trait Keep: Send {
    /// Keeps a file; work ends where that fails.
    fn keep(&mut self, made: Made) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Hears that the work is about to be sent into its sandbox.
    fn sent(&mut self) {}

    /// Hears of an operation that began or ended.
    fn operation(&mut self, operation: wire::Operation) {
        drop(operation);
    }

    /// Hears what there is to say of work that failed, or whose output is withheld.
    fn partial(&mut self, output: wire::Output) {
        drop(output);
    }
}

impl Keep for Vec<Made> {
    async fn keep(&mut self, made: Made) -> Result<(), Failure> {
        self.push(made);
        Ok(())
    }
}

/// How a request stays in one sandbox after another.
#[derive(Clone, Copy)]
pub(crate) struct Stay<'a> {
    parts: &'a Parts,
    request: &'a Request,
    progress: &'a watch::Sender<State>,
    limit: Duration,
    deadline: Instant,
    /// Steps before this stay, and in all.
    before: u32,
    total: u32,
    /// Once it was launched, only its deadline ends it early.
    launched: bool,
}

impl<'a> Stay<'a> {
    /// The only stay of a request that may take `seconds`.
    pub(crate) fn of(
        parts: &'a Parts,
        request: &'a Request,
        progress: &'a watch::Sender<State>,
        seconds: u64,
    ) -> Self {
        let limit = Duration::from_secs(seconds);
        Self {
            parts,
            request,
            progress,
            limit,
            deadline: Instant::now() + limit,
            before: 0,
            total: STEPS,
            launched: false,
        }
    }

    /// The same request's stay number `number` of `of`, from 0.
    pub(crate) fn part(self, number: u32, of: u32) -> Self {
        Self {
            before: number * STEPS,
            total: of * STEPS,
            ..self
        }
    }

    /// One that the caller can no longer end.
    pub(crate) fn launched(self) -> Self {
        Self {
            launched: true,
            ..self
        }
    }

    /// Does the work. Its output is withheld unless the credential was refused once afterwards.
    pub(crate) async fn run(
        self,
        work: Work,
        keep: &mut impl Keep,
    ) -> Result<wire::Output, Failure> {
        let mut held = Held::default();
        let attempt = self.attempt(work, keep, &mut held);
        let cancelled = async {
            if self.launched {
                std::future::pending::<()>().await;
            } else {
                self.request.cancel.cancelled().await;
            }
        };
        let result = tokio::select! {
            result = tokio::time::timeout_at(self.deadline, attempt) => result.unwrap_or_else(|_| {
                let message = format!("The work took longer than {} seconds.", self.limit.as_secs());
                Err(Failure::new(Code::DeadlineExceeded, message))
            }),
            () = cancelled => {
                Err(Failure::new(Code::Cancelled, "The caller ended the request."))
            }
            () = self.parts.lifetime.stop.cancelled() => {
                Err(Failure::new(Code::Stopping, "sandboxd is stopping; the request was ended."))
            }
        };
        self.tell(2, "revoke");
        match held.let_go(self.parts, self.request, &result).await {
            Ok(()) => result,
            // A failure of the work itself is the more useful answer.
            Err(unproven) => {
                keep.partial(result?);
                Err(unproven)
            }
        }
    }

    fn tell(self, step: u32, name: &'static str) {
        self.progress.send_replace(State::Running(Phase {
            name,
            done: self.before + step,
            total: self.total,
        }));
    }

    async fn attempt(
        self,
        work: Work,
        keep: &mut impl Keep,
        held: &mut Held,
    ) -> Result<wire::Output, Failure> {
        self.tell(0, "credential and sandbox");
        self.prepare(&work, held).await?;
        self.tell(1, "run");
        let Some(sandbox) = &mut held.sandbox else {
            return Err(Failure::new(Code::Internal, "The sandbox is not there."));
        };
        let start = wire::Start {
            request_id: self.request.id.to_string(),
            timeout_ms: u32::try_from(self.left().as_millis()).unwrap_or(u32::MAX),
            ..work.start
        };
        keep.sent();
        let mut teller = Teller {
            parts: self.parts,
            request: self.request,
            keep,
        };
        let ran = sandbox
            .run(start, held.lease.as_ref(), &work.inputs, &mut teller)
            .await;
        let completed = self
            .request
            .event(EventName::SandboxCompleted)
            .with("job", sandbox.job())
            .with("outcome", if ran.is_ok() { "done" } else { "failed" });
        let completed = match &ran {
            Ok(_) => completed,
            Err(failure) => completed.with("reason", failure.message.as_str()),
        };
        let told = self.parts.audit.record_closing(completed).await;
        told.map_err(|e| lost_trail(&e))?;
        ran
    }

    /// How long the work may still take: long enough before the deadline for its end to be told.
    fn left(self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        left.saturating_sub(left / 20)
    }

    /// A lease and a sandbox, at the same time; then both are in the trail before either is used.
    async fn prepare(self, work: &Work, held: &mut Held) -> Result<(), Failure> {
        let Self { parts, request, .. } = self;
        let Held { lease, sandbox } = held;
        // Each branch stores what it got before it ends, so that neither is lost when the other fails.
        let issue = async {
            if let Some(scope) = &work.scope {
                *lease = Some(parts.broker.issue(request.id, scope).await?);
            }
            Ok::<_, Failure>(())
        };
        let claim = async {
            *sandbox = Some(parts.sandboxes.claim(request.id, work.class).await?);
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
}

/// What a stay holds and must give back.
#[derive(Default)]
struct Held {
    lease: Option<Lease>,
    sandbox: Option<Claimed>,
}

/// Tells the trail of every call, and hands on what is made.
struct Teller<'a, K> {
    parts: &'a Parts,
    request: &'a Request,
    keep: &'a mut K,
}

impl<K: Keep> Tell for Teller<'_, K> {
    async fn call(&mut self, seen: Seen) -> Result<(), Failure> {
        let event = self
            .request
            .event(EventName::ApiCall)
            .with("method", seen.method)
            .with("path", seen.path)
            .with("status", i64::from(seen.status))
            .with("elapsed_ms", i64::from(seen.elapsed_ms));
        let event = if seen.refused.is_empty() {
            event
        } else {
            event.with("refused", seen.refused)
        };
        let told = self.parts.audit.record_closing(event).await;
        told.map(drop).map_err(|e| lost_trail(&e))
    }

    async fn made(&mut self, made: Made) -> Result<(), Failure> {
        self.keep.keep(made).await
    }

    fn operation(&mut self, operation: wire::Operation) {
        self.keep.operation(operation);
    }

    fn partial(&mut self, output: wire::Output) {
        self.keep.partial(output);
    }
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

impl Held {
    /// Revokes, deletes, proves. Fails only when the credential could not be shown to be refused.
    async fn let_go(
        self,
        parts: &Parts,
        request: &Request,
        result: &Result<wire::Output, Failure>,
    ) -> Result<(), Failure> {
        let Self { lease, sandbox } = self;
        let Some(lease) = lease else {
            drop(sandbox.map(Claimed::delete));
            return Ok(());
        };
        // The caller waits for the refusal alone, so the pod, whose end takes a core for a while, goes
        // after it; without waiting for a Vault that does not answer.
        let mut revoking = std::pin::pin!(parts.broker.revoke(lease));
        let early = tokio::time::timeout(DELETE_AFTER, &mut revoking).await;
        let pod_gone = sandbox.map(Claimed::delete);
        let revoked = match early {
            Ok(revoked) => revoked,
            Err(_) => revoking.await,
        };
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
        let after = Request {
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

pub(crate) fn lost_trail(error: &crate::audit::AuditError) -> Failure {
    tracing::error!(error = chain(error), "the audit trail takes no events");
    Failure::new(
        Code::AuditUnavailable,
        format!("The audit trail could not take the next step, so it did not happen: {error}."),
    )
}
