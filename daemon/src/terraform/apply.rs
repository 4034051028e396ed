//! `terraform_apply`: without an approval it asks for one, with one it uses it up.

use std::time::Duration;

use sandbox_core::approval::{Binding, Bound, summary};
use sandbox_core::ids::ApprovalId;
use sandbox_core::names::RuleName;
use sandbox_core::parameters::{ActionName, TerraformApply};
use sandbox_core::plan::PlanFacts;
use sandbox_core::policy::Decision;
use secrecy::{ExposeSecret, SecretSlice};
use tokio::sync::watch;

use super::kept::{Current, current, made_from, make, mark, root_of, stored};
use super::launch::Launch;
use super::shown::shown;
use super::source::{Source, sha256};
use super::{Root, at_rest, run};
use crate::actions::terraform as told;
use crate::approve::{OpenApproval, Opened, Use, no_such_approval, store_failed};
use crate::broker::Rung;
use crate::config::StateKind;
use crate::report::{Code, Failure};
use crate::request::{Parts, Report, Request, State, Stay, lost_trail};

/// Opens an approval for a root's plan, or applies the plan of one that was granted.
pub(crate) async fn apply(
    parts: &Parts,
    request: &Request,
    progress: &watch::Sender<State>,
    asked: &TerraformApply,
) -> Result<Report, Failure> {
    let root = root_of(request)?;
    if let (Some(id), true) = (asked.approval_id, asked.withdraw) {
        return withdraw(parts, request, root, id).await;
    }
    if root.settings.state != StateKind::Managed {
        return Err(Failure::new(
            Code::PlanRefused,
            format!(
                "The state of the root {} lives elsewhere, so it can be planned here and not applied.",
                root.name
            ),
        ));
    }
    let _turn = parts.roots.take(&root.name)?;
    let source = Source::read(root, parts).await?;
    let call = Call {
        parts,
        request,
        root,
        source: &source,
        stay: Stay::of(parts, request, progress, parts.limits.terraform_seconds),
    };
    match asked.approval_id {
        None => call.ask(asked).await,
        Some(id) => call.use_up(id).await,
    }
}

/// Takes an open approval back, so that another plan of the root can be asked for.
async fn withdraw(
    parts: &Parts,
    request: &Request,
    root: &Root,
    id: ApprovalId,
) -> Result<Report, Failure> {
    let approval = parts.approvals.find_own(&request.principal, id).await?;
    if approval.root != root.name {
        return Err(no_such_approval());
    }
    parts.approvals.cancel(&request.principal, id).await?;
    Ok(told::withdrawn(request.id, &root.name, id))
}

struct Call<'a> {
    parts: &'a Parts,
    request: &'a Request,
    root: &'a Root,
    source: &'a Source,
    stay: Stay<'a>,
}

/// What the policy asks for, now that it is known what the plan does.
struct Asked {
    rule: RuleName,
    quorum: u32,
    expires_after: Duration,
}

