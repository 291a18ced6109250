//! What becomes of a claimed element: one type from the judge to the settler.
//!
//! The pipeline decides a [`Verdict`], [`ClaimedElement::settle`](crate::claim::claimed::ClaimedElement::settle) consumes the element with
//! it, and the settler writes it. Everything else follows from the verdict: the move of the settle script
//! ([`Verdict::step`]) and, once it is written, the counters. Progress is no verdict: it leaves the claim alive. Neither
//! is a stale element, about which nothing is written.

use std::time::Duration;

use bytes::Bytes;

use delaybridge_core::message::{Class, Failure};
use delaybridge_ledger::claims::{Header, SettleOp};
use delaybridge_link::Side;
use delaybridge_telemetry::labels::{DeadReason, ReleaseReason};

/// The verdict on an element.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Every sink has it: it leaves Redis.
    Confirm,
    /// The element leaves Redis, and the same script pushes it to the destination list.
    Push {
        /// End of the list.
        side: Side,
        /// The bytes that are pushed.
        body: Bytes,
    },
    /// The element is tried again.
    Retry {
        /// The least time to wait.
        after: Duration,
        /// Whether this attempt counts towards `max_attempts`.
        counted: bool,
        /// Class of the gravest failure, for the header.
        class: Class,
        /// The code of that failure.
        code: &'static str,
    },
    /// The element is stored as a dead letter.
    Dead(Death),
    /// The user has removed the body: nothing is left to deliver.
    Gone,
    /// No destination is meant for the element: it leaves Redis.
    Skipped,
    /// The element's own record says that it is due later: back to its source.
    Return {
        /// Due time in ms since the epoch.
        at_ms: i64,
    },
    /// The element goes back as if it had not been claimed: uncounted, in the order that it had.
    Release {
        /// Why.
        why: ReleaseCause,
    },
}

/// Why an element is stored as a dead letter.
#[derive(Debug, Clone, PartialEq)]
pub struct Death {
    /// Why.
    pub reason: DeadReason,
    /// The sink that decided it, by its place among the queue's destinations; `None` if no sink had a part in it.
    pub sink: Option<usize>,
    /// The destination at that sink.
    pub destination: Option<String>,
    /// The failure that the sink, or the stage, reported.
    pub failure: Option<Failure>,
    /// The same without words of the payload, for the log, where that differs.
    pub shown: Option<Box<Failure>>,
}

/// Why an element is released uncounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseCause {
    /// No element can be delivered until this is fixed: hold the queue.
    Hold {
        /// The sink; `None` where the queue itself has to change.
        sink: Option<usize>,
        /// The failure.
        failure: Failure,
    },
    /// The destination is in trouble, and others of the queue are not: the element comes back after a while.
    Destination {
        /// The least time to wait.
        after: Duration,
    },
    /// The queue went on hold while the element waited for its due time.
    OnHold,
    /// The sink is full, or was not asked.
    Backpressure {
        /// The sink.
        sink: usize,
    },
    /// The body was not read, because the claim had no room for it.
    NoRoom,
    /// The claim was dropped before it had a verdict.
    Dropped,
    /// The daemon stops.
    Shutdown,
}

impl Verdict {
    /// Returns one word for the verdict, as spans show it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Verdict::Confirm => "confirm",
            Verdict::Push { .. } => "push",
            Verdict::Retry { .. } => "retry",
            Verdict::Dead(_) => "dead",
            Verdict::Gone => "gone",
            Verdict::Skipped => "skipped",
            Verdict::Return { .. } => "return",
            Verdict::Release { .. } => "release",
        }
    }

    /// Returns the move of the settle script that writes this verdict about an element with this header. `letter` makes
    /// the fields of a dead letter, and is called for [`Verdict::Dead`] only.
    pub fn step(&self, header: &Header, letter: impl FnOnce(&Death) -> Vec<(&'static str, Bytes)>) -> SettleOp {
        match self {
            Verdict::Confirm | Verdict::Gone | Verdict::Skipped => SettleOp::Confirm,
            Verdict::Return { at_ms } => SettleOp::Return { at_ms: *at_ms },
            Verdict::Push { side, body } => SettleOp::Push { side: *side, body: body.clone() },
            Verdict::Retry { after, counted, class, code } => {
                let mut header = header.clone();
                header.attempts = header.attempts.saturating_add((*counted).into());
                header.set_failure(*class, code);
                SettleOp::Retry { header, delay_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) }
            }
            Verdict::Dead(death) => SettleOp::Dead { fields: letter(death) },
            Verdict::Release { why: ReleaseCause::Destination { after } } => SettleOp::Retry {
                header: header.clone(),
                delay_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
            },
            Verdict::Release { .. } => SettleOp::Release { at_ms: header.time_ms, header: header.clone() },
        }
    }
}

