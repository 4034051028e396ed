//! `sandbox.agent.v1.AgentService`, with health and reflection for it alone.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use sandbox_core::ids::{RequestId, RequestIdError};
use sandbox_core::names::PrincipalName;
use sandbox_core::parameters::MAX_WAIT_SECONDS;
use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::agent::v1 as proto;
use sandbox_proto::agent::v1::agent_service_server::{AgentService, AgentServiceServer};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::refuse::{caller, check_version, status};
use crate::actions::{self, Tier};
use crate::report::{Code, Failure};
use crate::request::{Admitted, Call, Ended, Live, Report, Requests, State};

/// The longest message an agent may send, in bytes: the longest parameters and some room.
const MAX_MESSAGE: usize = 64 * 1024;

/// The services of `agent.sock`.
///
/// # Errors
/// When the descriptor set does not serve reflection; a build fault.
pub async fn agent_routes(requests: Requests) -> anyhow::Result<Routes> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<AgentServiceServer<Agent>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .include_reflection_service(false)
    };
    let agent = AgentServiceServer::new(Agent { requests })
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(8 * 1024 * 1024);
    Ok(Routes::new(agent)
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?))
}

struct Agent {
    requests: Requests,
}

type EventStream = Pin<Box<dyn Stream<Item = Result<proto::InvokeEvent, Status>> + Send>>;

#[tonic::async_trait]
impl AgentService for Agent {
    async fn list_actions(
        &self,
        request: Request<proto::ListActionsRequest>,
    ) -> Result<Response<proto::ListActionsResponse>, Status> {
        caller(&request).map_err(|f| status(&f))?;
        check_version(request.get_ref().protocol_version)?;
        Ok(Response::new(proto::ListActionsResponse {
            protocol_version: PROTOCOL_VERSION,
            daemon_version: env!("CARGO_PKG_VERSION").to_owned(),
            actions: actions::catalogue()
                .into_iter()
                .map(|a| action(&a))
                .collect(),
        }))
    }

    type InvokeStream = EventStream;

    async fn invoke(
        &self,
        request: Request<proto::InvokeRequest>,
    ) -> Result<Response<EventStream>, Status> {
        let (peer, principal) = caller(&request).map_err(|f| status(&f))?;
        let ask = request.into_inner();
        check_version(ask.protocol_version)?;
        let call = Call {
            action: ask.action,
            parameters: ask.parameters_json,
            key: ask.idempotency_key,
            client: ask.client,
        };
        let admitted = self
            .requests
            .admit(&peer, &principal, call)
            .await
            .map_err(|f| status(&f))?;
        let stream: EventStream = match admitted {
            Admitted::Live(live) => Box::pin(self.follow(&live)),
            Admitted::Answered(report) => {
                let id = report.structured["request_id"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let end = proto::invoke_event::Event::Finished(succeeded(id, &report));
                Box::pin(tokio_stream::once(Ok(event(end))))
            }
        };
        Ok(Response::new(stream))
    }

    async fn get_request(
        &self,
        request: Request<proto::GetRequestRequest>,
    ) -> Result<Response<proto::GetRequestResponse>, Status> {
        let (_, principal) = caller(&request).map_err(|f| status(&f))?;
        let ask = request.into_inner();
        let id = parse_id(&ask.request_id)?;
        let wait = Duration::from_secs(ask.wait_seconds.min(MAX_WAIT_SECONDS).into());
        let (action, state) = self.find(&principal, id, wait).await?;
        let (state, finished) = match state {
            State::Running(_) => (proto::RequestState::Running, None),
            State::Ended(ended) => (proto::RequestState::Ended, Some(finished(&ended))),
        };
        Ok(Response::new(proto::GetRequestResponse {
            request_id: ask.request_id,
            action,
            state: state.into(),
            finished,
        }))
    }

    async fn cancel_request(
        &self,
        request: Request<proto::CancelRequestRequest>,
    ) -> Result<Response<proto::CancelRequestResponse>, Status> {
        let (_, principal) = caller(&request).map_err(|f| status(&f))?;
        let id = parse_id(&request.get_ref().request_id)?;
        let cancelled = self
            .requests
            .cancel(&principal, id)
            .await
            .map_err(|f| status(&f))?;
        Ok(Response::new(proto::CancelRequestResponse { cancelled }))
    }
}

impl Agent {
    async fn find(
        &self,
        principal: &PrincipalName,
        id: RequestId,
        wait: Duration,
    ) -> Result<(String, State), Status> {
        self.requests
            .find(principal, id, wait)
            .await
            .map_err(|f| status(&f))
    }

