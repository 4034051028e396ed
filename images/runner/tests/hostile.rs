//! What hostile HCL, or a provider that is not what it should be, can do in a sandbox: nothing it can
//! read has the credential in it, nothing it writes while planning gets through, and it ends in time.
#![cfg(test)]

mod sides;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memchr::memmem::find;
use sandbox_proto::runner::v1::artifact::Kind as Made;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_proto::runner::v1::input::Kind::{Bundle, Plan};
use sandbox_proto::runner::v1::terraform::Mode;
use sandbox_proto::runner::v1::terraform_result::Outcome;
use sandbox_proto::runner::v1::to_runner;
use sandbox_runner::ending::Ending;
use sandbox_runner::places::Places;
use sides::api_server::{Answer, Api};
use sides::daemon::{Run, prove, with_session_at};
use sides::terraform::{Ask, ask, base64, bundle, real};
use sides::{CANARY, PATIENCE, nobody};
use tokio::time::sleep;

/// A root that is as good as any.
const ROOT: &[(&str, &str)] = &[("main.tf", "resource \"terraform_data\" \"a\" {}\n")];

/// One that answers nothing: these roots have no provider that would ask.
fn silent() -> Api {
    Api::start(|_| Answer::Silence)
}

fn plan_of(files: &[(&str, &str)]) -> Ask {
    ask(Mode::Plan, &[(Bundle, bundle(files))])
}

fn outcome(run: &Run) -> Outcome {
    assert_eq!(run.failure, None, "{}", run.told());
    run.terraform.as_ref().expect("a result").outcome()
}

/// Prints every file that is easy to find, in ways no mask sees through.
const CURIOUS: &str = r#"
locals {
  found = concat(
    [for f in fileset("${path.cwd}/..", "**") : "${path.cwd}/../${f}" if !startswith(f, "data/providers")],
    ["/proc/self/environ", "/proc/self/cmdline", "/proc/self/mounts"],
  )
  read = { for f in local.found : f => try(filebase64(f), "unreadable") }
}
output "plain" { value = { for f, text in local.read : f => try(base64decode(text), "binary") } }
output "reversed" { value = { for f, text in local.read : f => try(strrev(base64decode(text)), "binary") } }
output "coded" { value = local.read }
resource "terraform_data" "a" {
  input = local.read
  lifecycle {
    precondition {
      condition     = length(local.read) == 0
      error_message = "read ${jsonencode(local.read)}"
    }
  }
}
"#;

/// Neither the token, nor it reversed, in base64 at any offset, or in parts.
fn assert_no_canary(bytes: &[u8], what: &str) {
    for part in CANARY.as_bytes().windows(12) {
        let backwards: Vec<_> = part.iter().rev().copied().collect();
        assert!(find(bytes, part).is_none(), "{what} has the token");
        assert!(
            find(bytes, &backwards).is_none(),
            "{what} has the token backwards"
        );
    }
    for skip in 0..3 {
        let coded = base64(&CANARY.as_bytes()[skip..skip + 12]);
        assert!(
            find(bytes, coded.as_bytes()).is_none(),
            "{what} has the token in base64"
        );
    }
}

#[test]
fn the_search_for_the_token_finds_it() {
    assert_eq!(base64(b"any carnal p"), "YW55IGNhcm5hbCBw");
    let found = |text: String| {
        std::panic::catch_unwind(move || assert_no_canary(text.as_bytes(), "it")).is_err()
    };
    assert!(found(CANARY[5..30].to_owned()));
    assert!(found(CANARY.chars().rev().collect()));
    assert!(found(base64(&CANARY.as_bytes()[..30])));
    assert!(found(base64(&[b"x", &CANARY.as_bytes()[..29]].concat())));
    assert!(!found("nothing".to_owned()));
}