impl Death {
    /// Creates a death that no sink had a part in.
    pub fn without_sink(reason: DeadReason, failure: Failure) -> Self {
        Death { reason, sink: None, destination: None, failure: Some(failure), shown: None }
    }

    /// Returns whether an attempt ended the element. That attempt counts as well.
    pub fn ended_an_attempt(&self) -> bool {
        match self.reason {
            DeadReason::MaxAttempts | DeadReason::MessagePermanent => true,
            // By the sink, or by a template before it was asked.
            DeadReason::Unroutable => self.destination.is_some(),
            DeadReason::Expired
            | DeadReason::LeaseExpired
            | DeadReason::AbsurdDue
            | DeadReason::Undecodable
            | DeadReason::Junk
            | DeadReason::Skipped => false,
        }
    }
}

impl ReleaseCause {
    /// Returns the label of the counter.
    pub fn reason(&self) -> ReleaseReason {
        match self {
            ReleaseCause::Hold { .. } | ReleaseCause::OnHold => ReleaseReason::Hold,
            ReleaseCause::Destination { .. } => ReleaseReason::Destination,
            ReleaseCause::Backpressure { .. } | ReleaseCause::Dropped | ReleaseCause::NoRoom => {
                ReleaseReason::Backpressure
            }
            ReleaseCause::Shutdown => ReleaseReason::Shutdown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::{MessageId, Origin};

    fn header() -> Header {
        let mut header = Header::redriven(Origin::Delayed, MessageId([7; 8]), 1_000, vec![5]);
        header.attempts = 2;
        header
    }

    fn no_letter(_: &Death) -> Vec<(&'static str, Bytes)> {
        panic!("no dead letter was asked for")
    }

    #[test]
    fn a_retry_is_counted_in_the_header_if_it_counts() {
        for (counted, attempts) in [(true, 3), (false, 2)] {
            let after = Duration::from_millis(250);
            let verdict = Verdict::Retry { after, counted, class: Class::Transient, code: "CODE" };
            let SettleOp::Retry { header, delay_ms } = verdict.step(&header(), no_letter) else {
                panic!("{verdict:?}")
            };
            assert_eq!((header.attempts, delay_ms), (attempts, 250));
            assert_eq!(
                (header.class, header.code(), &header.confirmed[..]),
                (Some(Class::Transient), "CODE", &[5][..])
            );
        }
    }

    #[test]
    fn a_release_keeps_the_order_and_the_attempts() {
        for why in [
            ReleaseCause::OnHold,
            ReleaseCause::Dropped,
            ReleaseCause::Shutdown,
            ReleaseCause::Backpressure { sink: 0 },
        ] {
            let step = Verdict::Release { why }.step(&header(), no_letter);
            let SettleOp::Release { header, at_ms } = step else { panic!("{step:?}") };
            assert_eq!((header.attempts, header.class, at_ms), (2, None, 1_000));
        }
    }

    #[test]
    fn an_element_whose_destination_is_in_trouble_comes_back_later_and_uncounted() {
        let why = ReleaseCause::Destination { after: Duration::from_secs(7) };
        let step = Verdict::Release { why }.step(&header(), no_letter);
        let SettleOp::Retry { header, delay_ms } = step else { panic!("{step:?}") };
        assert_eq!((header.attempts, header.class, delay_ms), (2, None, 7_000));
    }

    #[test]
    fn what_leaves_redis_has_no_header() {
        assert!(matches!(Verdict::Confirm.step(&header(), no_letter), SettleOp::Confirm));
        let push = Verdict::Push { side: Side::Left, body: Bytes::from_static(b"body") };
        assert!(matches!(push.step(&header(), no_letter), SettleOp::Push { side: Side::Left, body } if body == "body"));
        let failure = Failure::new(Class::MessagePermanent, "junk", "fits no layout");
        let dead = Verdict::Dead(Death::without_sink(DeadReason::Junk, failure));
        let SettleOp::Dead { fields } = dead.step(&header(), |death| vec![(death.reason.as_str(), Bytes::new())])
        else {
            panic!("{dead:?}")
        };
        assert_eq!(fields[0].0, "junk");
    }
}
