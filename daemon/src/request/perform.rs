//! One allowed request, from its action to its end.

use sandbox_core::audit::EventName;
use sandbox_core::parameters::{Parameters, PodStatus, TerraformApply};
use tokio::sync::watch;

use super::live::{Ended, Registry, Report, State};
use super::stay::{Stay, Work};
use super::{Parts, Request};
use crate::actions;
use crate::broker::Scope;
use crate::report::{Code, Failure, chain};
use crate::sandbox::Class;
use crate::terraform;

/// Runs the request and gives what its caller gets.
pub(super) async fn perform(
    parts: &Parts,
    request: &Request,
    progress: &watch::Sender<State>,
) -> Result<Report, Failure> {
    match &request.parameters {
        Parameters::PodStatus(p) => read(parts, request, progress, p).await,
        Parameters::TerraformPlan(_) => terraform::plan(parts, request, progress).await,
        Parameters::TerraformApply(a) => terraform::apply(parts, request, progress, a).await,
        Parameters::GetRequest(_) => Err(Failure::new(
            Code::Internal,
            "The action is not one that runs.",
        )),
    }
}

async fn read(
    parts: &Parts,
    request: &Request,
    progress: &watch::Sender<State>,
    asked: &PodStatus,
) -> Result<Report, Failure> {
    let stay = Stay::of(parts, request, progress, parts.limits.read_seconds);
    let work = Work {
        class: Class::Read,
        scope: Some(Scope::pod_reader(asked.namespace.clone())),
        start: actions::pod_status::start(asked, parts)?,
        inputs: Vec::new(),
    };
    let output = stay.run(work, &mut Vec::new()).await?;
    actions::pod_status::result(request.id, asked, output, parts)
}

/// Ends a request: trail, journal, and then whoever waits for it.
pub(super) async fn close(
    parts: &Parts,
    registry: &Registry,
    request: &Request,
    progress: &watch::Sender<State>,
    ended: Ended,
) {
    let event = request
        .event(EventName::ToolResult)
        .with("outcome", ended.outcome);
    let event = match &ended.result {
        Ok(report) => event.with(
            "result_bytes",
            i64::try_from(report.text.len()).unwrap_or(i64::MAX),
        ),
        Err(failure) => event
            .with("code", failure.code.as_str())
            .with("message", failure.message.as_str()),
    };
    if let Err(e) = parts.audit.record_closing(event).await {
        tracing::error!(request = %request.id, error = chain(&e), "tool.result is not in the trail");
    }
    let now_ms = parts.clock.now_ms();
    if let Err(e) = parts
        .store
        .end_request(request.id, ended.outcome, now_ms)
        .await
    {
        tracing::error!(request = %request.id, error = chain(&e), "the journal did not take the end");
    }
    if let Parameters::TerraformApply(TerraformApply {
        approval_id: Some(id),
        ..
    }) = &request.parameters
    {
        parts.approvals.tell_outcome(*id).await;
    }
    registry.ended(request.id, now_ms);
    progress.send_replace(State::Ended(std::sync::Arc::new(ended)));
}
