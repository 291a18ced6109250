//! Asking for a reload of the configuration, and what came of it. The handle is for whoever hears the wish: a signal, the
//! admin API, a watch of the file. `app` carries it out.
//!
//! One reload runs at a time. Wishes that come meanwhile are served together by one more, which reads what is in the file
//! then.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use crate::config::{Config, Difference, Parts, Problem};

/// Wishes that wait for the one reload that serves them all.
const WAITING: usize = 64;

/// Names that a line has; the others are counted.
const NAMED: usize = 10;

/// What a reload did, or would do. Names are in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether nothing was changed, because only the question was asked.
    pub dry_run: bool,
    /// The queues.
    pub queues: Difference,
    /// The sinks.
    pub sinks: Difference,
    /// What is doubtful in the file, but not wrong.
    pub warnings: Vec<Problem>,
    /// How long it took.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub took: Duration,
}

impl Report {
    /// Whether the file says what runs.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.sinks.is_empty()
    }
}

impl fmt::Display for Report {
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

/// What came of a reload: what it did; or everything for which it was refused, and then nothing has changed.
pub type Outcome = Result<Report, Vec<Problem>>;

/// A wish, with the place for the answer.
#[derive(Debug)]
pub struct Wish {
    /// Only to learn what would change.
    pub dry_run: bool,
    /// Whoever asked may be gone.
    pub answer: Option<oneshot::Sender<Outcome>>,
}

/// Asks for reloads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ReloadHandle {
    wishes: mpsc::Sender<Wish>,
    running: Arc<Mutex<Running>>,
}

/// A configuration that runs.
#[derive(Debug, Clone)]
struct Running {
    config: Arc<Config>,
    parts: Arc<Parts>,
}

impl ReloadHandle {
    /// A handle, and the wishes that come over it. `running` is what the daemon was started with.
    pub fn new(config: Arc<Config>, parts: Parts) -> (ReloadHandle, mpsc::Receiver<Wish>) {
        let (wishes, wished) = mpsc::channel(WAITING);
        let running = Running { config, parts: Arc::new(parts) };
        (ReloadHandle { wishes, running: Arc::new(Mutex::new(running)) }, wished)
    }

    /// The configuration that runs.
    pub fn running(&self) -> Arc<Config> {
        self.running.lock().config.clone()
    }

    /// Hashes of its parts.
    pub fn parts(&self) -> Arc<Parts> {
        self.running.lock().parts.clone()
    }

    /// From here on this one runs.
    pub fn runs(&self, config: Arc<Config>, parts: Parts) {
        *self.running.lock() = Running { config, parts: Arc::new(parts) };
    }

    /// Reads the file, and runs what it says; with `dry_run` it only says what would change. Returns when that is done. Cancel
    /// safe: what was asked for is done all the same.
    ///
    /// # Errors
    ///
    /// Everything for which it was refused; nothing has changed then.
    pub async fn reload(&self, dry_run: bool) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let wish = Wish { dry_run, answer: Some(answer) };
        match self.wishes.try_send(wish) {
            Ok(()) => answered.await.unwrap_or_else(|_| Err(vec![refusal(STOPPING)])),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(vec![refusal("reload: too many others wait for a reload; try again")])
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(vec![refusal(STOPPING)]),
        }
    }

    /// Asks for a reload, and does not wait for it. What comes of it is logged and counted.
    pub fn knock(&self) {
        // Where no place is left, another wish is served later than this.
        drop(self.wishes.try_send(Wish { dry_run: false, answer: None }));
    }
}

const STOPPING: &str = "reload: the daemon is stopping";

/// A refusal that is about no place in the file.
fn refusal(message: &str) -> Problem {
    Problem { file: String::new(), position: None, path: String::new(), message: message.to_owned(), help: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn handle() -> (ReloadHandle, mpsc::Receiver<Wish>) {
        let text = "redis: { url: 'redis://h' }\nsinks: { out: { stdout: } }\n\
            queues: { q: { source: { redisson: { name: n } }, to: [{ sink: out }] } }\n";
        let loaded = config::load_str(text, "c.yaml", &|_| None).unwrap();
        ReloadHandle::new(Arc::new(loaded.config), loaded.parts)
    }

    #[tokio::test]
    async fn a_wish_is_answered_also_when_the_daemon_stops_or_has_no_room_for_it() {
        let (handle, mut wished) = handle();
        let answering = async {
            let wish = wished.recv().await.unwrap();
            assert!(wish.dry_run);
            wish.answer.unwrap().send(Ok(Report { dry_run: true, ..Report::default() })).unwrap();
        };
        assert!(tokio::join!(handle.reload(true), answering).0.unwrap().is_empty());

        (0..WAITING + 1).for_each(|_| handle.knock());
        let full = handle.reload(false).await.unwrap_err();
        assert!(full[0].message.contains("try again"), "{full:?}");
        drop(wished);
        let stopping = handle.reload(false).await.unwrap_err();
        assert_eq!(stopping[0].message, STOPPING);
    }
}
