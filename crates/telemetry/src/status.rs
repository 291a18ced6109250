//! The status board that the probes read: queues on hold, sinks that are down, heartbeats of tasks.
//!
//! The pipeline writes to it when a state changes; the HTTP thread reads it even while everything else is stuck. No
//! lock is held over an await. It depends on no metric and no log; [`events`](super::events) writes to it.

mod answer;
mod beats;
mod destinations;
mod headline;
mod holds;
mod input_states;
mod inputs;
mod live;
mod look;
mod reload;

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

pub use self::answer::{Answer, Reason};
use self::answer::{LISTED, List, age};
use self::beats::Beats;
pub use self::beats::Heartbeat;
use self::destinations::Destinations;
pub use self::destinations::Trouble;
use self::holds::Holds;
pub(super) use self::holds::LeftOut;
pub use self::inputs::InputLook;
pub(crate) use self::inputs::InputState;
use self::inputs::Inputs;
pub use self::look::{Away, HeldQueues, Look, SinkLook};
pub use self::reload::Refusal;
use self::reload::Reload;
use super::facts::{Paused, Stalled};
use delaybridge_core::clock::{Instant, is_great_skew};

/// Time for which unreadable claims are not reported: during an upgrade, a newer daemon takes them over.
const UNKNOWN_FOR: Duration = Duration::from_secs(60);

/// The state of a sink as one daemon sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkState {
    /// Not answered yet.
    Unknown,
    /// Accepts deliveries, or has answered a probe.
    Up,
    /// The sink takes no more for now: nothing is claimed for it; no alarm.
    Blocked(Reason),
    /// Down: the breaker is open, or it does not answer to a probe.
    Down(Reason),
}

/// News about the state of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SinkNews {
    Nothing,
    /// The reason of the same state.
    Reason,
    State,
}

/// The shared status board. Cheap to clone.
#[derive(Clone, Default)]
pub struct Status(Arc<Shared>);

#[derive(Default)]
struct Shared {
    board: Mutex<Board>,
    lines: Mutex<Holds>,
    beats: Beats,
}

#[derive(Default)]
struct Board {
    started: bool,
    /// The random number of the process, in hexadecimal digits.
    owner: String,
    stopping: bool,
    /// By name; a single one, unless the configuration names several.
    redis: BTreeMap<Arc<str>, Redis>,
    queues: usize,
    /// The queues on hold, with the reason and the begin.
    held: BTreeMap<Arc<str>, (Reason, Instant)>,
    sinks: BTreeMap<Arc<str>, (SinkState, Instant)>,
    inputs: Inputs,
    /// The paused queues, and the number of paused queues for each paused sink.
    paused: BTreeMap<Arc<str>, Paused>,
    paused_sinks: BTreeMap<String, usize>,
    /// The queues from which nothing is claimed for no known reason, by the name of their Redis: at most [`LISTED`] of
    /// each, and their number.
    stalled: BTreeMap<Arc<str>, (Vec<Stalled>, usize)>,
    /// The queues with claims that this version cannot read: their number, and since when.
    unknown_claims: BTreeMap<Arc<str>, (u64, Instant)>,
    /// The last problem of each sink that was blocked or down, and its time.
    last_problems: BTreeMap<Arc<str>, (String, Instant)>,
    destinations: Destinations,
    reload: Reload,
    /// `None` without a job queue, and before the first round.
    topics: Option<Topics>,
    /// Seconds by which this machine's clock is ahead of that of a Redis, where the difference is great.
    clocks: BTreeMap<Arc<str>, f64>,
    /// The workers of the runtime that show no sign of life, and for how long.
    silent_workers: Vec<(usize, Duration)>,
}

/// The result of a round over the topics of the job queue.
#[derive(Debug, Clone, Default)]
pub struct Topics {
    /// Number of topics.
    pub total: usize,
    /// The topics that hand out no jobs.
    pub paused: Vec<Arc<str>>,
    /// The topics that could not be looked at, each with the reason.
    pub failed: Vec<(Arc<str>, String)>,
    /// Number of members of the index that are not topic names.
    pub unreadable: u64,
    /// The reason why the index could not be read; the topics of the previous round were looked at instead.
    pub index: Option<String>,
}

#[derive(Default)]
enum Redis {
    #[default]
    NotYet,
    Up,
    Lost(String, Instant),
}

/// The news about a pause for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PauseNews {
    pub(super) begins: Option<Paused>,
    pub(super) over: Option<Paused>,
}

impl Redis {
    fn shown(&self) -> Value {
        match self {
            Redis::Up => json!({ "up": true }),
            Redis::NotYet => json!({ "up": false, "reason": "not connected yet" }),
            Redis::Lost(reason, since) => json!({ "up": false, "reason": reason, "seconds": age(*since) }),
        }
    }
}

