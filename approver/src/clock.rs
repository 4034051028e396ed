//! What time it is. The one place that asks the system; everything else is handed the time.

use std::time::SystemTime;

use sandbox_core::audit::UtcMillis;

/// Milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "the one place that may")]
pub(crate) fn now_ms() -> i64 {
    UtcMillis::from(SystemTime::now()).as_unix_ms()
}
