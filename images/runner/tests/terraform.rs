//! Terraform itself in a session, with what is built into it: a plan, what it says, and its apply; what
//! does not fit is refused.
#![cfg(test)]

mod sides;

use sandbox_proto::runner::v1::artifact::Kind as Made;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_proto::runner::v1::input::Kind::{Bundle, Plan, State, Variables};
use sandbox_proto::runner::v1::operation;
use sandbox_proto::runner::v1::terraform::Mode;
use sandbox_proto::runner::v1::terraform_result::Outcome;
use sandbox_proto::runner::v1::{Operation, Terraform, from_runner, to_runner};
use sandbox_runner::ending::Ending;
use serde_json::Value;
use sides::api_server::{Answer, Api};
use sides::daemon::{Daemon, Run, prove, with_session};
use sides::terraform::{Ask, ask, bundle};
use sides::{CANARY, nobody};

const ROOT: &[(&str, &str)] = &[
    (
        "main.tf",
        r#"
variable "size" { type = number }
variable "secret" {
  type      = string
  sensitive = true
  default   = "unset"
}
resource "terraform_data" "first" { input = var.size }
resource "terraform_data" "second" { input = terraform_data.first.id }
module "part" { source = "./modules/part" }
output "secret" {
  value     = var.secret
  sensitive = true
}
"#,
    ),
    (
        "modules/part/main.tf",
        "resource \"terraform_data\" \"inner\" {}\n",
    ),
    ("size.tfvars", "size = 3\n"),
];

/// One that answers nothing: these roots have no provider that would ask.
fn silent() -> Api {
    Api::start(|_| Answer::Silence)
}

fn plan_of(files: &[(&str, &str)]) -> Ask {
    ask(Mode::Plan, &[(Bundle, bundle(files))])
}

/// A plan of [`ROOT`], and its bundle.
async fn planned(api: &Api) -> (Vec<u8>, Vec<u8>) {
    let mut plan = plan_of(ROOT);
    plan.work.var_files = vec!["size.tfvars".to_owned()];
    let run = plan.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Changes, "{}", run.told());
    (bundle(ROOT), run.artifact(Made::Plan).unwrap().to_vec())
}

fn outcome(run: &Run) -> Outcome {
    assert_eq!(run.failure, None, "{}", run.told());
    run.terraform.as_ref().expect("a result").outcome()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[tokio::test]
async fn what_is_planned_is_told_and_applied() {
    let api = silent();
    let mut plan = ask(
        Mode::Plan,
        &[
            (Bundle, bundle(ROOT)),
            (Variables, br#"{"secret":"hunter2-hunter2"}"#.to_vec()),
        ],
    );
    plan.work.var_files = vec!["size.tfvars".to_owned()];
    let run = plan.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Changes);
    assert_eq!(run.phases, ["unpack", "init", "plan"]);
    let result = run.terraform.as_ref().unwrap();
    assert_eq!(result.diagnostics, []);
    assert!(
        result.terraform_version.starts_with("1.11."),
        "{}",
        result.terraform_version
    );
    let saved = run.artifact(Made::Plan).unwrap().to_vec();

    let facts = ask(
        Mode::Facts,
        &[(Bundle, bundle(ROOT)), (Plan, saved.clone())],
    );
    let run = facts.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Done);
    assert_eq!(run.phases, ["unpack", "init", "show"]);
    let shown = json(run.artifact(Made::PlanJson).unwrap());
    assert_eq!(shown["resource_changes"].as_array().unwrap().len(), 3);
    assert_eq!(shown["variables"]["size"]["value"], 3);
    assert_eq!(shown["variables"]["secret"]["value"], "hunter2-hunter2");

    let apply = ask(
        Mode::Apply,
        &[(Bundle, bundle(ROOT)), (Plan, saved.clone())],
    );
    let run = apply.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Done);
    let operations = &run.terraform.as_ref().unwrap().operations;
    let mut told: Vec<_> = operations
        .iter()
        .map(|it| (it.address.as_str(), it.action.as_str(), it.state()))
        .collect();
    told.sort_unstable_by_key(|it| it.0);
    let applied = operation::State::Applied;
    assert_eq!(
        told,
        [
            ("module.part.terraform_data.inner", "create", applied),
            ("terraform_data.first", "create", applied),
            ("terraform_data.second", "create", applied),
        ]
    );
    // Told as they went, for whoever loses the result.
    for operation in operations {
        let steps = run
            .operations
            .iter()
            .filter(|it| it.address == operation.address);
        let steps: Vec<_> = steps.map(Operation::state).collect();
        assert_eq!(steps, [operation::State::Started, applied], "{operation:?}");
    }
    let state = run.artifact(Made::State).unwrap().to_vec();
    assert_eq!(json(&state)["resources"].as_array().unwrap().len(), 3);

    // The same plan over the state it led to: Terraform knows it is stale, and nothing is done.
    let again = ask(
        Mode::Apply,
        &[
            (Bundle, bundle(ROOT)),
            (State, state.clone()),
            (Plan, saved),
        ],
    );
    let run = again.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Failed);
    let result = run.terraform.as_ref().unwrap();
    assert_eq!(result.diagnostics[0].summary, "Saved plan is stale");
    assert_eq!(result.operations, []);
    assert_eq!(run.artifacts, [], "a state that did not change is not sent");

    let mut replan = ask(
        Mode::Plan,
        &[
            (Bundle, bundle(ROOT)),
            (State, state),
            (Variables, br#"{"secret":"hunter2-hunter2"}"#.to_vec()),
        ],
    );
    replan.work.var_files = vec!["size.tfvars".to_owned()];
    let run = replan.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Done, "{}", run.told());
    assert_eq!(api.requests(), []);
}

