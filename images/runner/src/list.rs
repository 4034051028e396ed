//! The work of `PodStatus`: one page of a namespace's pods, as many as the result may hold.

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use prost::Message as _;
use prost::encoding::encoded_len_varint;
use sandbox_proto::MAX_FRAME_BYTES;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_proto::runner::v1::{Failure, PodList, PodStatus, output};

use crate::api::Reply;
use crate::caller::{Answer, Caller, failure};
use crate::page;

/// What the frame adds around a `PodList`, generously.
const FRAME_SLACK: usize = 64;

/// RFC 3986's unreserved characters stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Lists the pods and sends them as Output.
///
/// # Errors
/// A [`Failure`]; nothing was sent then.
pub async fn pod_status(work: &PodStatus, caller: &mut Caller) -> Result<(), Failure> {
    let pods = one_page(work, caller).await?;
    caller.reports.output(output::Output::Pods(pods)).await;
    Ok(())
}

/// Asks for fewer pods from the same place until what comes fits. A continue token names a place
/// between two pods, so a page that is too long cannot be cut: it has to be asked for again.
async fn one_page(work: &PodStatus, caller: &mut Caller) -> Result<PodList, Failure> {
    let query = Query::new(work)?;
    let max_bytes = usize::try_from(work.max_bytes).unwrap_or(usize::MAX);
    let max_bytes = max_bytes.min(MAX_FRAME_BYTES - FRAME_SLACK);
    let mut limit = work.limit;
    loop {
        caller.reports.progress("list").await;
        let fitting = match caller.get(&query.path(limit), &query.shown(limit)).await? {
            Answer::TooLong => limit / 2,
            Answer::Reply(reply) => {
                let pods = read(&reply)?;
                if pods.encoded_len() <= max_bytes {
                    return Ok(pods);
                }
                let fitting = u32::try_from(how_many_fit(&pods, max_bytes)).unwrap_or(u32::MAX);
                // Fewer than asked for, always: so this ends.
                fitting.min(limit - 1)
            }
        };
        if fitting == 0 {
            let detail = format!("not even one pod fits the limit of {max_bytes} bytes");
            return Err(failure(Kind::TooLarge, &detail));
        }
        limit = fitting;
    }
}

/// How many of the first pods would fit by themselves, with what goes along with any of them.
fn how_many_fit(pods: &PodList, max_bytes: usize) -> usize {
    let along = PodList {
        pods: Vec::new(),
        continue_token: pods.continue_token.clone(),
        remaining: Some(u64::MAX),
    };
    let mut total = along.encoded_len();
    let fits = |pod: &&sandbox_proto::runner::v1::Pod| {
        let length = pod.encoded_len();
        total += 1 + encoded_len_varint(length as u64) + length;
        total <= max_bytes
    };
    pods.pods.iter().take_while(fits).count()
}

fn read(reply: &Reply) -> Result<PodList, Failure> {
    if reply.status != http::StatusCode::OK {
        return Err(refusal(reply));
    }
    let now = reply.date.unwrap_or_else(Timestamp::now);
    page::read(&reply.body, now).map_err(|error| {
        failure(
            Kind::Server,
            &format!("the API server's answer is no page of pods: {error}"),
        )
    })
}

/// The API server's no, in its own words where it has some.
fn refusal(reply: &Reply) -> Failure {
    let kind = match reply.status.as_u16() {
        400 => Kind::BadRequest,
        401 | 403 => Kind::Forbidden,
        404 => Kind::NotFound,
        410 => Kind::ExpiredPage,
        _ => Kind::Server,
    };
    let status = reply.status.as_u16();
    let detail = match page::refusal_message(&reply.body) {
        Some(message) => format!("the API server answered {status}: {message}"),
        None => format!("the API server answered {status} without saying why"),
    };
    failure(kind, &detail)
}

/// The request line of a page.
struct Query {
    namespace: String,
    label_selector: String,
    continue_token: String,
}

impl Query {
    fn new(work: &PodStatus) -> Result<Self, Failure> {
        // The daemon has checked both. A path is put together here, so it is checked here as well.
        if !is_dns_label(&work.namespace) {
            return Err(failure(Kind::Internal, "the namespace is no DNS label"));
        }
        if work.limit == 0 {
            return Err(failure(Kind::Internal, "a page of no pods was asked for"));
        }
        let encode = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
        Ok(Self {
            namespace: work.namespace.clone(),
            label_selector: encode(&work.label_selector),
            continue_token: encode(&work.continue_token),
        })
    }

    fn path(&self, limit: u32) -> String {
        let shown = self.shown(limit);
        match self.continue_token.as_str() {
            "" => shown,
            token => format!("{shown}&continue={token}"),
        }
    }

    /// As the audit has it: without the continue token, which is long and says nothing.
    fn shown(&self, limit: u32) -> String {
        let path = format!("/api/v1/namespaces/{}/pods?limit={limit}", self.namespace);
        match self.label_selector.as_str() {
            "" => path,
            selector => format!("{path}&labelSelector={selector}"),
        }
    }
}

fn is_dns_label(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_line_is_encoded_and_shown_without_its_continue_token() {
        let query = Query::new(&PodStatus {
            namespace: "demo-app".to_owned(),
            label_selector: "app in (a, b),tier!=x&limit=9".to_owned(),
            continue_token: "ab+/c==".to_owned(),
            limit: 500,
            max_bytes: 1,
        });
        let query = query.unwrap();
        let shown = "/api/v1/namespaces/demo-app/pods?limit=7\
                     &labelSelector=app%20in%20%28a%2C%20b%29%2Ctier%21%3Dx%26limit%3D9";
        assert_eq!(query.shown(7), shown);
        assert_eq!(query.path(7), format!("{shown}&continue=ab%2B%2Fc%3D%3D"));
    }

    #[test]
    fn a_namespace_cannot_leave_its_place_in_the_path() {
        let long = "a".repeat(64);
        for namespace in ["", "..", "a/b", "A", "a?b", "-a", "a-", "ä", &long] {
            let work = PodStatus {
                namespace: namespace.to_owned(),
                limit: 1,
                ..PodStatus::default()
            };
            let refused = Query::new(&work).err().unwrap();
            assert_eq!(refused.kind(), Kind::Internal, "{namespace:?}");
        }
    }
}
