//! The last hour and the last day of queues and sinks, in fixed space: by minutes and by quarters of an hour, from the tallies.
//!
//! Numbers are kept in 16 bits each, with an error of a twentieth of a percent. A queue takes its room (about 2 KiB) with the first
//! thing that happens in it, and [`MOST`] may have some. All is lost with the process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::metrics::{Counts, Metrics};
use delaybridge_core::clock::Instant;

/// Time of a sample.
pub const MINUTE: Duration = Duration::from_secs(60);
/// Minutes of a sample of the day.
const QUARTER: u64 = 15;
/// Samples of the last hour.
const MINUTES: usize = 60;
/// Samples of the last day.
const QUARTERS: usize = 96;
/// Most queues, and most sinks, with a history.
const MOST: usize = 2_000;

/// The events of a minute, or of a quarter of an hour, as numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PastSpan {
    /// Delivered elements.
    pub delivered: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Elements that were due and not delivered at its end; of a sink those of the queues that deliver to it.
    pub backlog: u64,
    /// Median of the lateness in ms; `None` if nothing was delivered.
    pub late_p50_ms: Option<f64>,
    /// 99th percentile of the lateness in ms.
    pub late_p99_ms: Option<f64>,
}

/// The past of one queue or sink.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Past {
    /// The minutes of the last hour, the oldest first; fewer after a start.
    pub minutes: Vec<PastSpan>,
    /// The quarters of an hour of the last day.
    pub quarters: Vec<PastSpan>,
    /// Time since the end of the last minute.
    pub age: Duration,
}

/// The histories of all queues and sinks of a process.
pub struct HistoryArchive {
    metrics: Metrics,
    state: Mutex<Archives>,
}

#[derive(Debug)]
struct Archives {
    /// The end of the last minute; at first the start.
    noted: Instant,
    /// Minutes since the start.
    minute: u64,
    queues: HashMap<Arc<str>, Box<Archive>>,
    sinks: HashMap<Arc<str>, Box<Archive>>,
}

/// The samples of one queue or sink. The place of a sample follows from its time, so that nothing has to be moved.
#[derive(Debug)]
struct Archive {
    minutes: [PackedSpan; MINUTES],
    quarters: [PackedSpan; QUARTERS],
    /// The totals at the end of the last minute, and of the last quarter.
    minute: Counts,
    quarter: Counts,
}

impl Archive {
    fn new() -> Box<Archive> {
        let none = PackedSpan::default();
        let (minute, quarter) = Default::default();
        Box::new(Archive { minutes: [none; MINUTES], quarters: [none; QUARTERS], minute, quarter })
    }

    /// Notes the totals at the end of a minute, counted from 1.
    fn note(&mut self, minute: u64, counts: &Counts, backlog: u64) {
        self.minutes[place(minute, MINUTES)] = PackedSpan::of(&counts.since(&self.minute), backlog);
        self.minute.clone_from(counts);
        if minute.is_multiple_of(QUARTER) {
            self.quarters[place(minute / QUARTER, QUARTERS)] = PackedSpan::of(&counts.since(&self.quarter), backlog);
            self.quarter.clone_from(counts);
        }
    }
}

fn place(number: u64, of: usize) -> usize {
    usize::try_from(number % of as u64).unwrap_or(0)
}

/// A sample in ten bytes.
#[derive(Debug, Clone, Copy, Default)]
struct PackedSpan([u16; 5]);

impl PackedSpan {
    fn of(counts: &Counts, backlog: u64) -> PackedSpan {
        // In tenths of a millisecond; 0 is none.
        let late = |q: f64| counts.late.quantile(q).map_or(0, |seconds| pack((seconds * 10_000.0).round() as u64 + 1));
        PackedSpan([pack(counts.delivered), pack(counts.failed), pack(backlog), late(0.5), late(0.99)])
    }

    fn span(self) -> PastSpan {
        let [delivered, failed, backlog, p50, p99] = self.0.map(unpack);
        let late = |packed: u64| packed.checked_sub(1).map(|tenths| tenths as f64 / 10.0);
        PastSpan { delivered, failed, backlog, late_p50_ms: late(p50), late_p99_ms: late(p99) }
    }
}

/// Bits of a number that are kept.
const BITS: u32 = 11;

/// Returns a number in 16 bits: exact up to 4,095, then with its first 12 bits.
fn pack(number: u64) -> u16 {
    let shift = (u64::BITS - number.leading_zeros()).saturating_sub(BITS + 1);
    match shift {
        0 if number < 1 << BITS => number as u16,
        // More than 13 digits: not a number of elements.
        shift if shift > 30 => u16::MAX,
        shift => (((shift + 1) as u16) << BITS) | ((number >> shift) as u16 & ((1 << BITS) - 1)),
    }
}

