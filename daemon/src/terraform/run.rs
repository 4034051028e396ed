//! Terraform in a sandbox: a plan, what a plan says, an apply.

use sandbox_core::plan::Write;
use sandbox_proto::runner::v1 as wire;
use sandbox_proto::runner::v1::terraform_result::Outcome;
use zeroize::Zeroizing;

use super::Root;
use crate::broker::{Rung, Scope};
use crate::config::StateKind;
use crate::report::{Code, Failure};
use crate::request::{Keep, Stay, Work};
use crate::sandbox::{Class, Input, Made};

/// What goes into every run of a root.
pub(super) struct Inputs<'a> {
    /// The packed source.
    pub(super) bundle: &'a [u8],
    /// The state, if there is one.
    pub(super) state: Option<&'a [u8]>,
    /// The saved plan.
    pub(super) plan: Option<&'a [u8]>,
    /// Values of secret variables, JSON.
    pub(super) variables: Option<&'a [u8]>,
}

impl Inputs<'_> {
    /// In the order of the contract.
    fn list(&self) -> Vec<Input> {
        use wire::input::Kind;
        let of = |kind, bytes: Option<&[u8]>| {
            bytes.map(|bytes| Input {
                kind,
                bytes: Zeroizing::new(bytes.to_vec()),
            })
        };
        [
            of(Kind::Bundle, Some(self.bundle)),
            of(Kind::State, self.state),
            of(Kind::Plan, self.plan),
            of(Kind::Variables, self.variables),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A plan, and whether it has anything to do.
pub(super) struct Planned {
    pub(super) plan: Zeroizing<Vec<u8>>,
    pub(super) result: wire::TerraformResult,
}

pub(super) async fn plan(
    stay: Stay<'_>,
    root: &Root,
    inputs: &Inputs<'_>,
) -> Result<Result<Planned, wire::TerraformResult>, Failure> {
    let work = work(
        root,
        wire::terraform::Mode::Plan,
        Some(Rung::Plan),
        inputs,
        &[],
    )?;
    let mut made = Vec::new();
    let result = result_of(stay.run(work, &mut made).await?)?;
    if !matches!(result.outcome(), Outcome::Done | Outcome::Changes) {
        return Ok(Err(result));
    }
    let plan = only(made, wire::artifact::Kind::Plan)?;
    Ok(Ok(Planned { plan, result }))
}

/// `terraform show -json` of a plan, from a fresh sandbox without a credential.
pub(super) async fn facts(
    stay: Stay<'_>,
    root: &Root,
    inputs: &Inputs<'_>,
) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let work = work(root, wire::terraform::Mode::Facts, None, inputs, &[])?;
    let mut made = Vec::new();
    result_of(stay.run(work, &mut made).await?)?;
    only(made, wire::artifact::Kind::PlanJson)
}

/// Applies a saved plan. States come to `keep` as they are made, whatever the end is.
pub(super) async fn apply(
    stay: Stay<'_>,
    root: &Root,
    inputs: &Inputs<'_>,
    writes: &[Write],
    keep: &mut impl Keep,
) -> Result<wire::TerraformResult, Failure> {
    let rung = rung_of(writes);
    let work = work(
        root,
        wire::terraform::Mode::Apply,
        Some(rung),
        inputs,
        writes,
    )?;
    result_of(stay.run(work, keep).await?)
}

/// The least that does what a plan does.
pub(super) fn rung_of(writes: &[Write]) -> Rung {
    if writes.is_empty() {
        // Outputs, moves: the state alone changes.
        Rung::Plan
    } else if writes.iter().any(|w| w.delete) {
        Rung::ApplyDelete
    } else {
        Rung::Apply
    }
}

/// The scope of a rung of a root.
pub(super) fn scope(root: &Root, rung: Rung) -> Result<Scope, Failure> {
    let settings = &root.settings;
    match (settings.namespace(), settings.listed()) {
        (Some(namespace), Some(listed)) => {
            Ok(Scope::of_root(rung, &root.name, namespace.clone(), listed))
        }
        _ => Err(Failure::new(
            Code::Internal,
            "The root has no namespace or no kind.", // the configuration was checked for both
        )),
    }
}

fn work(
    root: &Root,
    mode: wire::terraform::Mode,
    rung: Option<Rung>,
    inputs: &Inputs<'_>,
    writes: &[Write],
) -> Result<Work, Failure> {
    let inputs = inputs.list();
    let settings = &root.settings;
    let terraform = wire::Terraform {
        mode: mode.into(),
        inputs: inputs.iter().map(Input::announced).collect(),
        workspace: settings.workspace.clone(),
        // A saved plan has the values in it.
        var_files: match mode {
            wire::terraform::Mode::Plan => settings.var_files.clone(),
            wire::terraform::Mode::Apply
            | wire::terraform::Mode::Facts
            | wire::terraform::Mode::Unspecified => Vec::new(),
        },
        namespaces: settings
            .namespaces
            .iter()
            .map(ToString::to_string)
            .collect(),
        objects: writes.iter().map(object).collect(),
        state_elsewhere: settings.state != StateKind::Managed,
    };
    Ok(Work {
        class: Class::Terraform,
        scope: rung.map(|rung| scope(root, rung)).transpose()?,
        start: wire::Start {
            work: Some(wire::start::Work::Terraform(terraform)),
            ..wire::Start::default()
        },
        inputs,
    })
}

fn object(write: &Write) -> wire::Object {
    let object = write.object.clone();
    wire::Object {
        group: object.group,
        resource: object.resource,
        kind: object.kind,
        namespace: object.namespace.map(|n| n.to_string()).unwrap_or_default(),
        name: object.name,
        create: write.create,
        update: write.update,
        delete: write.delete,
        absent: write.absent.clone(),
    }
}

fn result_of(output: wire::Output) -> Result<wire::TerraformResult, Failure> {
    match output.output {
        Some(wire::output::Output::Terraform(result)) => Ok(result),
        Some(wire::output::Output::Pods(_)) | None => Err(wrong("output")),
    }
}

fn only(made: Vec<Made>, kind: wire::artifact::Kind) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let mut made = made.into_iter();
    match (made.next(), made.next()) {
        (Some(file), None) if file.kind == kind => Ok(file.bytes),
        _ => Err(wrong("files")),
    }
}

fn wrong(what: &str) -> Failure {
    Failure::new(
        Code::Internal,
        format!("The runner's {what} are not those of this action."),
    )
}
