//! What a person has paused of a queue, as this process knows it. While the queue is paused, or a sink that its elements go
//! to, nothing is claimed; what is in flight is finished, and retries wait in Redis.
//!
//! The truth is in Redis. It is read before the first claim, after an announcement and after the connection that brings
//! announcements was away; so a claim costs nothing more. Because a person should not depend on announcements, it is
//! read again after [`AGED`], while something is paused after [`LOOK`], and at the end of a pause: that it is over is said by
//! Redis's clock and not by ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Instant;
use crate::pipeline::queue::Queue;
use crate::source::SourceError;
use crate::source::ledger::{Pause, Pauses};
use crate::telemetry::events::Paused;
use crate::telemetry::labels::Wakeup;

/// How long it is taken for granted that nothing is paused.
const AGED: Duration = Duration::from_secs(60);
/// Time between two looks while something is paused.
const LOOK: Duration = Duration::from_secs(5);
/// Wait after a read that Redis refused, or did not answer.
const FAILED: Duration = Duration::from_secs(1);

/// What is known of the pauses of one queue.
#[derive(Debug, Default)]
pub struct PauseBoard {
    /// How often there was a reason to look.
    reasons: AtomicU64,
    seen: Mutex<PausesSeen>,
}

#[derive(Debug, Default)]
struct PausesSeen {
    /// When it was read, and the reasons up to then.
    at: Option<(Instant, u64)>,
    pauses: Pauses,
}

impl Queue {
    /// A pause was announced: looks now, also where nothing is due, so that probes and metrics show it.
    pub fn see_pauses(&self) {
        self.doubt_pauses();
        self.alarm.ring(Wakeup::Published);
        self.process.gates.send_modify(|n| *n += 1);
    }

    /// Announcements may have been missed: looks before the next claim.
    pub fn doubt_pauses(&self) {
        self.pause.reasons.fetch_add(1, Ordering::AcqRel);
        self.dead_letters.notify_one();
    }

    /// Reads what is paused, if what is known may not be true any more. Until Redis has answered, nothing may be claimed.
    /// Cancel safe.
    pub async fn learn_pauses(&self) {
        let mut refused = false;
        while let Some(reasons) = self.reason_to_look() {
            match self.store.pauses(&self.sinks()).await {
                Ok(pauses) => {
                    self.learned(reasons, pauses);
                    if std::mem::take(&mut refused) {
                        self.resume();
                    }
                }
                Err(problem) => {
                    if !matches!(&problem, SourceError::Link(error) if error.code().is_none()) {
                        refused = true;
                        self.events.on_hold(None, "pause", "", &format!("read what is paused: {problem}"));
                    }
                    tokio::time::sleep(FAILED).await;
                    self.home().ready().await;
                }
            }
        }
    }

    /// The reasons up to now, if there is one to look.
    fn reason_to_look(&self) -> Option<u64> {
        let reasons = self.pause.reasons.load(Ordering::Acquire);
        let seen = self.pause.seen.lock();
        let good_until = seen.at.filter(|(_, then)| *then == reasons).map(|(at, _)| self.good_until(at, &seen.pauses));
        match good_until {
            Some(until) if Instant::now() < until => None,
            _ => Some(reasons),
        }
    }

    /// Until when this needs no other look.
    fn good_until(&self, at: Instant, pauses: &Pauses) -> Instant {
        let all = pauses.queue.iter().chain(pauses.sinks.iter().map(|(_, pause)| pause));
        let ends = all.map(|pause| pause.until_ms.unwrap_or(i64::MAX)).min();
        let Some(end_ms) = ends else { return at.after(AGED) };
        let left = u64::try_from(end_ms.saturating_sub(pauses.now_ms)).unwrap_or(0);
        at.after(Duration::from_millis(left).min(LOOK))
    }

    fn learned(&self, reasons: u64, pauses: Pauses) {
        self.home().observe(pauses.now_ms);
        let mut seen = self.pause.seen.lock();
        seen.at = Some((Instant::now(), reasons));
        let before = std::mem::replace(&mut seen.pauses, pauses);
        let (was, is) = (self.holding(&before), self.holding(&seen.pauses));
        if was != is {
            self.events.paused(is.map(|(sink, pause)| Paused {
                sink: sink.map(|name| name.to_string()),
                by: pause.by.clone(),
                why: pause.why.clone(),
                since_ms: pause.since_ms,
                until_ms: pause.until_ms,
            }));
        }
    }

    /// The pause that keeps this queue from claiming, and the sink that it is of.
    fn holding<'a>(&self, pauses: &'a Pauses) -> Option<(Option<&'a Arc<str>>, &'a Pause)> {
        let of_queue = pauses.queue.iter().map(|pause| (None, pause));
        let delivers_to = |name: &Arc<str>| self.routes.iter().any(|route| *route.spec.sink == **name);
        let of_sinks = pauses.sinks.iter().filter(|(name, _)| delivers_to(name));
        of_queue.chain(of_sinks.map(|(name, pause)| (Some(name), pause))).next()
    }

    /// Until when to wait before another look, if a pause keeps the queue from claiming.
    pub fn paused(&self) -> Option<Instant> {
        let seen = self.pause.seen.lock();
        let (at, _) = seen.at?;
        self.holding(&seen.pauses).map(|_| self.good_until(at, &seen.pauses))
    }

    /// Whether this sink is paused for the queue.
    pub fn has_paused(&self, sink: &str) -> bool {
        self.pause.seen.lock().pauses.sinks.iter().any(|(name, _)| **name == *sink)
    }

    /// The sinks that elements or dead letters of the queue go to.
    fn sinks(&self) -> Vec<Arc<str>> {
        let letters = self.dead_letter_to.iter().map(|target| target.spec.sink.clone());
        self.routes.iter().map(|route| route.spec.sink.clone()).chain(letters).collect()
    }
}
