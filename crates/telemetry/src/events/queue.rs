//! The events of one queue.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use delaybridge_core::log::{debug, error, info, warn};

use super::{Paused, RESUMED, SHADOW};
use crate::labels::{DeadReason, Fate};
use crate::metrics::QueueMetrics;
use crate::status::{Reason, Status};
use crate::throttle::{QUIET, Throttle};
use delaybridge_core::clock::{Instant, utc};
use delaybridge_core::message::{Failure, Identity};
use delaybridge_core::metric::SourceTerms;

/// The events of one queue. Cheap to clone.
#[derive(Clone)]
pub struct QueueEvents(Arc<QueueInner>);

struct QueueInner {
    metrics: QueueMetrics,
    status: Status,
    /// Created on the first line, because most of ten thousand queues never log anything.
    quiet: OnceLock<Box<Throttles>>,
    /// Number of orphans at the last check.
    orphans: AtomicU64,
    /// Number of unreadable entries at the last rescue.
    junk: AtomicU64,
    /// Number of claims with unreadable names at the last look.
    unknown_claims: AtomicU64,
    /// The last logged role of a queue in order. Kept here, because an idle queue is dropped.
    order: AtomicU8,
}

/// Maximum number of ids in one log line.
const NAMED: usize = 100;

/// Values of [`QueueInner::order`].
const STANDS_BY: u8 = 1;
const DELIVERS: u8 = 2;

/// The rate limits of log lines, one for each kind.
struct Throttles {
    dead: Throttle,
    /// Numbers of suppressed lines about dead letters, by reason.
    dead_reasons: [AtomicU64; DeadReason::ALL.len()],
    letters: Throttle,
    stale_acks: Throttle,
    stale_drops: Throttle,
    leases_lost: Throttle,
    panics: Throttle,
    unknown: Throttle,
    unknown_claims: Throttle,
    opaque: Throttle,
    absurd: Throttle,
    shadow: Throttle,
}

impl Throttles {
    /// Takes the reasons of the suppressed lines: `max_attempts: 7, junk: 2`.
    fn take_reasons(&self) -> String {
        let counts = DeadReason::ALL.into_iter().zip(&self.dead_reasons);
        let some = counts.map(|(reason, count)| (reason, count.swap(0, Ordering::Relaxed))).filter(|(_, n)| *n > 0);
        some.map(|(reason, n)| format!("{}: {n}", reason.as_str())).collect::<Vec<_>>().join(", ")
    }
}

impl QueueInner {
    fn quiet(&self) -> &Throttles {
        self.quiet.get_or_init(|| {
            let new = || Throttle::new(QUIET);
            Box::new(Throttles {
                dead: new(),
                dead_reasons: Default::default(),
                letters: new(),
                stale_acks: new(),
                stale_drops: new(),
                leases_lost: new(),
                panics: new(),
                unknown: new(),
                unknown_claims: new(),
                opaque: new(),
                absurd: new(),
                shadow: new(),
            })
        })
    }
}

impl QueueEvents {
    pub(super) fn new(metrics: QueueMetrics, status: Status) -> Self {
        let orphans = AtomicU64::new(0);
        let junk = AtomicU64::new(0);
        QueueEvents(Arc::new(QueueInner {
            metrics,
            status,
            quiet: OnceLock::new(),
            orphans,
            junk,
            unknown_claims: AtomicU64::new(0),
            order: AtomicU8::new(0),
        }))
    }

    /// Returns whether it has state that a new one would lack.
    pub fn is_worth_keeping(&self) -> bool {
        let found = |number: &AtomicU64| number.load(Ordering::Relaxed) > 0;
        let inner = &self.0;
        let numbers = [&inner.orphans, &inner.junk, &inner.unknown_claims];
        inner.metrics.is_bound() || inner.quiet.get().is_some() || numbers.into_iter().any(found)
    }

    /// Returns the metrics, for counts without a log line: claims, attempts, deliveries, gauges.
    pub fn metrics(&self) -> &QueueMetrics {
        &self.0.metrics
    }

    /// Reports that the queue is on hold: nothing is claimed except an occasional probe. A second call with the same
    /// code about the same subject, such as a topic, only updates the reason.
    pub fn on_hold(&self, sink: Option<&str>, code: &str, about: &str, reason: &str) {
        let text = sink.map_or_else(|| reason.to_owned(), |sink| format!("sink {sink}: {reason}"));
        let cause = format!("{} {code}", sink.unwrap_or_default());
        self.0.metrics.held(true);
        let before = self.0.status.reason(self.id());
        let code = format!("{cause} {about}");
        if !self.0.status.held(self.id(), Some(Reason { code, text, sink: sink.map(str::to_owned) })) {
            return;
        }
        let cause = if before.is_some() { format!("{cause}, before it another reason") } else { cause };
        if !self.0.status.admits_line(&cause, self.id()) {
            return;
        }
        if let Some(before) = before {
            warn!(
                queue = &**self.id(),
                sink, reason, before, "queue on hold until this is fixed, now for another reason"
            );
        } else {
            warn!(queue = &**self.id(), sink, reason, "queue on hold until this is fixed; its elements stay in Redis");
        }
    }

