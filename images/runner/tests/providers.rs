//! Terraform with the provider of the image, through the proxy: what it applies is the plan's and comes
//! back operation by operation, and what is not in the plan gets 403 and is told.
#![cfg(test)]

mod sides;

use std::thread::sleep;
use std::time::Duration;

use memchr::memmem::find;
use sandbox_core::plan::{MAX_CHANGES, MAX_PLAN_BYTES, PlanFacts, PlanGuard};
use sandbox_proto::runner::v1::artifact::Kind as Made;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_proto::runner::v1::input::Kind::{Bundle, Plan, State};
use sandbox_proto::runner::v1::operation::State as Went;
use sandbox_proto::runner::v1::terraform::Mode;
use sandbox_proto::runner::v1::terraform_result::Outcome;
use sandbox_proto::runner::v1::{ApiCall, Diagnostic, Object};
use serde_json::{Value, json};
use sides::CANARY;
use sides::api_server::{Answer, Api, Request};
use sides::daemon::Run;
use sides::objects::Objects;
use sides::terraform::{Ask, ask, bundle, lock_file};

const CONFIGMAPS: &str = "/api/v1/namespaces/demo-app/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/demo-app/deployments";

/// `ConfigMap`s one after another: each waits for the one before.
fn root(names: &[&str]) -> Vec<(&'static str, String)> {
    let mut blocks = vec![
        "terraform {
  required_providers {
    kubernetes = {
      source  = \"hashicorp/kubernetes\"
      version = \"1.13.4\"
    }
  }
}
provider \"kubernetes\" {}
"
        .to_owned(),
    ];
    let mut after = String::new();
    for name in names {
        blocks.push(format!(
            "resource \"kubernetes_config_map\" \"{name}\" {{
  metadata {{
    name      = \"{name}\"
    namespace = \"demo-app\"
  }}
  data = {{ of = \"{name}\" }}
  {after}
}}
"
        ));
        after = format!("depends_on = [kubernetes_config_map.{name}]");
    }
    vec![
        ("main.tf", blocks.concat()),
        (".terraform.lock.hcl", lock_file()),
    ]
}

fn packed(files: &[(&str, String)]) -> Vec<u8> {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    bundle(&files)
}

fn configmap(name: &str) -> Object {
    Object {
        resource: "configmaps".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: "demo-app".to_owned(),
        name: name.to_owned(),
        create: true,
        ..Object::default()
    }
}

/// Plans it, and asks for the apply of that, with these objects allowed.
async fn apply_of(api: &Api, files: &[(&str, String)], allowed: &[&str]) -> Ask {
    let plan = ask(Mode::Plan, &[(Bundle, packed(files))])
        .run(api.described())
        .await;
    assert_eq!(outcome(&plan), Outcome::Changes, "{}", plan.told());
    let saved = plan.artifact(Made::Plan).unwrap().to_vec();
    let mut apply = ask(Mode::Apply, &[(Bundle, packed(files)), (Plan, saved)]);
    apply.work.objects = allowed.iter().map(|name| configmap(name)).collect();
    apply
}

/// A Deployment with a volume of the host for each item of a list, which is known only after apply.
fn late_volumes(list: &str) -> Vec<(&'static str, String)> {
    let mut files = root(&[]);
    let text = format!(
        "resource \"terraform_data\" \"late\" {{ input = {list} }}
resource \"kubernetes_deployment\" \"web\" {{
  wait_for_rollout = false
  metadata {{
    name      = \"web\"
    namespace = \"demo-app\"
  }}
  spec {{
    selector {{
      match_labels = {{ app = \"web\" }}
    }}
    template {{
      metadata {{
        labels = {{ app = \"web\" }}
      }}
      spec {{
        container {{
          name  = \"web\"
          image = \"example/web:1\"
        }}
        dynamic \"volume\" {{
          for_each = terraform_data.late.output
          content {{
            name = volume.value
            host_path {{
              path = \"/of-the-host\"
            }}
          }}
        }}
      }}
    }}
  }}
}}
"
    );
    files[0].1 += &text;
    files
}

