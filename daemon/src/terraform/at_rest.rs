//! Plans and states on their way into the journal and out of it: encrypted where a key of Vault's is configured.

use sandbox_core::names::RootName;
use secrecy::SecretSlice;

use crate::broker::LoginError;
use crate::report::{Code, Failure, chain};
use crate::request::Parts;
use crate::store::{DataKey, Envelope, EnvelopeError, Of, StoredPlan, StoredState};

/// A key for what is about to be kept; `None` where none is configured. Asked for before work begins, so that a
/// Vault that goes away meanwhile loses nothing.
pub(super) async fn key(parts: &Parts) -> Result<Option<DataKey>, Failure> {
    let key = parts.login.data_key().await;
    key.map_err(|e| {
        let none = "There is no key to encrypt plans and states with";
        told(&e, none)
    })
}

/// Encrypts, where there is a key.
pub(super) fn close(plain: &[u8], of: Of<'_>, key: Option<&DataKey>) -> Result<Envelope, Failure> {
    Envelope::close(plain, of, key).map_err(|e: EnvelopeError| {
        Failure::new(
            Code::StoreUnavailable,
            format!("A plan or a state could not be encrypted, so it is not kept: {e}."),
        )
    })
}

/// The plan file, while it is kept.
pub(super) async fn plan_file(
    parts: &Parts,
    plan: &StoredPlan,
) -> Result<Option<SecretSlice<u8>>, Failure> {
    let Some(row) = &plan.bytes else {
        return Ok(None);
    };
    let opened = parts.login.open(row, plan.of()).await;
    let what = "The plan that is kept cannot be read";
    opened.map(Some).map_err(|e| told(&e, what))
}

/// The state file.
pub(super) async fn state_file(
    parts: &Parts,
    root: &RootName,
    state: &StoredState,
) -> Result<SecretSlice<u8>, Failure> {
    let opened = parts.login.open(&state.bytes, state.of(root)).await;
    opened.map_err(|e| told(&e, &format!("The state of the root {root} cannot be read")))
}

fn told(error: &LoginError, what: &str) -> Failure {
    tracing::error!(error = chain(error), "{what}");
    Failure::new(error.code(), format!("{what}: {}.", error.for_callers()))
}
