//! Every queue at one glance: its numbers in Redis, and what the daemon that answers knows of it.
//!
//! A page of queues is read side by side, so over one connection in a few round trips, however many there are on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::error::{Attempted, Error, QueueError, explained};
use super::plural::duration;
use super::queue_order::QueueFilter;
use super::queue_state::{QueueState, state};
use super::session::{Queue, Session};
use delaybridge_core::clock::{Asked, Skew, is_great_skew};
use delaybridge_model::QueueSpec;

/// Queues that are read at the same time.
const SIDE_BY_SIDE: usize = 64;
/// Most queues of a page.
pub const MOST: usize = 200;

/// A page of queues, in the order of the configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Queues")]
pub struct Overview {
    /// Queues that could be read.
    pub queues: Vec<QueueRow>,
    /// Queues that could not be read.
    pub errors: Vec<QueueError>,
    /// Clocks that are far from that of Redis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<ClockSkew>,
    /// Inputs whose jobs no queue delivers: clients of the job queue take them. Those of the daemon that answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<TopicInput>,
    /// The queue after which the next page begins, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The number of queues on all pages together; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// The queues that fit by each filter, in the order of [`QueueFilter::ALL`]; those of a daemon.
    #[serde(skip)]
    pub fit: [usize; QueueFilter::ALL.len()],
}

/// A clock that is far from that of a Redis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockSkew {
    /// The name of the Redis in the configuration.
    pub redis: String,
    /// Seconds by which the clock of the machine that answers is ahead; negative if it is behind.
    pub ahead_seconds: f64,
}

impl ClockSkew {
    /// In one line.
    pub fn line(&self) -> String {
        let ClockSkew { redis, ahead_seconds } = self;
        let way = if *ahead_seconds < 0.0 { "behind" } else { "ahead of" };
        let by = duration((ahead_seconds.abs() * 1_000.0) as u64);
        format!("{by} {way} that of Redis `{redis}`, by which elements are due; check the time synchronization of both")
    }
}

/// The numbers of several queues together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sums {
    /// Elements that are not due yet.
    pub scheduled: i64,
    /// Elements that are due and not claimed.
    pub due: i64,
    /// Elements under a lease.
    pub in_flight: i64,
    /// Elements that wait for another attempt.
    pub retry: i64,
    /// Dead letters.
    pub dead: i64,
    /// Time since the due time of the oldest element.
    pub oldest_overdue_ms: Option<u64>,
    /// Elements that the daemon delivered by second, over the last minute.
    pub delivered_per_second: f64,
    /// Queues are missing that could not be read: there is at least so much.
    pub at_least: bool,
    /// More elements may be in flight.
    pub in_flight_at_least: bool,
}

/// The numbers of one queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct QueueRow {
    /// The numbers in Redis.
    #[serde(flatten)]
    pub state: QueueState,
    /// The state at the daemon that answered; none where Redis was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub here: Option<Here>,
}

/// The state and the recent work of one daemon at a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Here {
    /// The reason why this daemon claims nothing from the queue, and since how many seconds.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub held: Option<Hold>,
    /// Elements that this daemon delivered by second, over the last minute.
    pub delivered_per_second: f64,
    /// Attempts of this daemon that failed by second, over the last minute.
    pub failed_per_second: f64,
    /// Median of the lateness over the last minute; none where nothing was delivered.
    pub lateness_p50_ms: Option<f64>,
    /// 99th percentile of the lateness over the last minute.
    pub lateness_p99_ms: Option<f64>,
    /// Time since the due time of the oldest element that this daemon has in flight; 0 if none is.
    #[serde(default)]
    pub in_flight_oldest_due_age_ms: u64,
    /// The input whose messages the queue delivers, if it is that of an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputRow>,
}

