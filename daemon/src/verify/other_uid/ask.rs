//! Asking the daemon on one of its sockets, as whoever this process is.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::agent::v1::agent_service_client::AgentServiceClient;
use sandbox_proto::agent::v1::{InvokeRequest, ListActionsRequest};
use sandbox_proto::approver::v1::approver_service_client::ApproverServiceClient;
use sandbox_proto::approver::v1::{GetStatusRequest, GetStatusResponse, VerifyAuditRequest};
use serde::{Deserialize, Serialize};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt as _;

/// The agent's service, as health and reflection call it.
const AGENT_SERVICE: &str = "sandbox.agent.v1.AgentService";
/// For one answer.
const LIMIT: Duration = Duration::from_secs(15);

/// What to ask.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Question {
    /// Is the agent's service well?
    Health,
    /// Which services are there?
    Services,
    /// What may I ask for?
    Actions,
    /// How are the pods of this namespace?
    PodStatus { namespace: String },
    /// How is the daemon?
    Status,
    /// Is the trail whole?
    VerifyAudit,
}

/// What came back.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Reply {
    /// An answer; `well` says whether it is a good one.
    Answered { well: bool, said: String },
    /// The daemon's refusal: its stable code, or gRPC's where it has none, and its words.
    Refused { code: String, words: String },
    /// Nobody was reached.
    Unreachable { closed: bool, why: String },
}

impl Reply {
    /// As it should be for whom the socket serves.
    pub(crate) fn well(self) -> Result<String, String> {
        match self {
            Self::Answered { well: true, said } => Ok(said),
            Self::Answered { well: false, said } => Err(said),
            Self::Refused { .. } | Self::Unreachable { .. } => Err(self.told()),
        }
    }

    /// As it should be for whom the folder keeps out.
    pub(crate) fn kept_out(self) -> Result<String, String> {
        match self {
            Self::Unreachable { closed: true, why } => Ok(why),
            Self::Unreachable { closed: false, .. }
            | Self::Answered { .. }
            | Self::Refused { .. } => Err(self.told()),
        }
    }

    /// As it should be where the daemon refuses with `wanted`.
    pub(crate) fn refused(self, wanted: &str) -> Result<String, String> {
        match &self {
            Self::Refused { code, .. } if code == wanted => Ok(self.told()),
            Self::Refused { .. } | Self::Answered { .. } | Self::Unreachable { .. } => {
                Err(self.told())
            }
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Answered { said, .. } => format!("it was answered: {said}"),
            Self::Refused { code, words } => format!("{code}: {words}"),
            Self::Unreachable { why, .. } => format!("nobody was reached: {why}"),
        }
    }
}

/// Asks once.
pub(super) async fn ask(socket: &Path, question: Question) -> Reply {
    // First without gRPC, whose errors do not tell a closed folder from a daemon that is away.
    if let Err(e) = UnixStream::connect(socket) {
        return Reply::Unreachable {
            closed: e.kind() == io::ErrorKind::PermissionDenied,
            why: e.to_string(),
        };
    }
    let connected = async {
        Endpoint::from_shared(format!("unix://{}", socket.display()))?
            .timeout(LIMIT)
            .connect()
            .await
    };
    let answer = match connected.await {
        Ok(channel) => put(channel, question).await,
        Err(e) => {
            return Reply::Unreachable {
                closed: false,
                why: crate::report::chain(&e),
            };
        }
    };
    match answer {
        Ok((well, said)) => Reply::Answered { well, said },
        Err(status) => Reply::Refused {
            code: status
                .get_details_error_info()
                .map_or_else(|| format!("{:?}", status.code()), |info| info.reason),
            words: status.message().to_owned(),
        },
    }
}

