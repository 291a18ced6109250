//! A run: elements of a claim that go to their sink together.
//!
//! Either the sink keeps their order: those of a key go on one line of it ([`RunSink::line`](delaybridge_sink::RunSink::line)), so
//! nothing behind one that fails arrives before that is sent again. Or each has a key of its own, and they have no order. What cannot
//! go along stays behind, in its order.

use std::sync::Arc;

use crate::audit;
use crate::claim::claimed::ClaimedElement;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::deliver::delivery::ClaimDelivery;
use crate::deliver::destinations::DestinationKey;
use crate::deliver::key_queues::KeyInHand;
use crate::deliver::outgoing::Outgoing;
use crate::settle::verdict::Verdict;

/// A run while its messages are made.
struct Making<'a> {
    claim: &'a Arc<Claim>,
    start: Outgoing,
    /// Whether the elements of a key are on one line.
    in_lines: bool,
    /// The part of each key that is sent so far.
    keys: Vec<KeyRun>,
    /// There is no room for more.
    is_full: bool,
}

/// The part of a key that is sent.
#[derive(Clone, Copy)]
enum KeyRun {
    /// Nothing so far.
    Empty,
    /// Elements on this line.
    Line(DestinationKey),
    /// Nothing more: something stays behind, and everything after it.
    Closed,
}

/// The way of an element.
enum Goes {
    /// In the run.
    Along,
    /// Behind the run.
    Behind,
    /// Behind the run, and by itself.
    Alone,
    /// Nowhere: it needs no sink.
    Away(Verdict),
}

/// Makes the messages of these elements, which have the numbers of their keys and of each key are in their order. Hands over those
/// that can go together, and puts back what stays behind. `in_lines`: those of a key have to be on one line of the sink, which keeps
/// their order; else each has a key of its own. Returns what is at the sink, with the places of its elements in the claim, in their
/// order, and their keys.
pub(super) fn begin(
    claim: &Arc<Claim>,
    hands: &[KeyInHand],
    elements: Vec<(usize, ClaimedElement)>,
    isolation: Isolation,
    in_lines: bool,
) -> Option<(ClaimDelivery, Vec<(usize, usize)>)> {
    let queue = &claim.queue;
    let queues = hands.first()?.queues();
    if queues.returns_all() || queue.stopping.is_cancelled() {
        return None;
    }
    let settler = elements.first()?.1.settler().clone();
    let Some(send_before) = claim.fresh() else {
        queues.return_stale(elements.into_iter().map(|(_, element)| element).collect());
        return None;
    };
    let now_ms = queue.home().now_ms();
    let about = elements.len();
    let start = Outgoing::new((claim, &settler), Some(isolation), queue.growth(), about, (now_ms, send_before));
    let mut making = Making {
        claim,
        in_lines,
        start: if in_lines { start.in_run() } else { start },
        keys: vec![KeyRun::Empty; hands.len()],
        is_full: false,
    };
    let mut sent = Vec::with_capacity(elements.len());
    let mut behind = Vec::new();
    for (key, mut element) in elements {
        match making.next(key, &mut element) {
            Goes::Along => {
                let place = element.place();
                element.hand_on();
                making.start.add(queue, place, None);
                sent.push((place, key));
            }
            Goes::Behind => behind.push((key, element)),
            Goes::Alone => behind.push((key, element.by_itself(None, None))),
            Goes::Away(verdict) => audit::settle(element, Some(verdict)),
        }
    }
    let start = making.start;
    let delivery = (!sent.is_empty()).then(|| start.hand_over(false));
    behind.into_iter().rev().for_each(|(key, element)| hands[key].put_back(element));
    Some((delivery?, sent))
}

impl Making<'_> {
    /// Makes the message of the next element, and decides about its way.
    fn next(&mut self, key: usize, element: &mut ClaimedElement) -> Goes {
        if self.is_full || matches!(self.keys[key], KeyRun::Closed) {
            return Goes::Behind;
        }
        let goes = match self.start.make(self.claim, element.place(), element.decoded.take()) {
            Ok(Ok(grown)) => self.goes(key, element, grown),
            Ok(Err(verdict @ (Verdict::Dead(_) | Verdict::Gone | Verdict::Skipped))) => return Goes::Away(verdict),
            // It goes back, with everything behind it; or work on it panicked.
            Ok(Err(_)) | Err(_) => Goes::Alone,
        };
        if !matches!(goes, Goes::Along) {
            self.start.take_back();
            self.keys[key] = KeyRun::Closed;
        }
        goes
    }

    fn goes(&mut self, key: usize, element: &ClaimedElement, grown: u64) -> Goes {
        let Some(route) = self.claim.queue.routes.first() else { return Goes::Alone };
        // By itself it is sent all the same, or needs no sink.
        let Some(destination) = self.start.destination() else { return Goes::Alone };
        let line = if self.in_lines {
            match route.handle.line(destination) {
                Some(line) => KeyRun::Line(line),
                None => return Goes::Alone,
            }
        } else {
            KeyRun::Closed
        };
        if let (KeyRun::Line(other), KeyRun::Line(line)) = (self.keys[key], line)
            && other != line
        {
            return Goes::Behind;
        }
        if !self.start.takes_room(element.place(), grown, false) {
            // By itself it waits for room.
            self.is_full = true;
            return Goes::Alone;
        }
        self.keys[key] = line;
        Goes::Along
    }
}
