//! What the proxy lets pass: by method, path, query and headers, and for a write by its body.
#![cfg(test)]

use http::Method;
use sandbox_proto::runner::v1::Object;
use sandbox_runner::proxy::rules::{Head, Pass, Rules};
use serde_json::{Value, json};

/// A request as the provider could make it. The content type is the usual one for its method.
struct Sent<'a> {
    method: Method,
    target: &'a str,
    content_type: &'a str,
    body: Vec<u8>,
    upgrade: bool,
}

fn sent<'a>(method: &str, target: &'a str) -> Sent<'a> {
    let content_type = match method {
        "POST" | "PUT" => "application/json",
        "PATCH" => "application/strategic-merge-patch+json",
        _ => "",
    };
    Sent {
        method: method.parse().unwrap(),
        target,
        content_type,
        body: Vec::new(),
        upgrade: false,
    }
}

impl<'a> Sent<'a> {
    fn with(mut self, body: &Value) -> Self {
        self.body = body.to_string().into_bytes();
        self
    }

    fn raw(mut self, body: &str) -> Self {
        self.body = body.as_bytes().to_vec();
        self
    }

    fn typed(mut self, content_type: &'a str) -> Self {
        self.content_type = content_type;
        self
    }

    /// Passed on, or why not.
    fn at(&self, rules: &Rules) -> Result<(), String> {
        let (path, query) = match self.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (self.target, None),
        };
        let head = Head {
            method: &self.method,
            path,
            query,
            content_type: self.content_type,
            upgrade: self.upgrade,
        };
        match rules.admit(&head)? {
            Pass::Read => Ok(()),
            Pass::Write(form, identities) => form.check(&self.body, &identities),
        }
    }
}

const WEB: &str = "/apis/apps/v1/namespaces/demo-app/deployments/web";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/demo-app/deployments";

fn planning() -> Rules {
    Rules::reads(vec!["demo-app".to_owned(), "other".to_owned()])
}

fn object(resource: &str, kind: &str, name: &str, verbs: &str) -> Object {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    Object {
        group: group.to_owned(),
        resource: resource.to_owned(),
        kind: kind.to_owned(),
        namespace: if resource == "namespaces" {
            ""
        } else {
            "demo-app"
        }
        .to_owned(),
        name: name.to_owned(),
        create: verbs.contains('c'),
        update: verbs.contains('u'),
        delete: verbs.contains('d'),
        absent: Vec::new(),
    }
}

/// A plan that replaces one Deployment, updates another, creates a `ConfigMap` and a namespace, and
/// deletes a Service.
fn applying() -> Rules {
    Rules::writes(
        vec!["demo-app".to_owned()],
        vec![
            object("deployments.apps", "Deployment", "web", "cd"),
            object("deployments.apps", "Deployment", "api", "u"),
            object("configmaps", "ConfigMap", "settings", "c"),
            object("services", "Service", "old", "d"),
            object("namespaces", "Namespace", "fresh", "c"),
        ],
    )
}

fn web() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "demo-app", "labels": { "app": "web" } },
        "spec": { "replicas": 2 },
    })
}

fn changed(mut value: Value, pointer: &str, to: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if to.is_null() {
        parent.remove(key);
    } else {
        parent.insert(key.to_owned(), to);
    }
    value
}

fn assert_all_pass(rules: &Rules, all: Vec<Sent<'_>>) {
    for sent in all {
        let said = sent.at(rules);
        assert_eq!(said, Ok(()), "{} {}", sent.method, sent.target);
    }
}

