//! `sandbox.approver.v1.ApproverService`. Never on the agent's socket.

mod approvals;
mod plan;

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _};
use sandbox_core::audit::{Checkpoint, Seq};
use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::approver::v1 as proto;
use sandbox_proto::approver::v1::approver_service_server::{
    ApproverService, ApproverServiceServer,
};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::refuse::{caller, check_version, status};
use crate::approve::{Approvals, Judge};
use crate::audit::{AuditError, Filter, QueryError, VerifyError};
use crate::broker::Health;
use crate::report::{Code, Failure, chain};
use crate::request::Requests;

/// What the approver's service answers from.
#[derive(Clone, Debug)]
pub struct ApproverParts {
    /// The requests, and what they are served with.
    pub requests: Requests,
    /// Where Jobs run.
    pub sandbox_namespace: String,
    /// The daemon's uid.
    pub uid: u32,
    /// When it started, in milliseconds since the Unix epoch.
    pub started_ms: u64,
}

/// The service of `approver.sock`.
#[must_use]
pub fn approver_routes(parts: ApproverParts) -> Routes {
    let service = ApproverServiceServer::new(Approver(parts)).max_decoding_message_size(64 * 1024);
    Routes::new(service)
}

struct Approver(ApproverParts);

impl Approver {
    fn approvals(&self) -> &Approvals {
        &self.0.requests.parts().approvals
    }
}

type LineStream = Pin<Box<dyn Stream<Item = Result<proto::AuditLine, Status>> + Send>>;

#[tonic::async_trait]
impl ApproverService for Approver {
    type QueryAuditStream = LineStream;
    type WatchApprovalsStream = approvals::ApprovalStream;

    async fn list_approvals(
        &self,
        request: Request<proto::ListApprovalsRequest>,
    ) -> Result<Response<proto::ListApprovalsResponse>, Status> {
        caller(&request).map_err(|f| status(&f))?;
        let ask = request.into_inner();
        check_version(ask.protocol_version)?;
        approvals::list(self.approvals(), ask.ended).await
    }

    async fn get_approval(
        &self,
        request: Request<proto::GetApprovalRequest>,
    ) -> Result<Response<proto::GetApprovalResponse>, Status> {
        caller(&request).map_err(|f| status(&f))?;
        let ask = request.into_inner();
        check_version(ask.protocol_version)?;
        approvals::get(self.approvals(), &ask.approval_id).await
    }

    async fn record_verdict(
        &self,
        request: Request<proto::RecordVerdictRequest>,
    ) -> Result<Response<proto::RecordVerdictResponse>, Status> {
        let (peer, principal) = caller(&request).map_err(|f| status(&f))?;
        let ask = request.into_inner();
        check_version(ask.protocol_version)?;
        approvals::record_verdict(self.approvals(), Judge::of(&peer, &principal), ask).await
    }

    async fn watch_approvals(
        &self,
        request: Request<proto::WatchApprovalsRequest>,
    ) -> Result<Response<approvals::ApprovalStream>, Status> {
        caller(&request).map_err(|f| status(&f))?;
        check_version(request.get_ref().protocol_version)?;
        approvals::watch(self.approvals(), &self.0.requests.parts().lifetime).await
    }

    async fn query_audit(
        &self,
        request: Request<proto::QueryAuditRequest>,
    ) -> Result<Response<LineStream>, Status> {
        caller(&request).map_err(|f| status(&f))?;
        let ask = request.into_inner();
        check_version(ask.protocol_version)?;
        let request = match ask.request_id.as_str() {
            "" => None,
            text => Some(text.parse().map_err(|e| {
                status(&Failure {
                    field: Some("request_id".to_owned()),
                    ..Failure::new(Code::InvalidArgument, format!("The request id {e}."))
                })
            })?),
        };
        let after = (ask.after_seq > 0).then_some(Seq(ask.after_seq));
        let lines = self
            .0
            .requests
            .parts()
            .audit
            .query(Filter { request, after })
            .await;
        let lines = lines.map_err(|e| query_failed(&e))?;
        Ok(Response::new(Box::pin(lines.map(|line| match line {
            Ok(line) => Ok(proto::AuditLine {
                seq: line.seq.0,
                line: line.line.into(),
            }),
            Err(e) => Err(unreadable(&e)),
        }))))
    }