#[tokio::test]
async fn another_workspace_has_its_own_name_and_the_state_that_came() {
    let api = silent();
    let files = [(
        "main.tf",
        "resource \"terraform_data\" \"a\" { input = terraform.workspace }\n",
    )];
    let mut plan = plan_of(&files);
    plan.work.workspace = "blue".to_owned();
    let run = plan.run(api.described()).await;
    let saved = run.artifact(Made::Plan).unwrap().to_vec();
    let mut apply = ask(
        Mode::Apply,
        &[(Bundle, bundle(&files)), (Plan, saved.clone())],
    );
    let run = apply.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Failed, "a plan is its workspace's");
    apply.work.workspace = "blue".to_owned();
    let run = apply.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Done);
    let state = json(run.artifact(Made::State).unwrap());
    assert_eq!(
        state["resources"][0]["instances"][0]["attributes"]["input"]["value"],
        "blue"
    );
}

#[tokio::test]
async fn a_local_backend_of_the_roots_own_does_not_move_the_state() {
    let api = silent();
    let text = "terraform {
  backend \"local\" { path = \"elsewhere.tfstate\" }
}
resource \"terraform_data\" \"a\" {}
";
    let files = bundle(&[("main.tf", text)]);
    let plan = ask(Mode::Plan, &[(Bundle, files.clone())]);
    let run = plan.run(api.described()).await;
    let saved = run.artifact(Made::Plan).unwrap().to_vec();
    let apply = ask(Mode::Apply, &[(Bundle, files.clone()), (Plan, saved)]);
    let run = apply.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Done);
    let state = run.artifact(Made::State).unwrap().to_vec();
    let again = ask(Mode::Plan, &[(Bundle, files), (State, state)]);
    assert_eq!(outcome(&again.run(api.described()).await), Outcome::Done);
}

#[tokio::test]
async fn a_backend_of_a_state_that_lives_elsewhere_is_not_looked_at() {
    let api = silent();
    for (file, text) in [
        (
            "main.tf",
            "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n  }\n}\nresource \"terraform_data\" \"a\" {}\n",
        ),
        (
            "main.tf",
            "terraform {\n  cloud {\n    organization = \"o\"\n  }\n}\nresource \"terraform_data\" \"a\" {}\n",
        ),
        (
            "main.tf.json",
            r#"{"terraform": {"backend": {"http": {"address": "https://state.example"}}},
                "resource": {"terraform_data": {"a": {}}}}"#,
        ),
    ] {
        let files = bundle(&[(file, text)]);
        let plan = || ask(Mode::Plan, &[(Bundle, files.clone())]);
        let run = plan().run(api.described()).await;
        assert_eq!(outcome(&run), Outcome::Failed, "{text}");
        let mut plan = plan();
        plan.work.state_elsewhere = true;
        let run = plan.run(api.described()).await;
        assert_eq!(outcome(&run), Outcome::Changes, "{text}: {}", run.told());
        let saved = run.artifact(Made::Plan).unwrap().to_vec();

        let mut facts = ask(
            Mode::Facts,
            &[(Bundle, files.clone()), (Plan, saved.clone())],
        );
        facts.work.state_elsewhere = true;
        let run = facts.run(api.described()).await;
        let shown = json(run.artifact(Made::PlanJson).unwrap());
        assert_eq!(shown["resource_changes"][0]["address"], "terraform_data.a");

        let mut apply = ask(Mode::Apply, &[(Bundle, files), (Plan, saved)]);
        apply.work.state_elsewhere = true;
        let run = apply.run(api.described()).await;
        assert_eq!(run.failure.unwrap().0, Kind::BadInput);
    }
}

