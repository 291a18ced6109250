//! The memory of the metrics of a queue that has delivered: of one with series of its own, and of one that shares them.
//!
//! Every allocation of the process counts, so the measurement runs alone in a process of its own.

use std::sync::Arc;
use std::time::Duration;

use delaybridge_core::metric::testing::TERMS;
use delaybridge_telemetry::events::{Events, QueueEvents};
use delaybridge_telemetry::labels::{ClaimLabel, Wakeup};
use delaybridge_telemetry::metrics::shares::OWN;
use delaybridge_telemetry::metrics::{QueueAhead, QueueSizes};
use stats_alloc::Region;

use crate::limits::{QUEUE_WITH_SERIES_BYTES, QUEUE_WITHOUT_SERIES_BYTES};
use crate::whole_way::{ALLOCATOR, FIGURES, figures_of};

/// Does what a queue does that delivers one element: it wakes, claims, is answered, is looked at twice.
fn deliver(events: &Events, name: String) -> QueueEvents {
    let queue = events.queue(&name.into());
    let metrics = queue.metrics();
    metrics.woke(Wakeup::Due);
    metrics.claimed(ClaimLabel::Delayed, 1);
    let sink: Arc<str> = "out".into();
    let delivery = metrics.to(&sink);
    delivery.attempt(&Ok(()));
    delivery.late(Duration::from_millis(3));
    metrics.delivered(1);
    let ahead = QueueAhead { within: [0, 0, 1, 1, 1], last_due_ms: Some(1_700_000_000_000), ..QueueAhead::default() };
    let sizes =
        QueueSizes { messages: [1, 0, 0, 0, 0], next_due_ms: Some(1_700_000_000_000), ahead, ..QueueSizes::default() };
    metrics.sizes(&sizes);
    metrics.leftovers(&TERMS, 1, Duration::from_secs(1));
    queue
}

/// The bytes that each of these queues holds.
fn each(events: &Events, numbers: std::ops::Range<usize>) -> f64 {
    let mut kept = Vec::with_capacity(numbers.len());
    let count = numbers.len();
    let region = Region::new(ALLOCATOR);
    kept.extend(numbers.map(|n| deliver(events, format!("q{n}"))));
    let change = region.change();
    (change.bytes_allocated as f64 - change.bytes_deallocated as f64) / count as f64
}

#[test]
fn the_metrics_of_a_queue_that_delivered_hold_no_more_bytes_than_their_limits() {
    let found = figures_of("series::kept_alone");
    let [own, shared] = found[..] else { panic!("{found:?}") };
    println!("metrics of a queue that delivered: {own:.0} bytes with series of its own, {shared:.0} without");
    assert!(own <= QUEUE_WITH_SERIES_BYTES, "{own} bytes; the limit is {QUEUE_WITH_SERIES_BYTES}");
    assert!(shared <= QUEUE_WITHOUT_SERIES_BYTES, "{shared} bytes; the limit is {QUEUE_WITHOUT_SERIES_BYTES}");
}

#[test]
#[ignore = "the test above runs it, in a process of its own"]
fn kept_alone() {
    let events = Events::default();
    let own = each(&events, 0..OWN);
    // Nine of ten share, as in a configuration of ten thousand: tables double, and these are about half full before.
    let shared = each(&events, OWN..10 * OWN);
    println!("{FIGURES} {own} {shared}");
}