impl Status {
    /// Creates the board of a daemon that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `count` queues to the board, none of them on hold.
    pub fn add_queues(&self, count: usize) {
        self.board().queues += count;
    }

    /// Removes a queue from the count. See [`forget_queue`](Status::forget_queue) for its state.
    pub fn remove_queue(&self) {
        let mut board = self.board();
        board.queues = board.queues.saturating_sub(1);
    }

    /// Forgets the state of a queue that has new settings or was removed; returns whether it was on hold and whether it
    /// was paused.
    pub(super) fn forget_queue(&self, queue: &Arc<str>) -> (bool, bool) {
        let (held, paused) = {
            let mut board = self.board();
            board.unknown_claims.remove(queue);
            (board.held.remove(queue).is_some(), board.paused.contains_key(queue))
        };
        if paused {
            // Not reported: the pause may continue, and is read again.
            let _ = self.paused(queue, None);
        }
        (held, paused)
    }

    pub(super) fn sink_state(&self, sink: &Arc<str>) -> Option<SinkState> {
        self.board().sinks.get(sink).map(|(state, _)| state.clone())
    }

    pub(super) fn remove_sink(&self, sink: &Arc<str>) {
        let mut board = self.board();
        board.sinks.remove(sink);
        board.destinations.remove_all(sink);
    }

    pub(super) fn forget_destinations(&self, sink: &Arc<str>) {
        self.board().destinations.remove_all(sink);
    }

    /// Records the random number of the process.
    pub(super) fn is_owner(&self, owner: &str) {
        owner.clone_into(&mut self.board().owner);
    }

    /// Records the hash of the running configuration.
    pub(super) fn runs(&self, hash: &str) {
        self.board().reload.runs(hash);
    }

    /// Records that a reload is in progress.
    pub(super) fn reloading(&self) {
        self.board().reload.begin();
    }

    /// Records that a reload succeeded, or was refused for these reasons.
    pub(super) fn reloaded(&self, refusals: &[Refusal]) {
        self.board().reload.end(refusals);
    }

    /// Adds a sink to the board, in the state unknown.
    pub fn add_sink(&self, sink: &Arc<str>) {
        self.board().sinks.entry(sink.clone()).or_insert_with(|| (SinkState::Unknown, Instant::now()));
    }

    /// Records that claims can be made: configuration, sinks and Redis were ready once.
    pub fn started(&self) {
        self.board().started = true;
    }

    /// Records that the drain has begun, so that the daemon is not ready any more.
    pub fn stopping(&self) {
        self.board().stopping = true;
    }

    /// Adds a Redis to the board, as not connected.
    pub fn add_redis(&self, redis: &Arc<str>) {
        self.board().redis.entry(redis.clone()).or_default();
    }

    /// Returns whether there are several Redis servers, so that their names matter.
    pub(super) fn has_several_redis(&self) -> bool {
        self.board().redis.len() > 1
    }

    /// Records that a Redis is connected; returns whether this is news.
    pub(super) fn redis_up(&self, redis: &Arc<str>) -> bool {
        !matches!(self.board().redis.insert(redis.clone(), Redis::Up), Some(Redis::Up))
    }

    /// Records that a Redis is unreachable; returns whether this is news. The reason is updated either way.
    pub(super) fn redis_lost(&self, redis: &Arc<str>, reason: String) -> bool {
        let mut board = self.board();
        let since = match board.redis.get(redis) {
            Some(Redis::Lost(_, since)) => Some(*since),
            _ => None,
        };
        board.redis.insert(redis.clone(), Redis::Lost(reason, since.unwrap_or_else(Instant::now)));
        since.is_none()
    }

    /// Sets or clears the hold of a queue; returns whether this is news.
    pub(super) fn held(&self, queue: &Arc<str>, reason: Option<Reason>) -> bool {
        let mut board = self.board();
        let before = board.held.remove(queue);
        let news = before.as_ref().map(|(old, _)| old) != reason.as_ref();
        if let Some(reason) = reason {
            // A hold with a new reason continues; its age does not change.
            let since = before.map_or_else(Instant::now, |(_, since)| since);
            board.held.insert(queue.clone(), (reason, since));
        }
        news
    }

