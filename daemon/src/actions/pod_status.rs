//! `k8s_get_pod_status`: what the pods of a namespace are doing, what is wrong first.

use std::collections::BTreeMap;

use sandbox_core::ids::RequestId;
use sandbox_core::parameters::{ActionName, PodStatus};
use sandbox_proto::runner::v1 as wire;
use serde_json::{Map, Value, json};

use super::text::{age, clipped, count, visible};
use super::{Description, PageKey, Tier};
use crate::report::{Code, Failure};
use crate::request::{Parts, Report};

/// The most pods of a page. The limit in bytes may make it fewer.
const PAGE: u32 = 200;
/// What a message is cut to when a page would not fit its limit otherwise.
const SHORT_MESSAGE: usize = 80;

pub(super) fn description() -> Description {
    Description {
        name: ActionName::PodStatus,
        title: "Kubernetes pod status",
        description: "Lists the pods of one Kubernetes namespace with status, readiness, restarts, why a pod \
             is waiting or ended (CrashLoopBackOff, ImagePullBackOff, OOMKilled, Unschedulable, failing init \
             container), last termination, node and age. Unhealthy pods come first. Long lists come in pages: \
             pass next_page_token as page_token. Read-only.",
        input: json!({
            "type": "object",
            "properties": {
                "namespace": {"type": "string", "description": "Kubernetes namespace, e.g. demo-app"},
                "label_selector": {"type": "string", "description": "Only pods with these labels, e.g. app=web,tier in (a,b)"},
                "page_token": {"type": "string", "description": "next_page_token of the page before"}
            },
            "required": ["namespace"],
            "additionalProperties": false
        }),
        output: json!({
            "type": "object",
            "properties": {
                "outcome": {"type": "string", "description": "finished, or running: then ask get_request"},
                "request_id": {"type": "string"},
                "namespace": {"type": "string"},
                "summary": {"type": "string"},
                "pods": {"type": "array", "items": {"type": "object", "properties": {
                    "name": {"type": "string"},
                    "status": {"type": "string"},
                    "phase": {"type": "string"},
                    "healthy": {"type": "boolean"},
                    "ready": {"type": "string", "description": "ready/all containers"},
                    "restarts": {"type": "integer"},
                    "reason": {"type": "string"},
                    "container": {"type": "string", "description": "which container the reason is about"},
                    "message": {"type": "string"},
                    "last_termination": {"type": "string"},
                    "terminating_seconds": {"type": "integer"},
                    "node": {"type": "string"},
                    "age_seconds": {"type": "integer"}
                }}},
                "next_page_token": {"type": "string"},
                "left_out": {"type": "string", "description": "what is not on this page"}
            },
            "required": ["outcome", "request_id"]
        }),
        tier: Tier::Low,
    }
}

/// What a page token belongs to.
fn question(p: &PodStatus) -> String {
    let selector = p.label_selector.as_ref().map_or("", |s| s.as_str());
    format!("{}\n{selector}", p.namespace)
}

/// Where the API server is to go on; empty for the first page.
pub(super) fn continue_token(p: &PodStatus, key: &PageKey) -> Result<String, Failure> {
    let Some(token) = &p.page_token else {
        return Ok(String::new());
    };
    key.open(&question(p), token).ok_or_else(|| Failure {
        field: Some("page_token".to_owned()),
        ..Failure::new(
            Code::PageExpired,
            "The parameter page_token is not one that was given for this namespace and selector since sandboxd started.",
        )
    })
}

/// What the sandbox is told to do.
pub(crate) fn start(p: &PodStatus, parts: &Parts) -> Result<wire::Start, Failure> {
    let result_bytes = parts.limits.result_bytes;
    let work = wire::start::Work::PodStatus(wire::PodStatus {
        namespace: p.namespace.to_string(),
        label_selector: p
            .label_selector
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        continue_token: continue_token(p, &parts.page_key)?,
        limit: PAGE,
        // JSON names every field of every pod: about four times what the frame takes.
        max_bytes: u32::try_from(result_bytes / 4).unwrap_or(u32::MAX),
    });
    Ok(wire::Start {
        work: Some(work),
        ..wire::Start::default()
    })
}

/// What the sandbox's output means to the caller.
pub(crate) fn result(
    request: RequestId,
    p: &PodStatus,
    output: wire::Output,
    parts: &Parts,
) -> Result<Report, Failure> {
    match output.output {
        Some(wire::output::Output::Pods(pods)) => {
            let result_bytes = parts.limits.result_bytes;
            Ok(report(request, p, &pods, &parts.page_key, result_bytes))
        }
        Some(wire::output::Output::Terraform(_)) | None => Err(Failure::new(
            Code::Internal,
            "The runner's output is not of this action.",
        )),
    }
}

/// One page, within `result_bytes` both as structure and as text.
fn report(
    request: RequestId,
    p: &PodStatus,
    page: &wire::PodList,
    key: &PageKey,
    result_bytes: usize,
) -> Report {
    let whole = Page {
        request,
        p,
        list: page,
        key,
        messages: usize::MAX,
    };
    let report = whole.report();
    if report.text.len().max(report.structured.to_string().len()) <= result_bytes {
        return report;
    }
    Page {
        messages: SHORT_MESSAGE,
        ..whole
    }
    .report()
}

