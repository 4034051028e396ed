//! What people are shown of an approval beside its plan.

use sandbox_bundle::{Bundle, Limits, diff};
use sandbox_core::plan::PlanFacts;

use super::source::Source;
use super::{Root, run};
use crate::approve::{Shown, SourceDiff, store_failed};
use crate::broker::Rung;
use crate::report::Failure;
use crate::request::Parts;

/// The source against the one that was applied last, and the credential in words.
pub(super) async fn shown(
    parts: &Parts,
    root: &Root,
    source: &Source,
    facts: &PlanFacts,
    last_apply: Option<String>,
) -> Result<Shown, Failure> {
    let last = parts.store.applied_bundle(root.name.clone()).await;
    let last = last.map_err(|e| store_failed(&e))?;
    // A bundle that was packed under other limits is still shown.
    let limits = Limits {
        bytes: usize::MAX,
        files: usize::MAX,
        ..Limits::default()
    };
    let old = last
        .as_ref()
        .and_then(|last| match Bundle::from_tar(&last.tar, &limits) {
            Ok(bundle) => Some(bundle),
            Err(e) => {
                tracing::error!(root = %root.name, error = %e, "the bundle that was applied last cannot be read");
                None
            }
        });
    let source = diff(old.as_ref(), &source.bundle)
        .into_iter()
        .map(|file| SourceDiff {
            path: file.path,
            action: file.action.as_str().to_owned(),
            diff: file.diff,
        })
        .collect();
    Ok(Shown {
        source,
        source_since_ms: old.and(last).map(|last| last.applied_ms),
        scope: scope(root, facts),
        last_apply,
    })
}

/// A sentence for each thing the credential could be used for.
fn scope(root: &Root, facts: &PlanFacts) -> Vec<String> {
    let kinds: Vec<String> = root
        .settings
        .kinds
        .iter()
        .map(ToString::to_string)
        .collect();
    let kinds = kinds.join(", ");
    let place: Vec<String> = root
        .settings
        .namespaces
        .iter()
        .map(ToString::to_string)
        .collect();
    let place = place.join(", ");
    let rung = run::rung_of(&facts.writes);
    let may = match rung {
        Rung::Plan => "read",
        Rung::Apply => "read, create and change",
        Rung::ApplyDelete => "read, create, change and delete",
    };
    let writes: Vec<String> = facts.writes.iter().map(|w| w.object.to_string()).collect();
    let mut sentences = vec![
        format!(
            "The credential may {may} {kinds} in namespace {place}, for one run of at most 20 minutes."
        ),
        match writes.as_slice() {
            [] => "The sandbox lets no write through.".to_owned(),
            writes => format!(
                "Of that, the sandbox lets through writes to these alone: {}.",
                writes.join(", ")
            ),
        },
    ];
    let outputs = &root.settings.agent_outputs;
    if !outputs.is_empty() {
        sentences.push(format!(
            "After the apply the agent is told the values of these outputs, but of sensitive ones: {}.",
            outputs.join(", ")
        ));
    }
    sentences
}
