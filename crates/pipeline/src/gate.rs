//! The permission of a claimer: pauses, the hold of its queue and the breakers of its sinks, asked together. Where all elements of
//! the queue have one destination, its breaker is asked as well; where they differ, each element is (`deliver/at_sink.rs`).
//!
//! While one of them is open, nothing is claimed for it; then one real element at a time, a [`GateProbe`], finds out whether
//! things work again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use crate::deliver::sink_handle::{SinkHandle, StartedProbe};
use crate::limits::circuit::{Allow, Circuit};
use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_telemetry::labels::Wakeup;

/// The permission of a claimer.
#[derive(Debug)]
pub enum ClaimGate {
    /// Claim.
    Free,
    /// Claim one element, to see whether things work again.
    Probe(GateProbe),
    /// Wait until this point, or for a change.
    Wait(Option<Instant>),
}

/// Permission for one element to find out whether something works again. Dropped without [`answered`](GateProbe::answered),
/// the permission is returned.
#[derive(Debug)]
pub struct GateProbe {
    queue: Arc<Queue>,
    hold: bool,
    sinks: Vec<(Arc<SinkHandle>, StartedProbe)>,
}

impl GateProbe {
    /// Ends the element's probes with its verdict: `hold` says whether the hold has seen it, `asked` which breakers
    /// have. The others get their permission back.
    pub fn answered(mut self, hold: bool, asked: impl Fn(&SinkHandle) -> bool) {
        self.saw(hold, asked);
    }

    /// Ends the probes that have seen an answer, while the element is on its way to others.
    pub fn saw(&mut self, hold: bool, asked: impl Fn(&SinkHandle) -> bool) {
        self.hold &= !hold;
        self.sinks.retain(|(handle, _)| !asked(handle));
    }
}

impl Drop for GateProbe {
    fn drop(&mut self) {
        for (handle, started) in &self.sinks {
            handle.abandon_probe(*started);
        }
        if self.hold {
            self.queue.hold().probe_abandoned(Instant::now());
            self.queue.process.gates.send_modify(|n| *n += 1);
        }
    }
}

impl Queue {
    /// Returns the permission of pauses, the hold and the breakers of all its sinks.
    pub fn gate(self: &Arc<Self>) -> ClaimGate {
        if let Some(look_at) = self.paused() {
            return ClaimGate::Wait(Some(look_at));
        }
        let hold = self.hold().allows(Instant::now());
        let all = || std::iter::once(hold).chain(self.needed().map(|(handle, only)| handle.allows(only)));
        if let Some(until) =
            all().filter_map(|allow| if let Allow::No { retry_at } = allow { Some(retry_at) } else { None }).max()
        {
            return ClaimGate::Wait(until);
        }
        if all().all(|allow| allow == Allow::Free) {
            return ClaimGate::Free;
        }
        let mut probe = GateProbe { queue: self.clone(), hold: false, sinks: Vec::new() };
        if hold == Allow::Probe {
            self.hold().probe_started();
            probe.hold = true;
        }
        for (handle, only) in self.needed() {
            if handle.allows(only) == Allow::Free {
                continue;
            }
            match handle.start_probe(only) {
                Some(started) => probe.sinks.push((handle.clone(), started)),
                // Another queue was faster; its probe decides for us as well.
                None => return ClaimGate::Wait(None),
            }
        }
        ClaimGate::Probe(probe)
    }

    /// Returns whether nothing holds the queue up: no pause, neither its hold nor a breaker. A question without an
    /// effect.
    pub fn is_open(&self) -> bool {
        self.paused().is_none()
            && self.hold().why().is_none()
            && self.needed().all(|(handle, only)| handle.allows(only) == Allow::Free)
    }

    /// Returns the hold.
    pub fn hold(&self) -> MutexGuard<'_, Circuit> {
        self.hold.lock()
    }

    /// Holds the queue, and says why.
    pub fn hold_because(&self, sink: Option<&str>, failure: &Failure) {
        self.hold().on_failure(Class::TargetPermanent, Instant::now(), fastrand::f64());
        // Every sink says first what it attempted, which names the destination as it may be shown.
        let about = sink.and_then(|_| failure.message.split_once(": ")).map_or("", |(attempt, _)| attempt);
        self.events.on_hold(sink, failure.code, about, &failure.to_string());
        self.process.gates.send_modify(|n| *n += 1);
    }

    /// Records an answer that says nothing about why the queue is on hold: a probe proved nothing.
    pub fn hold_learns_nothing(&self, class: Class) {
        let mut hold = self.hold();
        hold.on_failure(class, Instant::now(), fastrand::f64());
        if hold.why().is_some() {
            // The waiting claimers have a new time to wait for.
            self.process.gates.send_modify(|n| *n += 1);
        }
    }

    /// Releases a hold because an element was delivered.
    pub fn release_hold(&self) {
        let closed = self.hold().on_success().is_some();
        if closed {
            self.events.resumed();
            self.process.gates.send_modify(|n| *n += 1);
        }
    }

    /// Notes that the cluster moves the queue's slot: what needs several keys is refused until that is over. Reported
    /// once; the next claim that is made ends it.
    pub fn slot_migrates(&self) {
        if !self.slot_migrating.swap(true, Ordering::Relaxed) {
            self.events.slot_migrates();
            self.alarm.ring(Wakeup::Poll);
        }
    }

    /// Resumes the queue, because Redis takes claims and verdicts again. A queue that is held because of a sink stays
    /// held.
    pub fn resume(&self) {
        if self.hold().why().is_none() {
            self.events.resumed();
        }
    }
}