    /// Reports that the cluster migrates the queue's slot, until [`resumed`](QueueEvents::resumed). Not a warning,
    /// because migrations are maintenance.
    pub fn slot_migrates(&self) {
        self.0.metrics.held(true);
        self.0.metrics.slot_migrates();
        let text = "the cluster moves the queue's slot to another node".to_owned();
        let code = "slot_migrating".to_owned();
        if self.0.status.held(self.id(), Some(Reason { code, text, sink: None })) {
            info!(queue = &**self.id(), "slot_migrating: nothing is claimed while the cluster moves the queue's slot");
        }
    }

    /// Reports that the pause of the queue, or of a sink of it, has begun, changed or ended.
    pub fn paused(&self, pause: Option<Paused>) {
        self.0.metrics.paused(pause.is_some());
        let news = self.0.status.paused(self.id(), pause);
        match news.over {
            Some(Paused { sink: Some(sink), .. }) => info!(sink, "sink no longer paused"),
            Some(_) => info!(queue = &**self.id(), "queue no longer paused"),
            None => {}
        }
        let Some(Paused { sink, by, why, until_ms, .. }) = news.begins else { return };
        let until = until_ms.map_or_else(|| "resumed".to_owned(), utc);
        match sink {
            Some(sink) => info!(sink, by, why, until, "sink paused; nothing is claimed for it, elements stay in Redis"),
            None => {
                info!(
                    queue = &**self.id(),
                    by, why, until, "queue paused; nothing is claimed, its elements stay in Redis"
                );
            }
        }
    }

    /// Reports that a key of the queue has the wrong type: the queue is on hold, and nothing was changed.
    pub fn wrong_type(&self, key: &str, expected: &'static str, found: &str) {
        self.on_hold(
            None,
            "WRONGKEY",
            key,
            &format!("key {key} must hold a {expected}, but holds a {found}; rename or delete it"),
        );
    }

    /// Reports that another daemon delivers the queue in order; its right ends in `left_ms` unless it is extended.
    pub fn stands_by(&self, left_ms: i64) {
        self.0.metrics.active(false);
        if self.0.order.swap(STANDS_BY, Ordering::Relaxed) != STANDS_BY {
            info!(
                queue = &**self.id(),
                left_ms, "another daemon delivers this queue in order; this one waits to take over"
            );
        }
    }

    /// Reports that this daemon delivers the queue in order.
    pub fn delivers_in_order(&self) {
        self.0.metrics.active(true);
        if self.0.order.swap(DELIVERS, Ordering::Relaxed) != DELIVERS {
            info!(queue = &**self.id(), "this daemon delivers the queue in order");
        }
    }

    /// Reports that the queue resumes.
    pub fn resumed(&self) {
        self.0.metrics.held(false);
        if self.0.status.held(self.id(), None) && self.0.status.admits_line(RESUMED, self.id()) {
            info!(queue = &**self.id(), "queue resumed");
        }
    }

    /// Reports that an element was stored as a dead letter.
    pub fn dead_lettered(&self, id: &Identity, reason: DeadReason, failure: Option<&Failure>) {
        self.0.metrics.dead_lettered(reason.as_str());
        let quiet = self.0.quiet();
        let Some(left_out) = quiet.dead.admit(Instant::now(), 1) else {
            quiet.dead_reasons[reason as usize].fetch_add(1, Ordering::Relaxed);
            return;
        };
        // This line counts them as well.
        let _ = quiet.take_reasons();
        let reason = reason.as_str();
        let failure = failure.map(Failure::to_string).unwrap_or_default();
        warn!(queue = &**self.id(), %id, reason, failure, left_out, "dead letter stored");
    }

    /// Reports that a dead letter stays in the stream, because its sink refuses it permanently.
    pub fn dead_letter_stays(&self, stream_id: &str, problem: &str) {
        if let Some(left_out) = self.0.quiet().letters.admit(Instant::now(), 1) {
            warn!(
                queue = &**self.id(),
                letter = stream_id,
                problem,
                left_out,
                "dead letter not forwarded; it stays in the stream"
            );
        }
    }

