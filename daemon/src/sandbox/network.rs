//! The one hole in the sandbox namespace's default-deny: the API server's real endpoints, kept in step
//! with its `EndpointSlice` and put right when somebody edits it.
//!
//! Policies see addresses after DNAT, so the `kubernetes` Service's own address would not do. Policies
//! add up: any other one could only open more, so one that appears is an alarm.

use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use sandbox_core::audit::{Event, EventName};
use sandbox_proto::runner::v1::ApiServer;
use tokio::sync::watch;

use crate::audit::Audit;
use crate::lifetime::Lifetime;
use crate::report::chain;

const ALLOW: &str = "allow-api-server";
const DENY: &str = "default-deny";
const CHANGED: &str = "the NetworkPolicy allow-api-server was not what it should be";
/// A change that no watch told of is found this late.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How the sandbox's network stands: what a new sandbox is proven under.
#[derive(Clone, Debug)]
pub(super) struct NetworkState {
    /// Rises whenever the policies were found other than they should be; what was proven before is
    /// proven no longer.
    pub(super) generation: u64,
    pub(super) api_server: ApiServer,
}

/// Knows whether the policies are as they should be. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Network(watch::Receiver<Result<NetworkState, String>>);

struct Keeper {
    client: Client,
    namespace: String,
    server_name: String,
    ca_pem: String,
    audit: Audit,
    state: watch::Sender<Result<NetworkState, String>>,
    generation: u64,
    /// What was last told, so that an alarm is raised once.
    told: Option<String>,
}

pub(super) struct NetworkParts {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) server_name: String,
    pub(super) ca_pem: String,
    pub(super) audit: Audit,
}

impl Network {
    pub(super) fn keep(parts: NetworkParts, lifetime: &Lifetime) -> Self {
        let (state, receiver) =
            watch::channel(Err("the network policies were not looked at yet".to_owned()));
        let NetworkParts {
            client,
            namespace,
            server_name,
            ca_pem,
            audit,
        } = parts;
        let mut keeper = Keeper {
            client,
            namespace,
            server_name,
            ca_pem,
            audit,
            state,
            generation: 0,
            told: None,
        };
        let stop = lifetime.stop.clone();
        lifetime.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = keeper.keep() => {}
            }
        });
        Self(receiver)
    }

    /// The state, once it is good; waits a little for it.
    pub(super) async fn ready(&self) -> Result<NetworkState, String> {
        let mut state = self.0.clone();
        let good = state.wait_for(Result::is_ok);
        if let Ok(Ok(good)) = tokio::time::timeout(Duration::from_secs(5), good).await {
            return good.clone();
        }
        self.0.borrow().clone()
    }

    /// The generation right now; `None` while the policies are not as they should be.
    pub(super) fn generation(&self) -> Option<u64> {
        self.0.borrow().as_ref().ok().map(|s| s.generation)
    }
}

impl Keeper {
    async fn keep(&mut self) {
        let policies: Api<NetworkPolicy> = Api::namespaced(self.client.clone(), &self.namespace);
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), "default");
        let only_kubernetes = watcher::Config::default().fields("metadata.name=kubernetes");
        let mut changes = futures_util::stream::select(
            watcher(policies, watcher::Config::default())
                .touched_objects()
                .map(|r| r.map(drop))
                .boxed(),
            watcher(slices, only_kubernetes)
                .touched_objects()
                .map(|r| r.map(drop))
                .boxed(),
        );
        loop {
            if let Err(problem) = self.look().await {
                tracing::warn!(
                    problem,
                    "the sandbox's network policies are not as they should be"
                );
                drop(self.state.send_replace(Err(problem)));
            }
            // A burst of changes is one look.
            match tokio::time::timeout(LOOK_EVERY, changes.next()).await {
                Ok(Some(Err(error))) => {
                    tracing::warn!(error = chain(&error), "a watch broke; it starts again");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Ok(Some(Ok(()))) => tokio::time::sleep(Duration::from_millis(20)).await,
                Ok(None) => tokio::time::sleep(LOOK_EVERY).await,
                Err(_) => {}
            }
        }
    }

    async fn look(&mut self) -> Result<(), String> {
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), "default");
        let slice = slices.get("kubernetes").await.map_err(|e| chain(&e))?;
        let endpoints = endpoints(&slice);
        if endpoints.is_empty() {
            return Err("the EndpointSlice default/kubernetes names no ready endpoint".to_owned());
        }
        let wanted = allow(&endpoints);
        let policies: Api<NetworkPolicy> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = policies
            .list(&ListParams::default())
            .await
            .map_err(|e| chain(&e))?;
        let standing = Standing::of(&found.items, &wanted);
        let mut problems = standing.problems();
        if standing.allow == Some(false) {
            problems.push(format!("{CHANGED}; it is put right"));
        }
        self.tell(&problems).await;
        if standing.allow != Some(true) {
            let params = PatchParams::apply("sandboxd").force();
            policies
                .patch(ALLOW, &params, &Patch::Apply(&wanted))
                .await
                .map_err(|e| format!("could not write the NetworkPolicy {ALLOW}: {}", chain(&e)))?;
        }
        if !standing.is_closed() {
            return Err(problems.join("; "));
        }
        self.publish(endpoints);
        Ok(())
    }

    fn publish(&self, endpoints: Vec<(String, i32)>) {
        let state = NetworkState {
            generation: self.generation,
            api_server: api_server(endpoints, &self.server_name, &self.ca_pem),
        };
        drop(self.state.send_replace(Ok(state)));
    }

    async fn tell(&mut self, problems: &[String]) {
        if problems.is_empty() {
            self.told = None;
            return;
        }
        self.generation += 1;
        let text = problems.join("; ");
        if self.told.as_ref() == Some(&text) {
            return;
        }
        let event = Event::new(EventName::AlarmNetworkPolicyChanged)
            .with("namespace", self.namespace.as_str())
            .with("seen", text.as_str());
        if let Err(e) = self.audit.record_closing(event).await {
            tracing::error!(error = chain(&e), "an alarm is not in the trail");
        }
        self.told = Some(text);
    }
}

