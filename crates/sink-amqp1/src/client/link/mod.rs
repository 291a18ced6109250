//! A link to one address, in a session of its own: what waits for credit, and what waits for an outcome.
//!
//! ```text
//! new: begin and attach are sent -> attached: credit lets elements go -> ending: detach and end are sent -> gone
//! ```
//!
//! With a session of its own, what ends the session concerns this address alone: some brokers end the session where others
//! end the link.

mod answers;
#[cfg(test)]
mod credit_tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::flights::Flights;
use super::frames::{self, PeerFlow};
use super::message;
use crate::errors;
use crate::{Amqp1Destination, NAME};
use delaybridge_core::message::Failure;
use delaybridge_sink::output::FrameOutput;
use delaybridge_sink::worker_queue::WorkItem;

/// Time without credit after which no more elements wait than a share of all.
pub(super) const DRY: Duration = Duration::from_secs(1);
/// Time within which the broker ends a session that we have ended.
const END: Duration = Duration::from_secs(30);

/// The other end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LinkEnd {
    Address(Arc<str>),
    /// The anonymous terminus: each message names its address.
    AnyAddress,
    /// None: the session alone, as a question whether the broker is there.
    Session,
}

/// The answer to a question about a link; what is true of it.
pub type LinkReply = Result<LinkNote, Failure>;

/// A link as its attach and its first credit show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkNote {
    pub(super) has_credit: bool,
    /// Whether the broker is known to accept messages that no queue takes.
    pub(super) accepts_unroutable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkStage {
    /// Begin and attach were sent.
    New,
    /// The broker has attached it.
    Attached,
    /// The broker has refused it, and says why in a moment.
    Refused,
    /// Detach and end were sent.
    Ending,
}

/// The message that is being sent in parts.
struct PartedMessage {
    delivery: u32,
    head: Bytes,
    body: Bytes,
}

struct WaitingElement {
    item: WorkItem,
    since: Instant,
}

pub(super) struct Amqp1Link {
    pub(super) to: LinkEnd,
    channel: u16,
    limits: LinkLimits,
    stage: LinkStage,
    waiting: VecDeque<WaitingElement>,
    questions: Vec<oneshot::Sender<LinkReply>>,
    flights: Flights,
    parted: Option<PartedMessage>,
    /// Frames that the session lets go, and their count so far.
    window: u32,
    next_outgoing: u32,
    /// Deliveries that the link lets go, and their count so far.
    credit: u32,
    delivery_count: u32,
    /// Largest message that the broker takes here; 0 is any.
    max_message: u64,
    /// An answer was late, or said that something is wrong with the address: nothing new is sent, and the link is replaced.
    suspect: bool,
    /// Whether the broker has accepted a message here.
    has_taken: bool,
    begun: Instant,
    /// The time at which credit was there last.
    fed: Instant,
    /// The time of its last use, or of its end.
    pub(super) used: Instant,
}

/// The limits of a link that come from its connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkLimits {
    /// Largest frame of the broker.
    pub(super) max_frame: u32,
    /// Time-out of a delivery, from when it was taken on.
    pub(super) timeout: Duration,
    /// Longest time without credit. An element waits for its turn for half of `timeout` at most, so that the other half is left for its
    /// answer.
    pub(super) patience: Duration,
    /// Whether the broker is known to accept messages that no queue takes.
    pub(super) accepts_unroutable: bool,
}

/// The broker takes no bytes, or does not end what we have ended: the whole connection cannot be trusted any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutputStuck;

