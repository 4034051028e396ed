//! A scripted `AgentService`: what an action does is in its name.
//!
//! It runs on a runtime of its own, so that dropping it ends every connection at once, as a daemon
//! that is killed does.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::agent::v1::agent_service_server::{AgentService, AgentServiceServer};
use sandbox_proto::agent::v1::invoke_event::Event;
use sandbox_proto::agent::v1::{
    Accepted, Action, CancelRequestRequest, CancelRequestResponse, Failure, Finished,
    GetRequestRequest, GetRequestResponse, InvokeEvent, InvokeRequest, ListActionsRequest,
    ListActionsResponse, Outcome, Progress, Tier,
};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_util::task::TaskTracker;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::wait::wait_until;

/// What the transport of a broken daemon might say; it must not reach a client.
pub const DEBUG_TEXT: &str = "h2 protocol error: error reading a body from connection";

/// A running scripted daemon. Dropping it kills it.
pub struct Agent {
    pub script: Script,
    runtime: Option<Runtime>,
}

/// What a scripted daemon is told and has heard. Clones share it, and it outlives a restart.
#[derive(Clone, Default)]
pub struct Script {
    heard: Arc<Mutex<Heard>>,
    held: Arc<watch::Sender<HashMap<String, &'static str>>>,
    protocol_version: Arc<Mutex<Option<u32>>>,
    actions: Arc<Mutex<Option<Vec<Action>>>>,
    refuse_peer: Arc<Mutex<Option<Status>>>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Heard {
    invocations: Vec<InvokeRequest>,
    cancellations: Vec<String>,
}

impl Agent {
    /// Starts a daemon at `socket`.
    pub fn start(socket: &Path) -> Self {
        Self::start_with(socket, Script::default())
    }