struct Page<'a> {
    request: RequestId,
    p: &'a PodStatus,
    list: &'a wire::PodList,
    key: &'a PageKey,
    messages: usize,
}

impl Page<'_> {
    fn report(&self) -> Report {
        let mut pods: Vec<&wire::Pod> = self.list.pods.iter().collect();
        pods.sort_by_key(|pod| pod.healthy); // stable: by name within each
        let summary = self.summary(&pods);
        let left_out = self.left_out();
        let next = (!self.list.continue_token.is_empty())
            .then(|| self.key.seal(&question(self.p), &self.list.continue_token));

        let mut lines = vec![summary.clone()];
        lines.extend(pods.iter().map(|pod| self.line(pod)));
        if let (Some(next), Some(left_out)) = (&next, &left_out) {
            lines.push(format!("{left_out}\npage_token for the next page: {next}"));
        }
        let mut structured = json!({
            "outcome": "finished",
            "request_id": self.request,
            "namespace": self.p.namespace,
            "summary": summary,
            "pods": pods.iter().map(|pod| self.object(pod)).collect::<Vec<_>>(),
        });
        if let (Some(next), Some(left_out)) = (next, left_out) {
            structured["next_page_token"] = next.into();
            structured["left_out"] = left_out.into();
        }
        Report {
            structured,
            text: lines.join("\n"),
        }
    }

    fn summary(&self, pods: &[&wire::Pod]) -> String {
        let place = match &self.p.label_selector {
            Some(selector) => format!("namespace {} with {selector}", self.p.namespace),
            None => format!("namespace {}", self.p.namespace),
        };
        let page = if self.p.page_token.is_some() {
            "this page of "
        } else {
            ""
        };
        if pods.is_empty() {
            return format!("No pods in {page}{place}.");
        }
        let mut statuses: BTreeMap<String, u64> = BTreeMap::new();
        for pod in pods {
            *statuses.entry(visible(&pod.status)).or_default() += 1;
        }
        let unhealthy = pods.iter().filter(|p| !p.healthy).count();
        let counts: Vec<_> = statuses
            .iter()
            .map(|(status, n)| format!("{n} {status}"))
            .collect();
        format!(
            "{} in {page}{place}, {unhealthy} not healthy: {}.",
            count(pods.len() as u64, "pod"),
            counts.join(", ")
        )
    }

    fn left_out(&self) -> Option<String> {
        if self.list.continue_token.is_empty() {
            return None;
        }
        Some(match self.list.remaining {
            Some(n) => format!("{} more are not on this page.", count(n, "pod")),
            None => "More pods follow; with a label_selector Kubernetes does not say how many."
                .to_owned(),
        })
    }

    fn line(&self, pod: &wire::Pod) -> String {
        let mut line = vec![format!(
            "{}: {}, {}/{} ready, {}, age {}",
            visible(&pod.name),
            visible(&pod.status),
            pod.ready,
            pod.containers,
            count(pod.restarts.into(), "restart"),
            age(pod.age_seconds),
        )];
        if !pod.node.is_empty() {
            line.push(format!(", node {}", visible(&pod.node)));
        }
        if let Some(seconds) = pod.terminating_seconds {
            line.push(format!(", terminating for {}", age(seconds)));
        }
        if !pod.reason.is_empty() {
            let container = match pod.container.as_str() {
                "" => String::new(),
                name => format!(" in container {}", visible(name)),
            };
            line.push(format!("; reason: {}{container}", visible(&pod.reason)));
        }
        if !pod.message.is_empty() {
            line.push(format!(": {}", self.message(pod)));
        }
        if let Some(last) = &pod.last_termination {
            line.push(format!("; last ended: {}", last_words(last)));
        }
        line.concat()
    }

    fn object(&self, pod: &wire::Pod) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| {
            // What is not there is left out: a page of healthy pods stays short.
            if value.as_str() != Some("") {
                object.insert(key.to_owned(), value);
            }
        };
        put("name", visible(&pod.name).into());
        put("status", visible(&pod.status).into());
        put("phase", visible(&pod.phase).into());
        put("healthy", pod.healthy.into());
        put("ready", format!("{}/{}", pod.ready, pod.containers).into());
        put("restarts", pod.restarts.into());
        put("reason", visible(&pod.reason).into());
        put("container", visible(&pod.container).into());
        put("message", self.message(pod).into());
        if let Some(last) = &pod.last_termination {
            put("last_termination", last_words(last).into());
        }
        if let Some(seconds) = pod.terminating_seconds {
            put("terminating_seconds", seconds.into());
        }
        put("node", visible(&pod.node).into());
        put("age_seconds", pod.age_seconds.into());
        Value::Object(object)
    }

    fn message(&self, pod: &wire::Pod) -> String {
        clipped(&visible(&pod.message), self.messages)
    }
}