    /// Sets or clears the pause of a queue. The pause of a sink is news with its first queue and with its last one,
    /// because it may have thousands.
    pub(super) fn paused(&self, queue: &Arc<str>, pause: Option<Paused>) -> PauseNews {
        let mut board = self.board();
        let old = match &pause {
            Some(pause) => board.paused.insert(queue.clone(), pause.clone()),
            None => board.paused.remove(queue),
        };
        let sink_of = |pause: &Option<Paused>| pause.as_ref().and_then(|pause| pause.sink.clone());
        let of_old = sink_of(&old);
        let of_new = sink_of(&pause);
        // A pause that replaces another does not end it.
        let mut over = old.filter(|_| pause.is_none() || of_old != of_new);
        let mut begins = pause;
        if let Some(sink) = of_new {
            let queues = board.paused_sinks.entry(sink).or_default();
            *queues += 1;
            begins = begins.filter(|_| *queues == 1);
        }
        if let Some(sink) = of_old {
            let left = board.paused_sinks.get(&sink).copied().unwrap_or(1) - 1;
            match left {
                0 => {
                    board.paused_sinks.remove(&sink);
                }
                _ => {
                    over = None;
                    board.paused_sinks.insert(sink, left);
                }
            }
        }
        PauseNews { begins, over }
    }

    /// Returns whether a line about a hold, or its end, is to be written now; otherwise it is counted for a sum.
    pub(super) fn admits_line(&self, cause: &str, queue: &Arc<str>) -> bool {
        self.lines().admit(Instant::now(), cause, queue)
    }

    /// Takes the sums of suppressed lines that are old enough; with `all`, of all.
    pub(super) fn lines_left_out(&self, all: bool) -> Vec<LeftOut> {
        self.lines().sums(Instant::now(), all)
    }

    fn lines(&self) -> MutexGuard<'_, Holds> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason why a queue is on hold.
    pub(super) fn reason(&self, queue: &Arc<str>) -> Option<String> {
        self.board().held.get(queue).map(|(reason, _)| reason.text.clone())
    }

    /// Sets the state of a sink. The first change to up is no news.
    pub(super) fn sink(&self, sink: &Arc<str>, state: SinkState) -> SinkNews {
        let mut board = self.board();
        let (old, since) = board.sinks.entry(sink.clone()).or_insert_with(|| (SinkState::Unknown, Instant::now()));
        let changed = discriminant(old) != discriminant(&state);
        if changed {
            *since = Instant::now();
        }
        let news = match (&*old, &state) {
            (SinkState::Unknown, SinkState::Up) => SinkNews::Nothing,
            (old, new) if old == new => SinkNews::Nothing,
            _ if changed => SinkNews::State,
            _ => SinkNews::Reason,
        };
        let problem = match &state {
            SinkState::Blocked(reason) | SinkState::Down(reason) => Some(reason.text.clone()),
            SinkState::Unknown | SinkState::Up => None,
        };
        // The text of a reason may change each time; a reason lasts as long as its code.
        *old = state;
        if let Some(text) = problem {
            board.last_problems.insert(sink.clone(), (text, Instant::now()));
        }
        news
    }

    /// Records how many seconds this machine's clock is ahead of that of a Redis; `None` if it is unknown. Returns
    /// whether a great difference has begun or ended.
    pub(super) fn clock(&self, redis: &str, ahead: Option<f64>) -> bool {
        let mut board = self.board();
        let known = board.clocks.contains_key(redis);
        match ahead {
            Some(ahead) if is_great_skew(ahead, known) => board.clocks.insert(redis.into(), ahead).is_none(),
            Some(_) => board.clocks.remove(redis).is_some(),
            None => false,
        }
    }

    /// Records the queues of this Redis from which nothing is claimed for no known reason. Returns whether the first
    /// has appeared or the last has gone.
    pub(super) fn stalled(&self, redis: &Arc<str>, stalled: &[Stalled]) -> bool {
        let mut board = self.board();
        let before = match stalled {
            [] => board.stalled.remove(redis),
            _ => {
                let now = (stalled.iter().take(LISTED).cloned().collect(), stalled.len());
                board.stalled.insert(redis.clone(), now)
            }
        };
        before.is_none() != stalled.is_empty()
    }

    /// Records the number of a queue's claims with names that this version cannot read.
    pub(super) fn unknown_claims(&self, queue: &Arc<str>, n: u64) {
        let mut board = self.board();
        let since = board.unknown_claims.remove(queue).map_or_else(Instant::now, |(_, since)| since);
        if n > 0 {
            board.unknown_claims.insert(queue.clone(), (n, since));
        }
    }

    /// Records the result of the last round over the topics.
    pub fn topics(&self, topics: Topics) {
        self.board().topics = Some(topics);
    }

    /// Records that a destination of a sink is in trouble, or works again; returns whether this is news. The number is
    /// bounded by the destinations that the sink's handle remembers.
    pub(super) fn destination(&self, sink: &Arc<str>, key: u64, trouble: Option<(String, Reason)>) -> bool {
        self.board().destinations.set(sink, key, trouble)
    }