async fn put(channel: Channel, question: Question) -> Result<(bool, String), Status> {
    let protocol_version = PROTOCOL_VERSION;
    match question {
        Question::Health => health(channel).await,
        Question::Services => services(channel).await,
        Question::Actions => {
            let ask = ListActionsRequest { protocol_version };
            let list = AgentServiceClient::new(channel).list_actions(ask).await?;
            let names: Vec<_> = list
                .into_inner()
                .actions
                .into_iter()
                .map(|a| a.name)
                .collect();
            Ok((!names.is_empty(), names.join(", ")))
        }
        Question::PodStatus { namespace } => {
            let ask = InvokeRequest {
                protocol_version,
                action: "k8s_get_pod_status".to_owned(),
                parameters_json: serde_json::json!({ "namespace": namespace }).to_string(),
                idempotency_key: String::new(),
                client: "sandboxd verify".to_owned(),
            };
            AgentServiceClient::new(channel).invoke(ask).await?;
            Ok((true, "the request was taken on".to_owned()))
        }
        Question::Status => {
            let ask = GetStatusRequest {
                protocol_version,
                at_seq: 0,
            };
            let status = ApproverServiceClient::new(channel).get_status(ask).await?;
            Ok(told(&status.into_inner()))
        }
        Question::VerifyAudit => {
            let ask = VerifyAuditRequest { protocol_version };
            let answer = ApproverServiceClient::new(channel)
                .verify_audit(ask)
                .await?;
            let trail = answer.into_inner();
            Ok(match trail.fault.as_str() {
                "" => (true, format!("whole, {} events", trail.events)),
                fault => (false, format!("line {}: {fault}", trail.fault_line)),
            })
        }
    }
}

async fn health(channel: Channel) -> Result<(bool, String), Status> {
    let ask = HealthCheckRequest {
        service: AGENT_SERVICE.to_owned(),
    };
    let status = HealthClient::new(channel).check(ask).await?;
    let status = status.into_inner().status();
    Ok((
        status == ServingStatus::Serving,
        status.as_str_name().to_owned(),
    ))
}

/// The services that reflection names. Well when the approver's is none of them.
async fn services(channel: Channel) -> Result<(bool, String), Status> {
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let stream = Request::new(tokio_stream::once(ask));
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(stream)
        .await?
        .into_inner();
    let answer = answers.message().await?.and_then(|m| m.message_response);
    let Some(MessageResponse::ListServicesResponse(list)) = answer else {
        return Err(Status::new(Code::Internal, "no list came back"));
    };
    let names: Vec<_> = list.service.into_iter().map(|s| s.name).collect();
    let approvers = names.iter().any(|name| name.contains("approver"));
    let agents = names.iter().any(|name| name == AGENT_SERVICE);
    Ok((agents && !approvers, names.join(", ")))
}

fn told(status: &GetStatusResponse) -> (bool, String) {
    let parts: Vec<_> = status
        .parts
        .iter()
        .map(|part| format!("{}: {}", part.name, part.detail))
        .collect();
    let well = !parts.is_empty() && status.parts.iter().all(|part| part.ok);
    let pool = format!(
        "version {}, uid {}, {} of {} spares ready, {} leases not closed",
        status.daemon_version,
        status.uid,
        status.pool_ready,
        status.pool_size,
        status.leases_unproven
    );
    (well, format!("{} ({pool})", parts.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_away_neither_answers_nor_refuses_nor_keeps_out() {
        let away = || Reply::Unreachable {
            closed: false,
            why: "connection refused".to_owned(),
        };
        assert!(away().well().is_err());
        assert!(away().kept_out().is_err());
        assert!(away().refused("NOT_ADMITTED").is_err());
    }

    #[test]
    fn another_refusal_is_not_the_one_on_trial() {
        let refused = |code: &str| Reply::Refused {
            code: code.to_owned(),
            words: String::new(),
        };
        assert!(refused("NOT_ADMITTED").refused("NOT_ADMITTED").is_ok());
        assert!(refused("RATE_LIMITED").refused("NOT_ADMITTED").is_err());
        assert!(refused("NOT_ADMITTED").well().is_err());
        let answered = Reply::Answered {
            well: true,
            said: "SERVING".to_owned(),
        };
        assert!(answered.refused("NOT_ADMITTED").is_err());
    }

    #[tokio::test]
    async fn a_socket_that_is_not_there_is_unreachable_and_not_closed() {
        let folder = tempfile::tempdir().unwrap();
        let reply = ask(&folder.path().join("s"), Question::Health).await;
        assert!(
            matches!(reply, Reply::Unreachable { closed: false, .. }),
            "{reply:?}"
        );
    }
}
