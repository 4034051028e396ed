//! The work of `Terraform`: a plan, an apply of a saved plan, or what a saved plan says, over a source
//! tree that came as frames. The credential stays in the proxy.

pub mod events;
pub mod folder;
pub mod lock;
pub mod plan_file;
pub mod program;
pub mod snapshots;
pub mod zip;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use sandbox_bundle::{Bundle, Limits};
use sandbox_proto::runner::v1::artifact;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_proto::runner::v1::terraform::Mode;
use sandbox_proto::runner::v1::terraform_result::Outcome;
use sandbox_proto::runner::v1::{Failure, Terraform, TerraformResult, output};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::caller::failure;
use crate::inputs::Inputs;
use crate::places::Places;
use crate::proxy::Proxy;
use crate::proxy::rules::Rules;
use crate::proxy::upstream::Upstream;
use crate::reports::Reports;
use events::Events;
use folder::Folder;
use plan_file::{Difference, Modules};
use program::{Ended, Program, Times};
use snapshots::Snapshots;

/// What a `terraform show -json` may have, in bytes. A plan shown is some times its file.
const MAX_SHOWN_BYTES: usize = 64 * 1024 * 1024;

/// What a plan file may have, in bytes: what comes back as an input.
const MAX_PLAN_BYTES: usize = 32 * 1024 * 1024;

/// Beside the sources of a root whose state lives elsewhere.
const LOCAL_BACKEND: (&str, &[u8]) = (
    "sandbox_runner_override.tf",
    b"terraform {\n  backend \"local\" {}\n}\n",
);

/// The daemon has counted them, and an input has a limit of its own.
const ANY_SIZE: Limits = Limits {
    bytes: usize::MAX,
    files: usize::MAX,
    depth: usize::MAX,
    entries: usize::MAX,
};

/// The files of a source tree, by path.
pub type Tree<'a> = BTreeMap<&'a str, &'a [u8]>;

/// One run of Terraform, and what it needs.
pub struct Run<'a> {
    /// What to do.
    pub work: &'a Terraform,
    /// What to do it with.
    pub inputs: Inputs,
    /// How long it may take.
    pub limit: Duration,
    /// Where things are.
    pub places: &'a Places,
    /// Where what happens is told.
    pub reports: Reports,
}

/// Does the work, and tells what came of it. With an API server where the mode has one.
///
/// # Errors
/// A [`Failure`]. What Terraform did by then has been told all the same.
pub async fn run(run: Run<'_>, upstream: Option<Upstream>) -> Result<(), Failure> {
    check(run.work).map_err(bad_input)?;
    let times = Times::within(run.limit);
    run.reports.progress("unpack").await;
    let bundle = Bundle::from_tar(&run.inputs.bundle, &ANY_SIZE).map_err(bad_input)?;
    let files = bundle.files().iter();
    let mut files: Tree<'_> = files
        .map(|file| (file.path.as_str(), file.bytes.as_slice()))
        .collect();
    if run.work.state_elsewhere {
        put_backend_out_of_force(&mut files).map_err(bad_input)?;
    }
    check_var_files(run.work, &files).map_err(bad_input)?;
    let plan = run.inputs.plan.as_ref();
    let modules = plan
        .map(|plan| plan_file::compare(plan, &files))
        .transpose();
    let modules = modules.map_err(|difference| differs(&difference))?;
    let folder = Folder::fill(run.places, &files, &run.inputs).map_err(|e| broken("unpack", &e))?;
    let proxy = match upstream {
        Some(upstream) => Some(start_proxy(&run, upstream, times.close).await?),
        None => None,
    };
    let program = Program {
        binary: &run.places.terraform,
        folder: &folder,
        workspace: &run.work.workspace,
        proxy: proxy.as_ref().map(Proxy::address),
        times,
    };
    let mut steps = Steps {
        run: &run,
        program,
        events: Events::default(),
    };
    let outcome = steps.all(modules).await;
    steps.tell(outcome).await
}

async fn start_proxy(run: &Run<'_>, upstream: Upstream, close: Instant) -> Result<Proxy, Failure> {
    let work = run.work;
    let namespaces = work.namespaces.clone();
    let rules = match work.mode() {
        Mode::Apply => Rules::writes(namespaces, work.objects.clone()),
        Mode::Plan | Mode::Facts | Mode::Unspecified => Rules::reads(namespaces),
    };
    let proxy = Proxy::start(rules, upstream, run.reports.clone(), close).await;
    proxy.map_err(|error| broken("start the proxy", &error))
}