#[tokio::test]
async fn hcl_that_prints_every_file_does_not_find_the_credential() {
    let api = silent();
    let places = real();
    let (run, received) = plan_of(&[("main.tf", CURIOUS)])
        .run_with(api.described(), &places)
        .await;
    assert_eq!(
        outcome(&run),
        Outcome::Failed,
        "the precondition does not hold"
    );
    let said = &run.terraform.as_ref().unwrap().diagnostics;
    assert!(
        said.iter().any(|it| it.detail.contains("read {")),
        "{said:?}"
    );
    assert_no_canary(&received, "a frame");

    let curious = CURIOUS.replace("== 0", "> 3");
    let (run, received) = plan_of(&[("main.tf", &curious)])
        .run_with(api.described(), &places)
        .await;
    assert_eq!(outcome(&run), Outcome::Changes, "{}", run.told());
    assert_no_canary(&received, "a frame");
    let files = bundle(&[("main.tf", &curious)]);
    let plan = run.artifact(Made::Plan).unwrap().to_vec();
    let facts = ask(Mode::Facts, &[(Bundle, files), (Plan, plan)]);
    let run = facts.run(api.described()).await;
    let shown = run.artifact(Made::PlanJson).unwrap();
    // It did read what there is.
    assert!(find(shown, b"filesystem_mirror").is_some());
    assert!(find(shown, b"TF_DATA_DIR").is_some());
    assert_no_canary(shown, "the plan");
}

/// A program in Terraform's place.
fn stand_in(script: &str) -> (tempfile::TempDir, Places) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("terraform");
    fs::write(&program, format!("#!/bin/bash\n{script}")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let places = Places {
        terraform: program,
        providers: Path::new("/nowhere").to_owned(),
        ..Places::default()
    };
    (folder, places)
}

/// What a hostile provider could do: everything a process there can.
const HOSTILE: &str = r#"
[ "$1" != init ] || exit 0
host=${KUBE_HOST#http://}
ask() {
  exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
  printf '%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mine\r\nImpersonate-User: admin\r\n' "$1" "$2" >&3
  printf '%b\r\n' "${3:-}" >&3
  head -n 1 <&3 >&2
  exec 3>&-
}
ask GET /api/v1/namespaces/demo-app/configmaps/a
ask POST /api/v1/namespaces/demo-app/configmaps 'Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'
ask DELETE /api/v1/namespaces/demo-app/configmaps/a
ask GET /api/v1/namespaces/kube-system/secrets
ask GET /api/v1/namespaces/demo-app/pods/a/exec 'Connection: upgrade\r\nUpgrade: websocket\r\n'
env >&2
exit 1
"#;

#[tokio::test]
async fn while_planning_a_write_gets_403_and_is_told() {
    let token = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&token);
    let api = Api::start(move |request| {
        seen.lock()
            .unwrap()
            .push(format!("{} {:?}", request.authorization, request.headers));
        Answer::refusal(404, &format!("{} not found", request.authorization))
    });
    let (_folder, places) = stand_in(HOSTILE);
    let (run, received) = plan_of(ROOT).run_with(api.described(), &places).await;
    assert_eq!(outcome(&run), Outcome::Failed);
    let told: Vec<_> = run
        .calls
        .iter()
        .map(|it| {
            (
                it.method.as_str(),
                it.path.as_str(),
                it.status,
                it.refused.as_str(),
            )
        })
        .collect();
    let plan = "this is a plan: only GET passes";
    let configmaps = "/api/v1/namespaces/demo-app/configmaps";
    assert_eq!(
        told,
        [
            ("GET", "/api/v1/namespaces/demo-app/configmaps/a", 404, ""),
            ("POST", configmaps, 403, plan),
            (
                "DELETE",
                "/api/v1/namespaces/demo-app/configmaps/a",
                403,
                plan
            ),
            (
                "GET",
                "/api/v1/namespaces/kube-system/secrets",
                403,
                "\"kube-system\" is none of the root's namespaces"
            ),
            (
                "GET",
                "/api/v1/namespaces/demo-app/pods/a/exec",
                403,
                "it asks for another protocol"
            ),
        ]
    );
    let said = &run.terraform.as_ref().unwrap().diagnostics[0];
    assert!(said.detail.contains("TF_DATA_DIR="), "{}", said.detail);
    assert_no_canary(&received, "a frame");
    let seen = token.lock().unwrap();
    let [only] = seen.as_slice() else {
        panic!("{seen:?}");
    };
    assert!(
        only.starts_with(&format!("Bearer {CANARY} ")),
        "its own header was replaced"
    );
    assert!(!only.to_lowercase().contains("impersonate"), "{only}");
}