    /// The events of one request from here to its end. Ends by itself when nobody listens.
    fn follow(&self, live: &Live) -> ReceiverStream<Result<proto::InvokeEvent, Status>> {
        let (events, stream) = tokio::sync::mpsc::channel(8);
        let (id, mut state) = (live.id.to_string(), live.watch());
        self.requests.parts().lifetime.spawn(async move {
            let accepted = proto::invoke_event::Event::Accepted(proto::Accepted { request_id: id });
            if events.send(Ok(event(accepted))).await.is_err() {
                return;
            }
            loop {
                let now = state.borrow_and_update().clone();
                let ended = matches!(now, State::Ended(_));
                if events.send(Ok(event(told(&now)))).await.is_err() || ended {
                    return;
                }
                tokio::select! {
                    changed = state.changed() => if changed.is_err() { return },
                    () = events.closed() => return,
                }
            }
        });
        ReceiverStream::new(stream)
    }
}

fn told(state: &State) -> proto::invoke_event::Event {
    match state {
        State::Running(phase) => proto::invoke_event::Event::Progress(proto::Progress {
            phase: phase.name.to_owned(),
            done: phase.done,
            total: phase.total,
        }),
        State::Ended(ended) => proto::invoke_event::Event::Finished(finished(ended)),
    }
}

fn event(event: proto::invoke_event::Event) -> proto::InvokeEvent {
    proto::InvokeEvent { event: Some(event) }
}

fn finished(ended: &Ended) -> proto::Finished {
    let outcome = match ended.outcome {
        "succeeded" => proto::Outcome::Succeeded,
        "denied" => proto::Outcome::Denied,
        "cancelled" => proto::Outcome::Cancelled,
        "failed" => proto::Outcome::Failed,
        _ => proto::Outcome::Unknown,
    };
    let id = ended.id.to_string();
    match &ended.result {
        Ok(report) => succeeded(id, report),
        Err(failure) => proto::Finished {
            request_id: id,
            outcome: outcome.into(),
            failure: Some(proto::Failure {
                code: failure.code.as_str().to_owned(),
                message: failure.message.clone(),
                next: failure.code.next().to_owned(),
                field: failure.field.clone().unwrap_or_default(),
            }),
            ..proto::Finished::default()
        },
    }
}

fn succeeded(request_id: String, report: &Report) -> proto::Finished {
    proto::Finished {
        request_id,
        outcome: proto::Outcome::Succeeded.into(),
        structured_json: report.structured.to_string(),
        text: report.text.clone(),
        failure: None,
    }
}

fn parse_id(text: &str) -> Result<RequestId, Status> {
    text.parse().map_err(|e: RequestIdError| {
        status(&Failure {
            field: Some("request_id".to_owned()),
            ..Failure::new(
                Code::InvalidArgument,
                format!("The parameter request_id {e}."),
            )
        })
    })
}

fn action(a: &actions::Description) -> proto::Action {
    let (tier, read_only) = match a.tier {
        Tier::Low => (proto::Tier::Low, true),
        Tier::High => (proto::Tier::High, false),
    };
    proto::Action {
        name: a.name.as_str().to_owned(),
        title: a.title.to_owned(),
        description: a.description.to_owned(),
        input_schema_json: a.input.to_string(),
        output_schema_json: a.output.to_string(),
        tier: tier.into(),
        read_only,
        destructive: !read_only,
        idempotent: read_only,
    }
}
