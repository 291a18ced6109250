//! The daemon that a configuration names (`http.admin`), asked beside Redis: holds, sinks, rates and recent attempts are known to
//! daemons alone, and a command that only reads would say that nothing is in the way where a sink is down.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use super::daemon::reachable;
use super::error::Error;
use super::overview::{Overview, QueueRow, SinkList};
use super::remote::Daemon;
use delaybridge_model::Config;
use delaybridge_settings::Listen;

/// Limit for an answer: Redis has answered already, and a person waits.
const PATIENCE: Duration = Duration::from_secs(3);

/// The daemon that the configuration names, and why it was not asked the last time.
#[derive(Default)]
pub struct NamedDaemon {
    /// None where the configuration names no daemon.
    daemon: Option<Daemon>,
    /// The daemon has tokens, and this has none: what takes one is not asked for, which would be a line in its log each time.
    lacks_token: bool,
    problem: Mutex<Option<String>>,
}

/// The reason why a daemon adds nothing to an answer.
type NotAsked = String;

impl NamedDaemon {
    /// Returns the daemon of this configuration, with the token of a file.
    ///
    /// # Errors
    ///
    /// The mistake in the file.
    pub fn of(config: &Config, token_file: Option<&Path>) -> Result<NamedDaemon, Error> {
        let Some(admin) = &config.admin else { return Ok(NamedDaemon::default()) };
        let url = match &admin.listen {
            Listen::Tcp(address) => format!("http://{}", reachable(*address)),
            Listen::Unix(path) => format!("unix:{}", path.display()),
        };
        let lacks_token = admin.tokens_file.is_some() && token_file.is_none();
        Ok(NamedDaemon { daemon: Some(Daemon::at(&url, token_file)?), lacks_token, problem: Mutex::default() })
    }

    /// Returns the daemon itself, if the configuration names one.
    pub fn into_daemon(self) -> Option<Daemon> {
        self.daemon
    }

    /// Why it added nothing to the last answer; none where it did, and where there is none.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// The answer of the daemon to a question that takes a token, about a queue, if it serves the one at this place.
    pub(super) async fn ask_with_token<'a, T, F>(
        &'a self,
        queue: &str,
        place: &str,
        ask: impl FnOnce(&'a Daemon) -> F,
    ) -> Option<T>
    where
        F: Future<Output = Result<T, Error>>,
    {
        match &self.daemon {
            Some(daemon) if self.lacks_token => {
                let address = daemon.address();
                self.note(Err(format!("the daemon at {address} wants a token; name its file by --token-file")))
            }
            _ => self.ask(queue, place, ask).await,
        }
    }

    /// The answer of the daemon about a queue, if it serves the one at this place.
    pub(super) async fn ask<'a, T, F>(
        &'a self,
        queue: &str,
        place: &str,
        ask: impl FnOnce(&'a Daemon) -> F,
    ) -> Option<T>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let daemon = self.daemon.as_ref()?;
        let found = async {
            is_same(daemon, queue, [place, &in_time(daemon, daemon.row(queue)).await?.state.place])?;
            in_time(daemon, ask(daemon)).await
        };
        self.note(found.await)
    }

    /// Adds to the rows what the daemon knows of these very queues.
    pub(super) async fn add(
        &self,
        found: &mut Overview,
        ask: impl AsyncFnOnce(Daemon) -> Result<(Overview, SinkList), Error>,
    ) -> Option<SinkList> {
        let daemon = self.daemon.as_ref()?;
        let added = async {
            let (theirs, sinks) = in_time(daemon, ask(daemon.clone())).await?;
            add_rows(daemon, found, theirs)?;
            Ok(sinks)
        };
        self.note(added.await)
    }

    fn note<T>(&self, found: Result<T, NotAsked>) -> Option<T> {
        let (found, problem) = match found {
            Ok(found) => (Some(found), None),
            Err(problem) => (None, Some(problem)),
        };
        *self.problem.lock() = problem;
        found
    }
}

