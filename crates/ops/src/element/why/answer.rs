//! The explanation of an element as values, and what a daemon adds to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::overview::{Hold, SinkRow};
use crate::peek::PeekState;
use crate::plural::duration;
use delaybridge_core::clock::utc;

/// The explanation of an element. Its payload is not in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Why")]
pub struct ElementWhy {
    /// The queue.
    pub queue: String,
    /// The id that was asked for.
    pub id: String,
    /// Redis time.
    pub now_ms: i64,
    /// The place of the element.
    pub state: Whereabouts,
    /// The time from which it is there, where that is known.
    pub since_ms: Option<i64>,
    /// The explanation in a sentence or two.
    pub summary: String,
    /// Everything that it waits for, the strongest first; empty where nothing is in the way.
    pub waits_for: Vec<Obstacle>,
    /// The earliest time of the next attempt; none where none comes by itself.
    pub next_attempt_ms: Option<i64>,
    /// Attempts that counted so far.
    pub attempts: u32,
    /// Attempts after which the element is a dead letter.
    pub max_attempts: u32,
    /// The failed attempts that are known, the oldest first.
    pub attempts_seen: Vec<SeenAttempt>,
    /// The outcomes that the daemon which answered has seen, the oldest first; it records them while someone watches the events.
    pub events: Vec<SeenEvent>,
    /// The commands that bring its delivery nearer, the most effective first.
    pub remedies: Vec<Remedy>,
    /// Facts that are not known, and what follows from settings.
    pub notes: Vec<String>,
}

/// The place of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Whereabouts {
    /// Not due yet.
    Scheduled,
    /// Due and not claimed.
    Due,
    /// Waiting for another attempt.
    Retry,
    /// Under a lease.
    InFlight,
    /// On the ready list.
    Ready,
    /// Among the dead letters.
    Dead,
    /// Not in the queue.
    Gone,
}

impl Whereabouts {
    /// Returns the place of an element in this state with this due time.
    pub fn of(state: PeekState, due_ms: Option<i64>, now_ms: i64) -> Whereabouts {
        match state {
            PeekState::Scheduled if due_ms.is_some_and(|due| due > now_ms) => Whereabouts::Scheduled,
            PeekState::Scheduled => Whereabouts::Due,
            PeekState::Retry => Whereabouts::Retry,
            PeekState::InFlight => Whereabouts::InFlight,
            PeekState::Ready => Whereabouts::Ready,
            PeekState::Dead => Whereabouts::Dead,
        }
    }

    /// Returns the words for a person.
    pub fn words(self) -> &'static str {
        match self {
            Whereabouts::Scheduled => "scheduled",
            Whereabouts::Due => "due",
            Whereabouts::Retry => "waits for a retry",
            Whereabouts::InFlight => "in flight",
            Whereabouts::Ready => "on the ready list",
            Whereabouts::Dead => "dead",
            Whereabouts::Gone => "gone",
        }
    }
}

impl ElementWhy {
    /// Returns the time of the next attempt in words, or what it waits for once its own time has come; `None` for an
    /// element that is gone.
    pub fn next_words(&self) -> Option<String> {
        let time = |ms: i64| format!("{} (in {})", utc(ms), duration(ms.abs_diff(self.now_ms)));
        let waits_for = self.waits_for.iter().find(|found| found.kind.is_in_the_way());
        let waits_for = waits_for.map(|found| format!("waiting for {}", found.subject()));
        Some(match (self.state, self.next_attempt_ms) {
            (Whereabouts::Gone, _) => return None,
            (Whereabouts::Dead, _) => "never by itself".to_owned(),
            (Whereabouts::InFlight, Some(end)) if end > self.now_ms => {
                format!("now; at the latest when the lease has ended, {}", time(end))
            }
            (Whereabouts::InFlight, _) => "when a daemon has taken it over".to_owned(),
            (_, Some(next)) if next > self.now_ms => time(next),
            _ => waits_for.unwrap_or_else(|| "as soon as it is claimed".to_owned()),
        })
    }
}

impl Obstacle {
    /// Returns the thing that is waited for, without the reason why it is in the way.
    fn subject(&self) -> &str {
        match self.kind {
            // `sink events, down since 09:00:02 UTC: no broker`.
            ObstacleKind::Sink => self.detail.split_once(": ").map_or(&*self.detail, |(subject, _)| subject),
            kind => kind.words(),
        }
    }
}

/// One thing that an element waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Obstacle {
    /// The kind.
    pub kind: ObstacleKind,
    /// The obstacle in words.
    pub detail: String,
    /// The time at which it ends by itself, where that is known.
    pub until_ms: Option<i64>,
    /// The id of the element that it waits for, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<String>,
}