    /// Answers the readiness probe: started, not stopping, every Redis connected, no queue on hold, every sink known
    /// and none down, every input at its broker.
    ///
    /// These are no reasons to be unready: a full sink, because taking the daemon out of service would not empty it; a
    /// pause, because a person wants it; a destination in trouble, because others are delivered to; a topic of the job
    /// queue, because others are served; and claims that this version cannot read, because everything else is delivered
    /// and a rollback must not fail on them.
    pub fn ready(&self) -> Answer {
        let board = self.board();
        let redis_up = !board.redis.is_empty() && board.redis.values().all(|redis| matches!(redis, Redis::Up));
        let redis = match board.redis.len() {
            0 => Redis::NotYet.shown(),
            // The name of the only one is of no interest.
            1 => board.redis.values().next().map_or(Value::Null, Redis::shown),
            _ => {
                let servers: Map<_, _> =
                    board.redis.iter().map(|(name, redis)| (name.to_string(), redis.shown())).collect();
                json!({ "up": redis_up, "servers": servers })
            }
        };
        let mut held = List::default();
        for (queue, (reason, since)) in &board.held {
            held.add(queue, || json!({ "state": "held", "reason": reason.text, "seconds": age(*since) }));
        }
        let mut paused = List::default();
        for (queue, pause) in &board.paused {
            let Paused { sink, by, why, since_ms, until_ms } = pause;
            let shown = json!({ "sink": sink, "by": by, "why": why, "since_ms": since_ms, "until_ms": until_ms });
            paused.add(queue, || shown);
        }
        let mut troubled = List::default();
        let mut up = List::default();
        let mut usable = true;
        for (sink, (state, since)) in &board.sinks {
            let (word, reason) = match state {
                SinkState::Up => {
                    up.add(sink, || json!({ "seconds": age(*since) }));
                    continue;
                }
                SinkState::Unknown => ("unknown", "no answer yet"),
                SinkState::Blocked(reason) => ("blocked", &*reason.text),
                SinkState::Down(reason) => ("down", &*reason.text),
            };
            usable &= matches!(state, SinkState::Blocked(_));
            troubled.add(sink, || json!({ "state": word, "reason": reason, "seconds": age(*since) }));
        }
        let mut sinks = troubled.close(board.sinks.len(), "not_up");
        sinks["up"] = up.entries.into();
        let works = board.started && !board.stopping && board.silent_workers.is_empty();
        let ok = works && redis_up && held.count == 0 && usable && board.inputs.are_usable();
        let mut body = json!({
            "ready": ok,
            "started": board.started,
            "stopping": board.stopping,
            "redis": redis,
            "queues": held.close(board.queues, "held"),
            "paused": paused.close(board.queues, "paused"),
            "sinks": sinks,
            "destinations": board.destinations.shown(),
            "configuration": board.reload.shown(),
        });
        if let Some(inputs) = board.inputs.shown() {
            body["inputs"] = inputs;
        }
        if !board.silent_workers.is_empty() {
            body["silent_workers"] = board.silent_workers.len().into();
        }
        let mut unknown = List::default();
        for (queue, (claims, since)) in board.unknown(Instant::now()) {
            unknown.add(queue, || json!({ "claims": claims, "seconds": age(*since) }));
        }
        if unknown.count > 0 {
            body["unknown_claims"] = unknown.close(board.queues, "queues");
        }
        if let Some(Topics { total, paused, failed, unreadable, index }) = &board.topics {
            let mut troubled = List::default();
            paused.iter().for_each(|topic| troubled.add(topic, || json!({ "state": "paused" })));
            failed
                .iter()
                .for_each(|(topic, why)| troubled.add(topic, || json!({ "state": "not_read", "reason": why })));
            body["topics"] = troubled.close(*total, "not_served");
            if *unreadable > 0 {
                body["topics"]["unreadable_names"] = json!(unreadable);
            }
            if let Some(why) = index {
                body["topics"]["index_not_read"] = json!(why);
            }
        }
        Answer { ok, body }
    }

    /// Answers the startup probe: true for good after [`started`](Self::started).
    pub fn startup(&self) -> Answer {
        let ok = self.board().started;
        Answer { ok, body: json!({ "started": ok }) }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        // Every write leaves the board consistent, so it is usable after a panic.
        self.0.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board {
    /// Returns the queues with claims that no daemon has taken over for a while, because of their names.
    fn unknown(&self, now: Instant) -> impl Iterator<Item = (&Arc<str>, &(u64, Instant))> {
        self.unknown_claims.iter().filter(move |(_, (_, since))| now.since(*since) >= UNKNOWN_FOR)
    }
}

#[cfg(test)]
mod tests;
