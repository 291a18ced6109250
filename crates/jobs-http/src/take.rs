//! Taking jobs for a client that may be gone by the time they come.

use std::time::Duration;

use super::Api;
use super::v1::errors::{AGAIN, problem};
use delaybridge_http_server::handover;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_jobs::{PopRequest, Reserved};

/// Longest wait for jobs while the server leaves. An empty answer at once would be asked again at once.
const LAST_WAIT: Duration = Duration::from_secs(1);

impl Api {
    /// Waits for jobs: returns them as soon as there are any, or none when the time is over, or a second after SIGTERM;
    /// and what puts them back unless it gets to the client. Safe to drop at any point.
    ///
    /// # Errors
    /// Those of the queue. Once the listener closes nothing is popped.
    pub async fn take(&self, wanted: PopRequest) -> Result<(Vec<Reserved>, handover::HandedOut), Problem> {
        if self.end.closing.is_cancelled() {
            let detail = "pop jobs: the server is stopping; ask another one, or try again";
            return Err(Problem::new(ProblemKind::Stopping, detail).retry_after(AGAIN));
        }
        let last = async {
            self.end.leaving.cancelled().await;
            tokio::time::sleep(LAST_WAIT).await;
        };
        // Order: jobs that came. Safe to drop: the dispenser takes back what it has reserved.
        let jobs = tokio::select! {
            biased;
            jobs = self.dispenser.take(wanted) => jobs.map_err(|error| problem("pop jobs", error))?,
            () = last => Vec::new(),
        };
        if jobs.is_empty() {
            return Ok((jobs, handover::HandedOut::new(|| {})));
        }
        let dispenser = self.dispenser.clone();
        let events = self.events.clone();
        // Bodies are shared, not copied.
        let held = jobs.clone();
        let put_back = move || {
            events.put_back(held.len());
            dispenser.put_back(held);
        };
        Ok((jobs, handover::HandedOut::new(put_back)))
    }
}
