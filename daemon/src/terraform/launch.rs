//! An apply that nothing but its deadline ends early: the plan file in, states and the outcome back.

use sandbox_core::approval::Grant;
use sandbox_core::audit::EventName;
use sandbox_proto::runner::v1::terraform_result::Outcome;
use sandbox_proto::runner::v1::{self as wire};
use secrecy::{ExposeSecret, SecretSlice};

use super::kept::{Current, tell_failure};
use super::progress::{Heard, Progress};
use super::run::{self, Inputs};
use super::source::Source;
use super::state::States;
use super::{Root, failed, outputs};
use crate::actions::count;
use crate::actions::terraform::Outputs;
use crate::report::{Code, Failure, chain};
use crate::request::{Parts, Request, Stay};
use crate::store::{DataKey, StoredPlan};

/// What an apply is made of, all of it checked.
pub(super) struct Launch<'a> {
    pub(super) parts: &'a Parts,
    pub(super) request: &'a Request,
    pub(super) root: &'a Root,
    pub(super) source: &'a Source,
    pub(super) state: Option<&'a Current>,
    pub(super) plan: &'a StoredPlan,
    /// The plan file, while it is kept.
    pub(super) plan_file: Option<&'a SecretSlice<u8>>,
    /// What its states are encrypted with.
    pub(super) data_key: Option<&'a DataKey>,
}

/// What an apply came to.
pub(super) struct Applied {
    /// What was done, in words.
    pub(super) progress: String,
    /// What the root lets the agent see of it; `None` where that is nothing.
    pub(super) outputs: Option<Outputs>,
}

impl Launch<'_> {
    /// Applies the plan. Its file is forgotten afterwards, whatever the end is.
    ///
    /// # Errors
    /// [`Code::TerraformFailed`] with what was applied, failed and not started; [`Code::ApplyUnknown`] when
    /// the end was not seen.
    pub(super) async fn run(self, grant: Grant, stay: Stay<'_>) -> Result<Applied, Failure> {
        let Self {
            parts,
            request,
            root,
            plan,
            ..
        } = self;
        #[expect(
            clippy::disallowed_methods,
            reason = "the approved plan goes to the sandbox's memory, as an input of its run"
        )]
        let bytes = self.plan_file.map(ExposeSecret::expose_secret);
        let Some(bytes) = bytes else {
            return Err(Failure::new(
                Code::Internal,
                "The plan file is not kept any more.",
            ));
        };
        let inputs = Inputs {
            bundle: &self.source.tar,
            state: self.state.map(Current::expose),
            plan: Some(bytes),
            variables: None,
        };
        let mut states = States::new(parts, root, request.id, self.data_key);
        let writes = &plan.facts.writes;
        let ran = run::apply(stay.launched(), root, &inputs, writes, &mut states).await;
        let kept = states.kept;
        if let Err(e) = parts.store.drop_plan_bytes(plan.key).await {
            tracing::error!(request = %request.id, error = chain(&e), "a used plan is not forgotten");
        }
        // Used up with this, whatever came of it.
        drop(grant);
        let planned = &plan.facts.changes;
        let (result, failure) = match ran {
            Ok(result) => (Some(result), None),
            Err(failure) => (states.result, Some(failure)),
        };
        let operations = result
            .as_ref()
            .map_or(&states.operations, |r| &r.operations);
        let progress = Progress::new(planned, operations);
        match (result.as_ref(), failure) {
            (Some(result), failure) if is_done(result, failure.as_ref()) => {
                let outputs = match &failure {
                    None => self.outputs(states.last.as_deref().map(Vec::as_slice)),
                    Some(_) => None,
                };
                self.tell("succeeded", progress, kept, outputs.as_ref())
                    .await;
                let (name, digest) = (root.name.clone(), plan.from.bundle);
                let now_ms = parts.clock.now_ms();
                let applied = parts.store.bundle_applied(name, digest, request.id, now_ms);
                if let Err(e) = applied.await {
                    tracing::error!(request = %request.id, error = chain(&e), "the journal does not say what was applied");
                }
                if let Some(withheld) = failure {
                    return Err(Failure {
                        message: format!("All of the plan was applied. {}", withheld.message),
                        ..withheld
                    });
                }
                Ok(Applied {
                    progress: progress.words(Heard::All),
                    outputs,
                })
            }
            (Some(result), failure) if has_ended(progress, failure.as_ref()) => {
                tell_failure(parts, request, result).await;
                self.tell("failed", progress, kept, None).await;
                Err(stopped(result, progress, failure.is_some()))
            }
            (None, Some(failure)) if !states.sent || failure.code == Code::PlanRefused => {
                self.tell("failed", progress, kept, None).await;
                Err(not_begun(failure))
            }
            (result, failure) => {
                if let Some(result) = result {
                    tell_failure(parts, request, result).await;
                }
                self.tell("unknown", progress, kept, None).await;
                Err(unknown(progress, failure, kept))
            }
        }
    }

    /// What the agent may see of the state that it left: the last one it wrote, or the one it began with.
    fn outputs(&self, last: Option<&[u8]>) -> Option<Outputs> {
        let names = &self.root.settings.agent_outputs;
        let max_bytes = self.parts.limits.result_bytes / 2;
        let state = last.or_else(|| self.state.map(Current::expose));
        (!names.is_empty()).then(|| outputs::of(state, names, max_bytes))
    }

    /// `terraform.applied`: how it went, by address, and which outputs the agent is told.
    async fn tell(
        &self,
        outcome: &str,
        progress: Progress<'_>,
        kept: u32,
        outputs: Option<&Outputs>,
    ) {
        let event = self
            .request
            .event(EventName::TerraformApplied)
            .with("root", self.root.name.as_str())
            .with("outcome", outcome)
            .with("operations", progress.for_trail())
            .with("states_kept", i64::from(kept));
        let names = |told: &Outputs| told.values.keys().cloned().collect::<Vec<_>>().join(", ");
        let event = match outputs.map(names) {
            Some(names) => event.with("outputs_told", names),
            None => event,
        };
        if let Err(e) = self.parts.audit.record_closing(event).await {
            tracing::error!(request = %self.request.id, error = chain(&e), "terraform.applied is not in the trail");
        }
    }
}

