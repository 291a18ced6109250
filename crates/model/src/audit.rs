//! The audit trail of a queue: a record of the fate of each element, at a sink of the configuration.

use super::route::RouteSpec;
use delaybridge_settings::words::words;

words! {
    /// The fate of an element, as a record names it.
    pub enum AuditFate {
        /// A delivery to every sink that is meant for the element.
        Delivered = "delivered",
        /// An element that no destination is meant for.
        Skipped = "skipped",
        /// A dead letter, for another reason than the two other fates.
        Dead = "dead",
        /// A dead letter, because it was later than `max_lateness`.
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
    /// Returns whether this fate is recorded.
    pub fn records(&self, fate: AuditFate) -> bool {
        self.on.contains(&fate)
    }
}