/// What is wrong with the work by itself.
fn check(work: &Terraform) -> Result<(), &'static str> {
    let workspace = work.workspace.as_str();
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if workspace.len() > 90 || workspace.starts_with(['.', '-']) || !workspace.bytes().all(plain) {
        return Err("the workspace has other characters than a-z, A-Z, 0-9, '-', '_' and '.'");
    }
    match work.mode() {
        Mode::Apply if work.state_elsewhere => {
            Err("nothing is applied to a root whose state lives elsewhere")
        }
        Mode::Apply => Ok(()),
        _ if !work.objects.is_empty() => Err("objects to write come with an apply alone"),
        Mode::Plan => Ok(()),
        _ if !work.var_files.is_empty() => Err("variable files come with a plan alone"),
        Mode::Facts | Mode::Unspecified => Ok(()),
    }
}

/// An override file of ours says that the backend is a local one, and Terraform does not even look at another
/// then. A saved plan has it among its sources, so it stands beside the bundle's in every run.
fn put_backend_out_of_force(files: &mut Tree<'_>) -> Result<(), &'static str> {
    match files.insert(LOCAL_BACKEND.0, LOCAL_BACKEND.1) {
        None => Ok(()),
        Some(_) => Err("the bundle has a file in the place of the runner's own"),
    }
}

fn check_var_files(work: &Terraform, files: &Tree<'_>) -> Result<(), String> {
    let ends = |path: &&String| path.ends_with(".tfvars") || path.ends_with(".tfvars.json");
    match work
        .var_files
        .iter()
        .find(|path| !(files.contains_key(path.as_str()) && ends(path)))
    {
        Some(path) => Err(format!("the bundle has no variable file {path:?}")),
        None => Ok(()),
    }
}

/// The commands of one run, one after another.
struct Steps<'a> {
    run: &'a Run<'a>,
    program: Program<'a>,
    events: Events,
}

/// How far it came: what there is to say of the work, or that its time was over before that.
enum Done {
    Outcome(Outcome),
    TooLate,
}