#[tokio::test]
async fn a_plan_that_fails_leaves_no_plan_and_says_where_it_failed() {
    let api = silent();
    let run = plan_of(&[(
        "main.tf",
        "\n\nresource \"terraform_data\" \"a\" {\n  input = nothing.there\n}\n",
    )])
    .run(api.described())
    .await;
    assert_eq!(outcome(&run), Outcome::Failed);
    assert_eq!(run.artifacts, []);
    let said = &run.terraform.as_ref().unwrap().diagnostics[0];
    assert!(said.error);
    assert_eq!((said.file.as_str(), said.line), ("main.tf", 4));
    assert_eq!(said.summary, "Reference to undeclared resource");

    // Before it plans at all.
    let run = plan_of(&[("main.tf", "resource {\n")])
        .run(api.described())
        .await;
    assert_eq!(outcome(&run), Outcome::Failed);
    assert_eq!(run.phases, ["unpack", "init"]);
    let run = plan_of(&[("main.tf", "variable \"needed\" {}\n")])
        .run(api.described())
        .await;
    let said = &run.terraform.as_ref().unwrap().diagnostics;
    assert_eq!(
        said[0].summary, "No value for required variable",
        "{said:?}"
    );
}

#[tokio::test]
async fn a_plan_of_other_sources_is_told_from_the_bundles() {
    let api = silent();
    let (_, saved) = planned(&api).await;
    let changed = |path: &str, text: &'static str| {
        let mut files = ROOT.to_vec();
        match files.iter_mut().find(|(known, _)| *known == path) {
            Some(file) => file.1 = text,
            None => files.push((path.to_owned().leak(), text)),
        }
        files
    };
    let lock = "provider \"registry.terraform.io/hashicorp/x\" {\n version = \"1.0.0\"\n}\n";
    for (files, names) in [
        (changed("main.tf", "# nothing\n"), "another \"main.tf\""),
        (
            changed("modules/part/main.tf", ""),
            "another \"modules/part/main.tf\"",
        ),
        (changed("more.tf", ""), "another \"more.tf\""),
        (changed("more.tf.json", "{}"), "another \"more.tf.json\""),
        (
            changed("modules/part/more.tf", ""),
            "another \"modules/part/more.tf\"",
        ),
        (
            ROOT[1..].to_vec(),
            "\"tfconfig/m-/main.tf\", which is in none",
        ),
        (changed(".terraform.lock.hcl", lock), "another lock file"),
        (
            changed(".terraform.lock.hcl", "resource"),
            "another lock file",
        ),
    ] {
        for mode in [Mode::Facts, Mode::Apply] {
            let ask = ask(mode, &[(Bundle, bundle(&files)), (Plan, saved.clone())]);
            let (kind, detail) = ask.run(api.described()).await.failure.expect("a failure");
            assert_eq!(kind, Kind::PlanDiffers, "{detail}");
            assert!(detail.contains(names), "{detail}");
        }
    }
    // What Terraform does not read as its configuration is not in a plan.
    let other = changed("notes/main.txt", "x");
    let facts = ask(Mode::Facts, &[(Bundle, bundle(&other)), (Plan, saved)]);
    assert_eq!(outcome(&facts.run(api.described()).await), Outcome::Done);
    for garbage in [&b"PK\x05\x06"[..], b"{}", &[0; 100]] {
        let facts = ask(
            Mode::Facts,
            &[(Bundle, bundle(ROOT)), (Plan, garbage.to_vec())],
        );
        let (kind, detail) = facts.run(api.described()).await.failure.unwrap();
        assert_eq!(kind, Kind::PlanDiffers);
        assert!(detail.contains("no zip file"), "{detail}");
    }
}