    /// Reports that `n` verdicts were refused: another claim had taken the elements over.
    pub fn stale_acks(&self, n: u64) {
        if n == 0 {
            return;
        }
        self.0.metrics.stale_acks(n);
        if let Some(left_out) = self.0.quiet().stale_acks.admit(Instant::now(), n) {
            warn!(
                queue = &**self.id(),
                elements = n,
                left_out,
                "verdicts refused: the elements were taken over after their leases; they may be delivered twice"
            );
        }
    }

    /// Reports that `n` elements were not sent to a sink, because their leases had expired or nearly so.
    pub fn stale_drops(&self, n: u64) {
        if n == 0 {
            return;
        }
        self.0.metrics.stale_drops(n);
        if let Some(left_out) = self.0.quiet().stale_drops.admit(Instant::now(), n) {
            warn!(
                queue = &**self.id(),
                elements = n,
                left_out,
                "elements dropped here, not sent: the process stalled for longer than their leases; Redis has them"
            );
        }
    }

    /// Reports that `n` leases could not be extended: the elements belong to another claim.
    pub fn leases_lost(&self, n: u64) {
        if n == 0 {
            return;
        }
        if let Some(left_out) = self.0.quiet().leases_lost.admit(Instant::now(), n) {
            warn!(queue = &**self.id(), elements = n, left_out, "leases lost: another claim took the elements over");
        }
    }

    /// Reports that Redis had lost writes, and `n` settled elements are under the name of their claim again.
    pub fn returned(&self, n: u64) {
        if n > 0 {
            self.0.metrics.returned(n);
            self.0.metrics.possible_duplicates(n);
            info!(
                queue = &**self.id(),
                elements = n,
                "Redis lost writes, and elements came back: they are delivered again"
            );
        }
    }

    /// Reports that Redis had lost writes, and these elements in flight are no longer under the name of their claim.
    pub fn missing(&self, ids: &[Identity]) {
        self.0.metrics.missing(ids.len() as u64);
        for ids in ids.chunks(NAMED) {
            let named: Vec<String> = ids.iter().map(Identity::to_string).collect();
            warn!(
                queue = &**self.id(),
                elements = ids.len(),
                ids = named.join(" "),
                "Redis lost writes, and elements in flight with them: their delivery goes on, and they may come again"
            );
        }
    }

    /// Reports that the work on an element panicked; the element is retried, and the attempt counts.
    pub fn panicked(&self, id: &Identity, stage: &'static str) {
        self.0.metrics.panicked();
        if let Some(left_out) = self.0.quiet().panics.admit(Instant::now(), 1) {
            error!(queue = &**self.id(), %id, stage, left_out, "panic while working on an element; it is retried");
        }
    }

    /// Reports that the last check found `n` orphans at the source. They stay until a person decides, so a line is
    /// logged only when their number grows.
    pub fn orphans(&self, terms: &'static SourceTerms, n: u64) {
        self.0.metrics.orphans(terms, n);
        if n > self.0.orphans.swap(n, Ordering::Relaxed) {
            warn!(queue = &**self.id(), entries = n, "{}", terms.orphans_found);
        }
    }

    /// Reports that the last check found `n` entries in the format of a newer daemon.
    pub fn unknown_entries(&self, n: u64) {
        self.0.metrics.unknown_entries(n);
        if n > 0
            && let Some(left_out) = self.0.quiet().unknown.admit(Instant::now(), 1)
        {
            warn!(
                queue = &**self.id(),
                entries = n,
                left_out,
                "entries of a newer format are left alone: run the newer delaybridge on this queue as well"
            );
        }
    }

    /// Reports that the last look found `n` claims with expired leases and names that this version cannot read.
    pub fn unknown_claims(&self, n: u64) {
        let before = self.0.unknown_claims.swap(n, Ordering::Relaxed);
        if n == before {
            return;
        }
        self.0.metrics.unknown_claims(n);
        self.0.status.unknown_claims(self.id(), n);
        if n > before
            && let Some(left_out) = self.0.quiet().unknown_claims.admit(Instant::now(), n - before)
        {
            warn!(
                queue = &**self.id(),
                claims = n,
                left_out,
                "claims with names of another version are left alone: run the newer delaybridge on this queue as well; \
                 `delaybridge fsck` lists them"
            );
        }
    }

    /// Reports that a payload is an object that only its Java class can read; it is forwarded as bytes.
    pub fn opaque(&self, why: &str) {
        if let Some(left_out) = self.0.quiet().opaque.admit(Instant::now(), 1) {
            info!(queue = &**self.id(), why, left_out, "payload is forwarded as bytes");
        }
    }

    /// Reports that an element whose due time is an overflow, or in seconds, is held, or becomes a dead letter.
    pub fn absurd_due(&self, id: &Identity, due_ms: i64, outcome: &str) {
        if let Some(left_out) = self.0.quiet().absurd.admit(Instant::now(), 1) {
            let help = "correct the producer, or the unit of the source, and then `restore`; `reschedule`, `run-now` or `kill` \
                        ends the wait of one; `on_absurd_due` decides";
            warn!(queue = &**self.id(), %id, due_ms, outcome, left_out, help, "due time is absurd");
        }
    }

