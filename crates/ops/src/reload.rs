//! Requests for a reload of the configuration, and their reports. The handle is for every origin of a request: a
//! signal, the admin API, the watch of the file. `app` carries it out.
//!
//! One reload runs at a time. All requests that arrive meanwhile are served by one more, which reads the file as it is
//! then.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use delaybridge_core::clock::Instant;
use delaybridge_model::{Config, Difference, Parts};
use delaybridge_settings::problem::Problem;

/// Maximum number of requests that wait for the next reload.
const WAITING: usize = 64;

/// Maximum number of names in a log line; the others are counted.
const NAMED: usize = 10;

/// The changes that a reload has made or would make. Names are in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Reload", extend("additionalProperties" = true))]
pub struct ReloadReport {
    /// Whether this is a dry run, which changes nothing.
    pub dry_run: bool,
    /// The queues: added, changed, removed, unchanged.
    #[schemars(with = "Map<String, Value>")]
    pub queues: Difference,
    /// The sinks: added, changed, removed, unchanged.
    #[schemars(with = "Map<String, Value>")]
    pub sinks: Difference,
    /// The warnings about the file.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub warnings: Vec<Problem>,
    /// The duration of the reload.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub took: Duration,
}

impl ReloadReport {
    /// Returns whether the file equals the running configuration.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.sinks.is_empty()
    }
}

impl fmt::Display for ReloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no difference");
        }
        let mut first = true;
        for (what, of) in [("queues", &self.queues), ("sinks", &self.sinks)] {
            for (how, names) in [("added", &of.added), ("changed", &of.changed), ("removed", &of.removed)] {
                if names.is_empty() {
                    continue;
                }
                let some: Vec<_> = names.iter().take(NAMED).map(|name| &**name).collect();
                let more = names.len() - some.len();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let comma = if std::mem::take(&mut first) { "" } else { "; " };
                write!(f, "{comma}{what} {how}: {}{more}", some.join(", "))?;
            }
        }
        Ok(())
    }
}

fn seconds<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(took.as_secs_f64())
}

/// The outcome of a reload: its report; or all problems for which it was refused, and nothing was changed.
pub type Outcome = Result<ReloadReport, Vec<Problem>>;

/// A request for a reload, with the channel for its outcome.
#[derive(Debug)]
pub struct ReloadRequest {
    /// Whether only to find out what would change.
    pub dry_run: bool,
    /// The channel for the outcome, if anyone waits for it.
    pub answer: Option<oneshot::Sender<Outcome>>,
}

/// A handle that requests reloads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ReloadHandle {
    requests: mpsc::Sender<ReloadRequest>,
    running: Arc<Mutex<Running>>,
}

/// The running configuration and the hashes of its parts.
#[derive(Debug, Clone)]
struct Running {
    config: Arc<Config>,
    parts: Arc<Parts>,
    since: Instant,
}

impl ReloadHandle {
    /// Creates a handle for the running configuration, and the receiver of its requests.
    pub fn new(config: Arc<Config>, parts: Parts) -> (ReloadHandle, mpsc::Receiver<ReloadRequest>) {
        let (requests, requested) = mpsc::channel(WAITING);
        let running = Running { config, parts: Arc::new(parts), since: Instant::now() };
        (ReloadHandle { requests, running: Arc::new(Mutex::new(running)) }, requested)
    }

    /// Returns the running configuration.
    pub fn running(&self) -> Arc<Config> {
        self.running.lock().config.clone()
    }

    /// Returns the hashes of its parts.
    pub fn parts(&self) -> Arc<Parts> {
        self.running.lock().parts.clone()
    }

    /// Time since the running configuration was read.
    pub fn age(&self) -> Duration {
        self.running.lock().since.elapsed()
    }

    /// Replaces the running configuration.
    pub fn runs(&self, config: Arc<Config>, parts: Parts) {
        *self.running.lock() = Running { config, parts: Arc::new(parts), since: Instant::now() };
    }

    /// Reads the file and applies it, or with `dry_run` only reports what would change. Returns when that is done.
    /// Cancel safe: a request that was made is still served.
    ///
    /// # Errors
    ///
    /// Returns all problems for which the file was refused; nothing was changed then.
    pub async fn reload(&self, dry_run: bool) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let request = ReloadRequest { dry_run, answer: Some(answer) };
        match self.requests.try_send(request) {
            Ok(()) => answered.await.unwrap_or_else(|_| Err(vec![refusal(STOPPING)])),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(vec![refusal("reload: too many others wait for a reload; try again")])
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(vec![refusal(STOPPING)]),
        }
    }

    /// Requests a reload without waiting for it. Its outcome is logged and counted.
    pub fn knock(&self) {
        // Ignore the error: if the queue is full, a pending request is served later than this one.
        let _ = self.requests.try_send(ReloadRequest { dry_run: false, answer: None });
    }
}

const STOPPING: &str = "reload: the daemon is stopping";

/// Returns a refusal that is not about a position in the file.
fn refusal(message: &str) -> Problem {
    Problem { file: String::new(), position: None, path: String::new(), message: message.to_owned(), help: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> (ReloadHandle, mpsc::Receiver<ReloadRequest>) {
        let text = "redis: { url: 'redis://h' }\nsinks: { out: { stdout: } }\n\
            queues: { q: { source: { redisson: { name: n } }, to: [{ sink: out }] } }\n";
        let loaded = delaybridge_config::load_str(text, "c.yaml", &|_| None).unwrap();
        ReloadHandle::new(Arc::new(loaded.config), loaded.parts)
    }

    #[tokio::test]
    async fn a_request_is_answered_also_when_the_daemon_stops_or_has_no_room_for_it() {
        let (handle, mut requested) = handle();
        let answering = async {
            let request = requested.recv().await.unwrap();
            assert!(request.dry_run);
            request.answer.unwrap().send(Ok(ReloadReport { dry_run: true, ..ReloadReport::default() })).unwrap();
        };
        assert!(tokio::join!(handle.reload(true), answering).0.unwrap().is_empty());

        (0..WAITING + 1).for_each(|_| handle.knock());
        let full = handle.reload(false).await.unwrap_err();
        assert!(full[0].message.contains("try again"), "{full:?}");
        drop(requested);
        let stopping = handle.reload(false).await.unwrap_err();
        assert_eq!(stopping[0].message, STOPPING);
    }
}
