//! The answers of a link: outcomes, time-outs, and the ends of link and connection.

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::frames::{self, DeliveryOutcome, PeerDisposition};
use super::{Amqp1Link, END, LinkEnd, LinkNote, LinkReply, LinkStage, OutputStuck, WaitingElement, attempt};
use crate::codes;
use crate::errors::{self, PeerError};
use bytes::BytesMut;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::output::FrameOutput;

impl Amqp1Link {
    /// Answers the question as soon as the link's state is known.
    pub(in crate::client) fn ask(&mut self, question: oneshot::Sender<LinkReply>) {
        self.questions.push(question);
        self.answer_questions();
    }

    fn note(&self) -> LinkNote {
        LinkNote { has_credit: self.credit > 0, accepts_unroutable: self.limits.accepts_unroutable }
    }

    pub(super) fn answer_questions(&mut self) {
        if self.stage == LinkStage::Attached && (self.credit > 0 || self.to == LinkEnd::Session) {
            let note = self.note();
            for question in self.questions.drain(..) {
                let _ = question.send(Ok(note));
            }
        }
    }

    /// Applies the broker's decision about deliveries.
    pub(in crate::client) fn decided(&mut self, of: PeerDisposition, out: &mut BytesMut) {
        let PeerDisposition { first, last, settled, outcome } = of;
        if outcome == DeliveryOutcome::None && !settled {
            return;
        }
        let decided = self.flights.take(first, last);
        // What concerns nothing of ours is owed nothing.
        if !settled && !decided.is_empty() {
            frames::settle(out, self.channel, first, last);
        }
        for item in decided {
            let outcome = match &outcome {
                DeliveryOutcome::Accepted => {
                    self.has_taken = true;
                    Ok(())
                }
                DeliveryOutcome::Rejected(error) => Err(errors::rejected(&attempt(&item), error)),
                DeliveryOutcome::Released => Err(errors::released(&attempt(&item))),
                DeliveryOutcome::Modified { undeliverable_here } => {
                    Err(errors::modified(&attempt(&item), *undeliverable_here))
                }
                DeliveryOutcome::None | DeliveryOutcome::Other => Err(errors::unclear(&attempt(&item))),
            };
            // The address itself may be in trouble, which a new link shows.
            let of_address =
                |failure: &Failure| failure.class == Class::TargetPermanent || failure.code == codes::UNAVAILABLE.code;
            self.suspect |= outcome.as_ref().is_err_and(of_address);
            item.finish(outcome);
        }
    }

    /// Answers what has waited for too long.
    pub(in crate::client) fn look(&mut self, now: Instant, output: &FrameOutput) -> Result<(), OutputStuck> {
        while let Some((item, ends_at)) = self.flights.late(now) {
            self.suspect = true;
            let attempt = attempt(&item);
            item.finish(Err(errors::late(&attempt, self.limits.timeout)));
            if ends_at.is_some_and(|place| !output.has_left(place)) {
                return Err(OutputStuck);
            }
        }
        let patience = self.limits.patience;
        while let Some(failure) = self.waiting.front().and_then(|first| self.gives_up(first, now)) {
            let Some(WaitingElement { item, .. }) = self.waiting.pop_front() else { break };
            item.finish(Err(failure));
        }
        if now.saturating_duration_since(self.begun) >= patience {
            let answer = match self.stage {
                LinkStage::Attached => Ok(self.note()),
                _ => Err(errors::silent(&self.look_up(), patience)),
            };
            for question in self.questions.drain(..) {
                let _ = question.send(answer.clone());
            }
        }
        let ending = self.stage == LinkStage::Ending && now.saturating_duration_since(self.used) >= END;
        if ending { Err(OutputStuck) } else { Ok(()) }
    }

    /// Returns the failure of an element that has waited for too long. A broker that is slow, but gives credit to those
    /// before it, is not one that gives none.
    fn gives_up(&self, waiting: &WaitingElement, now: Instant) -> Option<Failure> {
        let patience = self.limits.patience;
        let attempt = || attempt(&waiting.item);
        let waited = now.saturating_duration_since(waiting.since);
        let is_known = matches!(self.stage, LinkStage::Attached | LinkStage::Ending);
        if !is_known {
            return (waited >= patience).then(|| errors::silent(&attempt(), patience));
        }
        if self.dry_for(now) >= patience {
            return Some(errors::no_credit(&attempt(), patience));
        }
        let most = self.limits.timeout / 2;
        (waited >= most.max(patience)).then(|| errors::little_credit(&attempt(), waited))
    }

    /// Answers everything: the broker has ended the link.
    pub(in crate::client) fn fail(&mut self, error: &PeerError) {
        let sent = self.flights.drain();
        let alone = sent.len() == 1;
        for item in sent {
            let failure = errors::detached(&attempt(&item), error, alone, !self.has_taken);
            item.finish(Err(failure));
        }
        for WaitingElement { item, .. } in self.waiting.drain(..) {
            let failure = errors::unsent(&attempt(&item), error);
            item.finish(Err(failure));
        }
        let look_up = self.look_up();
        for question in self.questions.drain(..) {
            let _ = question.send(Err(errors::unsent(&look_up, error)));
        }
        self.parted = None;
    }

    /// Answers everything: the connection has ended.
    pub(in crate::client) fn lose(&mut self, why: &str) {
        for item in self.flights.drain() {
            let failure = errors::lost(&attempt(&item), why, true);
            item.finish(Err(failure));
        }
        for WaitingElement { item, .. } in self.waiting.drain(..) {
            let failure = errors::lost(&attempt(&item), why, false);
            item.finish(Err(failure));
        }
        let look_up = self.look_up();
        for question in self.questions.drain(..) {
            let _ = question.send(Err(errors::lost(&look_up, why, false)));
        }
    }

    /// Returns a look at the address, for messages.
    fn look_up(&self) -> String {
        match &self.to {
            LinkEnd::Address(address) => format!("look up address {address}"),
            LinkEnd::AnyAddress => "look up the anonymous terminus".to_owned(),
            LinkEnd::Session => "ask the AMQP 1.0 broker".to_owned(),
        }
    }
}
