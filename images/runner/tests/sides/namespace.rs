//! A namespace on the cluster that `scripts/up` brought up, and a runner's pod in it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use sandbox_proto::runner::v1::{ApiServer, PodStatus};
use serde_json::{Value, json};

use super::daemon::{Run, prove, start, with_session};
use super::nobody;

/// A namespace on the cluster that `scripts/up` brought up, and a token that reads its pods.
pub struct Namespace {
    pub name: String,
    kubeconfig: PathBuf,
    pub api_server: ApiServer,
    pub token: String,
    exists: bool,
}

impl Namespace {
    pub fn create(test: &str) -> Self {
        let mut namespace = Self {
            name: format!("runner-test-{test}-{}", std::process::id()),
            kubeconfig: kubeconfig(),
            api_server: ApiServer::default(),
            token: String::new(),
            exists: false,
        };
        let described = "go-template={{with index .clusters 0}}{{.cluster.server}} \
            {{index .cluster \"certificate-authority-data\" | base64decode}}{{end}}";
        let view = [
            "config",
            "view",
            "--raw",
            "--minify",
            "--flatten",
            "-o",
            described,
        ];
        let described = namespace.run(&view);
        let (server, ca_pem) = described.split_once(' ').unwrap();
        namespace.api_server = ApiServer {
            endpoints: vec![server.replace("https://", "")],
            server_name: "kubernetes.default.svc".to_owned(),
            ca_pem: ca_pem.to_owned(),
        };
        let name = namespace.name.clone();
        namespace.apply(&json!([
            { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } },
            { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": name } },
            { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "reader", "namespace": name } },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": { "name": "reader", "namespace": name },
                "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": { "name": "reader", "namespace": name },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
                "subjects": [{ "kind": "ServiceAccount", "name": "reader", "namespace": name }],
            },
        ]));
        namespace.exists = true;
        let token = namespace.run(&["create", "token", "reader"]);
        token.trim().clone_into(&mut namespace.token);
        namespace
    }

    /// The image that `scripts/up` has built.
    pub fn image(&self) -> String {
        let of_all = "jsonpath={.data.*}";
        let configmap = ["-n", "sandbox-jobs", "get", "configmap", "sandbox-images"];
        let images = self.run(&[&configmap[..], &["-o", of_all]].concat());
        let first = images.split_whitespace().next();
        first
            .expect("an image that scripts/up has built")
            .to_owned()
    }

    /// The listener that nobody in a sandbox may reach.
    pub fn probe(&self) -> SocketAddr {
        let of_first = "jsonpath={.items[0].status.podIP}";
        let address = self.run(&["-n", "sandbox-probe", "get", "pods", "-o", of_first]);
        format!("{address}:7777").parse().unwrap()
    }

    /// Creates what [`sandbox`] gives, and waits for the pod.
    pub fn start_sandbox(&self, items: &Value) {
        self.apply(items);
        let ready = ["--for=condition=Ready", "--timeout=60s"];
        self.run(&[&["wait", "pod/sandbox"], &ready[..]].concat());
    }

    /// Attaches to that pod's runner, as the daemon does.
    pub fn attach(&self) -> tokio::process::Command {
        let mut kubectl = tokio::process::Command::new("kubectl");
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig);
        let exec = ["exec", "-i", "sandbox", "--", "/runner", "attach"];
        kubectl.args(["-n", &self.name]).args(exec);
        kubectl
    }

    /// kubectl's stdout.
    pub fn run(&self, args: &[&str]) -> String {
        self.run_with(args, "")
    }

    pub fn run_with(&self, args: &[&str], input: &str) -> String {
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--namespace", &self.name])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl in PATH");
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let feeding = thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn apply(&self, items: &Value) {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
        self.run_with(
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            &list,
        );
    }

    /// Creates the pods and writes their status.
    pub fn create_pods(&self, pods: &[Value]) {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": pods }).to_string();
        self.run_with(&["create", "-f", "-"], &list);
        if pods.iter().any(|pod| !pod["status"].is_null()) {
            self.run_with(&["replace", "--subresource=status", "-f", "-"], &list);
        }
    }

    /// One request, with the namespace's own token.
    pub async fn read(&self, work: PodStatus) -> Run {
        let (_, run) = with_session(async |daemon| {
            let hello = daemon.prove(prove(self.api_server.clone(), nobody())).await;
            assert!(hello.egress.as_ref().unwrap().closed, "{hello:?}");
            let mut start = start(self.api_server.clone(), work);
            start.credential = self.token.clone().into();
            daemon.run(start).await
        })
        .await;
        run
    }

    pub fn all_pods(&self) -> PodStatus {
        PodStatus {
            namespace: self.name.clone(),
            limit: 500,
            max_bytes: 1024 * 1024,
            ..PodStatus::default()
        }
    }

    /// The API server's own table of the pods: READY, STATUS and the number of RESTARTS, by name.
    pub fn table(&self) -> BTreeMap<String, String> {
        let table = self.run(&["get", "pods", "--no-headers"]);
        let rows = table
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| {
                let columns: Vec<_> = line.split_whitespace().collect();
                (columns[0].to_owned(), columns[1..4].join(" "))
            });
        rows.collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !self.exists {
            return;
        }
        // Deleting waits for pods that a finalizer holds.
        let freed = r#"{"metadata":{"finalizers":null}}"#;
        for pod in self
            .run(&["get", "pods", "-l", "held", "-o", "name"])
            .lines()
        {
            self.run(&["patch", pod, "--type=merge", "-p", freed]);
        }
        self.run(&["delete", "namespace", &self.name, "--wait=false"]);
    }
}

/// As `scripts/test` gives it, or where the native node keeps it.
fn kubeconfig() -> PathBuf {
    if let Some(path) = std::env::var_os("KUBECONFIG") {
        return path.into();
    }
    let home = std::env::var("AGENT_SANDBOX_HOME");
    let home = home.unwrap_or_else(|_| "/var/lib/agent-sandbox".to_owned());
    PathBuf::from(home).join("node/kube/admin.conf")
}

/// A runner's pod as a Job has it: gVisor, nothing granted, nothing reachable but the API server.
pub fn sandbox(namespace: &Namespace, image: &str) -> Value {
    let (address, port) = namespace.api_server.endpoints[0].rsplit_once(':').unwrap();
    let to = json!([{ "ipBlock": { "cidr": format!("{address}/32") } }]);
    let ports = json!([{ "protocol": "TCP", "port": port.parse::<u16>().unwrap() }]);
    json!([
        {
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": { "name": "api-server-alone", "namespace": namespace.name },
            "spec": {
                "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
                "egress": [{ "to": to, "ports": ports }],
            },
        },
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "sandbox", "namespace": namespace.name },
            "spec": {
                "runtimeClassName": "gvisor", "restartPolicy": "Never", "dnsPolicy": "Default",
                "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "securityContext": {
                    "runAsUser": 65532, "runAsGroup": 65532, "runAsNonRoot": true,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                "containers": [{
                    "name": "runner", "image": image, "imagePullPolicy": "IfNotPresent",
                    "args": ["hold", "--idle-seconds", "60"],
                    "resources": { "limits": { "cpu": "1", "memory": "128Mi" } },
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                        "capabilities": { "drop": ["ALL"] },
                    },
                }],
            },
        },
    ])
}