/// Each with a word of why.
fn assert_none_passes(rules: &Rules, all: Vec<(Sent<'_>, &str)>) {
    for (sent, why) in all {
        match sent.at(rules) {
            Ok(()) => panic!("{} {} passed", sent.method, sent.target),
            Err(said) => assert!(
                said.contains(why),
                "{} {}: {said}",
                sent.method,
                sent.target
            ),
        }
    }
}

#[test]
fn reads_pass_in_the_roots_namespaces_while_planning_and_applying() {
    for rules in [planning(), applying()] {
        assert_all_pass(
            &rules,
            vec![
                sent("GET", "/version"),
                sent("GET", "/api/v1"),
                sent("GET", "/apis/apps/v1?timeout=32s"),
                sent("GET", "/openapi/v2"),
                sent("GET", WEB),
                sent("HEAD", WEB),
                sent("GET", "/api/v1/namespaces/demo-app"),
                sent("GET", "/api/v1/namespaces/demo-app/secrets"),
                sent(
                    "GET",
                    "/api/v1/namespaces/demo-app/pods?labelSelector=app%3Dweb&limit=5&continue=x",
                ),
                sent(
                    "GET",
                    "/apis/apps/v1/namespaces/demo-app/deployments/web/status",
                ),
            ],
        );
    }
}

#[test]
fn what_has_no_namespace_is_read_where_it_is_written() {
    assert_all_pass(&applying(), vec![sent("GET", "/api/v1/namespaces/fresh")]);
    let why = "none of the root's namespaces";
    assert_none_passes(
        &planning(),
        vec![(sent("GET", "/api/v1/namespaces/fresh"), why)],
    );
}

#[test]
fn no_other_read_passes() {
    let mut upgrade = sent("GET", WEB);
    upgrade.upgrade = true;
    assert_none_passes(
        &planning(),
        vec![
            (
                sent("GET", "/api/v1/namespaces/kube-system/secrets"),
                "kube-system",
            ),
            (sent("GET", "/api/v1/namespaces/kube-system"), "kube-system"),
            (sent("GET", "/api/v1/namespaces"), "none of the root's"),
            (sent("GET", "/api/v1/pods"), "outside the root's namespaces"),
            (
                sent("GET", "/api/v1/nodes/sandbox"),
                "outside the root's namespaces",
            ),
            (
                sent("GET", "/api/v1/namespaces/demo-app/pods/web/log"),
                "log",
            ),
            (
                sent("GET", "/api/v1/namespaces/demo-app/pods/web/exec?command=x"),
                "exec",
            ),
            (
                sent("GET", "/api/v1/namespaces/demo-app/pods/web/portforward"),
                "portforward",
            ),
            (
                sent("GET", "/api/v1/namespaces/demo-app/services/web/proxy"),
                "proxy",
            ),
            (
                sent("GET", "/api/v1/namespaces/demo-app/services/web/proxy/x"),
                "deeper",
            ),
            (
                sent("GET", "/api/v1/namespaces/demo-app/pods?watch=true"),
                "watch",
            ),
            (
                sent("GET", "/api/v1/namespaces/demo-app/pods?%77atch=1"),
                "watch",
            ),
            (
                sent("GET", "/api/v1/namespaces/demo-app/pods?a;watch=1"),
                "';'",
            ),
            (
                sent("GET", "/api/v1/watch/namespaces/demo-app/pods"),
                "path",
            ),
            (
                sent("GET", "/api/v1/namespaces/demo-app/../kube-system/secrets"),
                "path",
            ),
            (
                sent(
                    "GET",
                    "/api/v1/namespaces/demo-app%2f..%2fkube-system/secrets",
                ),
                "path",
            ),
            (sent("GET", "/metrics"), "path"),
            (sent("GET", "/"), "path"),
            (upgrade, "another protocol"),
        ],
    );
}

#[test]
fn while_planning_nothing_is_written() {
    let plan = "this is a plan";
    assert_none_passes(
        &planning(),
        vec![
            (sent("POST", DEPLOYMENTS).with(&web()), plan),
            (
                sent("POST", &format!("{DEPLOYMENTS}?dryRun=All")).with(&web()),
                plan,
            ),
            (sent("PUT", WEB).with(&web()), plan),
            (sent("PATCH", WEB).with(&json!({})), plan),
            (sent("DELETE", WEB), plan),
            (sent("OPTIONS", WEB), plan),
            (
                sent("POST", "/version").with(&json!({})),
                "nothing can be written",
            ),
        ],
    );
}

#[test]
fn the_writes_of_the_approved_plan_pass() {
    let configmap = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": {},
    });
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "fresh" } });
    let api = WEB.replace("/web", "/api");
    let operations = json!([
        { "op": "replace", "path": "/spec", "value": {} },
        { "op": "add", "path": "/metadata/labels/app.kubernetes.io~1name", "value": "x" },
        { "op": "remove", "path": "/metadata/annotations" },
    ]);
    let mut all = vec![
        sent("POST", DEPLOYMENTS).with(&web()),
        sent("POST", DEPLOYMENTS).with(&changed(web(), "/metadata/namespace", Value::Null)),
        sent(
            "POST",
            "/api/v1/namespaces/demo-app/configmaps?dryRun=All&fieldManager=tf",
        )
        .with(&configmap),
        sent("POST", "/api/v1/namespaces").with(&namespace),
        sent("DELETE", WEB),
        sent(
            "DELETE",
            "/api/v1/namespaces/demo-app/services/old?propagationPolicy=Foreground",
        )
        .typed("application/json")
        .with(&json!({ "kind": "DeleteOptions", "apiVersion": "v1" })),
    ];
    all.extend([
        sent("PATCH", &api)
            .typed("application/json-patch+json")
            .with(&operations),
        sent("PATCH", &api).with(&json!({ "metadata": { "labels": {} }, "spec": {} })),
        sent("PATCH", &api)
            .typed("application/merge-patch+json; charset=utf-8")
            .with(&json!({})),
        sent("PATCH", &api)
            .typed("application/apply-patch+yaml")
            .with(&changed(web(), "/metadata/name", "api".into())),
        sent("PUT", &api).with(&changed(web(), "/metadata/name", "api".into())),
    ]);
    assert_all_pass(&applying(), all);
}

