//! The audit trail of a queue: a record of the fate of each element, at a sink of the configuration.

use super::route::RouteSpec;
use delaybridge_settings::words::words;

words! {
    /// The fate of an element, as a record names it.
    pub enum AuditFate {
        /// Every sink that is meant for the element has confirmed it.
        Delivered = "delivered",
        /// No destination is meant for it.
        Skipped = "skipped",
        /// It is stored as a dead letter, for another reason than the two other fates.
        Dead = "dead",
        /// It was later than `max_lateness`, with `on_expired: dead_letter`.
        Expired = "expired",
    }
}

/// The audit trail of a queue.
#[derive(Debug, Clone)]
pub struct AuditSpec {
    /// The destination of the records.
    pub route: RouteSpec,
    /// The fates that are recorded.
    pub on: Box<[AuditFate]>,
}

impl AuditSpec {
    /// Whether this fate is recorded.
    pub fn records(&self, fate: AuditFate) -> bool {
        self.on.contains(&fate)
    }
}