/// Adds the rows of a daemon to those of the same queues. The inputs and the clocks are those of the daemon.
fn add_rows(daemon: &Daemon, found: &mut Overview, theirs: Overview) -> Result<(), NotAsked> {
    let mut rows: HashMap<String, QueueRow> =
        theirs.queues.into_iter().map(|row| (row.state.queue.clone(), row)).collect();
    let mut other = None;
    let mut same = 0;
    for own in &mut found.queues {
        let Some(row) = rows.remove(&own.state.queue) else {
            other.get_or_insert_with(|| lacks(daemon, &own.state.queue));
            continue;
        };
        let places = [&own.state.place[..], &row.state.place];
        match (is_same(daemon, &own.state.queue, places), row.here) {
            (Ok(()), Some(here)) => {
                own.add(here);
                same += 1;
            }
            (Ok(()), None) => {}
            (Err(problem), _) => {
                let _ = other.get_or_insert(problem);
            }
        }
    }
    match other {
        Some(problem) if same == 0 => Err(problem),
        _ => {
            (found.inputs, found.clocks) = (theirs.inputs, theirs.clocks);
            Ok(())
        }
    }
}

/// Returns whether both places are of the same queue.
fn is_same(daemon: &Daemon, queue: &str, [own, theirs]: [&str; 2]) -> Result<(), NotAsked> {
    let address = daemon.address();
    match (own.is_empty() || theirs.is_empty(), own == theirs) {
        (true, _) => Err(format!(
            "ask the daemon at {address}: it is not known whether it has the same Redis; is it another version?"
        )),
        (false, true) => Ok(()),
        (false, false) => {
            Err(format!("ask the daemon at {address}: its queue `{queue}` is another one, or in another Redis"))
        }
    }
}

fn lacks(daemon: &Daemon, queue: &str) -> NotAsked {
    format!("ask the daemon at {}: it has no queue `{queue}`", daemon.address())
}

async fn in_time<T>(daemon: &Daemon, answer: impl Future<Output = Result<T, Error>>) -> Result<T, NotAsked> {
    match timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| error.message),
        Err(_) => {
            let seconds = PATIENCE.as_secs();
            Err(format!("ask the daemon at {}: no answer within {seconds} s", daemon.address()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::Here;
    use crate::queue_state::QueueState;

    fn row(queue: &str, place: &str, here: Option<Here>) -> QueueRow {
        let state = QueueState { queue: queue.to_owned(), place: place.to_owned(), ..QueueState::default() };
        QueueRow { state, here }
    }

    #[test]
    fn a_daemon_adds_to_the_same_queues_alone() {
        let daemon = Daemon::at("http://127.0.0.1:1", None).unwrap();
        let here = Here { failed_per_second: 1.5, ..Here::default() };
        let theirs = || Overview {
            queues: vec![row("a", "r1/0 zset k", Some(here.clone())), row("b", "r1/0 zset k", Some(here.clone()))],
            ..Overview::default()
        };
        let added = |own: Vec<QueueRow>| {
            let mut found = Overview { queues: own, ..Overview::default() };
            let result = add_rows(&daemon, &mut found, theirs());
            let here: Vec<_> = found.queues.iter().map(|row| row.here.is_some()).collect();
            (here, result.err().unwrap_or_default())
        };
        let own = |queue, place| row(queue, place, None);
        let both = vec![own("a", "r1/0 zset k"), own("b", "r2/0 zset k"), own("c", "r1/0 zset k")];
        assert_eq!(added(both), (vec![true, false, false], String::new()), "one is the same");
        for (queue, place, problem) in [
            ("a", "r2/0 zset k", "its queue `a` is another one, or in another Redis"),
            ("a", "r1/1 zset k", "its queue `a` is another one, or in another Redis"),
            ("a", "", "not known whether it has the same Redis"),
            ("c", "r1/0 zset k", "it has no queue `c`"),
        ] {
            let (here, found) = added(vec![own(queue, place)]);
            assert!(here == [false] && found.contains(problem), "{queue} {place}: {found}");
        }
    }
}
