//! An apply that nothing but its deadline ends early: the plan file in, states and the outcome back.

use sandbox_core::approval::Grant;
use sandbox_core::audit::EventName;
use sandbox_core::plan::{Action, without_keys};
use sandbox_proto::runner::v1::operation::State as Operation;
use sandbox_proto::runner::v1::terraform_result::Outcome;
use sandbox_proto::runner::v1::{self as wire};
use secrecy::ExposeSecret;

use super::kept::{Current, tell_failure};
use super::run::{self, Inputs};
use super::source::Source;
use super::state::States;
use super::{Root, failed};
use crate::actions::visible;
use crate::approve::store_failed;
use crate::report::{Code, Failure, chain};
use crate::request::{Parts, Request, Stay};
use crate::store::StoredPlan;

/// What an apply is made of, all of it checked.
pub(super) struct Launch<'a> {
    pub(super) parts: &'a Parts,
    pub(super) request: &'a Request,
    pub(super) root: &'a Root,
    pub(super) source: &'a Source,
    pub(super) state: Option<&'a Current>,
    pub(super) plan: &'a StoredPlan,
}

impl Launch<'_> {
    /// Applies the plan. Its file is forgotten afterwards, whatever the end is.
    ///
    /// # Errors
    /// [`Code::TerraformFailed`] with what was applied, failed and not started; [`Code::ApplyUnknown`] when
    /// the end was not seen.
    pub(super) async fn run(self, grant: Grant, stay: Stay<'_>) -> Result<String, Failure> {
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
        let bytes = plan.bytes.as_ref().map(ExposeSecret::expose_secret);
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
        let mut states = States::new(&parts.store, &parts.clock, &root.name, request.id);
        let writes = &plan.facts.writes;
        let ran = run::apply(stay.launched(), root, &inputs, writes, &mut states).await;
        let kept = states.kept;
        if let Err(e) = parts.store.drop_plan_bytes(plan.key).await {
            tracing::error!(request = %request.id, error = chain(&e), "a used plan is not forgotten");
        }
        // Used up with this, whatever came of it.
        drop(grant);
        match ran {
            Ok(result) if result.outcome() == Outcome::Failed => {
                tell_failure(parts, request, &result).await;
                self.tell("failed", &result, kept).await;
                Err(Failure::new(
                    Code::TerraformFailed,
                    format!(
                        "Terraform could not apply all of it. {} {} The states it wrote are kept.",
                        failed::told(&result.diagnostics),
                        self.progress(&result)
                    ),
                ))
            }
            Ok(result) => {
                self.tell("succeeded", &result, kept).await;
                let (name, digest) = (root.name.clone(), plan.from.bundle);
                let now_ms = parts.clock.now_ms();
                let applied = parts.store.bundle_applied(name, digest, request.id, now_ms);
                applied.await.map_err(|e| store_failed(&e))?;
                Ok(self.progress(&result))
            }
            Err(failure) => {
                self.tell("unknown", &wire::TerraformResult::default(), kept)
                    .await;
                Err(Failure::new(
                    Code::ApplyUnknown,
                    format!(
                        "The apply was launched and its end was not seen: {} {kept} states of it were kept.",
                        failure.message
                    ),
                ))
            }
        }
    }

    /// `terraform.applied`: how it went, by address.
    async fn tell(&self, outcome: &str, result: &wire::TerraformResult, kept: u32) {
        let operations: Vec<String> = result.operations.iter().map(operation).collect();
        let event = self
            .request
            .event(EventName::TerraformApplied)
            .with("root", self.root.name.as_str())
            .with("outcome", outcome)
            .with("operations", operations.join("; "))
            .with("states_kept", i64::from(kept));
        if let Err(e) = self.parts.audit.record_closing(event).await {
            tracing::error!(request = %self.request.id, error = chain(&e), "terraform.applied is not in the trail");
        }
    }

    /// What was applied, failed and not started, in words.
    fn progress(&self, result: &wire::TerraformResult) -> String {
        let of = |state: Operation| {
            let list: Vec<String> = result
                .operations
                .iter()
                .filter(|o| o.state() == state)
                .map(|o| format!("{} {}", o.action, visible(&without_keys(&o.address))))
                .collect();
            list
        };
        let begun = |address: &str| result.operations.iter().any(|o| o.address == address);
        let not_started: Vec<String> = self
            .plan
            .facts
            .changes
            .iter()
            .filter(|c| is_work(c.action) && !begun(&c.address))
            .map(|c| visible(&without_keys(&c.address)))
            .collect();
        [
            ("Applied", of(Operation::Applied)),
            ("Failed", of(Operation::Failed)),
            ("Begun, without an end", of(Operation::Started)),
            ("Not started", not_started),
        ]
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(what, list)| format!("{what}: {}.", list.join(", ")))
        .collect::<Vec<_>>()
        .join(" ")
    }
}

/// Whether Terraform tells of it while it applies.
const fn is_work(action: Action) -> bool {
    match action {
        Action::Create | Action::Update | Action::Replace { .. } | Action::Delete => true,
        Action::Forget | Action::Import | Action::Move | Action::Read => false,
    }
}

fn operation(operation: &wire::Operation) -> String {
    let state = match operation.state() {
        Operation::Applied => "applied",
        Operation::Failed => "failed",
        Operation::Started | Operation::Unspecified => "begun",
    };
    format!(
        "{} {} {state} ({} ms)",
        operation.action,
        visible(&without_keys(&operation.address)),
        operation.elapsed_ms
    )
}