    /// Starts a daemon at `socket` that goes on with a script.
    pub fn start_with(socket: &Path, script: Script) -> Self {
        if socket.exists() {
            std::fs::remove_file(socket).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(async { UnixListener::bind(socket) })
            .unwrap();
        let service = AgentServiceServer::new(script.clone())
            .max_decoding_message_size(64 << 10)
            .max_encoding_message_size(64 << 20);
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(UnixListenerStream::new(listener)),
        );
        Self {
            script,
            runtime: Some(runtime),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

impl Script {
    /// The calls heard so far.
    pub fn invocations(&self) -> Vec<InvokeRequest> {
        self.heard.lock().unwrap().invocations.clone()
    }

    /// The ids of the requests that were cancelled so far.
    pub fn cancellations(&self) -> Vec<String> {
        self.heard.lock().unwrap().cancellations.clone()
    }

    /// Waits until so many requests of actions `hold` and `late` are under way.
    pub fn wait_for_held(&self, number: usize) {
        wait_until("held requests", || {
            let held = self
                .held
                .borrow()
                .values()
                .filter(|state| **state == "held")
                .count();
            (held == number).then_some(())
        });
    }

    /// Lets every request of action `hold` finish, and every one of `late` begin.
    pub fn release(&self) {
        self.held
            .send_modify(|held| held.values_mut().for_each(|state| *state = "released"));
    }

    /// Speaks another version of the protocol.
    pub fn speak(&self, version: u32) {
        *self.protocol_version.lock().unwrap() = Some(version);
    }

    /// Offers other actions from now on.
    pub fn offer(&self, actions: Vec<Action>) {
        *self.actions.lock().unwrap() = Some(actions);
    }

    /// Refuses everything with this status.
    pub fn refuse_peer(&self, status: Status) {
        *self.refuse_peer.lock().unwrap() = Some(status);
    }

    fn admit(&self, version: u32) -> Result<(), Status> {
        if let Some(status) = self.refuse_peer.lock().unwrap().clone() {
            return Err(status);
        }
        if version == PROTOCOL_VERSION {
            return Ok(());
        }
        Err(refusal(
            Code::FailedPrecondition,
            "PROTOCOL_MISMATCH",
            "protocol_version",
        ))
    }

    async fn run(
        self,
        request: InvokeRequest,
        request_id: String,
        events: mpsc::Sender<Result<InvokeEvent, Status>>,
    ) {
        let send = async |event: Event| events.send(Ok(InvokeEvent { event: Some(event) })).await;
        if request.action == "never" {
            return events.closed().await;
        }
        if request.action == "late" {
            self.hold(&request_id).await;
        }
        if send(Event::Accepted(Accepted {
            request_id: request_id.clone(),
        }))
        .await
        .is_err()
        {
            return;
        }
        match request.action.as_str() {
            "drop" => return,
            "break" => {
                return events
                    .send(Err(Status::internal(DEBUG_TEXT)))
                    .await
                    .unwrap_or_default();
            }
            "hold" => self.hold(&request_id).await,
            _ => {}
        }
        for (done, phase) in ["policy", "credential", "credential", "run"]
            .into_iter()
            .enumerate()
        {
            // The third says what the second said: a daemon may repeat itself.
            let done = u32::try_from(done).unwrap().min(2) - u32::from(done == 2);
            let progress = Progress {
                phase: phase.to_owned(),
                done,
                total: 3,
            };
            if send(Event::Progress(progress)).await.is_err() {
                return;
            }
        }
        // Finished goes to nobody if the bridge has stopped listening, and that is its right.
        drop(send(Event::Finished(self.finish(&request, &request_id))).await);
    }

    async fn hold(&self, request_id: &str) {
        self.held.send_modify(|held| {
            held.insert(request_id.to_owned(), "held");
        });
        let mut held = self.held.subscribe();
        held.wait_for(|held| held[request_id] != "held")
            .await
            .unwrap();
    }

    fn finish(&self, request: &InvokeRequest, request_id: &str) -> Finished {
        let parameters = Some(request.parameters_json.as_str()).filter(|json| !json.is_empty());
        let structured_json = format!(
            r#"{{"outcome":"finished","request_id":"{request_id}","echo":{}}}"#,
            parameters.unwrap_or("{}")
        );
        let mut finished = Finished {
            request_id: request_id.to_owned(),
            outcome: Outcome::Succeeded.into(),
            structured_json,
            text: format!(
                "{} was asked for {}",
                request.action, request.parameters_json
            ),
            failure: None,
        };
        let fail = |code: &str| Failure {
            code: code.to_owned(),
            message: "It did not work, because the script says so.".to_owned(),
            next: "Try something else.".to_owned(),
            field: String::new(),
        };
        match request.action.as_str() {
            "fail" => {
                finished.outcome = Outcome::Failed.into();
                finished.failure = Some(fail("SANDBOX_UNAVAILABLE"));
            }
            "deny" => {
                finished.outcome = Outcome::Denied.into();
                finished.failure = Some(Failure {
                    field: "namespace".to_owned(),
                    ..fail("POLICY_DENIED")
                });
            }
            "hold" if self.held.borrow().get(request_id) == Some(&"cancelled") => {
                finished.outcome = Outcome::Cancelled.into();
                finished.failure = Some(fail("CANCELLED"));
            }
            "nasty" => {
                let text = "one\nline \u{2028} two \u{202e}evil\u{1b}[2J \u{85}\u{7f}\u{feff}";
                finished.text = String::from(text);
                finished.structured_json =
                    serde_json::json!({"outcome": "finished", "echo": {"text": text}}).to_string();
            }
            "large" => finished.text = "x".repeat(5 << 20),
            _ => {}
        }
        finished
    }
}

#[tonic::async_trait]
impl AgentService for Script {
    async fn list_actions(
        &self,
        request: Request<ListActionsRequest>,
    ) -> Result<Response<ListActionsResponse>, Status> {
        self.admit(request.get_ref().protocol_version)?;
        Ok(Response::new(ListActionsResponse {
            protocol_version: self
                .protocol_version
                .lock()
                .unwrap()
                .unwrap_or(PROTOCOL_VERSION),
            daemon_version: "9.9.9".to_owned(),
            actions: self
                .actions
                .lock()
                .unwrap()
                .clone()
                .unwrap_or_else(all_actions),
        }))
    }

    type InvokeStream = ReceiverStream<Result<InvokeEvent, Status>>;

    async fn invoke(
        &self,
        request: Request<InvokeRequest>,
    ) -> Result<Response<Self::InvokeStream>, Status> {
        let request = request.into_inner();
        self.admit(request.protocol_version)?;
        let number = {
            let mut heard = self.heard.lock().unwrap();
            heard.invocations.push(request.clone());
            heard.invocations.len()
        };
        match request.action.as_str() {
            // The daemon knows namespaces; any capital will do here.
            "k8s_get_pod_status" if request.parameters_json.contains(char::is_uppercase) => {
                return Err(refusal(
                    Code::InvalidArgument,
                    "INVALID_PARAMETER",
                    "namespace",
                ));
            }
            "refuse" => {
                return Err(refusal(
                    Code::InvalidArgument,
                    "INVALID_PARAMETER",
                    "namespace",
                ));
            }
            "refuse_unexplained" => return Err(Status::internal(DEBUG_TEXT)),
            _ => {}
        }
        let (events, stream) = mpsc::channel(16);
        let request_id = format!("01900000-0000-7000-8000-{number:012}");
        self.tasks
            .spawn(self.clone().run(request, request_id, events));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn get_request(
        &self,
        _: Request<GetRequestRequest>,
    ) -> Result<Response<GetRequestResponse>, Status> {
        Err(Status::unimplemented(
            "the bridge asks for requests through Invoke",
        ))
    }

    async fn cancel_request(
        &self,
        request: Request<CancelRequestRequest>,
    ) -> Result<Response<CancelRequestResponse>, Status> {
        let request_id = request.into_inner().request_id;
        self.heard
            .lock()
            .unwrap()
            .cancellations
            .push(request_id.clone());
        let cancelled = self.held.send_if_modified(|held| {
            held.get_mut(&request_id).is_some_and(|state| {
                let was_held = *state == "held";
                *state = "cancelled";
                was_held
            })
        });
        Ok(Response::new(CancelRequestResponse { cancelled }))
    }
}

/// A refusal as the daemon makes them.
pub fn refusal(code: Code, reason: &str, field: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(
        reason,
        "agent-sandbox",
        HashMap::from([("next".to_owned(), "Use another value.".to_owned())]),
    );
    details.add_bad_request_violation(field, "it is not what it should be");
    let message = format!("The value of {field} is not allowed here.");
    Status::with_error_details(code, message, details)
}

/// The actions of the script, and two that look like the daemon's own.
pub fn all_actions() -> Vec<Action> {
    let scripted = [
        "echo",
        "hold",
        "late",
        "fail",
        "deny",
        "refuse",
        "refuse_unexplained",
        "drop",
        "break",
        "never",
        "nasty",
        "large",
    ];
    let mut actions = realistic_actions();
    actions.extend(scripted.map(scripted_action));
    actions
}

/// An action of the script.
pub fn scripted_action(name: &str) -> Action {
    Action {
        name: name.to_owned(),
        title: name.to_owned(),
        description: format!("Does what {name:?} means in the script."),
        input_schema_json: r#"{"type":"object"}"#.to_owned(),
        output_schema_json: r#"{"type":"object","required":["outcome","request_id"],
            "additionalProperties":false,"properties":{
            "outcome":{"type":"string","enum":["finished","running"]},
            "request_id":{"type":"string"},"echo":{"type":"object"}}}"#
            .to_owned(),
        tier: Tier::Low.into(),
        read_only: true,
        destructive: false,
        idempotent: true,
    }
}

/// Two actions as long as the daemon's.
pub fn realistic_actions() -> Vec<Action> {
    let pod = r#"{"type":"object","properties":{"name":{"type":"string"},"phase":{"type":"string"},
        "status":{"type":"string","description":"As kubectl shows it"},"ready":{"type":"string"},
        "restarts":{"type":"integer"},"reason":{"type":"string"},"container":{"type":"string"},
        "message":{"type":"string"},"last_termination":{"type":"string"},"node":{"type":"string"},
        "age_seconds":{"type":"integer"},"terminating_seconds":{"type":"integer"},
        "healthy":{"type":"boolean"}},"required":["name","phase","status","healthy"]}"#;
    vec![
        Action {
            name: "k8s_get_pod_status".to_owned(),
            title: "Pod status".to_owned(),
            description: "Phase, readiness, restarts, waiting or terminated reason, node and age \
                of each pod in one namespace. Pods that need attention come first in the text. \
                Long lists come in pages; pass page_token to go on."
                .to_owned(),
            input_schema_json: r#"{"type":"object","additionalProperties":false,
                "required":["namespace"],"properties":{
                "namespace":{"type":"string","description":"Kubernetes namespace, e.g. demo-app"},
                "label_selector":{"type":"string","description":"Kubernetes label selector, e.g. app=web"},
                "page_token":{"type":"string","description":"From the page before"}}}"#
                .to_owned(),
            output_schema_json: format!(
                r#"{{"type":"object","required":["outcome","request_id"],"properties":{{
                "outcome":{{"type":"string"}},"request_id":{{"type":"string"}},
                "namespace":{{"type":"string"}},"pods":{{"type":"array","items":{pod}}},
                "page_token":{{"type":"string"}},"left_out":{{"type":"integer"}}}}}}"#
            ),
            tier: Tier::Low.into(),
            read_only: true,
            destructive: false,
            idempotent: true,
        },
        Action {
            name: "get_request".to_owned(),
            title: "Where a request stands".to_owned(),
            description: "Where one of your requests stands, and its result once it has ended. \
                Waits for the end for up to wait_seconds."
                .to_owned(),
            input_schema_json: r#"{"type":"object","additionalProperties":false,
                "required":["request_id"],"properties":{"request_id":{"type":"string"},
                "wait_seconds":{"type":"integer","minimum":0,"maximum":40}}}"#
                .to_owned(),
            output_schema_json: r#"{"type":"object","required":["outcome","request_id"],
                "properties":{"outcome":{"type":"string"},"request_id":{"type":"string"},
                "result_json":{"type":"string"}}}"#
                .to_owned(),
            tier: Tier::Low.into(),
            read_only: true,
            destructive: false,
            idempotent: true,
        },
    ]
}