fn last_words(last: &wire::LastTermination) -> String {
    let mut words = vec![format!(
        "{}, exit code {}",
        visible(&last.reason),
        last.exit_code
    )];
    if last.signal != 0 {
        words.push(format!(", signal {}", last.signal));
    }
    words.push(format!(", container {}", visible(&last.container)));
    if !last.finished_at.is_empty() {
        words.push(format!(", at {}", visible(&last.finished_at)));
    }
    words.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 48 * 1024;

    fn parameters(token: Option<String>) -> PodStatus {
        PodStatus {
            namespace: "demo-app".parse().unwrap(),
            label_selector: None,
            page_token: token,
        }
    }

    fn pod(name: &str, healthy: bool) -> wire::Pod {
        wire::Pod {
            name: name.to_owned(),
            phase: "Running".to_owned(),
            status: if healthy {
                "Running"
            } else {
                "CrashLoopBackOff"
            }
            .to_owned(),
            containers: 1,
            ready: u32::from(healthy),
            healthy,
            reason: if healthy { "" } else { "CrashLoopBackOff" }.to_owned(),
            age_seconds: 300,
            ..wire::Pod::default()
        }
    }

    fn page(pods: Vec<wire::Pod>) -> Report {
        let id = RequestId::new(1, [0; 10]);
        let list = wire::PodList {
            pods,
            ..wire::PodList::default()
        };
        report(
            id,
            &parameters(None),
            &list,
            &PageKey::generate().unwrap(),
            LIMIT,
        )
    }

    #[test]
    fn what_is_wrong_comes_first_in_text_and_structure() {
        let report = page(vec![pod("a-fine", true), pod("b-broken", false)]);
        assert_eq!(
            report.text,
            "2 pods in namespace demo-app, 1 not healthy: 1 CrashLoopBackOff, 1 Running.\n\
             b-broken: CrashLoopBackOff, 0/1 ready, 0 restarts, age 5m; reason: CrashLoopBackOff\n\
             a-fine: Running, 1/1 ready, 0 restarts, age 5m"
        );
        assert_eq!(report.structured["pods"][0]["name"], "b-broken");
        assert_eq!(report.structured["pods"][0]["reason"], "CrashLoopBackOff");
        assert_eq!(report.structured["pods"][1].get("reason"), None);
    }

    #[test]
    fn an_empty_namespace_is_said_to_be_empty() {
        assert_eq!(page(vec![]).text, "No pods in namespace demo-app.");
    }

    #[test]
    fn the_last_termination_is_always_told() {
        let mut p = pod("a", true);
        p.last_termination = Some(wire::LastTermination {
            container: "app".to_owned(),
            reason: "OOMKilled".to_owned(),
            exit_code: 137,
            signal: 0,
            finished_at: "2026-01-01T00:00:00Z".to_owned(),
        });
        let report = page(vec![p]);
        let words = "OOMKilled, exit code 137, container app, at 2026-01-01T00:00:00Z";
        assert!(
            report.text.ends_with(&format!("last ended: {words}")),
            "{}",
            report.text
        );
        assert_eq!(report.structured["pods"][0]["last_termination"], words);
    }

    #[test]
    fn text_from_the_cluster_cannot_start_a_line() {
        let mut p = pod("a", false);
        p.message = "boom\nfake: Running\u{2028}\u{202e}".to_owned();
        let report = page(vec![p]);
        assert_eq!(report.text.lines().count(), 2);
        assert!(
            report
                .text
                .contains("boom\\nfake: Running\\u{2028}\\u{202e}")
        );
        assert_eq!(
            report.structured["pods"][0]["message"],
            "boom\\nfake: Running\\u{2028}\\u{202e}"
        );
    }

    #[test]
    fn a_page_says_what_was_left_out_and_its_token_is_good_for_the_same_question() {
        let key = PageKey::generate().unwrap();
        let list = wire::PodList {
            pods: vec![pod("a", true)],
            continue_token: "next".to_owned(),
            remaining: Some(1999),
        };
        let report = report(
            RequestId::new(1, [0; 10]),
            &parameters(None),
            &list,
            &key,
            LIMIT,
        );
        assert_eq!(
            report.structured["left_out"],
            "1999 pods more are not on this page."
        );
        let token = report.structured["next_page_token"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(report.text.contains(&token));
        assert_eq!(
            continue_token(&parameters(Some(token.clone())), &key).unwrap(),
            "next"
        );
        let elsewhere = PodStatus {
            namespace: "other".parse().unwrap(),
            ..parameters(Some(token))
        };
        let refused = continue_token(&elsewhere, &key).unwrap_err();
        assert_eq!(
            (refused.code, refused.field.as_deref()),
            (Code::PageExpired, Some("page_token"))
        );
    }

    #[test]
    fn a_page_of_long_messages_is_cut_to_its_limit_and_says_so() {
        // The most the runner lets through: a quarter of the limit, here all of it controls.
        let mut p = pod("a", false);
        p.message = "\u{1}".repeat(500);
        let pods = vec![p; LIMIT / 4 / 560];
        let report = page(pods);
        assert!(report.structured.to_string().len() <= LIMIT);
        assert!(report.text.len() <= LIMIT);
        assert!(report.text.contains("characters in all"));
    }
}
