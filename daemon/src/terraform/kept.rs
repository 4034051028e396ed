//! `terraform_plan`, and the plan that an apply without an approval starts from.

use std::io::Read as _;
use std::time::Duration;

use sandbox_core::plan::{MAX_PLAN_BYTES, PlanFacts, PlanGuard};
use secrecy::{ExposeSecret as _, SecretSlice};
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::run::{self, Inputs};
use super::source::{Source, sha256};
use super::{Root, at_rest, failed};
use crate::actions::terraform::{marked, planned};
use crate::approve::store_failed;
use crate::config::StateKind;
use crate::report::{Code, Failure, chain};
use crate::request::{Parts, Report, Request, State, Stay};
use crate::store::{MadeFrom, NewPlan, Of, PlanKey, StoredPlan};

/// Plans a root, and keeps the plan.
pub(crate) async fn plan(
    parts: &Parts,
    request: &Request,
    progress: &watch::Sender<State>,
) -> Result<Report, Failure> {
    let root = root_of(request)?;
    let _turn = parts.roots.take(&root.name)?;
    let source = Source::read(root, parts).await?;
    let state = current(parts, root).await?;
    let stay = Stay::of(parts, request, progress, parts.limits.terraform_seconds);
    let kept = make(stay, parts, request, root, &source, state.as_ref()).await?;
    let mark = mark(parts, root).await?;
    let age = state.and_then(|state| state.age);
    let report = planned(request.id, &root.name, &kept.facts, age);
    Ok(marked(report, mark.as_deref()))
}

/// What is to be known of a root whose last apply did not succeed.
pub(super) async fn mark(parts: &Parts, root: &Root) -> Result<Option<String>, Failure> {
    let last = parts.store.unfinished_apply(root.name.clone()).await;
    Ok(last
        .map_err(|e| store_failed(&e))?
        .map(|last| last.to_string()))
}

/// The root of a request that has one.
pub(super) fn root_of(request: &Request) -> Result<&Root, Failure> {
    request
        .root
        .as_ref()
        .ok_or_else(|| Failure::new(Code::Internal, "The request is about no root."))
}

/// A state as it goes into a run.
pub(super) struct Current {
    pub(super) bytes: SecretSlice<u8>,
    pub(super) lineage: String,
    pub(super) serial: u64,
    /// Of a copy of a state that lives elsewhere.
    age: Option<Duration>,
}

/// The root's state, if it has one.
pub(super) async fn current(parts: &Parts, root: &Root) -> Result<Option<Current>, Failure> {
    match &root.settings.state {
        StateKind::Managed => {
            let newest = parts.store.newest_state(root.name.clone()).await;
            let Some(state) = newest.map_err(|e| store_failed(&e))? else {
                return Ok(None);
            };
            Ok(Some(Current {
                bytes: at_rest::state_file(parts, &root.name, &state).await?,
                lineage: state.lineage,
                serial: state.serial,
                age: None,
            }))
        }
        StateKind::Snapshot(file) => {
            let path = file.clone();
            let read = tokio::task::spawn_blocking(move || {
                let mut file = std::fs::File::open(path)?;
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                Ok::<_, std::io::Error>((bytes, file.metadata()?.modified()?))
            });
            let read = read.await;
            let unreadable = |why: String| {
                Failure::new(
                    Code::SourceRefused,
                    format!("The snapshot of the root's state could not be read: {why}."),
                )
            };
            let (bytes, taken) = read
                .map_err(|e| unreadable(e.to_string()))?
                .map_err(|e| unreadable(e.to_string()))?;
            let head = super::state::Head::read(&bytes).map_err(unreadable)?;
            Ok(Some(Current {
                bytes: SecretSlice::from(bytes),
                lineage: head.lineage,
                serial: head.serial,
                // A file from the future is as fresh as can be.
                age: Some(taken.elapsed().unwrap_or_default()),
            }))
        }
    }
}

impl Current {
    pub(super) fn head(&self) -> (&str, u64) {
        (&self.lineage, self.serial)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a state goes to the sandbox's memory, as an input of its run"
    )]
    pub(super) fn expose(&self) -> &[u8] {
        self.bytes.expose_secret()
    }
}