/// An input as one daemon sees it, with the messages since the start of the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Input")]
pub struct InputRow {
    /// The state. `waiting`: Redis does not take the jobs, so no more messages are taken. `holding`: messages are taken, and
    /// refused ones are held that cannot be given away.
    #[schemars(extend("enum" = ["unknown", "up", "waiting", "holding", "down"]))]
    pub state: String,
    /// The reason why it takes no messages, or holds some.
    pub reason: Option<String>,
    /// Seconds since the state began.
    pub seconds: u64,
    /// Messages that were received and decided.
    pub received: u64,
    /// Messages that became jobs.
    pub scheduled: u64,
    /// Messages that had arrived before.
    pub duplicates: u64,
    /// Messages that can never be scheduled.
    pub refused: u64,
    /// Messages that wait at the broker, as it was last asked.
    pub lag: u64,
}

/// An input whose jobs no queue delivers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopicInput {
    /// The input's name in the configuration.
    pub name: String,
    /// The topic of its jobs.
    pub topic: String,
    /// The state and the numbers.
    pub input: InputRow,
}

impl TopicInput {
    /// Returns the state and the numbers, in one line.
    pub fn line(&self) -> String {
        let TopicInput { name, topic, input } = self;
        format!("{name}, to topic {topic}: {}; {}", input.words(), input.numbers())
    }
}

impl InputRow {
    /// Returns whether a person has to look: it takes no messages, or holds some.
    pub fn is_in_trouble(&self) -> bool {
        matches!(self.state.as_str(), "waiting" | "holding" | "down")
    }

    /// Returns the numbers in words.
    pub fn numbers(&self) -> String {
        let InputRow { received, scheduled, duplicates, refused, lag, .. } = self;
        format!(
            "{received} received, {scheduled} scheduled, {duplicates} known already, {refused} refused, {lag} wait at the broker"
        )
    }

    /// Returns the state, with its reason and its age.
    pub fn words(&self) -> String {
        let reason = self.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("input {} for {}{reason}", self.state, super::plural::duration(self.seconds.saturating_mul(1_000)))
    }
}

/// A queue on hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The problem that has to be fixed.
    pub reason: String,
    /// Seconds since the queue is held.
    pub seconds: u64,
}

/// The sinks of a daemon.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SinkList {
    /// The sinks, in the order of their names.
    pub sinks: Vec<SinkRow>,
}

/// One sink as the daemon sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sink")]
pub struct SinkRow {
    /// The sink's name in the configuration.
    pub sink: String,
    /// The kind: `kafka`, `http`, ...
    pub kind: String,
    /// The state.
    #[schemars(extend("enum" = ["unknown", "up", "blocked", "down"]))]
    pub state: String,
    /// The reason why the sink is blocked or down.
    pub reason: Option<String>,
    /// Seconds since the state began.
    pub seconds: u64,
    /// The reason why the sink was blocked or down the last time.
    pub last_problem: Option<String>,
    /// Seconds since that was reported.
    pub last_problem_seconds: Option<u64>,
    /// Queues that deliver to the sink.
    pub queues: usize,
    /// Elements per second that a daemon lets out to the sink at most; none without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<f64>,
    /// Destinations of the sink that are in trouble; the others are served.
    #[serde(default)]
    pub destinations: Vec<DestinationTrouble>,
    /// Queues that the daemon holds because of the sink.
    #[serde(default)]
    pub held_queues: usize,
    /// The reason of the one that is held for longest, and since how many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub hold: Option<Hold>,
}

/// Destinations of a sink that are in trouble, and have one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DestinationTrouble {
    /// The name; where a template makes it, the template.
    pub destination: String,
    /// Destinations of this name that are in trouble; the others are served.
    pub count: usize,
    /// The problem of one of them.
    pub reason: String,
    /// Seconds since the trouble began.
    pub seconds: u64,
}

