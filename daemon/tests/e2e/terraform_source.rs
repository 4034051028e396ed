//! Nothing of the agent's runs: source that would have Terraform start a program, reach another host or keep
//! its state elsewhere is refused with file and line before any sandbox starts; what is planted is inert.

use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::root::Root;
use crate::trail::names;

/// What is in the source beside the demo: a file, its text, and the place and the word of the refusal.
const REFUSED: [(&str, &str, &str, &str); 13] = [
    (
        "a.tf",
        "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"id\"\n  }\n}\n",
        "a.tf:2",
        "provisioner",
    ),
    (
        "a.tf.json",
        "{\"resource\": {\"terraform_data\": {\"a\":\n  {\"provisioner\": {\"local-exec\": {\"command\": \"id\"}}}}}}\n",
        "a.tf.json:2",
        "provisioner",
    ),
    (
        "a.tf",
        "removed {\n  from = terraform_data.a\n  provisioner \"local-exec\" {\n    when = destroy\n    command = \"id\"\n  }\n}\n",
        "a.tf:3",
        "provisioner",
    ),
    (
        "a.tf",
        "provider \"kubernetes\" {\n  alias = \"b\"\n  exec {\n    command = \"id\"\n  }\n}\n",
        "a.tf:3",
        "exec",
    ),
    (
        "a.tf.json",
        "{\"provider\": {\"kubernetes\":\n  {\"alias\": \"b\", \"exec\": {\"command\": \"id\"}}}}\n",
        "a.tf.json:2",
        "exec",
    ),
    (
        "a.tf",
        "provider \"kubernetes\" {\n  alias = \"b\"\n  host  = \"https://example.com\"\n}\n",
        "a.tf:3",
        "host",
    ),
    (
        "a.tf",
        "data \"external\" \"a\" {\n  program = [\"id\"]\n}\n",
        "a.tf:1",
        "external",
    ),
    (
        "a.tf",
        "module \"a\" {\n  source = \"git::https://example.com/a.git\"\n}\n",
        "a.tf:2",
        "source",
    ),
    (
        "a.tf",
        "terraform {\n  cloud {\n    organization = \"a\"\n  }\n}\n",
        "a.tf:2",
        "cloud",
    ),
    (
        "a_override.tf",
        "terraform {\n  backend \"s3\" {\n    bucket = \"a\"\n  }\n}\n",
        "a_override.tf:2",
        "backend",
    ),
    (
        "a.tf",
        "data \"terraform_remote_state\" \"a\" {\n  backend = \"http\"\n}\n",
        "a.tf:1",
        "terraform_remote_state",
    ),
    (
        "a.tf",
        "ephemeral \"kubernetes_token\" \"a\" {}\n",
        "a.tf:1",
        "ephemeral",
    ),
    ("a.tf", "locals {\n  a = \"\n", "a.tf:2", ""),
];

/// A state that would have Terraform destroy what it names, were it read.
const STATE: &str = r#"{"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "planted", "outputs": {},
  "resources": [{"mode": "managed", "type": "terraform_data", "name": "planted",
    "provider": "provider[\"terraform.io/builtin/terraform\"]",
    "instances": [{"schema_version": 0, "attributes": {"id": "a", "input": null, "output": null, "triggers_replace": null}}]}]}"#;

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn source_that_would_run_something_is_refused_with_its_place_and_what_is_planted_is_inert() {
    let _lock = ClusterLock::take();
    let root = Root::new("e2e-source");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    for (file, text, place, word) in REFUSED {
        root.write(file, text);
        let answer = Root::plan(&mut bridge);
        answer.assert_refused("SOURCE_REFUSED", place);
        assert!(answer.message().contains(word), "{text}: {}", answer.text());
        let events = trail.of_once(answer.request_id(), "tool.result");
        assert_eq!(
            names(&events),
            ["tool.request", "guardrail.decision", "tool.result"],
            "{text}"
        );
        root.remove(file);
    }

    root.write("terraform.tfstate", STATE);
    root.write(".terraform/terraform.tfstate", STATE);
    root.write(
        ".terraform/terraform.tfstate.d/default/terraform.tfstate",
        STATE,
    );
    root.write("planted.tfvars", "image = \"planted\"\n");
    root.write(
        ".hidden.tf",
        "data \"external\" \"a\" {\n  program = [\"id\"]\n}\n",
    );
    let planned = Root::plan(&mut bridge);
    assert_eq!(planned.field("summary"), "1 to add", "{}", planned.text());
    assert_eq!(root.uid(), "");
    assert_nothing_left(&trail);
}