impl Call<'_> {
    /// Plans, unless a kept plan is of just this, and asks humans.
    async fn ask(self, asked: &TerraformApply) -> Result<Report, Failure> {
        let Self {
            parts,
            request,
            root,
            source,
            stay,
        } = self;
        let state = current(parts, root).await?;
        let from = made_from(source, root, parts, state.as_ref());
        let kept = parts.store.find_plan(root.name.clone(), from).await;
        let plan = match kept.map_err(|e| store_failed(&e))? {
            Some(plan) => plan,
            None => make(stay, parts, request, root, source, state.as_ref()).await?,
        };
        let mark = mark(parts, root).await?;
        if plan.facts.is_empty() {
            let report = told::nothing_to_do(request.id, &root.name);
            return Ok(told::marked(report, mark.as_deref()));
        }
        let policy = self.decide(&plan.facts).await?;
        let plan_file = at_rest::plan_file(parts, &plan).await?;
        let binding = self.binding(&policy, state.as_ref(), (&plan.facts, plan_file.as_ref()))?;
        let opened = parts.approvals.open(OpenApproval {
            root: root.name.clone(),
            plan: plan.key,
            facts: &plan.facts,
            request: request.id,
            principal: request.principal.clone(),
            uid: request.uid,
            action: ActionName::TerraformApply,
            reason: asked.reason.clone().unwrap_or_default(),
            client: request.client.clone(),
            binding,
            quorum: policy.quorum,
            expires_after: policy.expires_after,
            shown: shown(parts, root, source, &plan.facts, mark.clone()).await?,
        });
        let (Opened::New(approval) | Opened::Same(approval)) = opened.await?;
        let report = told::pending(request.id, &root.name, &approval);
        Ok(told::marked(report, mark.as_deref()))
    }

    /// Works everything out again, uses the approval up, and applies.
    async fn use_up(self, id: ApprovalId) -> Result<Report, Failure> {
        let Self {
            parts,
            request,
            root,
            source,
            stay,
        } = self;
        let approval = parts.approvals.find_own(&request.principal, id).await?;
        no_credential_at_large(parts, root).await?;
        let plan = stored(parts, approval.plan).await?;
        let state = current(parts, root).await?;
        let policy = self.decide(&plan.facts).await?;
        let plan_file = at_rest::plan_file(parts, &plan).await?;
        let binding = self.binding(&policy, state.as_ref(), (&plan.facts, plan_file.as_ref()))?;
        // Before the approval is used up: without it no state of the apply could be kept.
        let data_key = at_rest::key(parts).await?;
        let grant = parts.approvals.consume(Use {
            approval: id,
            principal: request.principal.clone(),
            request: request.id,
            binding,
        });
        let grant = grant.await?;
        let launch = Launch {
            parts,
            request,
            root,
            source,
            state: state.as_ref(),
            plan: &plan,
            plan_file: plan_file.as_ref(),
            data_key: data_key.as_ref(),
        };
        let applied = launch.run(grant, stay).await?;
        Ok(told::applied(
            request.id,
            &root.name,
            id,
            &applied.progress,
            applied.outputs.as_ref(),
        ))
    }

    /// What the policy says of this plan, in the trail before anything follows from it.
    async fn decide(&self, facts: &PlanFacts) -> Result<Asked, Failure> {
        let Self { parts, request, .. } = self;
        let decision = parts.policy.decide(
            &request.principal,
            &request.parameters,
            Some(&self.root.name),
            Some(facts),
        );
        let decision = match decision {
            Decision::Allow { rule } => Decision::Deny {
                rule: Some(rule),
                reason: "an apply is never allowed without an approval".to_owned(),
            },
            asked @ (Decision::RequireApproval { .. } | Decision::Deny { .. }) => asked,
        };
        let event = request.decided(&decision).with("plan", summary(facts));
        let written = parts.audit.record(event).await;
        written.map_err(|e| lost_trail(&e))?;
        match decision {
            Decision::RequireApproval {
                rule,
                quorum,
                expires_after,
            } => Ok(Asked {
                rule,
                quorum,
                expires_after,
            }),
            Decision::Allow { .. } => Err(denied("it allows what only people may")), // denied above
            Decision::Deny { reason, .. } => Err(denied(&reason)),
        }
    }

    /// Everything that decides what an apply would do, as it is now.
    fn binding(
        &self,
        policy: &Asked,
        state: Option<&Current>,
        (facts, plan_file): (&PlanFacts, Option<&SecretSlice<u8>>),
    ) -> Result<Binding, Failure> {
        let root = self.root;
        let rung = run::rung_of(&facts.writes);
        let scope = run::scope(root, rung)?.role();
        let (lineage, serial) = state.map(Current::head).unwrap_or_default();
        let parameters = serde_json::json!({ "root": root.name }).to_string();
        Ok(Binding::new(&Bound {
            principal: &self.request.principal,
            action: ActionName::TerraformApply,
            parameters: &parameters,
            root: &root.name,
            root_settings: root.settings_digest(),
            bundle: self.source.bundle.digest(),
            lock_file: self.source.lock_digest(),
            workspace: &root.settings.workspace,
            variables: self.source.variables_digest,
            image: self.parts.sandboxes.image(),
            plan: digest_of(plan_file),
            state_lineage: lineage,
            state_serial: serial,
            scope: &scope,
            rule: &policy.rule,
            quorum: policy.quorum,
        }))
    }
}

/// Nothing is applied to a root while a credential of its own may still be good: whoever has it could change
/// what people have just looked at.
async fn no_credential_at_large(parts: &Parts, root: &Root) -> Result<(), Failure> {
    let mut roles = [const { String::new() }; 3];
    for (role, rung) in roles.iter_mut().zip(Rung::ALL) {
        *role = run::scope(root, rung)?.role();
    }
    let unproven = parts.store.unproven_of(roles).await;
    let Some(of) = unproven.map_err(|e| store_failed(&e))? else {
        return Ok(());
    };
    Err(Failure::new(
        Code::RevocationUnproven,
        format!(
            "The credential of request {of} has not been shown to be dead, so nothing is applied to the root {}. \
             The approval stays as it is, and sandboxd goes on trying.",
            root.name
        ),
    ))
}

/// Of the bytes that would be applied, not of what was written beside them.
fn digest_of(plan_file: Option<&SecretSlice<u8>>) -> [u8; 32] {
    #[expect(
        clippy::disallowed_methods,
        reason = "a saved plan goes through a hash, and nowhere else"
    )]
    let bytes = plan_file.map(ExposeSecret::expose_secret);
    sha256(bytes.unwrap_or_default())
}

fn denied(reason: &str) -> Failure {
    Failure::new(
        Code::PolicyDenied,
        format!("The policy refuses this plan: {reason}."),
    )
}