/// Reads the page of these queues, in this order. One that is in the list no more begins it anew.
pub async fn overview_of(
    session: &Session,
    mut wanted: Vec<Arc<QueueSpec>>,
    after: Option<&str>,
    limit: usize,
) -> Overview {
    let all = wanted.len();
    if let Some(after) = after {
        wanted.drain(..wanted.iter().position(|spec| *spec.id == *after).map_or(0, |at| at + 1));
    }
    let more = wanted.len() > limit;
    wanted.truncate(limit);
    let mut page = Overview {
        next: wanted.last().filter(|_| more).map(|spec| spec.id.to_string()),
        total: Some(all),
        ..Overview::default()
    };
    let skews: Mutex<BTreeMap<Arc<str>, Skew>> = Mutex::default();
    let read = async |spec: &Arc<QueueSpec>| {
        let asked = Asked::now();
        let row = row(session, spec).await?;
        skews.lock().entry(spec.redis.clone()).or_default().observe(&asked, row.state.now_ms);
        Ok(row)
    };
    for some in wanted.chunks(SIDE_BY_SIDE) {
        for look in join_all(some.iter().map(&read)).await {
            match look {
                Ok(row) => page.queues.push(row),
                Err(error) => page.errors.push(error),
            }
        }
    }
    let great = |(redis, skew): (Arc<str>, Skew)| {
        let ahead = skew.seconds().filter(|ahead| is_great_skew(*ahead, false))?;
        Some(ClockSkew { redis: redis.to_string(), ahead_seconds: ahead.round() })
    };
    page.clocks = skews.into_inner().into_iter().filter_map(great).collect();
    page
}

/// Reads one queue.
async fn row(session: &Session, spec: &Arc<QueueSpec>) -> Result<QueueRow, QueueError> {
    let found = match session.queue(spec.clone()).await {
        Ok(queue) => state(&queue).await.map_err(|error| explained(&error)),
        Err(error) => Err(error.to_string()),
    };
    match found {
        Ok(state) => Ok(QueueRow { state, here: None }),
        Err(message) => Err(QueueError { queue: spec.id.to_string(), message }),
    }
}

/// Reads one queue over its connection.
pub async fn row_of(queue: &Queue) -> Result<QueueRow, Error> {
    let state = state(queue).await.attempt(&format!("look at queue `{}`", queue.id()))?;
    Ok(QueueRow { state, here: None })
}

impl Overview {
    /// Returns the sums of the queues that could be read; `None` where none could: then they are unknown, and not 0.
    pub fn sums(&self) -> Option<Sums> {
        if self.queues.is_empty() && !self.errors.is_empty() {
            return None;
        }
        let at_least = !self.errors.is_empty();
        let mut sums = Sums { at_least, in_flight_at_least: at_least, ..Sums::default() };
        for QueueRow { state, here } in &self.queues {
            sums.scheduled += state.scheduled;
            sums.due += state.due;
            sums.in_flight += state.in_flight;
            sums.retry += state.retry;
            sums.dead += state.dead;
            sums.oldest_overdue_ms = sums.oldest_overdue_ms.max(state.oldest_overdue_ms);
            sums.delivered_per_second += here.as_ref().map_or(0.0, |here| here.delivered_per_second);
            sums.in_flight_at_least |= state.in_flight_at_least;
        }
        Some(sums)
    }
}

impl QueueRow {
    /// Adds what a daemon knows: also how long the oldest element is due that it has in flight, which nobody else knows.
    pub fn add(&mut self, here: Here) {
        self.state.oldest_overdue_ms = with_in_flight(self.state.oldest_overdue_ms, here.in_flight_oldest_due_age_ms);
        self.here = Some(here);
    }
}

impl<'de> Deserialize<'de> for QueueRow {
    /// Reads field by field: numbers of any precision do not survive the buffer of a flattened field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueueRow, D::Error> {
        let answer = Value::deserialize(deserializer)?;
        let state = QueueState::deserialize(&answer).map_err(serde::de::Error::custom)?;
        let here = answer.get("here").and_then(|here| Here::deserialize(here).ok());
        Ok(QueueRow { state, here })
    }
}