#[test]
fn no_write_outside_the_approved_plan_passes() {
    let api = WEB.replace("/web", "/api");
    let scale = format!("{api}/scale");
    assert_none_passes(
        &applying(),
        vec![
            // Another verb than the plan's.
            (
                sent("PATCH", WEB).with(&json!({})),
                "does not update deployments.apps web in demo-app",
            ),
            (sent("PUT", WEB).with(&web()), "does not update"),
            (sent("DELETE", &api), "does not delete deployments.apps api"),
            (
                sent("POST", "/api/v1/namespaces/demo-app/services"),
                "does not create",
            ),
            // Another object.
            (
                sent(
                    "DELETE",
                    "/apis/apps/v1/namespaces/demo-app/deployments/other",
                ),
                "other",
            ),
            (
                sent("DELETE", "/apis/apps/v1/namespaces/other/deployments/web"),
                "in other",
            ),
            (
                sent(
                    "DELETE",
                    "/apis/apps/v1/namespaces/demo-app/statefulsets/web",
                ),
                "statefulsets",
            ),
            (
                sent(
                    "DELETE",
                    "/apis/extensions/v1/namespaces/demo-app/deployments/web",
                ),
                "extensions",
            ),
            (
                sent("DELETE", "/api/v1/namespaces/demo-app"),
                "does not delete namespaces",
            ),
            (
                sent("POST", "/api/v1/namespaces/demo-app/secrets").with(&json!({})),
                "secrets",
            ),
            (
                sent(
                    "POST",
                    "/api/v1/namespaces/demo-app/serviceaccounts/default/token",
                ),
                "token",
            ),
            (
                sent("POST", "/api/v1/namespaces/demo-app/pods/web/eviction"),
                "eviction",
            ),
            (
                sent("POST", "/api/v1/namespaces/demo-app/pods/web/binding"),
                "binding",
            ),
            (
                sent("POST", "/api/v1/namespaces/demo-app/pods/web/exec"),
                "exec",
            ),
            (
                sent(
                    "POST",
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                ),
                "does not create",
            ),
            (sent("PUT", &scale).with(&json!({})), "scale"),
        ],
    );
}

#[test]
fn no_write_in_another_way_than_one_object_at_a_time_passes() {
    let api = WEB.replace("/web", "/api");
    let many = format!("{WEB}?fieldSelector=x");
    assert_none_passes(
        &applying(),
        vec![
            (sent("DELETE", DEPLOYMENTS), "DELETE of a collection"),
            (sent("POST", WEB).with(&web()), "POST of an object"),
            (sent("OPTIONS", WEB), "OPTIONS"),
            (sent("DELETE", &many), "fieldSelector"),
            (
                sent("DELETE", WEB)
                    .typed("application/json")
                    .raw("{\"kind\":\"x\"}"),
                "DeleteOptions",
            ),
            (
                sent("DELETE", WEB)
                    .typed("application/vnd.kubernetes.protobuf")
                    .raw("k8s"),
                "type",
            ),
            (
                sent("PATCH", &api).typed("application/yaml").raw("a: b"),
                "application/yaml",
            ),
            (sent("PATCH", &api).typed("").raw("{}"), "patch of type"),
            (
                sent("PUT", &api)
                    .typed("application/vnd.kubernetes.protobuf")
                    .raw("k8s"),
                "type",
            ),
        ],
    );
}

