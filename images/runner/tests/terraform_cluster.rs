//! Terraform against a real Kubernetes API: the one-line edit that replaces a running Deployment is told
//! as that and applied as that, and a root as people have them goes through a real gVisor pod.
#![cfg(test)]

mod sides;

#[path = "../../../daemon/tests/support/sixty.rs"]
mod sixty;

use std::time::Instant;

use sandbox_proto::runner::v1::artifact::Kind as Made;
use sandbox_proto::runner::v1::input::Kind::{Bundle, Plan, State, Variables};
use sandbox_proto::runner::v1::terraform::Mode;
use sandbox_proto::runner::v1::terraform_result::Outcome;
use sandbox_proto::runner::v1::{Object, to_runner};
use serde_json::{Value, json};
use sides::PATIENCE;
use sides::daemon::{Run, prove, with_process};
use sides::namespace::{Namespace, sandbox};
use sides::terraform::{Ask, ask, bundle, lock_file};
use tokio::time::timeout;

const PROVIDER: &str = "terraform {
  required_providers {
    kubernetes = {
      source  = \"hashicorp/kubernetes\"
      version = \"1.13.4\"
    }
  }
}
provider \"kubernetes\" {}
";

/// A Deployment of the runner's own image, which answers PONG.
fn deployment(namespace: &str, name: &str, image: &str, label: &str) -> String {
    format!(
        "resource \"kubernetes_deployment\" \"{name}\" {{
  metadata {{
    name      = \"{name}\"
    namespace = \"{namespace}\"
  }}
  spec {{
    selector {{
      match_labels = {{ app = \"{label}\" }}
    }}
    template {{
      metadata {{
        labels = {{ app = \"{label}\" }}
      }}
      spec {{
        automount_service_account_token  = false
        termination_grace_period_seconds = 0
        container {{
          name  = \"pong\"
          image = \"{image}\"
          args  = [\"pong\", \"--port\", \"7777\"]
        }}
      }}
    }}
  }}
}}
"
    )
}

fn object(namespace: &Namespace, kind: &str, name: &str) -> Object {
    let (group, resource) = match kind {
        "Deployment" => ("apps", "deployments"),
        "Service" => ("", "services"),
        _ => ("", "configmaps"),
    };
    Object {
        group: group.to_owned(),
        resource: resource.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.name.clone(),
        name: name.to_owned(),
        create: true,
        update: true,
        delete: true,
        absent: Vec::new(),
    }
}

/// Gives the namespace a token that may do what a root of these kinds needs.
fn let_terraform_in(namespace: &mut Namespace) {
    let name = namespace.name.clone();
    let metadata = json!({ "name": "terraform", "namespace": name });
    namespace.apply(&json!([
        { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [
                { "apiGroups": ["apps", ""], "resources": ["deployments", "configmaps", "services"], "verbs": ["*"] },
                { "apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"] },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "terraform" },
            "subjects": [{ "kind": "ServiceAccount", "name": "terraform", "namespace": name }],
        },
    ]));
    let token = namespace.run(&["create", "token", "terraform"]);
    token.trim().clone_into(&mut namespace.token);
}

fn in_namespace(namespace: &Namespace, mut ask: Ask) -> Ask {
    ask.work.namespaces = vec![namespace.name.clone()];
    if !ask.credential.is_empty() {
        ask.credential.clone_from(&namespace.token);
    }
    ask.timeout_ms = 300_000;
    ask
}

fn outcome(run: &Run) -> Outcome {
    assert_eq!(run.failure, None, "{}", run.told());
    run.terraform.as_ref().expect("a result").outcome()
}

fn json_of(run: &Run, kind: Made) -> Value {
    serde_json::from_slice(run.artifact(kind).expect("an artifact")).unwrap()
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/up"]
async fn a_label_edit_replaces_a_deployment_and_another_edit_changes_it() {
    let mut namespace = Namespace::create("terraform");
    let_terraform_in(&mut namespace);
    let image = namespace.image();
    let root = |label: &str, port: &str| {
        let text = format!(
            "{PROVIDER}{}",
            deployment(&namespace.name, "web", &image, label)
                .replace("7777\"]", &format!("{port}\"]"))
        );
        bundle(&[("main.tf", &text), (".terraform.lock.hcl", &lock_file())])
    };
    let api = || namespace.api_server.clone();
    let uid = || namespace.run(&["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]);
    let apply = async |mut inputs: Vec<_>| {
        let plan = in_namespace(&namespace, ask(Mode::Plan, &inputs));
        let run = plan.run(api()).await;
        assert_eq!(outcome(&run), Outcome::Changes, "{}", run.told());
        assert!(
            run.calls.iter().all(|call| call.method == "GET"),
            "{:?}",
            run.calls
        );
        let saved = run.artifact(Made::Plan).unwrap().to_vec();
        let facts = ask(Mode::Facts, &[inputs[0].clone(), (Plan, saved.clone())]);
        let shown = json_of(&facts.run(api()).await, Made::PlanJson);
        inputs.push((Plan, saved));
        let mut apply = in_namespace(&namespace, ask(Mode::Apply, &inputs));
        apply.work.objects = vec![object(&namespace, "Deployment", "web")];
        let run = apply.run(api()).await;
        assert_eq!(outcome(&run), Outcome::Done, "{}", run.told());
        println!("{} calls", run.calls.len());
        (shown["resource_changes"][0]["change"].clone(), run)
    };

    let (change, run) = apply(vec![(Bundle, root("web", "7777"))]).await;
    assert_eq!(change["actions"], json!(["create"]));
    let state = run.artifact(Made::State).unwrap().to_vec();
    let before = uid();

    let (change, run) = apply(vec![(Bundle, root("shop", "7777")), (State, state)]).await;
    assert_eq!(change["actions"], json!(["delete", "create"]));
    assert_eq!(
        change["replace_paths"][0],
        json!(["spec", 0, "selector", 0, "match_labels"]),
        "{change}"
    );
    let operations = run.terraform.as_ref().unwrap().operations.iter();
    let told: Vec<_> = operations.map(|it| it.action.as_str()).collect();
    assert_eq!(told, ["delete", "create"]);
    let replaced = uid();
    assert_ne!(replaced, before);

    let state = run.artifact(Made::State).unwrap().to_vec();
    let (change, run) = apply(vec![(Bundle, root("shop", "7778")), (State, state)]).await;
    assert_eq!(change["actions"], json!(["update"]));
    assert!(
        run.calls.iter().any(|call| call.method == "PATCH"),
        "{:?}",
        run.calls
    );
    assert_eq!(uid(), replaced);
}

/// Runs it in the pod `sandbox`, made anew.
async fn run_in_gvisor(namespace: &Namespace, image: &str, ask: &Ask) -> Run {
    let mut items = sandbox(namespace, image);
    let spec = &mut items[1]["spec"];
    let memory = json!({ "medium": "Memory", "sizeLimit": "256Mi" });
    spec["volumes"] = json!([{ "name": "work", "emptyDir": memory }]);
    let container = &mut spec["containers"][0];
    container["volumeMounts"] = json!([{ "name": "work", "mountPath": "/work" }]);
    container["resources"] = json!({
        "requests": { "cpu": "50m", "memory": "64Mi" }, "limits": { "cpu": "2", "memory": "1Gi" },
    });
    namespace.run(&["delete", "pod", "sandbox", "--ignore-not-found"]);
    namespace.start_sandbox(&items);
    let (attach, mut daemon) = with_process(&mut namespace.attach());
    let hello = daemon
        .prove(prove(namespace.api_server.clone(), namespace.probe()))
        .await;
    assert!(hello.egress.as_ref().unwrap().closed, "{hello:?}");
    assert!(hello.kernel.contains("gvisor"), "{hello:?}");
    let began = Instant::now();
    let start = ask.start(namespace.api_server.clone());
    daemon.send(to_runner::Frame::Start(start)).await;
    for input in &ask.inputs {
        for piece in input.chunks(1024 * 1024) {
            daemon.chunk(piece).await;
        }
    }
    let run = daemon.collect().await;
    println!(
        "{:?} in gVisor: {:.1?}, {} calls",
        ask.work.mode(),
        began.elapsed(),
        run.calls.len()
    );
    daemon.close().await;
    timeout(PATIENCE, attach.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    run
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/up"]
async fn sixty_resources_in_three_modules_go_through_a_gvisor_pod() {
    let mut namespace = Namespace::create("sixty");
    let_terraform_in(&mut namespace);
    let image = namespace.image();
    let lock = lock_file();
    let files = [&sixty::FILES[..], &[(".terraform.lock.hcl", &lock)]].concat();
    let root = bundle(&files);
    let values =
        json!({ "namespace": namespace.name, "image": image, "password": "hunter2-hunter2" });
    let secret = values.to_string().into_bytes();
    let plan = ask(
        Mode::Plan,
        &[(Bundle, root.clone()), (Variables, secret.clone())],
    );
    let plan = in_namespace(&namespace, plan);
    let began = Instant::now();
    let outside = plan.run(namespace.api_server.clone()).await;
    println!(
        "Plan outside: {:.1?}, {} calls",
        began.elapsed(),
        outside.calls.len()
    );
    let run = run_in_gvisor(&namespace, &image, &plan).await;
    assert_eq!(outcome(&run), Outcome::Changes, "{}", run.told());
    let saved = run.artifact(Made::Plan).unwrap().to_vec();

    let facts = ask(
        Mode::Facts,
        &[(Bundle, root.clone()), (Plan, saved.clone())],
    );
    let run = run_in_gvisor(&namespace, &image, &facts).await;
    let shown = json_of(&run, Made::PlanJson);
    assert_eq!(shown["resource_changes"].as_array().unwrap().len(), 60);

    let mut apply = in_namespace(
        &namespace,
        ask(Mode::Apply, &[(Bundle, root.clone()), (Plan, saved)]),
    );
    let objects = sixty::objects();
    let objects = objects
        .iter()
        .map(|(kind, name)| object(&namespace, kind, name));
    apply.work.objects = objects.collect();
    let run = run_in_gvisor(&namespace, &image, &apply).await;
    assert_eq!(outcome(&run), Outcome::Done, "{}", run.told());
    assert_eq!(run.terraform.as_ref().unwrap().operations.len(), 60);
    println!("{} states came", run.artifacts.len());
    let state = run.artifact(Made::State).unwrap().to_vec();

    let again = ask(
        Mode::Plan,
        &[(Bundle, root), (State, state), (Variables, secret)],
    );
    let again = in_namespace(&namespace, again);
    let began = Instant::now();
    let outside = again.run(namespace.api_server.clone()).await;
    println!(
        "Plan outside: {:.1?}, {} calls",
        began.elapsed(),
        outside.calls.len()
    );
    let run = run_in_gvisor(&namespace, &image, &again).await;
    assert_eq!(outcome(&run), Outcome::Done, "{}", run.told());
    assert!(
        run.calls.iter().all(|call| call.status == 200),
        "{:?}",
        run.calls
    );
}
