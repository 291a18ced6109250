//! The numbers of one queue.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pause::{PauseState, paused};
use super::session::Queue;
use delaybridge_ledger::{Stats, StoreError, millis};
use delaybridge_model::QueueSpec;

/// The numbers of one queue. Every element is in one state: a due element is not counted as scheduled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueState {
    /// The queue's id in the configuration.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// Elements that are not due yet.
    pub scheduled: i64,
    /// Elements that are due and not claimed.
    pub due: i64,
    /// Elements under a lease.
    pub in_flight: i64,
    /// Whether there are too many claims to count: at least so many elements are in flight.
    pub in_flight_at_least: bool,
    /// Elements that wait for another attempt.
    pub retry: i64,
    /// Dead letters.
    pub dead: i64,
    /// Elements on the ready list; 0 where the queue does not take them.
    pub ready: i64,
    /// Elements that are due and not delivered: unclaimed, in flight, waiting for a retry, and those on the ready list where the
    /// daemon takes these.
    #[serde(default)]
    pub backlog: u64,
    /// Entries of Redisson's list.
    pub listed: u64,
    /// Entries of that list that claims left behind.
    pub ghosts: u64,
    /// Age of the oldest of these entries.
    pub oldest_ghost_age_ms: Option<i64>,
    /// Entries of that list that are scheduled nowhere and that no claim recorded.
    pub orphans: i64,
    /// Due time of the first element, also where it is overdue.
    pub next_due_ms: Option<i64>,
    /// Time since the due time of the oldest element: scheduled, waiting for a retry (as far as was searched there), or in flight
    /// at the daemon that answers.
    pub oldest_overdue_ms: Option<u64>,
    /// Elements with due times that are hardly meant: before 2001, or more than a year ahead.
    #[serde(default)]
    pub absurd_due: u64,
    /// Elements per second that a daemon lets out of the queue at most; none without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<f64>,
    /// The mode: deliver, shadow or rescue.
    pub mode: String,
    /// The sinks that the queue delivers to.
    pub sinks: Vec<String>,
    /// The conditions of those that do not get every element, by sink.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
    /// Connected daemons that deliver from the queue; none where the right to ask is missing.
    pub daemons: Option<u64>,
    /// The pauses of the queue and of its sinks.
    pub paused: Vec<PauseState>,
    /// The place of the queue, to compare with another answer: a hash of the run of its Redis server, the database, the kind and
    /// the name. Empty where the server does not say which run it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
}

/// Reads one queue.
pub(super) async fn state(queue: &Queue) -> Result<QueueState, StoreError> {
    let stats = queue.ledger.stats(&queue.conn).await?;
    Ok(QueueState {
        mode: queue.spec.mode.as_str().to_owned(),
        max_rate: queue.spec.max_rate.as_deref().copied(),
        sinks: sinks(&queue.spec),
        conditions: conditions(&queue.spec),
        daemons: queue.ledger.daemons(&queue.conn).await.ok(),
        paused: paused(queue).await?,
        place: place(queue),
        backlog: backlog(&queue.spec, &stats),
        ..QueueState::of(queue.id(), &stats)
    })
}

/// Returns the place of a queue, as far as its connection knows.
pub(super) fn place(queue: &Queue) -> String {
    let Some(history) = queue.conn.info().history else { return String::new() };
    let database = queue.conn.address().rsplit_once('/').map_or("0", |(_, database)| database);
    let source = &queue.spec.source;
    format!("{:016x}/{database} {} {}", history.hash(), source.kind().key.name, source.name())
}

/// Elements that are due already, wherever they are.
pub(super) fn backlog(spec: &QueueSpec, stats: &Stats) -> u64 {
    let ready = if spec.source.consumes_ready() { stats.source.ready } else { 0 };
    let all = [stats.source.due, ready, stats.in_flight, stats.retry];
    all.into_iter().map(|n| u64::try_from(n).unwrap_or(0)).sum()
}

/// Returns the sinks of the destinations, each once.
fn sinks(spec: &QueueSpec) -> Vec<String> {
    let mut sinks: Vec<String> = Vec::with_capacity(spec.to.len());
    for to in spec.to.iter() {
        if sinks.iter().all(|sink| **sink != *to.sink) {
            sinks.push(to.sink.to_string());
        }
    }
    sinks
}

/// Returns the conditions of the destinations, by sink; those of one sink in the order in which they are tried.
fn conditions(spec: &QueueSpec) -> BTreeMap<String, String> {
    let mut conditions: BTreeMap<String, String> = BTreeMap::new();
    for (sink, when) in spec.to.iter().filter_map(|to| Some((&to.sink, to.when()?.source()))) {
        conditions
            .entry(sink.to_string())
            .and_modify(|others| others.extend(["; ", when]))
            .or_insert_with(|| when.to_owned());
    }
    conditions
}

impl QueueState {
    /// Lists the sinks for a person, each with its condition.
    pub fn destinations(&self) -> String {
        let one = |sink: &String| match self.conditions.get(sink) {
            Some(when) => format!("{sink} when {when}"),
            None => sink.clone(),
        };
        self.sinks.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn of(queue: &str, s: &Stats) -> Self {
        QueueState {
            queue: queue.to_owned(),
            now_ms: s.now_ms,
            scheduled: s.source.scheduled - s.source.due,
            due: s.source.due,
            in_flight: s.in_flight,
            in_flight_at_least: s.in_flight_more,
            retry: s.retry,
            dead: s.dead,
            ready: s.source.ready,
            listed: s.source.leftovers.of,
            ghosts: s.source.leftovers.count,
            oldest_ghost_age_ms: (s.source.leftovers.count > 0).then_some(millis(s.source.leftovers.oldest)),
            orphans: s.source.orphans,
            next_due_ms: s.source.head_ms,
            oldest_overdue_ms: s.oldest_overdue_ms(),
            absurd_due: s.source.ahead.absurd.try_into().unwrap_or(0),
            ..QueueState::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::LATEST_MS;
    use delaybridge_ledger::Depths;

    #[test]
    fn only_what_is_due_is_overdue() {
        let stats = |due, head_ms| {
            let source = Depths { scheduled: 3, due, head_ms, ..Depths::default() };
            Stats { now_ms: 10_000, source, ..Stats::default() }
        };
        let late = QueueState::of("q", &stats(2, Some(4_000)));
        assert_eq!((late.scheduled, late.due, late.oldest_overdue_ms), (1, 2, Some(6_000)));
        assert_eq!(QueueState::of("q", &stats(0, Some(15_000))).oldest_overdue_ms, None);
        assert_eq!(QueueState::of("q", &stats(1, Some(i64::MIN))).oldest_overdue_ms, Some(LATEST_MS.unsigned_abs()));
        // What waits for a retry is due for longer than what was never tried.
        let tried = Stats { retry_oldest_ms: Some(1_000), ..stats(2, Some(4_000)) };
        assert_eq!(QueueState::of("q", &tried).oldest_overdue_ms, Some(9_000));
    }
}