/// Whether Terraform did all of it, though perhaps its credential is not known to be dead.
fn is_done(result: &wire::TerraformResult, failure: Option<&Failure>) -> bool {
    result.outcome() == Outcome::Done && failure.is_none_or(|f| f.code == Code::RevocationUnproven)
}

/// Whether it is known how Terraform ended: by itself, or in time when it was asked to stop.
fn has_ended(progress: Progress<'_>, failure: Option<&Failure>) -> bool {
    progress.is_whole() && failure.is_none_or(|f| f.code == Code::DeadlineExceeded)
}

fn stopped(result: &wire::TerraformResult, progress: Progress<'_>, late: bool) -> Failure {
    let why = if late {
        "Terraform was stopped before it had applied all of it: limits.terraform_seconds is over."
    } else {
        "Terraform could not apply all of it."
    };
    Failure::new(
        Code::TerraformFailed,
        format!(
            "{why} {} {} The states it wrote are kept.",
            failed::told(&result.diagnostics),
            progress.words(Heard::All)
        ),
    )
}

/// No sandbox got it, or the runner refused the plan before Terraform saw it.
fn not_begun(failure: Failure) -> Failure {
    Failure {
        message: format!(
            "Nothing was applied, and the approval is used up: {}",
            failure.message
        ),
        ..failure
    }
}

fn unknown(progress: Progress<'_>, failure: Option<Failure>, kept: u32) -> Failure {
    let why = failure.map_or("Terraform was ended.".to_owned(), |f| f.message);
    let told = [
        format!("The apply was launched and its end was not seen: {why}"),
        progress.words(Heard::Part),
        format!("{} of it were kept.", count(kept.into(), "state")),
        progress.warning().unwrap_or_default().to_owned(),
    ];
    let told: Vec<String> = told.into_iter().filter(|s| !s.is_empty()).collect();
    Failure::new(Code::ApplyUnknown, told.join(" "))
}