impl Amqp1Link {
    /// Returns a link whose beginning is put into the output.
    pub(super) fn begin(to: LinkEnd, channel: u16, name: &str, limits: LinkLimits, out: &mut BytesMut) -> Amqp1Link {
        frames::begin(out, channel);
        match &to {
            LinkEnd::Address(address) => frames::attach(out, channel, name, Some(address)),
            LinkEnd::AnyAddress => frames::attach(out, channel, name, None),
            LinkEnd::Session => {}
        }
        let now = Instant::now();
        Amqp1Link {
            to,
            channel,
            limits,
            stage: LinkStage::New,
            waiting: VecDeque::new(),
            questions: Vec::new(),
            flights: Flights::default(),
            parted: None,
            window: 0,
            next_outgoing: 0,
            credit: 0,
            delivery_count: 0,
            max_message: 0,
            suspect: false,
            has_taken: false,
            begun: now,
            fed: now,
            used: now,
        }
    }

    /// Counts the elements that wait here, and those under way.
    pub(super) fn load(&self) -> usize {
        self.waiting.len() + self.flights.open()
    }

    /// Counts the elements that wait for credit.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether nobody needs it.
    pub(super) fn is_idle(&self) -> bool {
        self.load() == 0 && self.questions.is_empty() && self.stage == LinkStage::Attached
    }

    /// Returns whether elements may be put here.
    pub(super) fn is_open(&self) -> bool {
        self.stage != LinkStage::Ending && !self.suspect
    }

    /// Returns whether its end was sent.
    pub(super) fn is_ending(&self) -> bool {
        self.stage == LinkStage::Ending
    }

    /// Lets an element wait for its turn.
    pub(super) fn put(&mut self, item: WorkItem, since: Instant) {
        self.used = Instant::now();
        self.waiting.push_back(WaitingElement { item, since });
    }

    /// Records that the broker has begun its end of the session.
    pub(super) fn begun(&mut self, window: u32) {
        self.window = window;
        if self.to == LinkEnd::Session && self.stage == LinkStage::New {
            self.stage = LinkStage::Attached;
            self.answer_questions();
        }
    }

    /// Records that the broker has attached its end of the link, or refuses it.
    pub(super) fn attached(&mut self, has_target: bool, max_message: u64) {
        if self.stage == LinkStage::New {
            // A target without an address is that of the anonymous terminus; none at all is a refusal.
            self.stage = if has_target { LinkStage::Attached } else { LinkStage::Refused };
            self.max_message = max_message;
        }
    }

    /// Applies the broker's change of windows or credit.
    pub(super) fn flow(&mut self, flow: PeerFlow, out: &mut BytesMut) {
        // What is under way was counted by us, and not yet by the broker.
        let under_way = self.next_outgoing.wrapping_sub(flow.next_incoming.unwrap_or(0));
        self.window = flow.incoming_window.saturating_sub(under_way);
        if let Some((count, credit)) = flow.credit {
            self.credit = credit.saturating_sub(self.delivery_count.wrapping_sub(count));
            if flow.drain && self.waiting.is_empty() {
                self.delivery_count = self.delivery_count.wrapping_add(std::mem::take(&mut self.credit));
            }
        }
        if self.credit > 0 && self.window > 0 {
            self.fed = Instant::now();
        }
        if (flow.echo || flow.drain) && self.stage != LinkStage::Ending {
            let state = (self.next_outgoing, self.delivery_count, self.credit);
            frames::flow(out, self.channel, state, flow.drain);
        }
        self.answer_questions();
    }

    /// Puts elements into the output as far as credit, window and `full` let them.
    pub(super) fn send(&mut self, output: &mut FrameOutput, full: usize) {
        while self.stage == LinkStage::Attached && self.window > 0 && output.bytes.len() < full {
            if self.parted.is_none() && !self.begin_delivery() {
                return;
            }
            self.send_part(output);
        }
    }