/// Plans it, and asks for the apply of that, with what the daemon reads in the plan allowed.
async fn apply_as_read(api: &Api, files: &[(&str, String)]) -> Ask {
    let mut apply = apply_of(api, files, &[]).await;
    let [source, plan] = apply.inputs.clone().try_into().unwrap();
    let facts = ask(Mode::Facts, &[(Bundle, source), (Plan, plan)])
        .run(api.described())
        .await;
    let guard = PlanGuard {
        namespaces: ["demo-app".parse().unwrap()].into(),
        kinds: ["deployments.apps".parse().unwrap()].into(),
        max_changes: MAX_CHANGES,
        max_bytes: MAX_PLAN_BYTES,
    };
    let facts = PlanFacts::read(facts.artifact(Made::PlanJson).unwrap(), &guard).unwrap();
    let [web] = facts.writes.try_into().unwrap();
    assert!(web.create && !web.update && !web.delete);
    apply.work.objects = vec![Object {
        group: web.object.group,
        resource: web.object.resource,
        kind: web.object.kind,
        namespace: web.object.namespace.unwrap().to_string(),
        name: web.object.name,
        create: web.create,
        update: web.update,
        delete: web.delete,
        absent: web.absent,
    }];
    apply
}

fn outcome(run: &Run) -> Outcome {
    assert_eq!(run.failure, None, "{}", run.told());
    run.terraform.as_ref().expect("a result").outcome()
}

fn states(run: &Run) -> Vec<Value> {
    let states = run
        .artifacts
        .iter()
        .filter(|(kind, _)| *kind == Made::State);
    states
        .map(|(_, bytes)| serde_json::from_slice(bytes).unwrap())
        .collect()
}

/// The names of the `ConfigMap`s in a state.
fn names(state: &Value) -> Vec<&str> {
    let resources = state["resources"].as_array().unwrap();
    resources
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect()
}

fn went(run: &Run) -> Vec<(&str, Went)> {
    let operations = &run.terraform.as_ref().unwrap().operations;
    operations
        .iter()
        .map(|it| (it.address.rsplit('.').next().unwrap(), it.state()))
        .collect()
}

fn refused(run: &Run) -> Vec<&ApiCall> {
    run.calls
        .iter()
        .filter(|call| !call.refused.is_empty())
        .collect()
}

#[tokio::test]
#[ignore = "needs the image's providers: images/mirror"]
async fn each_operation_of_an_apply_brings_its_state_at_once() {
    let objects = Objects::default();
    let there = objects.clone();
    let api = Api::start(move |request| {
        if request.method == "POST" {
            sleep(Duration::from_millis(300));
        }
        there.answer(request)
    });
    let files = root(&["a", "b", "c"]);
    let apply = apply_of(&api, &files, &["a", "b", "c"]).await;
    assert_eq!(objects.paths(), [""; 0], "a plan writes nothing");
    let run = apply.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Done, "{}", run.told());
    assert_eq!(
        objects.paths(),
        ["a", "b", "c"].map(|name| format!("{CONFIGMAPS}/{name}"))
    );
    assert_eq!(
        went(&run),
        ["a", "b", "c"].map(|name| (name, Went::Applied))
    );
    assert!(refused(&run).is_empty(), "{:?}", refused(&run));
    let posts: Vec<_> = run
        .calls
        .iter()
        .filter(|call| call.method == "POST")
        .collect();
    assert_eq!(posts.len(), 3);
    assert!(
        posts
            .iter()
            .all(|call| call.status == 201 && call.elapsed_ms >= 300),
        "{posts:?}"
    );

    let states = states(&run);
    let known: Vec<_> = states.iter().map(names).collect();
    for upto in [&["a"][..], &["a", "b"], &["a", "b", "c"]] {
        assert!(known.contains(&upto.to_vec()), "{known:?}");
    }
    assert!(known.is_sorted_by_key(Vec::len), "{known:?}");
    let serials: Vec<_> = states
        .iter()
        .map(|state| state["serial"].as_u64().unwrap())
        .collect();
    assert!(serials.is_sorted(), "{serials:?}");
    assert!(
        states
            .iter()
            .all(|state| state["lineage"] == states[0]["lineage"])
    );
    println!(
        "serials {serials:?}, resources {:?}",
        known.iter().map(Vec::len).collect::<Vec<_>>()
    );

    for request in api.requests() {
        assert_eq!(request.authorization, format!("Bearer {CANARY}"));
    }
    // Over that state there is nothing to do, and something to read.
    let last = run.artifact(Made::State).unwrap().to_vec();
    let again = ask(Mode::Plan, &[(Bundle, packed(&files)), (State, last)]);
    let run = again.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Done, "{}", run.told());
    assert!(
        run.calls
            .iter()
            .all(|call| call.method == "GET" && call.status == 200),
        "{:?}",
        run.calls
    );
    println!("a plan of 3 took {} calls", run.calls.len());
}

