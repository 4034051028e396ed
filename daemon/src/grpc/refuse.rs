//! Failures as gRPC statuses: one function, so that every refusal looks alike.

use std::collections::HashMap;

use sandbox_core::names::PrincipalName;
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::peer::Peer;
use crate::refusals::Refusals;
use crate::report::{Code, Failure};

/// The `domain` of every `google.rpc.ErrorInfo` of ours.
const DOMAIN: &str = "agent-sandbox";

/// A failure as a status with `ErrorInfo`, and `BadRequest` where a field is at fault.
pub(super) fn status(failure: &Failure) -> Status {
    let mut about = HashMap::from([("next".to_owned(), failure.code.next().to_owned())]);
    if let Some(request) = failure.request {
        about.insert("request_id".to_owned(), request.to_string());
    }
    let mut details = ErrorDetails::with_error_info(failure.code.as_str(), DOMAIN, about);
    if let Some(field) = &failure.field {
        details.add_bad_request_violation(field.as_str(), failure.message.as_str());
    }
    Status::with_error_details(failure.code.status(), failure.message.as_str(), details)
}

/// Lets through what comes from a principal of its socket, on whichever service; anybody else is told
/// which uid was seen.
pub fn admit_principals(
    refusals: Refusals,
) -> impl FnMut(tonic::Request<()>) -> Result<tonic::Request<()>, Status> + Clone {
    move |request| match caller(&request) {
        Ok(_) => Ok(request),
        Err(failure) => {
            let peer = request
                .extensions()
                .get::<Peer>()
                .and_then(Peer::credentials);
            let who =
                peer.map_or_else(|| "an unknown uid".to_owned(), |c| format!("uid {}", c.uid));
            refusals.note(&who, failure.code, &failure.message);
            Err(status(&failure))
        }
    }
}

/// The peer of a request and its principal.
pub(super) fn caller<T>(request: &tonic::Request<T>) -> Result<(Peer, PrincipalName), Failure> {
    let peer = request.extensions().get::<Peer>().cloned();
    let peer = peer.ok_or_else(|| {
        Failure::new(Code::NotAdmitted, "The connection has no peer credentials.")
    })?;
    let principal = peer.principal().cloned().map_err(|e| {
        Failure::new(
            Code::NotAdmitted,
            format!("This socket does not serve you: {e}."),
        )
    })?;
    Ok((peer, principal))
}

/// Refuses a client that speaks another version.
pub(super) fn check_version(theirs: u32) -> Result<(), Status> {
    if theirs == sandbox_proto::PROTOCOL_VERSION {
        return Ok(());
    }
    let ours = sandbox_proto::PROTOCOL_VERSION;
    let message = format!("The client speaks protocol version {theirs}, sandboxd speaks {ours}.");
    Err(status(&Failure::new(Code::ProtocolMismatch, message)))
}
