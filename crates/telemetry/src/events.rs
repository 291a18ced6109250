//! The events of the daemon, one method an event: one call writes the log line, counts, and updates the status board,
//! so they cannot drift apart.
//!
//! A line is written when a state changes, never for an element that was delivered. Frequent lines are limited to one
//! in ten seconds, with the number of those suppressed. Methods take plain values, no types of the pipeline. Payloads
//! and secrets never get here: a [`Failure`] carries neither.

pub mod admin;
pub mod api;
pub mod inputs;
mod queue;
mod sink;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delaybridge_core::log::{error, info, warn};

pub use self::queue::QueueEvents;
pub use self::sink::SinkEvents;
use super::attempts::Attempts;
pub use super::facts::{Paused, Stalled};
use super::jobs::JobEvents;
use super::metrics::Metrics;
use super::status::{LeftOut, Reason, Refusal, Status};
use super::tail::Tail;
use delaybridge_core::clock::is_great_skew;
use delaybridge_core::message::{Class, Failure};

/// Target of the lines about single elements in shadow mode.
const SHADOW: &str = "delaybridge::shadow";

/// The cause of lines about queues that resume.
const RESUMED: &str = "resumed";

/// Maximum number of queues named in one line; the rest is counted.
const NAMED: usize = 10;

/// The events of one daemon. Cheap to clone.
#[derive(Clone, Default)]
pub struct Events {
    metrics: Metrics,
    status: Status,
    tail: Tail,
    attempts: Attempts,
    /// The sinks of now, for the lines that were left out.
    sinks: Arc<Mutex<BTreeMap<Arc<str>, SinkEvents>>>,
}

impl Events {
    /// Creates events that report to these two.
    pub fn new(metrics: Metrics, status: Status) -> Self {
        Events { metrics, status, ..Events::default() }
    }

    /// Returns the metrics, for counts without a log line.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the status board behind the probes.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Returns the live events of single elements, for people who watch.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Returns the failed attempts that this process saw.
    pub fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// Shows the counters that alerts stand on for the configured queues, also while nothing happens.
    pub fn configured(&self, queues: &[Arc<str>]) {
        self.metrics.begin(queues);
    }

    /// Returns the events of one queue. Call it once and keep the result, which rate-limits the log lines.
    pub fn queue(&self, queue: &Arc<str>) -> QueueEvents {
        QueueEvents::new(self.metrics.queue(queue), self.status.clone())
    }