#[tokio::test]
async fn terraform_gets_a_listed_environment_and_nothing_else() {
    let api = silent();
    let (_folder, places) = stand_in("[ \"$1\" = init ] && exit 0\nenv | sort >&2; exit 1\n");
    let (run, _) = plan_of(ROOT).run_with(api.described(), &places).await;
    let said = &run.terraform.as_ref().unwrap().diagnostics[0];
    assert_eq!(said.summary, "Terraform ended with exit code 1");
    let mut names: Vec<_> = said
        .detail
        .lines()
        .map(|line| line.split('=').next().unwrap())
        .collect();
    // The shell's own.
    names.retain(|name| !matches!(*name, "PWD" | "SHLVL" | "_" | "OLDPWD"));
    assert_eq!(
        names,
        [
            "CHECKPOINT_DISABLE",
            "HOME",
            "KUBE_HOST",
            "KUBE_LOAD_CONFIG_FILE",
            "TF_CLI_CONFIG_FILE",
            "TF_DATA_DIR",
            "TF_INPUT",
            "TF_IN_AUTOMATION",
            "TMPDIR",
        ]
    );
}

#[tokio::test]
async fn a_daemon_that_leaves_takes_terraform_with_it() {
    let api = silent();
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let file = pids.display();
    let script = format!("sleep 600 &\necho $$ $! >{file}.new\nmv {file}.new {file}\nwait\n");
    let (program, places) = stand_in(&script);
    let places = Places {
        work: program.path().to_owned(),
        ..places
    };
    let (ended, ()) = with_session_at(&places, async |daemon| {
        daemon.prove(prove(api.described(), nobody())).await;
        let start = plan_of(ROOT).start(api.described());
        daemon.send(to_runner::Frame::Start(start)).await;
        daemon.chunk(&bundle(ROOT)).await;
        while !pids.exists() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(ended.unwrap_err().ending(), Ending::Gone);
    assert_ended(&pids);
}

#[tokio::test]
async fn a_terraform_that_does_not_stop_is_killed_with_what_it_started() {
    let api = silent();
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!(
        "[ \"$1\" = init ] && exit 0\ntrap '' INT TERM\nsleep 600 &\necho $$ $! >{}\nwait\nwait\n",
        pids.display()
    );
    let (_program, places) = stand_in(&script);
    let mut plan = plan_of(ROOT);
    plan.timeout_ms = 1_500;
    let (run, _) = plan.run_with(api.described(), &places).await;
    let (kind, detail) = run.failure.clone().unwrap();
    assert_eq!(kind, Kind::Timeout, "{detail}");
    assert_eq!(run.terraform.unwrap().outcome(), Outcome::Failed);
    assert_ended(&pids);
}

/// None of the processes in the file runs any more, or will in a moment.
fn assert_ended(pids: &Path) {
    let deadline = Instant::now() + PATIENCE;
    let pids = fs::read_to_string(pids).unwrap();
    // Gone, or waiting for a parent that no longer cares.
    let runs = |pid: &str| {
        let state = fs::read_to_string(format!("/proc/{pid}/stat"));
        state.is_ok_and(|state| !state.contains(") Z "))
    };
    for pid in pids.split_whitespace() {
        while runs(pid) {
            assert!(Instant::now() < deadline, "{pid} still runs");
            std::thread::yield_now();
        }
    }
}