    /// Begins to send the next element, if there is one that may go.
    fn begin_delivery(&mut self) -> bool {
        while self.credit > 0 && !self.suspect {
            let Some(WaitingElement { item, since }) = self.waiting.pop_front() else { return false };
            let mut head = BytesMut::with_capacity(512);
            match item.message().destination.of_kind::<Amqp1Destination>(NAME) {
                Ok(to) => {
                    let named = (self.to == LinkEnd::AnyAddress).then_some(&*to.address);
                    message::head(&mut head, item.message(), to.content_type, named);
                }
                Err(failure) => {
                    item.finish(Err(failure));
                    continue;
                }
            }
            let body = item.message().body.clone();
            let bytes = (head.len() + body.len()) as u64;
            if self.max_message > 0 && bytes > self.max_message {
                let failure = errors::too_large(&attempt(&item), bytes, self.max_message);
                item.finish(Err(failure));
                continue;
            }
            if !item.may_send() {
                continue;
            }
            self.used = Instant::now();
            self.fed = self.used;
            self.parted = Some(PartedMessage { delivery: self.flights.next(), head: head.freeze(), body });
            self.flights.push(item, since + self.limits.timeout);
            self.credit -= 1;
            self.delivery_count = self.delivery_count.wrapping_add(1);
            return true;
        }
        false
    }

    /// Puts the next frame of the message into the output.
    fn send_part(&mut self, output: &mut FrameOutput) {
        let Some(parted) = &mut self.parted else { return };
        let room = frames::room(self.limits.max_frame);
        let head = parted.head.split_to(room.min(parted.head.len()));
        let body = parted.body.split_to((room - head.len()).min(parted.body.len()));
        let more = !parted.head.is_empty() || !parted.body.is_empty();
        let delivery = parted.delivery;
        frames::frame(&mut output.bytes, 0, self.channel, |out| {
            frames::transfer(out, delivery, more);
            out.extend_from_slice(&head);
            out.extend_from_slice(&body);
        });
        self.window -= 1;
        self.next_outgoing = self.next_outgoing.wrapping_add(1);
        if !more {
            self.parted = None;
            self.flights.written(output.end());
        }
    }

    /// Returns whether elements have waited for credit for some time, so that further ones would only wait behind them.
    pub(super) fn is_dry(&self, now: Instant) -> bool {
        self.dry_for(now) >= DRY
    }

    /// Returns whether the first element has waited for some time, for credit or for its turn.
    pub(super) fn is_behind(&self, now: Instant) -> bool {
        self.waiting.front().is_some_and(|first| now.saturating_duration_since(first.since) >= DRY)
    }

    /// Returns the time for which elements have waited and nothing could be sent: without credit, or without a window,
    /// which a broker closes while it is short of memory or disk.
    fn dry_for(&self, now: Instant) -> Duration {
        match self.waiting.front() {
            Some(first) if self.credit == 0 || self.window == 0 => {
                now.saturating_duration_since(self.fed.max(first.since))
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns whether it should be ended: it is suspect, and all answers have come; or it was never attached, and
    /// nobody waits.
    pub(super) fn is_spent(&self, now: Instant) -> bool {
        let old = now.saturating_duration_since(self.begun) >= self.limits.patience;
        match self.stage {
            LinkStage::Attached => self.suspect && self.flights.open() == 0,
            LinkStage::New | LinkStage::Refused => old && self.load() == 0 && self.questions.is_empty(),
            LinkStage::Ending => false,
        }
    }

    /// Takes the elements that were not sent, when the link is replaced.
    pub(super) fn take_waiting(&mut self) -> Vec<(WorkItem, Instant)> {
        self.waiting.drain(..).map(|waiting| (waiting.item, waiting.since)).collect()
    }

    /// Ends the link and its session.
    pub(super) fn end(&mut self, out: &mut BytesMut) {
        if self.stage != LinkStage::Ending {
            if self.to != LinkEnd::Session {
                frames::detach(out, self.channel);
            }
            frames::end(out, self.channel);
            self.stage = LinkStage::Ending;
            self.used = Instant::now();
        }
    }
}

/// Returns the attempt, for messages.
pub(super) fn attempt(item: &WorkItem) -> String {
    format!("send to {}", item.message().destination)
}
