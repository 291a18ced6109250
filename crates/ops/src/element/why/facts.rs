//! Everything that an explanation is made of.

use super::answer::AtDaemon;
use super::order::Predecessor;
use crate::audit::OperatorChange;
use crate::element::Detail;
use crate::pause::PauseState;
use delaybridge_ledger::millis;
use delaybridge_model::{Mode, OnExpired, QueueSpec};

/// The settings of a queue that an explanation needs.
#[derive(Debug, Clone, Default)]
pub(super) struct WhyRules {
    pub mode: &'static str,
    /// `key` or `queue` where elements are delivered in order.
    pub order: Option<&'static str>,
    /// Elements per second.
    pub max_rate: Option<f64>,
    /// Attempts after which an element is a dead letter.
    pub max_attempts: u32,
    /// The lateness in ms after which an element becomes a dead letter.
    pub expires_after_ms: Option<i64>,
}

impl WhyRules {
    pub(super) fn of(spec: &QueueSpec) -> WhyRules {
        let expires = spec.max_lateness.filter(|_| spec.on_expired == OnExpired::DeadLetter);
        WhyRules {
            mode: spec.mode.as_str(),
            order: spec.order.as_ref().map(|order| order.as_str()),
            max_rate: spec.max_rate.as_deref().copied(),
            max_attempts: spec.retry.max_attempts,
            expires_after_ms: expires.map(millis),
        }
    }

    /// Returns whether the mode is the usual one.
    pub(super) fn delivers(&self) -> bool {
        self.mode == Mode::Deliver.as_str()
    }
}

/// Everything that is known of an element and its queue.
#[derive(Debug)]
pub(super) struct WhyFacts<'a> {
    pub queue: &'a str,
    pub id: &'a str,
    pub now_ms: i64,
    /// The element; `None` where it is not in the queue.
    pub detail: Option<&'a Detail>,
    pub rules: WhyRules,
    pub paused: &'a [PauseState],
    /// Connected daemons; `None` where that cannot be asked.
    pub daemons: Option<u64>,
    /// Unclaimed elements that are due before it.
    pub before: u64,
    /// The element before it, in a queue with an order.
    pub predecessor: Option<&'a Predecessor>,
    /// The knowledge of the daemon that was asked; `None` where only Redis was.
    pub daemon: Option<&'a AtDaemon>,
    /// The last change of an operator, of an element that is gone.
    pub change: Option<&'a OperatorChange>,
}