#[test]
fn a_body_that_is_about_another_object_does_not_pass() {
    let post = |body: &Value| sent("POST", DEPLOYMENTS).with(body);
    let text = web().to_string();
    assert_none_passes(
        &applying(),
        vec![
            (
                post(&changed(web(), "/metadata/name", "api".into())),
                "metadata.name",
            ),
            (
                post(&changed(web(), "/metadata/name", Value::Null)),
                "no metadata.name",
            ),
            (
                post(&changed(web(), "/metadata/generateName", "web-".into())),
                "generateName",
            ),
            (
                post(&changed(web(), "/metadata/namespace", "other".into())),
                "metadata.namespace",
            ),
            (
                post(&changed(web(), "/metadata/Namespace", "other".into())),
                "Namespace",
            ),
            (post(&changed(web(), "/kind", "StatefulSet".into())), "kind"),
            (post(&changed(web(), "/kind", Value::Null)), "no kind"),
            (
                post(&changed(web(), "/apiVersion", "apps/v1beta1".into())),
                "apiVersion",
            ),
            (post(&changed(web(), "/apiVersion", 1.into())), "apiVersion"),
            (
                post(&changed(web(), "/Metadata", json!({ "name": "x" }))),
                "Metadata",
            ),
            (
                post(&changed(web(), "/metadata", "web".into())),
                "metadata is no JSON object",
            ),
            (post(&json!([web()])), "its body is no JSON object"),
            (sent("POST", DEPLOYMENTS), "no plain JSON"),
            (
                sent("POST", DEPLOYMENTS)
                    .raw(&text.replace("\"kind\":", "\"kind\":\"Pod\",\"kind\":")),
                "twice",
            ),
            (
                sent("POST", DEPLOYMENTS)
                    .raw(&text.replace("\"name\":", "\"name\":\"x\",\"name\":")),
                "twice",
            ),
            (
                sent("POST", DEPLOYMENTS).raw("kind: Deployment"),
                "no plain JSON",
            ),
        ],
    );
}

#[test]
fn a_patch_that_makes_another_object_of_it_does_not_pass() {
    let api = WEB.replace("/web", "/api");
    let patch = |body: Value| sent("PATCH", &api).with(&body);
    let operations = |body: Value| {
        sent("PATCH", &api)
            .typed("application/json-patch+json")
            .with(&body)
    };
    let replace = |path: &str| json!([{ "op": "replace", "path": path, "value": "x" }]);
    assert_none_passes(
        &applying(),
        vec![
            (
                patch(json!({ "metadata": { "name": "web" } })),
                "metadata.name",
            ),
            (
                patch(json!({ "metadata": { "namespace": "other" } })),
                "metadata.namespace",
            ),
            (patch(json!({ "kind": "Pod" })), "kind"),
            (operations(replace("")), "touches"),
            (operations(replace("/")), "touches"),
            (operations(replace("spec")), "touches"),
            (operations(replace("/kind")), "touches"),
            (operations(replace("/apiVersion")), "touches"),
            (operations(replace("/metadata")), "touches"),
            (operations(replace("/metadata/name")), "touches"),
            (
                operations(replace("/metadata/ownerReferences/0")),
                "touches",
            ),
            (operations(replace("/metadata/finalizers")), "touches"),
            (operations(replace("/status/replicas")), "touches"),
            (
                operations(json!([{ "op": "move", "path": "/spec/x", "from": "/metadata/name" }])),
                "touches",
            ),
            (operations(json!([{ "op": "remove" }])), "no path"),
            (
                operations(json!([{ "op": "remove", "Path": "/spec" }])),
                "Path",
            ),
            (
                operations(json!({ "op": "remove", "path": "/spec" })),
                "no list",
            ),
        ],
    );
}

#[test]
fn two_creates_in_one_collection_are_told_apart_by_name() {
    let rules = Rules::writes(
        vec!["demo-app".to_owned()],
        ["a", "b"]
            .map(|name| object("configmaps", "ConfigMap", name, "c"))
            .to_vec(),
    );
    let post = |name: &str| {
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        sent("POST", "/api/v1/namespaces/demo-app/configmaps").with(&body)
    };
    assert_all_pass(&rules, vec![post("a"), post("b")]);
    assert_none_passes(&rules, vec![(post("c"), "metadata.name is \"c\"")]);
}