fn unpack(packed: u16) -> u64 {
    let shift = packed >> BITS;
    let rest = u64::from(packed & ((1 << BITS) - 1));
    match shift {
        0 => rest,
        shift => (rest | 1 << BITS) << (shift - 1),
    }
}

impl HistoryArchive {
    /// Creates a history that begins now.
    pub fn new(metrics: Metrics) -> HistoryArchive {
        let (queues, sinks) = Default::default();
        HistoryArchive { metrics, state: Mutex::new(Archives { noted: Instant::now(), minute: 0, queues, sinks }) }
    }

    /// Notes a minute. Must be called every [`MINUTE`], with the routes: a queue and a sink that it delivers to.
    pub fn note<'a>(&self, routes: impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)>) {
        let looks: HashMap<_, _> = self
            .metrics
            .tallies()
            .into_iter()
            .map(|(queue, tally)| (queue, (tally.counts(), tally.last_look().backlog)))
            .collect();
        let mut sinks: HashMap<_, _> =
            self.metrics.sink_counts().into_iter().map(|(sink, counts)| (sink, (counts, 0))).collect();
        for (queue, sink) in routes {
            let backlog = looks.get(queue).map_or(0, |(_, backlog)| *backlog);
            sinks.entry(sink.clone()).or_default().1 += backlog;
        }
        let mut state = self.state.lock();
        (state.noted, state.minute) = (Instant::now(), state.minute + 1);
        let minute = state.minute;
        note_all(&mut state.queues, minute, &looks);
        note_all(&mut state.sinks, minute, &sinks);
    }

    /// Returns the past of a queue; `None` where there was no room for it.
    pub fn queue(&self, queue: &str) -> Option<Past> {
        let state = self.state.lock();
        past(&state, &state.queues, queue)
    }

    /// Returns the past of a sink; `None` where there was no room for it.
    pub fn sink(&self, sink: &str) -> Option<Past> {
        let state = self.state.lock();
        past(&state, &state.sinks, sink)
    }
}

/// Notes the totals and the backlog of each.
fn note_all(archives: &mut HashMap<Arc<str>, Box<Archive>>, minute: u64, all: &HashMap<Arc<str>, (Counts, u64)>) {
    archives.retain(|name, _| all.contains_key(name));
    for (name, (counts, backlog)) in all {
        let is_new = !archives.contains_key(name);
        let is_idle = *counts == Counts::default() && *backlog == 0;
        if is_new && (is_idle || archives.len() >= MOST) {
            continue;
        }
        archives.entry(name.clone()).or_insert_with(Archive::new).note(minute, counts, *backlog);
    }
}