#[tokio::test]
async fn work_that_makes_no_sense_is_refused_before_terraform_runs() {
    let api = silent();
    let good = || plan_of(ROOT);
    let with = |change: fn(&mut Ask)| {
        let mut ask = good();
        change(&mut ask);
        ask
    };
    let work = |change: fn(&mut Terraform)| {
        let mut ask = good();
        change(&mut ask.work);
        ask
    };
    let facts = |change: fn(&mut Ask)| {
        let mut ask = ask(
            Mode::Facts,
            &[(Bundle, bundle(ROOT)), (Plan, b"x".to_vec())],
        );
        change(&mut ask);
        ask
    };
    for (ask, kind, says) in [
        (
            with(|it| it.credential.clear()),
            Kind::Internal,
            "credential has 0 bytes",
        ),
        (
            facts(|it| it.credential = CANARY.to_owned()),
            Kind::BadInput,
            "must not have one",
        ),
        (
            facts(|it| it.work.var_files = vec!["size.tfvars".to_owned()]),
            Kind::BadInput,
            "variable files",
        ),
        (
            work(|it| it.workspace = "../x".to_owned()),
            Kind::BadInput,
            "workspace",
        ),
        (
            work(|it| it.workspace = "-x".to_owned()),
            Kind::BadInput,
            "workspace",
        ),
        (
            work(|it| it.objects = vec![sandbox_proto::runner::v1::Object::default()]),
            Kind::BadInput,
            "objects",
        ),
        (
            work(|it| it.var_files = vec!["-x".to_owned()]),
            Kind::BadInput,
            "no variable file",
        ),
        (
            work(|it| it.var_files = vec!["main.tf".to_owned()]),
            Kind::BadInput,
            "no variable file",
        ),
        (
            work(|it| it.var_files = vec!["/etc/x.tfvars".to_owned()]),
            Kind::BadInput,
            "no variable file",
        ),
        (work(|it| it.mode = 0), Kind::BadInput, "mode"),
        (work(|it| it.mode = 9), Kind::BadInput, "mode"),
        (
            with(|it| it.inputs[0][0] ^= 1),
            Kind::BadInput,
            "BUNDLE does not have the SHA-256",
        ),
        (
            ask(Mode::Plan, &[(Bundle, b"no archive".to_vec())]),
            Kind::BadInput,
            "the bundle is damaged",
        ),
    ] {
        let run = ask.run(api.described()).await;
        let phases = run.phases.clone();
        let (was, detail) = run.failure();
        assert_eq!(was, kind, "{detail}");
        assert!(detail.contains(says), "{detail}");
        assert!(!phases.contains(&"init".to_owned()), "{detail}: {phases:?}");
    }
}

#[tokio::test]
async fn inputs_come_in_their_place_or_end_the_session() {
    async fn ending(api: &Api, play: impl AsyncFnOnce(&mut Daemon)) -> (Ending, String) {
        let ended = with_session(async |daemon| {
            daemon.prove(prove(api.described(), nobody())).await;
            let start = plan_of(ROOT).start(api.described());
            daemon.send(to_runner::Frame::Start(start)).await;
            play(daemon).await;
            while let Some(frame) = daemon.next().await {
                assert!(
                    !matches!(frame, from_runner::Frame::Finished(_)),
                    "{frame:?}"
                );
            }
        });
        let abort = ended.await.0.unwrap_err();
        (abort.ending(), abort.to_string())
    }
    let api = silent();
    let ended = ending(&api, async |daemon| daemon.chunk(b"").await).await;
    assert_eq!(
        ended,
        (
            Ending::Violation,
            "the daemon sent an empty chunk".to_owned()
        )
    );
    let ended = ending(&api, async |daemon| {
        daemon.chunk(&vec![0; 1024 * 1024 + 1]).await;
    })
    .await;
    assert_eq!(ended.0, Ending::Violation);
    assert!(ended.1.contains("over the limit"), "{}", ended.1);
    let ended = ending(&api, async |daemon| {
        let bundle = bundle(ROOT);
        daemon.chunk(&bundle[..100]).await;
        daemon.ping_pong(1).await;
        daemon.chunk(&bundle).await;
    });
    assert!(ended.await.1.contains("beyond the end of its input"));
    let ended = ending(&api, async |daemon| {
        let again = plan_of(ROOT).start(api.described());
        daemon.send(to_runner::Frame::Start(again)).await;
    });
    let said = "the daemon sent Start while it waited for Chunk";
    assert_eq!(ended.await, (Ending::Violation, said.to_owned()));
    let ended = ending(&api, async |daemon| {
        daemon.chunk(&bundle(ROOT)).await;
        daemon.chunk(b"more").await;
    });
    let said = "the daemon sent Chunk while it worked";
    assert_eq!(ended.await, (Ending::Violation, said.to_owned()));

    // And before there is a Start at all.
    let (ended, ()) = with_session(async |daemon| daemon.chunk(b"x").await).await;
    assert_eq!(ended.unwrap_err().ending(), Ending::Violation);
    // A daemon that never sends them is not waited for.
    let mut late = plan_of(ROOT);
    late.inputs.clear();
    late.timeout_ms = 200;
    let (kind, detail) = late.run(api.described()).await.failure();
    assert_eq!(
        (kind, detail.as_str()),
        (Kind::Timeout, "the inputs did not come in time")
    );
}
