//! The way of routed elements past the breakers: which of a claim go to the sink now, and which go back.

use std::sync::Arc;
use std::time::Duration;

use crate::deliver::destinations::{Admission, Ask, DestinationKey};
use crate::deliver::sink_handle::SinkHandle;
use crate::limits::budget::Room;
use crate::limits::circuit::Allow;
use crate::queue::{Queue, SinkRoute};
use delaybridge_core::message::About;
use delaybridge_sink::Outbound;

/// The decisions about the elements of a claim.
pub enum Decisions {
    /// All go: their one destination works.
    All,
    /// None goes: a breaker that they all wait for opened after the claim.
    None,
    /// Each by itself, in their order.
    Each(Vec<Decision>),
}

/// The decision about one element.
pub enum Decision {
    /// Go.
    Go(Admitted),
    /// Go back to Redis, and come back after this time: its destination is in trouble.
    Back(Duration),
}

/// An element at its destination, until this is dropped.
pub struct Admitted {
    handle: Arc<SinkHandle>,
    lane: DestinationKey,
    size: u64,
    probe: bool,
}

impl Admitted {
    /// Whether the element finds out if its destination works again.
    pub fn is_probe(&self) -> bool {
        self.probe
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        // After an answer, the probe has ended already.
        self.handle.left(self.lane, self.size, self.probe);
    }
}

/// Decides about elements of a queue on their way to this sink of it. `probe`: the queue was let through to find out
/// whether something works again.
pub fn pass<'a>(
    queue: &Queue,
    route: &SinkRoute,
    probe: bool,
    messages: impl Iterator<Item = &'a Outbound>,
) -> Decisions {
    let mut messages = messages.peekable();
    let Some(first) = messages.peek() else { return Decisions::All };
    let only = route.only(&first.destination);
    if !probe && route.handle.allows(only) != Allow::Free {
        return Decisions::None;
    }
    // Elements of one topic have all a key or none.
    if only.is_some() && !route.handle.has_parts(&first.destination) {
        return Decisions::All;
    }
    let chosen = route.spec.target.is_chosen_by_payload(About::Route);
    let gives_up = queue.spec.unroutable.gives_up().filter(|_| chosen);
    let asks: Vec<Ask> = messages
        .map(|message| Ask { lane: route.handle.lane(&message.destination), size: message.body.len() as u64, gives_up })
        .collect();
    let (own, all) = (queue.budget.limit(), queue.process.budget_of(&queue.spec.redis).limit());
    let room = Room { count: own.count.min(all.count), bytes: own.bytes.min(all.bytes) };
    let admitted = route.handle.admit(room, asks.iter().copied());
    let entry = |(ask, admission): (Ask, Admission)| match admission {
        Admission::Hold(wait) => Decision::Back(wait),
        Admission::Send | Admission::Probe => Decision::Go(Admitted {
            handle: route.handle.clone(),
            lane: ask.lane,
            size: ask.size,
            probe: admission == Admission::Probe,
        }),
    };
    let entries: Vec<Decision> = asks.into_iter().zip(admitted).map(entry).collect();
    // What is not sent leaves the rate to others.
    let back = entries.iter().filter(|entry| matches!(entry, Decision::Back(_))).count();
    if back > 0 {
        queue.refund_rate(u32::try_from(back).unwrap_or(u32::MAX));
    }
    Decisions::Each(entries)
}