/// How the policies that were found stand to what they should be.
struct Standing {
    deny: bool,
    /// `None`: it is not there.
    allow: Option<bool>,
    strangers: Vec<String>,
}

impl Standing {
    fn of(found: &[NetworkPolicy], wanted: &NetworkPolicy) -> Self {
        let mut standing = Self {
            deny: false,
            allow: None,
            strangers: Vec::new(),
        };
        for policy in found {
            match policy.metadata.name.as_deref() {
                Some(DENY) => standing.deny = policy.spec.as_ref() == Some(&deny()),
                Some(ALLOW) => standing.allow = Some(policy.spec == wanted.spec),
                Some(name) => standing.strangers.push(name.to_owned()),
                None => {}
            }
        }
        standing
    }

    /// Whether nothing is open but what [`ALLOW`] opens.
    fn is_closed(&self) -> bool {
        self.deny && self.strangers.is_empty()
    }

    /// What is wrong, besides [`ALLOW`].
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.deny {
            problems.push(format!(
                "the NetworkPolicy {DENY} is missing or was changed"
            ));
        }
        if !self.strangers.is_empty() {
            problems.push(format!(
                "there are NetworkPolicies of somebody else: {}",
                self.strangers.join(", ")
            ));
        }
        problems
    }
}

/// Looks once, from outside the keeper: the API server's endpoints, and all that is wrong with the
/// policies of `namespace`.
pub(super) async fn inspect(
    client: &Client,
    namespace: &str,
) -> Result<(Vec<(String, i32)>, Vec<String>), kube::Error> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    let endpoints = endpoints(&slices.get("kubernetes").await?);
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), namespace);
    let found = policies.list(&ListParams::default()).await?;
    let standing = Standing::of(&found.items, &allow(&endpoints));
    let mut problems = standing.problems();
    match standing.allow {
        Some(true) => {}
        Some(false) => problems.push(CHANGED.to_owned()),
        None => problems.push(format!(
            "the NetworkPolicy {ALLOW} is missing: sandboxd writes it when it starts"
        )),
    }
    Ok((endpoints, problems))
}

/// What the runner is told of the API server.
pub(super) fn api_server(
    endpoints: Vec<(String, i32)>,
    server_name: &str,
    ca_pem: &str,
) -> ApiServer {
    let join = |(ip, port): (String, i32)| {
        if ip.contains(':') {
            format!("[{ip}]:{port}")
        } else {
            format!("{ip}:{port}")
        }
    };
    ApiServer {
        endpoints: endpoints.into_iter().map(join).collect(),
        server_name: server_name.to_owned(),
        ca_pem: ca_pem.to_owned(),
    }
}

/// Every ready address of the API server with every port.
fn endpoints(slice: &EndpointSlice) -> Vec<(String, i32)> {
    let ports: Vec<i32> = slice
        .ports
        .iter()
        .flatten()
        .filter_map(|p| p.port)
        .collect();
    let ready = |e: &&k8s_openapi::api::discovery::v1::Endpoint| {
        e.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true)
    };
    let mut all: Vec<_> = slice
        .endpoints
        .iter()
        .filter(ready)
        .flat_map(|e| &e.addresses)
        .flat_map(|ip| ports.iter().map(move |port| (ip.clone(), *port)))
        .collect();
    all.sort();
    all.dedup();
    all
}

fn deny() -> NetworkPolicySpec {
    NetworkPolicySpec {
        pod_selector: Some(LabelSelector::default()),
        policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
        ..NetworkPolicySpec::default()
    }
}

fn allow(endpoints: &[(String, i32)]) -> NetworkPolicy {
    let rule = |(ip, port): &(String, i32)| NetworkPolicyEgressRule {
        to: Some(vec![NetworkPolicyPeer {
            ip_block: Some(IPBlock {
                cidr: format!("{ip}/{}", if ip.contains(':') { 128 } else { 32 }),
                except: None,
            }),
            ..NetworkPolicyPeer::default()
        }]),
        ports: Some(vec![NetworkPolicyPort {
            port: Some(IntOrString::Int(*port)),
            protocol: Some("TCP".to_owned()),
            end_port: None,
        }]),
    };
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some(ALLOW.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector::default()),
            policy_types: Some(vec!["Egress".to_owned()]),
            egress: Some(endpoints.iter().map(rule).collect()),
            ..NetworkPolicySpec::default()
        }),
    }
}