/// What a root's plan would be made from now.
pub(super) fn made_from(
    source: &Source,
    root: &Root,
    parts: &Parts,
    state: Option<&Current>,
) -> MadeFrom {
    source.made_from(root, parts.sandboxes.image(), state.map(Current::head))
}

/// Makes a plan in one sandbox, reads what it says in another, and keeps both.
pub(super) async fn make(
    stay: Stay<'_>,
    parts: &Parts,
    request: &Request,
    root: &Root,
    source: &Source,
    state: Option<&Current>,
) -> Result<StoredPlan, Failure> {
    let data_key = at_rest::key(parts).await?;
    let inputs = Inputs {
        bundle: &source.tar,
        state: state.map(Current::expose),
        plan: None,
        variables: source.variables.as_deref().map(Vec::as_slice),
    };
    let made = match run::plan(stay.part(0, 2), root, &inputs).await? {
        Ok(made) => made,
        Err(result) => {
            tell_failure(parts, request, &result).await;
            let why = failed::told(&result.diagnostics);
            return Err(Failure::new(
                Code::TerraformFailed,
                format!("Terraform could not plan. {why}"),
            ));
        }
    };
    let inputs = Inputs {
        bundle: &source.tar,
        state: None,
        plan: Some(&made.plan),
        variables: None,
    };
    let json = run::facts(stay.part(1, 2), root, &inputs).await?;
    let facts = read(&json, root, parts)?;
    drop(json);
    let digest = sha256(&made.plan);
    let of = Of::Plan {
        root: &root.name,
        digest: &digest,
    };
    let new = NewPlan {
        root: root.name.clone(),
        request: request.id,
        from: made_from(source, root, parts, state),
        tar: source.tar.clone(),
        digest,
        bytes: at_rest::close(&made.plan, of, data_key.as_ref())?,
        facts,
        diagnostics: diagnostics_json(&made.result.diagnostics),
    };
    let kept = parts.store.keep_plan(new, parts.clock.now_ms()).await;
    let key = kept.map_err(|e| store_failed(&e))?;
    stored(parts, key).await
}

/// A plan that was kept.
pub(super) async fn stored(parts: &Parts, key: PlanKey) -> Result<StoredPlan, Failure> {
    let plan = parts.store.plan(key).await.map_err(|e| store_failed(&e))?;
    plan.ok_or_else(|| Failure::new(Code::Internal, "The plan is not kept any more."))
}

fn read(json: &Zeroizing<Vec<u8>>, root: &Root, parts: &Parts) -> Result<PlanFacts, Failure> {
    let guard = PlanGuard {
        namespaces: root.settings.namespaces.iter().cloned().collect(),
        kinds: root.settings.kind_names(),
        max_changes: parts.limits.plan_changes,
        max_bytes: MAX_PLAN_BYTES,
    };
    PlanFacts::read(json, &guard)
        .map_err(|e| Failure::new(Code::PlanRefused, format!("The plan is refused: {e}.")))
}

/// Terraform's words go to the journal of approvers: an agent may have put into them what it must not see.
pub(super) async fn tell_failure(
    parts: &Parts,
    request: &Request,
    result: &sandbox_proto::runner::v1::TerraformResult,
) {
    let event = request
        .event(sandbox_core::audit::EventName::TerraformFailed)
        .with("words", failed::told(&result.diagnostics))
        .with("summaries", failed::summaries(&result.diagnostics));
    if let Err(e) = parts.audit.record_closing(event).await {
        tracing::error!(request = %request.id, error = chain(&e), "terraform.failed is not in the trail");
    }
}

pub(super) fn diagnostics_json(diagnostics: &[sandbox_proto::runner::v1::Diagnostic]) -> String {
    let list: Vec<serde_json::Value> = diagnostics
        .iter()
        .map(|d| {
            serde_json::json!({
                "error": d.error, "summary": d.summary, "detail": d.detail, "file": d.file,
                "line": d.line, "address": d.address,
            })
        })
        .collect();
    serde_json::Value::from(list).to_string()
}
