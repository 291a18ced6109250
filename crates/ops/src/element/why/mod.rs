//! Why an element is where it is: what it waits for, what was tried, what would deliver it now ([`why`]). The explanation is a
//! pure function of facts; the facts are reads of `peek --id` and of the gauges, and what a daemon knows beside them.

mod explain;
mod remedies;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::explain::{Rules, WhyFacts, explain};
use super::{Detail, Met, meet};
use crate::error::{Attempted, Error, ErrorKind};
use crate::overview::{Hold, SinkRow};
use crate::pause::paused_of;
use crate::peek::PeekState;
use crate::session::Queue;
use delaybridge_core::message::Identity;
use delaybridge_ledger::redis_now_ms;

/// The explanation of an element. Its payload is not in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Why")]
pub struct Explanation {
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

/// One thing that an element waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Obstacle {
    /// The kind.
    pub kind: ObstacleKind,
    /// The obstacle in words.
    pub detail: String,
    /// The time at which it ends by itself, where that is known.
    pub until_ms: Option<i64>,
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
    /// The word for a person.
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

/// Changes of operators among which that of an element is looked for.
const CHANGES: usize = 1_000;

/// The question to a daemon for its knowledge about an element.
pub type AskDaemon<'a> = &'a (dyn Fn(&Identity) -> AtDaemon + Sync);

/// Explains the element with this id; one that is nowhere is explained as gone. Costs a search of the queue by the server, and
/// the counts of the gauges.
///
/// # Errors
///
/// When no element can be called so, and when Redis cannot be asked.
pub async fn why(queue: &Queue, id: &str, daemon: Option<AskDaemon<'_>>) -> Result<Explanation, Error> {
    Ok(why_and_what(queue, id, daemon).await?.0)
}

/// Explains the element with this id, and answers all that is known of it unless it is gone.
///
/// # Errors
///
/// Those of [`why`].
pub async fn why_and_what(
    queue: &Queue,
    id: &str,
    daemon: Option<AskDaemon<'_>>,
) -> Result<(Explanation, Option<Detail>), Error> {
    let what = format!("explain {id} in `{}`", queue.id());
    let detail = match meet(queue, id, &what).await {
        Ok(Met::Alive(located, element)) => Some(Detail::alive(queue, &located, &element)),
        Ok(Met::Dead(letter)) => Some(Detail::dead(queue, *letter)),
        Err(error) if error.kind == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let due_ms = detail.as_ref().filter(|detail| detail.state == PeekState::Scheduled).and_then(|detail| detail.due_ms);
    let before = match due_ms.filter(|due_ms| *due_ms <= now_ms) {
        Some(due_ms) => {
            queue.ledger.due_between(&queue.conn, &[(i64::MIN, due_ms.saturating_sub(1))]).await.attempt(&what)?.pop()
        }
        None => None,
    };
    // Best effort: an operator without that right is answered too.
    let change = match &detail {
        None => queue.kept_changes(CHANGES).await.unwrap_or_default().into_iter().find(|change| change.which == id),
        Some(_) => None,
    };
    let identity = match detail.as_ref().and_then(|detail| detail.id.clone()) {
        Some(identity) => Some(identity),
        None => queue.identity(id).ok(),
    };
    let at_daemon = daemon.map(|ask| identity.as_ref().map(ask).unwrap_or_default());
    let found = explain(&WhyFacts {
        queue: queue.id(),
        id,
        now_ms,
        detail: detail.as_ref(),
        rules: Rules::of(&queue.spec),
        paused: &paused_of(queue, &what).await?,
        daemons: queue.daemons().await,
        before: before.unwrap_or(0),
        daemon: at_daemon.as_ref(),
        change: change.as_ref(),
    });
    Ok((found, detail))
}
