//! The daemon's login to Vault. Children die with their parent, so a login must outlive whatever is
//! asked for under it, and an old one is let go only when nothing hangs from it.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::vault::{Vault, VaultError};
use crate::clock::Clock;
use crate::config;
use crate::report::chain;
use crate::store::{Store, StoreError};

/// What must be left of a login before anything is asked for under it: the longest lease and a margin.
const NEEDED: Duration = Duration::from_mins(20);

/// One login.
pub(super) struct Session {
    pub(super) token: SecretString,
    /// What it can be ended by, and no secret.
    accessor: String,
    ends: Instant,
}

/// The login in use, and those that leases still hang from.
#[derive(Debug)]
pub(super) struct Sessions {
    config: config::Vault,
    store: Store,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Arc<Session>>,
    old: Vec<Arc<Session>>,
}

impl Session {
    pub(super) fn new(token: SecretString, accessor: String, lives: Duration) -> Self {
        Self {
            token,
            accessor,
            ends: Instant::now() + lives,
        }
    }

    fn is_good(&self) -> bool {
        self.ends.saturating_duration_since(Instant::now()) > NEEDED
    }
}

impl Sessions {
    pub(super) fn new(config: config::Vault, store: Store, clock: Clock) -> Self {
        Self {
            config,
            store,
            clock,
            state: Mutex::default(),
        }
    }

    /// A login with enough life left; logs in when there is none.
    pub(super) async fn current(&self, vault: &Vault) -> Result<Arc<Session>, SessionError> {
        let mut state = self.state.lock().await;
        if let Some(session) = &state.current
            && session.is_good()
        {
            return Ok(Arc::clone(session));
        }
        let fresh = Arc::new(vault.log_in(&self.config).await?);
        let opened = self
            .store
            .login_opened(fresh.accessor.clone(), self.clock.now_ms());
        opened.await?;
        let before = state.current.replace(Arc::clone(&fresh));
        state.old.extend(before);
        let (unused, still_used) = std::mem::take(&mut state.old)
            .into_iter()
            .partition(|s| Arc::strong_count(s) == 1);
        state.old = still_used;
        drop(state);
        for session in unused {
            self.revoke(vault, &session).await;
        }
        Ok(fresh)
    }

    /// Gives every login back.
    pub(super) async fn end(&self, vault: &Vault) {
        let State { current, old } = std::mem::take(&mut *self.state.lock().await);
        for session in current.into_iter().chain(old) {
            self.revoke(vault, &session).await;
        }
    }

    /// Lets the login go that Vault refused, unless another one took its place meanwhile.
    pub(super) async fn forget(&self, refused: &Arc<Session>) {
        let mut state = self.state.lock().await;
        if state
            .current
            .as_ref()
            .is_some_and(|s| Arc::ptr_eq(s, refused))
        {
            let gone = state.current.take();
            state.old.extend(gone);
        }
    }

    async fn revoke(&self, vault: &Vault, session: &Session) {
        if let Err(e) = vault.revoke_self(session).await {
            // It ends by itself within the hour, or at the next start.
            tracing::debug!(error = chain(&e), "an old login was not revoked");
            return;
        }
        if let Err(e) = self.store.login_closed(session.accessor.clone()).await {
            tracing::warn!(error = chain(&e), "the journal did not close a login");
        }
    }
}

/// Why there is no login.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("the journal did not take the login")]
    Store(#[from] StoreError),
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
