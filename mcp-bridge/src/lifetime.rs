//! What runs beside the session, and its end.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks that serve no single request, and the signal that ends them.
#[derive(Debug, Default)]
pub(crate) struct Lifetime {
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
}

impl Lifetime {
    /// Stops the tasks and waits for them, but no longer than `limit`.
    pub async fn end(self, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        // What is left then is a write to a disk that hangs; nothing is lost that is not made again.
        timeout(limit, self.tasks.wait()).await.unwrap_or_default();
    }
}