#[tokio::test]
#[ignore = "needs the image's providers: images/mirror"]
async fn a_write_outside_the_approved_plan_gets_403_and_is_told() {
    let objects = Objects::default();
    let there = objects.clone();
    let api = Api::start(move |request| there.answer(request));
    let files = root(&["a", "b", "c"]);
    let apply = apply_of(&api, &files, &["a"]).await;
    let run = apply.run(api.described()).await;
    assert_eq!(outcome(&run), Outcome::Failed);
    assert_eq!(went(&run), [("a", Went::Applied), ("b", Went::Failed)]);
    assert_eq!(objects.paths(), [format!("{CONFIGMAPS}/a")]);
    let [call] = refused(&run).try_into().unwrap();
    assert_eq!(
        (call.method.as_str(), call.path.as_str(), call.status),
        ("POST", CONFIGMAPS, 403)
    );
    assert!(
        call.refused.contains("metadata.name is \"b\""),
        "{}",
        call.refused
    );
    let said = &run.terraform.as_ref().unwrap().diagnostics;
    assert!(
        said[0].summary.contains("agent-sandbox lets no POST"),
        "{said:?}"
    );
    let states = states(&run);
    assert_eq!(names(states.last().unwrap()), ["a"]);
}

#[tokio::test]
#[ignore = "needs the image's providers: images/mirror"]
async fn volumes_that_no_plan_could_show_get_403_and_are_told() {
    // The same plan both times: that the list has an item is known when it is applied.
    for (list, refuses) in [("[]", false), ("[\"v\"]", true)] {
        let objects = Objects::default();
        let there = objects.clone();
        let api = Api::start(move |request| there.answer(request));
        let apply = apply_as_read(&api, &late_volumes(list)).await;
        let run = apply.run(api.described()).await;
        if !refuses {
            assert_eq!(outcome(&run), Outcome::Done, "{}", run.told());
            assert_eq!(objects.paths(), [format!("{DEPLOYMENTS}/web")]);
            assert!(refused(&run).is_empty(), "{:?}", refused(&run));
            continue;
        }
        assert_eq!(outcome(&run), Outcome::Failed, "{}", run.told());
        assert_eq!(went(&run), [("late", Went::Applied), ("web", Went::Failed)]);
        assert_eq!(objects.paths(), [""; 0]);
        let [call] = refused(&run).try_into().unwrap();
        assert_eq!(
            (call.method.as_str(), call.path.as_str(), call.status),
            ("POST", DEPLOYMENTS, 403)
        );
        let why =
            "its body sets \"/spec/template/spec/volumes\", which the approved plan leaves out";
        assert_eq!(call.refused, why);
        let said = &run.terraform.as_ref().unwrap().diagnostics;
        assert!(said[0].summary.contains(why), "{said:?}");
    }
}

