//! The right to do one thing once.

use super::{BindingDigest, Terms};
use crate::audit::UtcMillis;
use crate::ids::{ApprovalId, RequestId};

/// The right of one request to do, once, exactly what was approved. Made only by
/// [`super::Approval::consume`], and worth something only once that step is durable: the store hands it on
/// after its commit. Neither `Clone` nor `Deserialize`, and whoever runs what it allows takes it by value.
///
/// ```
/// # use sandbox_core::approval::Grant;
/// fn run(grant: Grant) {}
/// fn once(grant: Grant) {
///     run(grant);
/// }
/// ```
/// A second use does not compile:
/// ```compile_fail,E0382
/// # use sandbox_core::approval::Grant;
/// fn run(grant: Grant) {}
/// fn twice(grant: Grant) {
///     run(grant);
///     run(grant);
/// }
/// ```
/// Nor does a copy:
/// ```compile_fail,E0599
/// # use sandbox_core::approval::Grant;
/// fn copy(grant: &Grant) -> Grant {
///     Grant::clone(grant)
/// }
/// ```
/// Nor one that was written down:
/// ```compile_fail,E0277
/// # use sandbox_core::approval::Grant;
/// fn read(text: &str) -> Grant {
///     serde_json::from_str(text).unwrap()
/// }
/// ```
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a grant that is dropped leaves its approval used up and nothing done"]
pub struct Grant {
    approval: ApprovalId,
    request: RequestId,
    digest: BindingDigest,
    expires: UtcMillis,
}

impl Grant {
    pub(super) fn new(terms: &Terms, request: RequestId) -> Self {
        Self {
            approval: terms.id,
            request,
            digest: terms.digest,
            expires: terms.expires,
        }
    }

    /// The approval it came from.
    #[must_use]
    pub fn approval(&self) -> ApprovalId {
        self.approval
    }

    /// The request it is for.
    #[must_use]
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// Of everything that was approved.
    #[must_use]
    pub fn digest(&self) -> BindingDigest {
        self.digest
    }

    /// When it would have been too late.
    #[must_use]
    pub fn expires(&self) -> UtcMillis {
        self.expires
    }
}
