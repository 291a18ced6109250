//! The forecast behind the gauges of a queue: how late what falls due within the next hour will be.

use std::time::Duration;

use crate::registry::QueueRegistry;
use delaybridge_core::forecast::{DueSpan, Schedule};
use delaybridge_ledger::store::Store;
use delaybridge_ledger::{HORIZONS_MS, Stats};

/// The time that it looks ahead.
const HOUR_MS: i64 = 3_600_000;
/// Counts that it may take at each reading of the gauges.
const COUNTS: usize = 200;

/// Estimates the greatest lateness of what falls due within the next hour. Counts more only where the rate is known and
/// what falls due at once could be late.
pub(super) async fn outlook(
    registry: &QueueRegistry,
    place: usize,
    store: &dyn Store,
    stats: &Stats,
) -> Option<Duration> {
    let spec = registry.spec(place);
    let events = registry.events(place)?;
    let limits =
        spec.to.iter().filter_map(|to| registry.sink(&to.sink)?.max_rate()).chain(spec.max_rate.as_deref().copied());
    let rate = limits.fold(events.metrics().busy_rate()?, f64::min);
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let source = &stats.source;
    let ready = if spec.source.consumes_ready() { source.ready } else { 0 };
    let backlog = [source.due, ready, stats.in_flight, stats.retry].map(count).iter().sum();
    let mut spans = Vec::with_capacity(3);
    let mut from_ms = stats.now_ms;
    let mut before = 0;
    for (horizon, within) in HORIZONS_MS.into_iter().zip(source.ahead.within).take_while(|(ms, _)| *ms <= HOUR_MS) {
        let until_ms = stats.now_ms.saturating_add(horizon);
        spans.push(DueSpan { from_ms, until_ms, count: count(within - before) });
        (from_ms, before) = (until_ms, within);
    }
    let mut schedule = Schedule::new(backlog, spans, rate, COUNTS);
    loop {
        let unknown = schedule.unknown();
        if unknown.is_empty() {
            break;
        }
        // Without an answer there is no forecast.
        schedule.learn(&store.due_between(&unknown).await.ok()?);
    }
    Some(Duration::from_millis(schedule.outcome().worst.map_or(0, |worst| worst.late_ms)))
}
