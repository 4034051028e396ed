//! What time it is. The one place that asks the system; everything else is handed a [`Clock`].

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the wall-clock time in milliseconds since the Unix epoch. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The system's clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that may")]
    pub fn system() -> Self {
        Self(Arc::new(|| {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        }))
    }

    /// A clock that a test moves by hand.
    pub fn from_fn(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ms))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}