    /// Reports that an element is due in shadow mode and would be delivered to `destinations`. With the filter
    /// `delaybridge::shadow=debug` there is a line for each element.
    pub fn would_deliver(&self, id: &Identity, due_ms: i64, bytes: usize, destinations: &str) {
        self.0.metrics.shadowed(Fate::Deliver);
        tracing::debug!(target: SHADOW, queue = &**self.id(), %id, due_ms, bytes, destinations, "would be delivered");
    }

    /// Reports that an element is due in shadow mode, and there is nothing to deliver.
    pub fn would_pass(&self, id: &Identity, due_ms: i64, fate: Fate, reason: &str) {
        self.0.metrics.shadowed(fate);
        let fate = fate.as_str();
        tracing::debug!(target: SHADOW, queue = &**self.id(), %id, due_ms, fate, reason, "would not be delivered");
    }

    /// Reports that an element is due in shadow mode, and its delivery would fail.
    pub fn would_fail(&self, id: &Identity, due_ms: i64, fate: Fate, reason: &str) {
        self.would_pass(id, due_ms, fate, reason);
        let fate = fate.as_str();
        if let Some(left_out) = self.0.quiet().shadow.admit(Instant::now(), 1) {
            warn!(queue = &**self.id(), %id, fate, reason, left_out, "shadow: an element would not be delivered");
        }
    }

    /// Reports the results of shadow mode since the last summary.
    pub fn shadow_summary(&self, delivered: u64, failed: u64, time: Duration) {
        let seconds = time.as_secs();
        info!(
            queue = &**self.id(),
            would_deliver = delivered,
            would_fail = failed,
            seconds,
            "shadow: nothing was sent"
        );
    }

    /// Reports that a rescue moved overdue elements to the ready list and skipped `junk`. Junk is logged when its
    /// number grows.
    pub fn rescued(&self, terms: &'static SourceTerms, moved: u64, junk: u64) {
        self.0.metrics.rescued(terms, moved, junk);
        if moved > 0 {
            info!(queue = &**self.id(), elements = moved, "rescued: overdue elements moved to the ready list");
        }
        if junk > self.0.junk.swap(junk, Ordering::Relaxed) {
            warn!(queue = &**self.id(), entries = junk, "{}", terms.unreadable_found);
        }
    }

    /// Reports that Redis refuses a read that the queue needs. Logged when the message changes.
    pub fn look_failed(&self, problem: &str) {
        self.on_hold(None, "look", "", &format!("read the queue: {problem}"));
    }

    /// Logs the sums of suppressed lines that are old enough; with `all`, of all.
    pub fn sum_up(&self, all: bool) {
        let Some(quiet) = self.0.quiet.get() else { return };
        let queue = &**self.id();
        let now = Instant::now();
        if let Some((elements, time)) = quiet.dead.sum(now, all) {
            let reasons = quiet.take_reasons();
            warn!(queue, elements, seconds = time.as_secs(), reasons, "dead letter stored: sum of the lines left out");
        }
        let sums = [
            (&quiet.letters, "dead letter not forwarded"),
            (&quiet.stale_acks, "verdicts refused"),
            (&quiet.stale_drops, "elements dropped here, not sent"),
            (&quiet.leases_lost, "leases lost"),
            (&quiet.absurd, "due time is absurd"),
            (&quiet.panics, "panic while working on an element"),
        ];
        for (throttle, text) in sums {
            if let Some((elements, time)) = throttle.sum(now, all) {
                warn!(queue, elements, seconds = time.as_secs(), "{text}: sum of the lines left out");
            }
        }
        if let Some((elements, time)) = quiet.opaque.sum(now, all) {
            info!(
                queue,
                elements,
                seconds = time.as_secs(),
                "payload is forwarded as bytes: sum of the lines left out"
            );
        }
    }

    /// Reports that a turn of the sweep is complete.
    pub fn swept(&self, entries: u64, removed: u64, time: Duration) {
        debug!(queue = &**self.id(), entries, removed, seconds = time.as_secs_f64(), "turn of the sweep finished");
    }

    /// Forgets the queue's hold and its pause, which are determined anew with its new settings.
    pub fn changed(&self) {
        let (held, paused) = self.0.status.forget_queue(self.id());
        if held {
            self.0.metrics.held(false);
        }
        if paused {
            self.0.metrics.paused(false);
        }
    }

    fn id(&self) -> &Arc<str> {
        self.0.metrics.id()
    }
}