#[tokio::test]
#[ignore = "needs the image's providers: images/mirror"]
async fn an_apply_that_outlasts_its_time_tells_what_it_did() {
    let objects = Objects::default();
    let there = objects.clone();
    let api = Api::start(move |request: &Request| {
        let name = request.json()["metadata"]["name"].clone();
        if request.method == "POST" && name == "b" {
            Answer::Silence
        } else {
            there.answer(request)
        }
    });
    let files = root(&["a", "b", "c"]);
    let mut apply = apply_of(&api, &files, &["a", "b", "c"]).await;
    apply.timeout_ms = 6_000;
    let run = apply.run(api.described()).await;
    let (kind, detail) = run.failure.clone().unwrap();
    assert_eq!(kind, Kind::Timeout, "{detail}");
    let result = run.terraform.as_ref().unwrap();
    assert_eq!(result.outcome(), Outcome::Failed);
    let went = went(&run);
    assert_eq!(went[0], ("a", Went::Applied));
    assert_eq!(went[1].0, "b");
    assert_ne!(went[1].1, Went::Applied);
    assert_eq!(went.len(), 2, "c was not started");
    assert_eq!(names(states(&run).last().unwrap()), ["a"]);
}

#[tokio::test]
#[ignore = "needs the image's providers: images/mirror"]
async fn a_create_that_waits_beyond_its_time_leaves_a_state_that_knows_of_it() {
    let objects = Objects::default();
    let there = objects.clone();
    // No pod of it ever gets ready.
    let api = Api::start(move |request| there.answer(request));
    let files = late_volumes("[]");
    let waits = files[0].1.replace("wait_for_rollout = false", "");
    let files = [("main.tf", waits), files[1].clone()];
    let mut apply = apply_as_read(&api, &files).await;
    apply.timeout_ms = 20_000;
    let run = apply.run(api.described()).await;
    let (kind, detail) = run.failure.clone().unwrap();
    assert_eq!(kind, Kind::Timeout, "{detail}");
    assert_eq!(went(&run), [("late", Went::Applied), ("web", Went::Failed)]);
    let state = &states(&run).pop().unwrap();
    assert_eq!(names(state), ["web", "late"]);
    assert_eq!(state["resources"][0]["instances"][0]["status"], "tainted");
    let last = refused(&run).pop().expect("a look that came too late");
    assert_eq!(
        (last.method.as_str(), last.refused.as_str()),
        ("GET", "the time for it is over")
    );
}

#[tokio::test]
#[ignore = "needs the image's providers: images/mirror"]
async fn an_api_server_that_repeats_the_token_does_not_get_it_into_a_plan() {
    let api = Api::start(|request| {
        let token = request.authorization.trim_start_matches("Bearer ");
        assert_eq!(token, CANARY);
        let text = format!(
            "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"a\",\
             \"namespace\":\"demo-app\",\"uid\":\"u\"}},\"data\":{{\"of\":\"{token}\"}}}}"
        );
        Answer::Http(
            200,
            vec![("Content-Type", "application/json".to_owned())],
            text.into(),
        )
    });
    let mut files = root(&[]);
    files[0].1 += "data \"kubernetes_config_map\" \"a\" {
  metadata {
    name      = \"a\"
    namespace = \"demo-app\"
  }
}
output \"of\" { value = strrev(data.kubernetes_config_map.a.data.of) }
";
    let run = ask(Mode::Plan, &[(Bundle, packed(&files))])
        .run(api.described())
        .await;
    assert_eq!(outcome(&run), Outcome::Changes, "{}", run.told());
    let saved = run.artifact(Made::Plan).unwrap().to_vec();
    let facts = ask(Mode::Facts, &[(Bundle, packed(&files)), (Plan, saved)]);
    let run = facts.run(api.described()).await;
    let shown = run.artifact(Made::PlanJson).unwrap();
    let stars = "*".repeat(CANARY.len());
    assert!(find(shown, stars.as_bytes()).is_some(), "it was read");
    let reversed: String = CANARY.chars().rev().collect();
    for token in [CANARY, &reversed] {
        assert!(find(shown, token.as_bytes()).is_none());
    }
}