    /// Returns the events of one sink, which the board shows as unknown until it answers.
    pub fn sink(&self, sink: &Arc<str>) -> SinkEvents {
        self.status.add_sink(sink);
        let metrics = self.metrics.sink(sink);
        metrics.destinations_in_trouble(0);
        let events = SinkEvents::new(metrics, self.status.clone());
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner).insert(sink.clone(), events.clone());
        events
    }

    /// Returns the events of the job queue. Call it once and keep the result, which rate-limits the log lines.
    pub fn jobs(&self) -> JobEvents {
        JobEvents::new(self.metrics.clone())
    }

    /// Returns the events of the job queue's HTTP API. Call it once and keep the result, which rate-limits the log
    /// lines.
    pub fn api(&self) -> api::ApiEvents {
        api::ApiEvents::new(self.metrics.api(), "job queue's HTTP API")
    }

    /// Returns the events of the listener for metrics and probes, which are not counted as those of an API.
    pub fn probes(&self) -> api::ApiEvents {
        api::ApiEvents::new(self.metrics.uncounted_api(), "server of http.listen")
    }

    /// Returns the events of the operators' API. Call it once and keep the result, which rate-limits the log lines.
    pub fn admin(&self) -> admin::AdminEvents {
        admin::AdminEvents::new(api::ApiEvents::new(self.metrics.api(), "admin API"))
    }

    /// Logs what an operator did to a queue over Redis: the command, its subject, and the person.
    pub fn operated(&self, queue: &str, [what, which, by]: [&str; 3], result: Result<&str, &str>) {
        match result {
            Ok(result) => info!(what, of = queue, which, by, result, "operator changed something over Redis"),
            Err(problem) => warn!(what, of = queue, which, by, problem, "an operator's change over Redis failed"),
        }
    }

    /// Reports that the daemon starts to claim. `owner` is the number in the names of its claims.
    pub fn started(&self, queues: usize, sinks: usize, owner: [u8; 8]) {
        self.status.started();
        let owner = format!("{:016x}", u64::from_be_bytes(owner));
        self.status.is_owner(&owner);
        info!(queues, sinks, owner, "started");
    }

    /// Returns the name of a Redis in a log line; `None` if there is only one.
    fn shown<'a>(&self, name: &'a str) -> Option<&'a str> {
        self.status.has_several_redis().then_some(name)
    }

    /// Reports that Redis answers. Logged only after an outage.
    pub fn redis_up(&self, name: &Arc<str>, address: &str, version: &str) {
        self.metrics.redis_up(name, true);
        if self.status.redis_up(name) {
            info!(name = self.shown(name), redis = address, version, "connected to Redis");
        }
    }

    /// Reports that Redis does not answer. Logged once for each outage; the board keeps the latest problem.
    pub fn redis_lost(&self, name: &Arc<str>, address: &str, problem: &str) {
        self.metrics.not_connected(address, problem);
        self.metrics.redis_up(name, false);
        if self.status.redis_lost(name, problem.to_owned()) {
            warn!(
                name = self.shown(name),
                redis = address,
                problem,
                "cannot reach Redis; trying again until it answers"
            );
        }
    }

    /// Reports how many seconds this machine's clock is ahead of Redis's; `None` while Redis is unreachable.
    pub fn clock_skew(&self, name: &str, ahead: Option<f64>) {
        match ahead {
            Some(ahead) => self.metrics.clock_skew(name, ahead),
            None => self.metrics.clear_clock_skew(name),
        }
        let news = self.status.clock(name, ahead);
        let Some(ahead) = ahead.filter(|_| news) else { return };
        let name = self.shown(name);
        if is_great_skew(ahead, false) {
            let ahead_seconds = ahead.round();
            warn!(
                name,
                ahead_seconds,
                "this machine's clock and Redis's differ; elements are due by Redis's clock: check the time synchronization of both"
            );
        } else {
            info!(name, "this machine's clock and Redis's agree again");
        }
    }

    /// Warns of a dangerous setting of the Redis server (`maxmemory-policy` evicts), found at the start.
    pub fn redis_advice(&self, address: &str, advice: &str) {
        warn!(redis = address, "{advice}");
    }

    /// Warns that this daemon looks at all queues of a Redis by itself, because its user may not tell others of itself.
    pub fn looks_are_not_shared(&self, name: &str, problem: &str) {
        let name = self.shown(name);
        warn!(
            name,
            problem,
            "cannot share looks with other daemons, so that each of them looks at all queues: give the user the rights that `delaybridge \
             acl` prints"
        );
    }

    /// Reports that another daemon with the same queues has stopped; `daemons` are left, this one among them.
    pub fn peer_stopped(&self, name: &str, daemon: &str, daemons: usize) {
        let name = self.shown(name);
        info!(
            name,
            daemon, daemons, "another daemon with the same queues has stopped; those that are left deliver them"
        );
    }

    /// Reports that another daemon with the same queues died, stalls, or is cut off from Redis.
    pub fn peer_is_silent(&self, name: &str, daemon: &str, daemons: usize) {
        let name = self.shown(name);
        info!(
            name,
            daemon,
            daemons,
            "another daemon with the same queues is gone; those that are left deliver them, and what it has in flight once its leases \
             are over"
        );
    }

    /// Reports that a daemon that was gone is there again.
    pub fn peer_is_back(&self, name: &str, daemon: &str, daemons: usize) {
        let name = self.shown(name);
        info!(name, daemon, daemons, "another daemon with the same queues is back");
    }

    /// Warns that a setting of this queue does not fit its first scheduled elements.
    pub fn queue_advice(&self, queue: &str, advice: &str) {
        warn!(queue, "{advice}");
    }

    /// Warns that the configuration may need more file descriptors than the limit of open files. With `clients`, the
    /// job queue has no more connections than this, which is less than `max_connections`.
    pub fn descriptors(&self, limit: u64, needed: u64, clients: Option<u64>) {
        self.metrics.count_descriptors();
        match clients {
            Some(clients) => warn!(
                limit,
                needed,
                clients,
                "fewer connections for clients of the job queue than `max_connections`: raise the limit of open files (LimitNOFILE= of \
                 systemd, ulimit -n)"
            ),
            None if needed > limit => warn!(
                limit,
                needed,
                "the configuration may need more file descriptors than there are: raise the limit of open files (LimitNOFILE= of systemd, \
                 ulimit -n)"
            ),
            None => info!(limit, needed, "the limit of open files is enough for this configuration"),
        }
    }

    /// Reports workers of the runtime that have shown no sign of life for so long. Logged when that begins, and when it ends.
    pub fn silent_workers(&self, silent: &[(usize, Duration)]) {
        let before = self.status.silent_workers(silent);
        let is_in = |all: &[(usize, Duration)], number: usize| all.iter().any(|(known, _)| *known == number);
        for (worker, time) in silent.iter().filter(|(worker, _)| !is_in(&before, *worker)) {
            error!(
                worker,
                seconds = time.as_secs(),
                "a worker of the runtime does not answer: a call holds it, and the tasks on it wait"
            );
        }
        for (worker, time) in before.iter().filter(|(worker, _)| !is_in(silent, *worker)) {
            info!(worker, seconds = time.as_secs(), "a worker of the runtime answers again");
        }
    }

    /// Logs the sums of suppressed lines about holds and sinks that are old enough; with `all`, of all.
    pub fn sum_up(&self, all: bool) {
        // Not under the lock: standard error may block.
        let sinks: Vec<_> = self.sinks.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        sinks.iter().for_each(|sink| sink.sum_up(all));
        for LeftOut { cause, lines, queues } in self.status.lines_left_out(all) {
            match cause.as_str() {
                RESUMED => info!(lines, queues, "queue resumed: sum of the lines left out"),
                cause => warn!(lines, queues, cause = cause.trim(), "queue on hold: sum of the lines left out"),
            }
        }
    }

    /// Reports that the drain begins.
    pub fn stopping(&self, signal: &str, in_flight: u64, timeout: Duration) {
        self.status.stopping();
        info!(signal, in_flight, timeout_seconds = timeout.as_secs(), "stopping: nothing new is claimed");
    }

    /// Reports that the drain continues. `holders` names the busy queues and sinks, shortened by the caller.
    pub fn draining(&self, in_flight: u64, left: Duration, holders: &str) {
        info!(in_flight, seconds_left = left.as_secs(), holders, "still draining");
    }

    /// Reports that the drain has ended.
    pub fn stopped(&self, settled: u64, released: u64, left_over: u64) {
        if left_over == 0 {
            info!(settled, released, "stopped: everything in flight was settled or released");
        } else {
            warn!(settled, released, left_over, "stopped with leftovers: they come back when their leases expire");
        }
    }

    /// Reports the queues of a Redis from which nothing is claimed although elements are due and nothing is in the way;
    /// an empty list ends the report. `holders` names the queues with elements in flight, shortened by the caller. New
    /// stalls are logged and counted.
    pub fn stalled(&self, redis: &Arc<str>, stalled: &[Stalled], holders: &str) {
        if self.status.stalled(redis, stalled) && stalled.is_empty() {
            info!(name = self.shown(redis), "claims are made again");
        }
        let news: Vec<_> = stalled.iter().filter(|stalled| stalled.news).collect();
        news.iter().for_each(|stalled| self.metrics.stalled(&stalled.queue, stalled.waits_for));
        let Some(first) = news.first() else { return };
        let named = |stalled: &&Stalled| format!("{} waits for {}", stalled.queue, stalled.waits_for.as_str());
        let queues: Vec<_> = stalled.iter().take(NAMED).map(|stalled| named(&stalled)).collect();
        error!(
            queues = stalled.len(),
            waits = queues.join(", "),
            seconds = first.time.as_secs(),
            in_flight = holders,
            "nothing is claimed although elements are due and nothing is in the way; /livez fails until that changes"
        );
    }

    /// Warns that the service manager does not read the notifications.
    pub fn service_manager_lost(&self, problem: &str) {
        warn!(problem, "cannot notify systemd; it restarts the daemon if it waits for notifications");
    }

    /// Records that the configuration of the start is in use; `hash` is a hash of its settings.
    pub fn loaded(&self, hash: &str) {
        self.metrics.reloaded(true);
        self.status.runs(hash);
    }

    /// Records that a reload begins to read and compare the file.
    pub fn reload_begins(&self) {
        self.status.reloading();
    }

    /// Reports that a reload begins to change something. `difference` describes what differs from the running
    /// configuration.
    pub fn reloading(&self, difference: &str) {
        info!(difference, "reloading the configuration");
    }

    /// Reports that a reload has succeeded, and the file is the running configuration.
    pub fn reloaded(&self, difference: &str, hash: &str, took: Duration) {
        self.metrics.reloaded(true);
        self.status.runs(hash);
        self.status.reloaded(&[]);
        info!(difference, seconds = took.as_secs_f64(), "configuration reloaded");
    }

    /// Reports that a reload was refused, and nothing was changed.
    pub fn reload_refused(&self, refusals: &[Refusal]) {
        self.metrics.reloaded(false);
        self.status.reloaded(refusals);
        for Refusal { file, line, path, message, help } in refusals.iter().take(NAMED) {
            let help = help.as_deref().unwrap_or_default();
            error!(file, line, path, help, "configuration: {message}");
        }
        let problems = refusals.len();
        error!(problems, "reload refused: the configuration before runs on, nothing has changed");
    }

    /// Warns that a changed or removed queue had elements in flight that could be neither settled nor released in time.
    pub fn queue_left(&self, queue: &str, elements: usize) {
        warn!(
            queue,
            elements,
            "a queue was stopped with leftovers: a changed queue finds them, else they come back when their leases expire"
        );
    }

    /// Forgets removed queues on the board and in the metrics.
    pub fn queues_removed(&self, queues: &[Arc<str>]) {
        for queue in queues {
            let _ = self.status.forget_queue(queue);
            // The counter that reported them is removed below.
            let possible_duplicates = self.metrics.take_possible_duplicates(queue);
            if possible_duplicates > 0 {
                info!(queue = &**queue, possible_duplicates, "queue removed: its sinks may get elements again");
            }
        }
        self.metrics.forget("queue", queues);
    }

    /// Forgets removed sinks on the board and in the metrics.
    pub fn sinks_removed(&self, sinks: &[Arc<str>]) {
        for sink in sinks {
            self.status.remove_sink(sink);
            self.sinks.lock().unwrap_or_else(PoisonError::into_inner).remove(sink);
        }
        self.metrics.forget("sink", sinks);
    }

    /// Forgets the state of a sink's destinations, because it has new settings.
    pub fn sink_changed(&self, sink: &Arc<str>) {
        self.status.forget_destinations(sink);
    }

    /// Reports that an essential task has ended, and the process ends too.
    pub fn task_ended(&self, task: &str, problem: &str) {
        error!(task, problem, "a task ended that the daemon cannot live without: exiting");
    }
}

fn reason(failure: &Failure) -> Reason {
    // Whether the attempt may have arrived is about that attempt: in an outage the answers of both kinds alternate.
    let class = if failure.class == Class::Ambiguous { Class::Transient } else { failure.class };
    Reason { code: format!("{} {}", class.as_str(), failure.code), text: failure.to_string(), sink: None }
}

#[cfg(test)]
mod tests;