/// The time since the oldest element was due: of those in Redis, and of those that a daemon has in flight, where 0 is none.
pub(super) fn with_in_flight(in_redis: Option<u64>, in_flight_ms: u64) -> Option<u64> {
    in_redis.max(Some(in_flight_ms).filter(|age| *age > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pause::PauseState;

    #[test]
    fn what_was_answered_is_read_as_it_was() {
        let pause = PauseState { by: "ann".to_owned(), why: "x".to_owned(), since_ms: 7, ..PauseState::default() };
        let state = QueueState {
            queue: "a".to_owned(),
            now_ms: 1_795_251_632_252,
            scheduled: 3,
            mode: "deliver".to_owned(),
            sinks: vec!["k".to_owned()],
            oldest_overdue_ms: Some(6_000),
            paused: vec![pause],
            ..QueueState::default()
        };
        let held = Some(Hold { reason: "no topic".to_owned(), seconds: 4 });
        let here = Here { held, delivered_per_second: 12.5, lateness_p99_ms: Some(0.25), ..Here::default() };
        let row = QueueRow { state, here: Some(here) };
        let error = QueueError { queue: "b".to_owned(), message: "gone".to_owned() };
        let clocks = vec![ClockSkew { redis: "default".to_owned(), ahead_seconds: -3_600.0 }];
        assert!(clocks[0].line().starts_with("1h behind that of Redis `default`"), "{}", clocks[0].line());
        let next = Some("b".to_owned());
        let input = InputRow { state: "up".to_owned(), received: 7, ..InputRow::default() };
        let inputs = vec![TopicInput { name: "late".to_owned(), topic: "mails".to_owned(), input }];
        let page = Overview { queues: vec![row], errors: vec![error], clocks, inputs, next, ..Overview::default() };
        let text = serde_json::to_string(&page).unwrap();
        let read: Overview = serde_json::from_value(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!((read.queues, read.errors, read.clocks), (page.queues, page.errors, page.clocks));
        assert_eq!((read.next, read.inputs), (page.next, page.inputs));
        assert!(serde_json::from_str::<Overview>(r#"{"queues":[7],"errors":[]}"#).is_err());
    }

    #[test]
    fn sums_of_queues_that_cannot_be_read_are_unknown() {
        let read = |due, oldest_overdue_ms| {
            let state = QueueState { due, oldest_overdue_ms, ..QueueState::default() };
            QueueRow { state, here: None }
        };
        let error = QueueError { queue: "b".to_owned(), message: "gone".to_owned() };
        let sums = |queues: &[QueueRow], errors: &[QueueError]| {
            let page = Overview { queues: queues.to_vec(), errors: errors.to_vec(), ..Overview::default() };
            page.sums().map(|sums| (sums.due, sums.oldest_overdue_ms, sums.at_least, sums.in_flight_at_least))
        };
        assert_eq!(sums(&[], &[]), Some((0, None, false, false)));
        assert_eq!(sums(&[], std::slice::from_ref(&error)), None);
        let two = [read(2, Some(6_000)), read(1, None)];
        assert_eq!(sums(&two, &[]), Some((3, Some(6_000), false, false)));
        assert_eq!(sums(&two, &[error]), Some((3, Some(6_000), true, true)));
    }

    #[test]
    fn what_is_in_flight_may_be_the_oldest() {
        let oldest = |in_redis, in_flight_oldest_due_age_ms| {
            let state = QueueState { oldest_overdue_ms: in_redis, ..QueueState::default() };
            let mut row = QueueRow { state, here: None };
            row.add(Here { in_flight_oldest_due_age_ms, ..Here::default() });
            row.state.oldest_overdue_ms
        };
        assert_eq!(oldest(None, 0), None);
        assert_eq!(oldest(Some(6_000), 0), Some(6_000));
        assert_eq!(oldest(Some(6_000), 9_000), Some(9_000));
        assert_eq!(oldest(None, 9_000), Some(9_000));
    }
}
