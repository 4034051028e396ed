//! How long things run: one signal to stop, one tracker of every task.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The signal to stop, and every task that has to end before the daemon does. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Lifetime {
    /// Cancelled once, when no new work is to begin.
    pub stop: CancellationToken,
    tasks: TaskTracker,
}

impl Lifetime {
    /// Starts a task that shutdown will wait for. It watches [`Lifetime::stop`] itself where it would
    /// otherwise go on; clean-up does not.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.tasks.spawn(task)
    }

    /// Cancels, then waits for the tasks for at most `limit`. Returns how many were still running.
    pub async fn end(&self, limit: Duration) -> usize {
        self.stop.cancel();
        self.tasks.close();
        match tokio::time::timeout(limit, self.tasks.wait()).await {
            Ok(()) => 0,
            Err(_) => self.tasks.len(),
        }
    }
}
