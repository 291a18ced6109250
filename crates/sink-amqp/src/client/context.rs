//! The state that all tasks of the sink share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::aside::AsideRoutes;
use crate::AmqpSpec;

/// State that all tasks of the sink share.
#[derive(Debug)]
pub(super) struct SinkContext {
    pub(super) spec: Arc<AmqpSpec>,
    pub(super) timeout: Duration,
    pub(super) ids: Ids,
    pub(super) aside: AsideRoutes,
}

/// Makes `message_id`s: unique to this sink, and with a growing number.
#[derive(Debug)]
pub(super) struct Ids {
    prefix: String,
    last: AtomicU64,
}

impl Ids {
    pub(super) fn new() -> Ids {
        Ids { prefix: format!("{:016x}-", fastrand::u64(..)), last: AtomicU64::new(0) }
    }

    /// Returns the next number; the first is 1.
    pub(super) fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn text(&self, number: u64) -> String {
        format!("{}{number}", self.prefix)
    }

    pub(super) fn number(&self, text: &str) -> Option<u64> {
        text.strip_prefix(self.prefix.as_str())?.parse().ok()
    }
}