/// A Deployment of which the approved plan leaves some out, and one of which it does not.
fn leaving_out(verbs: &str, absent: &[&str]) -> Rules {
    let web = Object {
        absent: absent.iter().map(|&at| at.to_owned()).collect(),
        ..object("deployments.apps", "Deployment", "web", verbs)
    };
    let api = object("deployments.apps", "Deployment", "api", verbs);
    Rules::writes(vec!["demo-app".to_owned()], vec![web, api])
}

const VOLUMES: &str = "/spec/template/spec/volumes";

fn with_volumes(volumes: &Value) -> Value {
    let template = json!({ "spec": { "volumes": volumes } });
    changed(web(), "/spec/template", template)
}

#[test]
fn a_write_leaves_out_what_the_approved_plan_leaves_out() {
    let rules = leaving_out("cud", &["/spec/strategy", VOLUMES]);
    let operations = |to: Value| {
        let replace = json!([{ "op": "replace", "path": "/spec", "value": to["spec"] }]);
        sent("PATCH", WEB)
            .typed("application/json-patch+json")
            .with(&replace)
    };
    let host = json!([{ "name": "v", "hostPath": { "path": "/of-the-host" } }]);
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
    let delete = sent("DELETE", WEB).typed("application/json").with(&options);
    let mut all = vec![sent("DELETE", WEB), delete];
    for nothing in [json!(null), json!(""), json!([]), json!({})] {
        let body = with_volumes(&nothing);
        all.push(sent("POST", DEPLOYMENTS).with(&body));
        all.push(sent("PUT", WEB).with(&body));
        all.push(operations(body));
    }
    // The other one may have them.
    let other = changed(with_volumes(&host), "/metadata/name", "api".into());
    let path = WEB.replace("/web", "/api");
    all.push(sent("POST", DEPLOYMENTS).with(&other));
    all.push(sent("PUT", &path).with(&other));
    all.push(sent("PATCH", &path).with(&other));
    assert_all_pass(&rules, all);

    let dry = format!("{DEPLOYMENTS}?dryRun=All");
    let says = format!("{VOLUMES:?}, which the approved plan leaves out");
    for something in [host, json!([{}]), json!("v"), json!(false), json!(0)] {
        let body = with_volumes(&something);
        let writes = [
            sent("POST", DEPLOYMENTS).with(&body),
            sent("POST", &dry).with(&body),
            sent("PUT", WEB).with(&body),
            operations(body),
        ];
        for sent in writes {
            let why = sent.at(&rules).unwrap_err();
            assert!(why.ends_with(&says), "{} {why}", sent.method);
            assert!(!why.contains("host"), "{why}");
        }
    }
}

#[test]
fn what_cannot_be_held_to_the_approved_plan_does_not_pass() {
    let rules = leaving_out("cu", &[VOLUMES]);
    let harmless = web();
    let copy = json!([{ "op": "copy", "from": "/metadata/annotations", "path": "/spec/template" }]);
    let mut all = vec![(
        sent("PATCH", WEB)
            .typed("application/json-patch+json")
            .with(&copy),
        VOLUMES,
    )];
    for patch in [
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ] {
        all.push((sent("PATCH", WEB).typed(patch).with(&harmless), VOLUMES));
    }
    assert_none_passes(&rules, all);
    for bad in ["spec/template", "/spec/~2"] {
        let rules = leaving_out("cu", &[bad]);
        assert_none_passes(
            &rules,
            vec![
                (sent("POST", DEPLOYMENTS).with(&harmless), "no JSON pointer"),
                (sent("PUT", WEB).with(&harmless), "no JSON pointer"),
            ],
        );
    }
}

#[test]
fn an_object_that_is_listed_twice_is_held_to_both() {
    let listed = |absent: &[&str]| Object {
        absent: absent.iter().map(|&at| at.to_owned()).collect(),
        ..object("deployments.apps", "Deployment", "web", "c")
    };
    for objects in [
        [listed(&[]), listed(&[VOLUMES])],
        [listed(&[VOLUMES]), listed(&[])],
    ] {
        let rules = Rules::writes(vec!["demo-app".to_owned()], objects.to_vec());
        let post = |volumes: Value| sent("POST", DEPLOYMENTS).with(&with_volumes(&volumes));
        assert_all_pass(&rules, vec![post(json!([]))]);
        assert_none_passes(&rules, vec![(post(json!([{}])), VOLUMES)]);
    }
}