    async fn verify_audit(
        &self,
        request: Request<proto::VerifyAuditRequest>,
    ) -> Result<Response<proto::VerifyAuditResponse>, Status> {
        caller(&request).map_err(|f| status(&f))?;
        check_version(request.get_ref().protocol_version)?;
        let audit = &self.0.requests.parts().audit;
        let answer = match audit.verify().await {
            Ok(verified) => proto::VerifyAuditResponse {
                events: verified.events,
                checkpoint: verified.newest.map(checkpoint),
                ..proto::VerifyAuditResponse::default()
            },
            Err(VerifyError::Fault(fault)) => proto::VerifyAuditResponse {
                fault: fault.to_string(),
                fault_line: fault.line,
                checkpoint: audit.status().newest.map(checkpoint),
                ..proto::VerifyAuditResponse::default()
            },
            Err(e) => {
                tracing::error!(error = chain(&e), "the trail could not be verified");
                return Err(status(&Failure::new(
                    Code::AuditUnavailable,
                    format!("The audit trail could not be read: {e}."),
                )));
            }
        };
        Ok(Response::new(answer))
    }

    async fn get_status(
        &self,
        request: Request<proto::GetStatusRequest>,
    ) -> Result<Response<proto::GetStatusResponse>, Status> {
        caller(&request).map_err(|f| status(&f))?;
        let ask = request.into_inner();
        check_version(ask.protocol_version)?;
        let ApproverParts {
            requests,
            sandbox_namespace,
            uid,
            started_ms,
        } = &self.0;
        let parts = requests.parts();
        let at_seq_hash = match ask.at_seq {
            0 => Vec::new(),
            seq => {
                let hash = parts
                    .audit
                    .hash_at(Seq(seq))
                    .await
                    .map_err(|e| unreadable(&e))?;
                hash.map(|h| h.as_bytes().to_vec()).unwrap_or_default()
            }
        };
        let (kubernetes, vault) = tokio::join!(
            parts.sandboxes.health(sandbox_namespace),
            parts.broker.health()
        );
        let kubernetes = match kubernetes {
            Ok(()) => part("kubernetes", true, "The API server answers."),
            Err(e) => part("kubernetes", false, format!("{}.", chain(&e))),
        };
        let vault = match vault {
            Ok(Health::Open) => part("vault", true, "It answers and is unsealed."),
            Ok(Health::Sealed) => part("vault", false, "It is sealed."),
            Err(e) => part("vault", false, format!("{}.", chain(&e))),
        };
        // Signed now, so that whoever asks takes the present with them, and not a moment before it.
        let newest = parts.audit.checkpoint().await.ok().flatten();
        let trail = parts.audit.status();
        let audit = match &trail.refusing {
            None => part(
                "audit",
                true,
                format!("It takes events; the last one is {}.", trail.head.seq),
            ),
            Some(e) => part(
                "audit",
                false,
                format!("New calls are refused: {}.", chain(e)),
            ),
        };
        let mut shown = vec![kubernetes, vault, audit];
        for root in parts.roots.names() {
            let detail = match parts.store.unfinished_apply(root.clone()).await {
                Ok(None) => continue,
                Ok(Some(last)) => last.to_string(),
                Err(e) => format!("{}.", chain(&e)),
            };
            shown.push(part(&format!("root {root}"), false, detail));
        }
        let unproven = parts.store.open_leases().await.map_or(0, |open| open.len());
        let pool = parts.sandboxes.pool();
        Ok(Response::new(proto::GetStatusResponse {
            protocol_version: PROTOCOL_VERSION,
            daemon_version: env!("CARGO_PKG_VERSION").to_owned(),
            uid: *uid,
            started_ms: i64::try_from(*started_ms).unwrap_or(i64::MAX),
            parts: shown,
            requests_running: small(requests.running()),
            pool_ready: small(pool.ready),
            pool_size: small(pool.size),
            checkpoint: newest.or(trail.newest).map(checkpoint),
            at_seq_hash: at_seq_hash.into(),
            leases_unproven: small(unproven),
        }))
    }
}

fn part(name: &str, ok: bool, detail: impl Into<String>) -> proto::Part {
    proto::Part {
        name: name.to_owned(),
        ok,
        detail: detail.into(),
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn checkpoint(c: Checkpoint) -> proto::Checkpoint {
    proto::Checkpoint {
        seq: c.head.seq.0,
        hash: c.head.hash.as_bytes().to_vec().into(),
        time_ms: c.time.as_unix_ms(),
        public_key: c.key.0.to_vec().into(),
        signature: c.signature.0.to_vec().into(),
    }
}

fn query_failed(e: &QueryError) -> Status {
    let code = match e {
        QueryError::UnknownRequest => Code::NoSuchRequest,
        QueryError::Ambiguous { .. } => Code::InvalidArgument,
        QueryError::Audit(e) => return unreadable(e),
    };
    status(&Failure {
        field: Some("request_id".to_owned()),
        ..Failure::new(code, format!("The audit trail cannot answer: {e}."))
    })
}

fn unreadable(e: &AuditError) -> Status {
    tracing::error!(error = chain(e), "the trail could not be read");
    status(&Failure::new(
        Code::AuditUnavailable,
        format!("The audit trail could not be read: {e}."),
    ))
}