/// Kinds of things that an element waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObstacleKind {
    /// Someone who brings it back: it is dead.
    Redrive,
    /// The due time.
    DueTime,
    /// The time of the next attempt.
    BackOff,
    /// The daemon that has it.
    Claim,
    /// A daemon: none serves the queue.
    NoDaemon,
    /// The mode of the queue, in which nothing is delivered.
    Mode,
    /// The end of a pause.
    Pause,
    /// The end of a hold.
    Hold,
    /// A sink that is not up.
    Sink,
    /// A destination in trouble.
    Destination,
    /// Elements that are due before it.
    Before,
    /// The order of the queue.
    Order,
    /// The rate limit of the queue.
    MaxRate,
}

impl ObstacleKind {
    /// Returns whether it keeps back an element whose own time has come, for a reason that is not other elements.
    pub(super) fn is_in_the_way(self) -> bool {
        match self {
            ObstacleKind::NoDaemon
            | ObstacleKind::Mode
            | ObstacleKind::Pause
            | ObstacleKind::Hold
            | ObstacleKind::Sink
            | ObstacleKind::Destination => true,
            ObstacleKind::Redrive
            | ObstacleKind::DueTime
            | ObstacleKind::BackOff
            | ObstacleKind::Claim
            | ObstacleKind::Before
            | ObstacleKind::Order
            | ObstacleKind::MaxRate => false,
        }
    }

    /// Returns the word for a person.
    pub fn words(self) -> &'static str {
        match self {
            ObstacleKind::Redrive => "a redrive",
            ObstacleKind::DueTime => "its due time",
            ObstacleKind::BackOff => "its next attempt",
            ObstacleKind::Claim => "its daemon",
            ObstacleKind::NoDaemon => "a daemon",
            ObstacleKind::Mode => "another mode",
            ObstacleKind::Pause => "the end of a pause",
            ObstacleKind::Hold => "the end of a hold",
            ObstacleKind::Sink => "its sink",
            ObstacleKind::Destination => "its destination",
            ObstacleKind::Before => "elements before it",
            ObstacleKind::Order => "its order",
            ObstacleKind::MaxRate => "the rate limit",
        }
    }
}

/// A failed attempt that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenAttempt {
    /// The time of the attempt.
    pub at_ms: i64,
    /// The sink; empty where it is not known, or none was reached.
    #[serde(default)]
    pub sink: String,
    /// Class of the failure.
    #[serde(default)]
    pub class: String,
    /// Code of the failure.
    #[serde(default)]
    pub code: String,
}

/// Failed attempts may have times so far apart and be the same: a daemon notes the answer, the header the verdict.
const SAME_ATTEMPT_MS: u64 = 1_000;

impl SeenAttempt {
    /// Returns the attempts that a daemon saw and the last one as Redis has it, the oldest first.
    pub(in crate::element) fn with_last(mut seen: Vec<SeenAttempt>, last: Option<SeenAttempt>) -> Vec<SeenAttempt> {
        let is_same = |one: &SeenAttempt, last: &SeenAttempt| {
            // A header has the beginning of a long code.
            one.at_ms.abs_diff(last.at_ms) < SAME_ATTEMPT_MS && one.code.starts_with(&last.code)
        };
        seen.extend(last.filter(|last| !seen.iter().any(|one| is_same(one, last))));
        seen.sort_by_key(|seen| seen.at_ms);
        seen
    }
}

/// An outcome that a daemon has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenEvent {
    /// The time.
    pub at_ms: i64,
    /// The outcome: delivered, retry, waits, dead, held or gone.
    pub fate: String,
    /// The sinks that confirmed it, or the one that failed.
    pub sink: Option<String>,
}

/// A command that brings a delivery nearer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// The command.
    pub command: String,
    /// The effect.
    pub effect: String,
    /// The same as a change that a page can make.
    #[serde(skip)]
    pub cure: Option<Cure>,
}

/// A change that a page can make, by a button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cure {
    /// The element is due now; a dead one is redriven.
    RunNow,
    /// The pause of the queue ends.
    ResumeQueue,
    /// The pause of this sink ends.
    ResumeSink(String),
    /// The configuration file is read again.
    Reload,
}

/// The knowledge of one daemon about an element and its queue, which is not in Redis.
#[derive(Debug, Clone, Default)]
pub struct AtDaemon {
    /// The reason why it claims nothing from the queue.
    pub held: Option<Hold>,
    /// The sinks of the queue.
    pub sinks: Vec<SinkRow>,
    /// Elements that it delivers from the queue by second.
    pub delivered_per_second: f64,
    /// The failed attempts of the element that it saw.
    pub attempts: Vec<SeenAttempt>,
    /// The outcomes of the element that it recorded.
    pub events: Vec<SeenEvent>,
}