impl Steps<'_> {
    async fn all(&mut self, modules: Option<Modules>) -> Result<Done, Failure> {
        let init = ["init", "-json", "-input=false", "-lockfile=readonly"];
        self.run.reports.progress("init").await;
        if let Some(done) = self.must_succeed(&init).await? {
            return Ok(done);
        }
        if let Some(modules) = modules {
            let found = match fs::read(self.program.folder.modules()) {
                Ok(found) => Some(found),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(broken("read the list of modules", &error)),
            };
            modules
                .compare(found.as_deref())
                .map_err(|difference| differs(&difference))?;
        }
        match self.run.work.mode() {
            Mode::Plan => self.plan().await,
            Mode::Apply => self.apply().await,
            Mode::Facts => self.show().await,
            Mode::Unspecified => Err(bad_input("the work's mode is none this runner knows")),
        }
    }

    async fn plan(&mut self) -> Result<Done, Failure> {
        self.run.reports.progress("plan").await;
        let folder = self.program.folder;
        let state = format!("-state={}", folder.state().display());
        let out = format!("-out={}", folder.plan().display());
        let mut args = vec![
            "plan",
            "-json",
            "-input=false",
            "-lock=false",
            "-detailed-exitcode",
            &state,
            &out,
        ];
        let secrets = format!("-var-file={}", folder.variables().display());
        let var_files = self.run.work.var_files.iter();
        let var_files: Vec<_> = var_files.map(|path| format!("-var-file={path}")).collect();
        args.extend(var_files.iter().map(String::as_str));
        if self.run.inputs.variables.is_some() {
            args.push(&secrets);
        }
        let ended = self.command(&args).await?;
        let outcome = match ended.code {
            _ if ended.interrupted => return Ok(Done::TooLate),
            Some(0) => Outcome::Done,
            Some(2) => Outcome::Changes,
            // It leaves a plan file all the same, one that looks harmless.
            _ => return Ok(Done::Outcome(Outcome::Failed)),
        };
        let plan = fs::read(folder.plan()).map_err(|error| broken("read the plan", &error))?;
        if plan.len() > MAX_PLAN_BYTES {
            let detail = format!("the plan has more than {MAX_PLAN_BYTES} bytes");
            return Err(failure(Kind::TooLarge, &detail));
        }
        self.run.reports.artifact(artifact::Kind::Plan, &plan).await;
        Ok(Done::Outcome(outcome))
    }

    async fn apply(&mut self) -> Result<Done, Failure> {
        self.run.reports.progress("apply").await;
        let folder = self.program.folder;
        let state = format!("-state={}", folder.state().display());
        let plan = folder.plan().display().to_string();
        let args = [
            "apply",
            "-json",
            "-input=false",
            "-lock=false",
            "-backup=-",
            &state,
            &plan,
        ];
        let before = self.run.inputs.state.as_ref().map(|state| state.as_slice());
        let mut snapshots = Snapshots::new(folder.state(), before, self.run.reports.clone());
        let (news, mut told) = mpsc::unbounded_channel();
        self.events.tell(news);
        let reports = &self.run.reports;
        let ended = {
            let events = &mut self.events;
            let output = |bytes: &[u8]| {
                events.take(bytes);
                Ok(())
            };
            let mut ended = std::pin::pin!(self.program.run(&args, output));
            // Of its own pace: operations, however many, put no look off.
            let mut looks = tokio::time::interval(snapshots::PAUSE);
            looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                // A look runs to its end before Terraform is heard again.
                tokio::select! {
                    biased;
                    ended = &mut ended => break ended,
                    _ = looks.tick() => snapshots.look().await,
                    Some(operation) = told.recv() => reports.operation(operation).await,
                }
            }
        };
        // Whatever else is wrong: what was done has to be known.
        while let Ok(operation) = told.try_recv() {
            reports.operation(operation).await;
        }
        let last = snapshots.finish().await;
        let ended = self.note(ended.map_err(|error| broken("run Terraform", &error))?);
        if let Err(error) = last {
            self.events
                .add_error("the state could not be sent", &error.to_string());
            return Ok(Done::Outcome(Outcome::Failed));
        }
        Ok(match ended.code {
            Some(0) => Done::Outcome(Outcome::Done),
            _ if ended.interrupted => Done::TooLate,
            _ => Done::Outcome(Outcome::Failed),
        })
    }

    async fn show(&mut self) -> Result<Done, Failure> {
        self.run.reports.progress("show").await;
        let plan = self.program.folder.plan().display().to_string();
        let mut shown = Vec::new();
        let keep = |bytes: &[u8]| {
            if shown.len() + bytes.len() > MAX_SHOWN_BYTES {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            shown.extend_from_slice(bytes);
            Ok(())
        };
        let ended = self.program.run(&["show", "-json", &plan], keep).await;
        let ended = match ended {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let detail = format!("the plan shown has more than {MAX_SHOWN_BYTES} bytes");
                return Err(failure(Kind::TooLarge, &detail));
            }
            ended => self.note(ended.map_err(|error| broken("run Terraform", &error))?),
        };
        match ended.code {
            _ if ended.interrupted => Ok(Done::TooLate),
            Some(0) => {
                let kind = artifact::Kind::PlanJson;
                self.run.reports.artifact(kind, &shown).await;
                Ok(Done::Outcome(Outcome::Done))
            }
            _ => Ok(Done::Outcome(Outcome::Failed)),
        }
    }

    /// Runs a command that has to go well for the next one; what there is to say if it did not.
    async fn must_succeed(&mut self, args: &[&str]) -> Result<Option<Done>, Failure> {
        let ended = self.command(args).await?;
        Ok(match ended.code {
            _ if ended.interrupted => Some(Done::TooLate),
            Some(0) => None,
            _ => Some(Done::Outcome(Outcome::Failed)),
        })
    }

    /// Runs a command whose stdout is events.
    async fn command(&mut self, args: &[&str]) -> Result<Ended, Failure> {
        let events = &mut self.events;
        let output = |bytes: &[u8]| {
            events.take(bytes);
            Ok(())
        };
        let ended = self.program.run(args, output).await;
        Ok(self.note(ended.map_err(|error| broken("run Terraform", &error))?))
    }

    /// Has an error to show for every end that is none of success.
    fn note(&mut self, ended: Ended) -> Ended {
        let failed = !matches!(ended.code, Some(0 | 2));
        if failed && !self.events.has_error() {
            let summary = match ended.code {
                Some(code) => format!("Terraform ended with exit code {code}"),
                None => "Terraform was killed".to_owned(),
            };
            self.events.add_error(&summary, ended.stderr.trim());
        }
        ended
    }

    /// Tells the result, and what kept the work from being done, if something did.
    async fn tell(self, done: Result<Done, Failure>) -> Result<(), Failure> {
        let (outcome, failed) = match done {
            Ok(Done::Outcome(outcome)) => (outcome, None),
            Ok(Done::TooLate) => {
                let limit = self.run.limit.as_millis();
                let detail = format!("it took longer than {limit} ms, and Terraform was stopped");
                (Outcome::Failed, Some(failure(Kind::Timeout, &detail)))
            }
            // What was begun has to be known, whatever broke afterwards.
            Err(failure) if self.events.has_operation() => (Outcome::Failed, Some(failure)),
            Err(failure) => return Err(failure),
        };
        let (operations, diagnostics, terraform_version) = self.events.finish();
        let result = TerraformResult {
            outcome: outcome.into(),
            operations,
            diagnostics,
            terraform_version,
        };
        self.run
            .reports
            .output(output::Output::Terraform(result))
            .await;
        failed.map_or(Ok(()), Err)
    }
}

fn bad_input(error: impl std::fmt::Display) -> Failure {
    failure(Kind::BadInput, &error.to_string())
}

fn differs(error: &Difference) -> Failure {
    failure(Kind::PlanDiffers, &error.to_string())
}

fn broken(what: &str, error: &io::Error) -> Failure {
    failure(Kind::Internal, &format!("could not {what}: {error}"))
}