/// A state with one `ConfigMap`, of that provider block and that version of the provider's schema.
fn state_of(provider: &str, schema: u32) -> Vec<u8> {
    let metadata =
        json!([{ "name": "a", "namespace": "demo-app", "annotations": null, "labels": null }]);
    json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 3, "lineage": "6f1c", "outputs": {}, "resources": [{
            "mode": "managed", "type": "kubernetes_config_map", "name": "a", "provider": provider,
            "instances": [{ "schema_version": schema, "attributes": {
                "id": "demo-app/a", "metadata": metadata, "data": { "of": "a" },
            } }],
        }],
    })
    .to_string()
    .into_bytes()
}

#[tokio::test]
#[ignore = "needs the image's providers: images/mirror"]
async fn what_does_not_fit_the_image_fails_in_terraforms_words_and_by_its_place() {
    let api = Api::start(|_| Answer::Silence);
    let kubernetes = "provider[\"registry.terraform.io/hashicorp/kubernetes\"]";
    let lacks = "resource \"kubernetes_manifest\" \"a\" {\n  manifest = {}\n}\n";
    let other = "resource \"random_id\" \"a\" {\n  byte_length = 1\n}\n";
    let function = "output \"a\" {\n  value = provider::kubernetes::manifest_decode(\"\")\n}\n";
    for (what, source, state, summary, place) in [
        // The resource left the source together with the alias it was made by.
        (
            "an alias that is gone",
            "",
            Some(state_of(&format!("{kubernetes}.west"), 0)),
            "Provider configuration not present",
            "kubernetes_config_map.a",
        ),
        (
            "a newer provider's state",
            "",
            Some(state_of(kubernetes, 99)),
            "Resource instance managed by newer provider version",
            "kubernetes_config_map.a",
        ),
        (
            "a kind that the provider lacks",
            lacks,
            None,
            "Invalid resource type",
            "more.tf:1",
        ),
        (
            "a provider that the image lacks",
            other,
            None,
            "Failed to query available provider packages",
            "hashicorp/random",
        ),
        (
            "a function that the provider lacks",
            function,
            None,
            "Unknown provider function",
            "more.tf:2",
        ),
    ] {
        let mut files = root(&[]);
        files.push(("more.tf", source.to_owned()));
        let state = state.map(|state| (State, state));
        let inputs: Vec<_> = [Some((Bundle, packed(&files))), state]
            .into_iter()
            .flatten()
            .collect();
        let run = ask(Mode::Plan, &inputs).run(api.described()).await;
        assert_eq!(outcome(&run), Outcome::Failed, "{what}");
        let said = &run.terraform.as_ref().unwrap().diagnostics;
        let places = |d: &Diagnostic| format!("{}:{} {} {}", d.file, d.line, d.address, d.detail);
        assert!(
            said.iter()
                .any(|d| d.summary == summary && places(d).contains(place)),
            "{what}: {said:?}"
        );
        assert!(run.artifact(Made::Plan).is_none(), "{what}");
    }
}

#[tokio::test]
#[ignore = "needs the image's providers: images/mirror"]
async fn a_lock_file_of_other_bytes_is_refused_in_terraforms_words() {
    let api = Api::start(|_| Answer::Silence);
    let mut files = root(&["a"]);
    for (lock, says) in [
        (files[1].1.replace("h1:", "h1:0"), "checksums"),
        (files[1].1.replace("1.13.4", "1.13.3"), "1.13.3"),
        (String::new(), "lock file"),
    ] {
        files[1].1 = lock;
        let run = ask(Mode::Plan, &[(Bundle, packed(&files))])
            .run(api.described())
            .await;
        assert_eq!(outcome(&run), Outcome::Failed);
        assert_eq!(run.phases, ["unpack", "init"]);
        let said = format!("{:?}", run.terraform.unwrap().diagnostics);
        assert!(said.contains(says), "{said}");
    }
}
