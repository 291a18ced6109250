//! The tasks that drive connections: counted, so that closing can wait for them, and ended with the sink.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// All tasks of a sink. What their end means is seen by whoever uses the connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    running: TaskTracker,
    end: CancellationToken,
}

impl Tasks {
    /// Runs until it is done, or until the sink ends.
    pub(super) fn spawn(&self, task: impl Future<Output: Send> + Send + 'static) {
        let end = self.end.clone();
        self.running.spawn(async move {
            let _ = end.run_until_cancelled(task).await;
        });
    }

    /// Waits until all are done.
    pub(super) async fn done(&self) {
        self.running.close();
        self.running.wait().await;
    }

    pub(super) fn end(&self) {
        self.end.cancel();
    }
}

/// HTTP/2 connections start tasks of their own.
impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}