fn past(state: &Archives, archives: &HashMap<Arc<str>, Box<Archive>>, name: &str) -> Option<Past> {
    let archive = archives.get(name);
    if archive.is_none() && archives.len() >= MOST {
        return None;
    }
    let spans = |last: u64, of: usize, at: &dyn Fn(&Archive, usize) -> PackedSpan| {
        let first = last.saturating_sub(of as u64) + 1;
        let span = |number| archive.map_or_else(PastSpan::default, |archive| at(archive, place(number, of)).span());
        (first..=last).map(span).collect()
    };
    Some(Past {
        minutes: spans(state.minute, MINUTES, &|archive, at| archive.minutes[at]),
        quarters: spans(state.minute / QUARTER, QUARTERS, &|archive, at| archive.quarters[at]),
        age: state.noted.elapsed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use crate::metrics::QueueSizes;
    use delaybridge_core::message::{Class, Failure};

    fn none<'a>() -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)> {
        std::iter::empty()
    }

    #[test]
    fn a_number_of_any_size_is_kept_in_two_bytes() {
        for number in [0, 1, 7, 2_047, 2_048, 4_095] {
            assert_eq!(unpack(pack(number)), number);
        }
        for number in [4_096, 4_097, 10_001, 123_456, 9_999_999, 1 << 41] {
            let kept = unpack(pack(number));
            assert!(number.abs_diff(kept) * 2_000 <= number, "{number} is kept as {kept}");
        }
        assert!(unpack(pack(u64::MAX)) > 1 << 41 && unpack(pack(1 << 42)) >= (1 << 42) - (1 << 31));
    }

    #[test]
    fn the_last_hour_and_day_are_kept_and_begin_with_the_process() {
        let events = Events::default();
        let metrics = events.metrics();
        let queue = metrics.queue(&"orders".into());
        let history = HistoryArchive::new(metrics.clone());
        let to = queue.to(&"kafka".into());
        assert_eq!(history.queue("orders").map(|past| past.minutes.len()), Some(0));
        history.note(none());
        assert_eq!(history.queue("orders").unwrap().minutes, [PastSpan::default()], "nothing happened");
        for minute in 2..=100 {
            queue.delivered(minute);
            to.attempt(&Ok(()));
            to.late(Duration::from_millis(3));
            history.note(none());
        }
        to.attempt(&Err(Failure::new(Class::Transient, "x", "y")));
        history.note(none());
        let past = history.queue("orders").unwrap();
        let delivered: Vec<_> = past.minutes.iter().map(|span| span.delivered).collect();
        assert_eq!((delivered.len(), delivered[0], delivered[58], delivered[59]), (60, 42, 100, 0));
        assert!(past.minutes[0].late_p99_ms.is_some_and(|ms| ms < 10.0) && past.minutes[59].late_p50_ms.is_none());
        assert_eq!(past.minutes[59].failed, 1);
        let quarters: Vec<_> = past.quarters.iter().map(|span| span.delivered).collect();
        assert_eq!(quarters, [119, 345, 570, 795, 1_020, 1_245], "six quarters of an hour");
        let of_sink = history.sink("kafka").unwrap().minutes;
        assert_eq!((of_sink[58].delivered, of_sink[59].failed), (1, 1));
        assert!(of_sink[58].late_p99_ms.is_some_and(|ms| ms < 10.0) && of_sink[59].late_p50_ms.is_none());
    }

    #[test]
    fn a_sink_has_the_lateness_of_all_its_queues_and_their_backlog() {
        let events = Events::default();
        let history = HistoryArchive::new(events.metrics().clone());
        let name = |name: &str| Arc::<str>::from(name);
        let routes = [("a", "kafka"), ("a", "nats"), ("b", "kafka"), ("idle", "kafka"), ("idle", "amqp")];
        let routes = routes.map(|(queue, sink)| (name(queue), name(sink)));
        let note = || history.note(routes.iter().map(|(queue, sink)| (queue, sink)));
        let sizes = |due| QueueSizes { messages: [0, due, 0, 0, 0], ..QueueSizes::default() };
        for (queue, ms, due) in [("a", 3, 5), ("b", 40_000, 2)] {
            let queue = events.metrics().queue(&name(queue));
            (0..50).for_each(|_| queue.to(&name("kafka")).late(Duration::from_millis(ms)));
            queue.sizes(&sizes(due));
        }
        note();
        let last = |sink| history.sink(sink).and_then(|past| past.minutes.last().copied()).unwrap();
        assert_eq!((last("kafka").backlog, last("nats").backlog, last("amqp").backlog), (7, 5, 0));
        let p50 = last("kafka").late_p50_ms.unwrap();
        let p99 = last("kafka").late_p99_ms.unwrap();
        assert!(p50 < 50.0 && p99 > 20_000.0, "p50 {p50}, p99 {p99}");
        assert_eq!(last("nats").late_p50_ms, None, "nothing was acknowledged");
        // The queues catch up, and the sink is still known.
        ["a", "b"].iter().for_each(|queue| events.metrics().queue(&name(queue)).sizes(&sizes(0)));
        note();
        let backlog: Vec<_> = history.sink("nats").unwrap().minutes.iter().map(|span| span.backlog).collect();
        assert_eq!(backlog, [5, 0]);
    }

    #[test]
    fn room_is_taken_by_what_happens_and_bounded() {
        assert!(size_of::<Archive>() <= 2_048, "{} bytes", size_of::<Archive>());
        let events = Events::default();
        let history = HistoryArchive::new(events.metrics().clone());
        let names: Vec<Arc<str>> = (0..MOST + 10).map(|n| format!("q{n}").into()).collect();
        names.iter().for_each(|name| events.metrics().queue(name).delivered(0));
        history.note(none());
        assert_eq!(history.state.lock().queues.len(), 0, "nothing happened in any of them");
        names.iter().for_each(|name| events.metrics().queue(name).delivered(1));
        history.note(none());
        assert_eq!(history.state.lock().queues.len(), MOST);
        let without = names.iter().filter(|name| history.queue(name).is_none()).count();
        assert_eq!(without, 10);
        events.queues_removed(&names);
        history.note(none());
        assert_eq!(history.state.lock().queues.len(), 0);
    }
}
