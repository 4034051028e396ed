//! Reading what the API server writes: a page of pods, or a Status that says no.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use sandbox_proto::runner::v1::PodList;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::pods;

/// Why a body is no page of pods.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Not JSON, or not a list.
    #[error("{0}")]
    List(serde_json::Error),
    /// A list of something else.
    #[error("its kind is {0:?}")]
    Kind(String),
    /// One of the pods does not read.
    #[error("item {index}: {source}")]
    Item {
        /// Which one, from 0.
        index: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// Summarises each pod of a page, one after another: whole, a page of pods takes many times the
/// memory of its text.
///
/// # Errors
/// [`PageError`], by what does not read.
pub fn read(body: &[u8], now: Timestamp) -> Result<PodList, PageError> {
    let list: List<'_> = serde_json::from_slice(body).map_err(PageError::List)?;
    if list.kind != "PodList" {
        return Err(PageError::Kind(list.kind.into_owned()));
    }
    let mut pods = Vec::new();
    for (index, item) in list.items.unwrap_or_default().into_iter().enumerate() {
        let pod: Pod =
            serde_json::from_str(item.get()).map_err(|source| PageError::Item { index, source })?;
        pods.push(pods::summarise(&pod, now));
    }
    let remaining = list.metadata.remaining_item_count;
    Ok(PodList {
        pods,
        continue_token: list.metadata.continue_.unwrap_or_default(),
        remaining: remaining.and_then(|count| u64::try_from(count).ok()),
    })
}

/// The message of a Kubernetes Status, if that is what the body is and it has one.
#[must_use]
pub fn refusal_message(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    let status: Status = serde_json::from_slice(body).ok()?;
    Some(status.message).filter(|message| !message.trim().is_empty())
}
