//! The board as values, for the operators' page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::answer::age;
use super::{InputLook, Redis, SinkState, Status, Trouble};

/// A snapshot of the board for operators.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Whether the first claims could be made.
    pub started: bool,
    /// The random number of the process, in hexadecimal digits; empty before the start.
    pub owner: String,
    /// The hash of the settings that run.
    pub configuration: String,
    /// Whether the drain has begun.
    pub stopping: bool,
    /// Whether the readiness probe succeeds.
    pub ready: bool,
    /// Every Redis, with the reason if it is unreachable.
    pub redis: Vec<(Arc<str>, Option<Away>)>,
    /// Seconds by which this machine's clock is ahead of that of a Redis, where the difference is great.
    pub clocks: Vec<(Arc<str>, f64)>,
    /// The queues on hold, each with the reason and the age in seconds.
    pub held: BTreeMap<Arc<str>, (String, u64)>,
    /// The queues that are on hold because of a sink, by that sink.
    pub held_by_sink: BTreeMap<String, HeldQueues>,
    /// The queues that are paused, or have a paused sink.
    pub paused: BTreeSet<Arc<str>>,
    /// The sinks, by name.
    pub sinks: BTreeMap<Arc<str>, SinkLook>,
    /// The inputs, by name.
    pub inputs: BTreeMap<Arc<str>, InputLook>,
    /// The first destinations in trouble.
    pub destinations: Vec<Trouble>,
}

/// The queues that are on hold because of one sink.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldQueues {
    /// The number of queues.
    pub queues: usize,
    /// The reason of the one that is held for longest.
    pub reason: String,
    /// The age in seconds.
    pub seconds: u64,
}

/// The reason why a Redis is unreachable, and since how many seconds.
pub type Away = (String, u64);

/// A sink on the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkLook {
    /// `unknown`, `up`, `blocked` or `down`.
    pub state: &'static str,
    /// The reason why it is blocked or down.
    pub reason: Option<String>,
    /// The age of this state, in seconds.
    pub seconds: u64,
    /// The last reason why it was blocked or down, and how many seconds ago it was reported.
    pub last_problem: Option<(String, u64)>,
}

impl Status {
    /// Takes a snapshot of the board.
    pub fn look(&self) -> Look {
        let ready = self.ready().ok;
        let board = self.board();
        let redis = board.redis.iter().map(|(name, redis)| {
            let away = match redis {
                Redis::Up => None,
                Redis::NotYet => Some(("not connected yet".to_owned(), 0)),
                Redis::Lost(reason, since) => Some((reason.clone(), age(*since))),
            };
            (name.clone(), away)
        });
        let held =
            board.held.iter().map(|(queue, (reason, since))| (queue.clone(), (reason.text.clone(), age(*since))));
        let mut held_by_sink: BTreeMap<String, HeldQueues> = BTreeMap::new();
        for (reason, since) in board.held.values() {
            let Some(sink) = &reason.sink else { continue };
            let found = held_by_sink.entry(sink.clone()).or_default();
            found.queues += 1;
            if found.queues == 1 || age(*since) > found.seconds {
                let own = reason.text.strip_prefix(&format!("sink {sink}: ")).unwrap_or(&reason.text);
                (found.reason, found.seconds) = (own.to_owned(), age(*since));
            }
        }
        let sinks = board.sinks.iter().map(|(sink, (state, since))| {
            let (state, reason) = match state {
                SinkState::Unknown => ("unknown", None),
                SinkState::Up => ("up", None),
                SinkState::Blocked(reason) => ("blocked", Some(reason.text.clone())),
                SinkState::Down(reason) => ("down", Some(reason.text.clone())),
            };
            let last_problem = board.last_problems.get(sink).map(|(text, at)| (text.clone(), age(*at)));
            (sink.clone(), SinkLook { state, reason, seconds: age(*since), last_problem })
        });
        Look {
            started: board.started,
            owner: board.owner.clone(),
            configuration: board.reload.hash().to_owned(),
            stopping: board.stopping,
            ready,
            redis: redis.collect(),
            clocks: board.clocks.iter().map(|(redis, ahead)| (redis.clone(), *ahead)).collect(),
            held: held.collect(),
            held_by_sink,
            paused: board.paused.keys().cloned().collect(),
            sinks: sinks.collect(),
            inputs: board.inputs.looks().collect(),
            destinations: board.destinations.listed().0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Reason;
    use crate::status::tests::{reason, running};

    #[test]
    fn a_sink_that_works_again_shows_what_it_had() {
        let status = running();
        let events = || status.look().sinks["events"].clone();
        assert_eq!((events().state, events().last_problem), ("up", None));
        status.sink(&"events".into(), SinkState::Down(reason("no broker")));
        assert_eq!((events().state, events().reason.as_deref()), ("down", Some("no broker")));
        assert!(!status.look().ready);
        status.sink(&"events".into(), SinkState::Up);
        let now = events();
        assert_eq!((now.state, now.reason, now.last_problem), ("up", None, Some(("no broker".to_owned(), 0))));
    }

    #[test]
    fn a_hold_says_why() {
        let status = running();
        status.held(&"orders".into(), Some(reason("WRONGTYPE")));
        assert_eq!(status.look().held["orders"].0, "WRONGTYPE");
        assert_eq!(status.look().held_by_sink, BTreeMap::new());
        for queue in ["orders", "mails"] {
            let text = "sink shop: NOT_FOUND: no exchange `orders`".to_owned();
            let reason = Reason { code: "shop 404".to_owned(), text, sink: Some("shop".to_owned()) };
            status.held(&queue.into(), Some(reason));
        }
        let expected = HeldQueues { queues: 2, reason: "NOT_FOUND: no exchange `orders`".to_owned(), seconds: 0 };
        assert_eq!(status.look().held_by_sink["shop"], expected);
    }
}
