//! What a person has paused of a queue, as this process knows it. While the queue is paused, or a sink that its elements go
//! to, nothing is claimed; what is in flight is finished, and retries wait in Redis.
//!
//! The truth is in Redis. It is read before the first claim, after an announcement and after the connection that brings
//! announcements was away; so a claim costs nothing more. Because a person should not depend on announcements, it is
//! read again after a minute, while something is paused after five seconds, and at the end of a pause: that it is over is said by
//! Redis's clock and not by ours.

use std::sync::Arc;
use std::time::Duration;

use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::{Pauses, StoreError};
use delaybridge_telemetry::events::Paused;
use delaybridge_telemetry::labels::Wakeup;

/// Wait after a read that Redis refused, or did not answer.
const FAILED: Duration = Duration::from_secs(1);

impl Queue {
    /// Looks now, because a pause was announced: also where nothing is due, so that probes and metrics show it.
    pub fn see_pauses(&self) {
        self.doubt_pauses();
        self.alarm.ring(Wakeup::Published);
        self.process.gates.send_modify(|n| *n += 1);
    }

    /// Looks before the next claim, because announcements may have been missed.
    pub fn doubt_pauses(&self) {
        self.pause.doubt();
        self.dead_letters.notify_one();
    }

    /// Reads what is paused, if what is known may not be true any more. Until Redis has answered, nothing may be claimed.
    /// Cancel safe.
    pub async fn learn_pauses(&self) {
        let mut refused = false;
        while let Some(reasons) = self.pause.reason_to_look() {
            match self.store.pauses(&self.sinks()).await {
                Ok(pauses) => {
                    self.learned(reasons, pauses);
                    if std::mem::take(&mut refused) {
                        self.resume();
                    }
                }
                Err(problem) => {
                    if !matches!(
                        problem,
                        StoreError::NotSent { .. } | StoreError::Unknown { .. } | StoreError::Malformed(_)
                    ) {
                        refused = true;
                        match &problem {
                            StoreError::OtherPrefix(problem) => {
                                self.events.on_hold(None, "prefix", "", &problem.to_string())
                            }
                            _ => self.events.on_hold(None, "pause", "", &format!("read what is paused: {problem}")),
                        }
                    }
                    tokio::time::sleep(FAILED).await;
                    self.home().ready().await;
                }
            }
        }
    }

    fn learned(&self, reasons: u64, pauses: Pauses) {
        self.home().observe(pauses.now_ms);
        self.pause.learned(reasons, pauses, self.delivers_to(), |holding| {
            self.events.paused(holding.map(|(sink, pause)| Paused {
                sink: sink.map(|name| name.to_string()),
                by: pause.by.clone(),
                why: pause.why.clone(),
                since_ms: pause.since_ms,
                until_ms: pause.until_ms,
            }));
        });
    }

    fn delivers_to(&self) -> impl Fn(&str) -> bool {
        |name| self.routes.iter().map(|route| &route.spec.sink).chain(self.records_to()).any(|sink| **sink == *name)
    }

    /// Returns until when to wait before another look, if a pause keeps the queue from claiming.
    pub fn paused(&self) -> Option<Instant> {
        self.pause.paused(self.delivers_to())
    }

    /// Returns whether this sink is paused for the queue.
    pub fn has_paused(&self, sink: &str) -> bool {
        self.pause.has_paused(sink)
    }

    /// Returns the sinks that elements, dead letters or records of the queue go to.
    fn sinks(&self) -> Vec<Arc<str>> {
        let letters = self.dead_letter_to.iter().map(|target| target.spec.sink.clone());
        let routes = self.routes.iter().map(|route| route.spec.sink.clone());
        routes.chain(letters).chain(self.records_to().cloned()).collect()
    }

    /// Returns the sink of the records.
    fn records_to(&self) -> Option<&Arc<str>> {
        Some(&self.audit.as_ref()?.route.spec.sink)
    }
}
