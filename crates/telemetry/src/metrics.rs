//! Handles to the metrics: labels are bound once, then counting is one atomic operation.
//!
//! A handle costs nothing until it is used: the first increment creates its series, and the first sign of activity the
//! gauges of a queue and the counters that alerts stand on, so ten thousand idle queues expose nothing. Of the used queues, [`shares::OWN`] have series of
//! their own, and the others are aggregated. It depends on no log and no type of the pipeline. Counters that come with
//! a log line are incremented by [`events`](super::events) only, so those methods are not public.

pub mod api;
mod busy;
mod gauges;
mod lateness;
pub(super) mod openmetrics;
mod process;
pub mod shares;
mod sink;
pub mod spans;
mod tally;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Histogram, IntCounter, Registry, TextEncoder};

pub use self::gauges::{QueueAhead, QueueSizes};
use self::lateness::SharedLateness;
use self::process::OwnProcess;
use self::shares::{OTHERS, OWN, Shares, Together};
pub use self::sink::{DeliveryMetrics, SinkMetrics};
pub use self::tally::LastLook;
pub(super) use self::tally::{Counts, Tally};
use super::catalogue::{CATALOGUE, Families, forget};
use super::family::Family;
use super::labels::{ClaimLabel, Fate, LeftOutReason, OK, OperatorAction, ReleaseReason, Stage, Wakeup};
use delaybridge_core::message::Outcome;
use delaybridge_core::metric::{Definition, SourceTerms};

/// All metrics of one daemon, in a registry of their own. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    families: Families,
    /// The families that sources define, by name.
    of_sources: Mutex<HashMap<&'static str, (&'static Definition, GaugeVec)>>,
    shares: Shares,
    /// The tallies of all queues that were used.
    tallies: Mutex<HashMap<Arc<str>, Arc<Tally>>>,
    /// The lateness of what each sink acknowledged, over all queues.
    late_by_sink: Mutex<HashMap<Arc<str>, Arc<SharedLateness>>>,
}

impl Metrics {
    /// Creates a registry with the metrics of the process and `build_info`.
    pub fn new() -> Self {
        let registry = Registry::new();
        // Fails only on an invalid or repeated name; the table is fixed, and every test that creates metrics checks it.
        let families = Families::register(&registry).expect("the catalogue has valid and distinct names");
        let process = OwnProcess::new().expect("the metric has a valid name");
        registry.register(Box::new(process)).expect("no other metric is called process_*");
        let revision = option_env!("DELAYBRIDGE_REVISION").unwrap_or("unknown");
        families.build_info.with_label_values(&[env!("CARGO_PKG_VERSION"), revision]).set(1);
        let (of_sources, shares, tallies, late_by_sink) = Default::default();
        Metrics(Arc::new(Inner { registry, families, of_sources, shares, tallies, late_by_sink }))
    }

    /// Shows the counters of these queues that alerts stand on, at zero: `increase` takes the first value of a series for its start,
    /// and would not see the first dead letter. Of more queues than can have series of their own, those begin whose elements come
    /// first, as without this.
    pub(super) fn begin(&self, queues: &[Arc<str>]) {
        if queues.len() <= OWN {
            for queue in queues {
                // Assigns its series, which begins them.
                let _ = self.queue(queue).is_own();
            }
        }
    }

    /// Returns the handles of a queue. Call it once and keep the result.
    pub fn queue(&self, queue: &Arc<str>) -> QueueMetrics {
        let metrics = self.clone();
        let queue = queue.clone();
        QueueMetrics(Arc::new(QueueInner { metrics, queue, is_own: OnceLock::new(), bound: OnceLock::new() }))
    }

    /// Returns the handles of a sink. Call it once and keep the result.
    pub fn sink(&self, sink: &Arc<str>) -> SinkMetrics {
        SinkMetrics::new(self.clone(), sink)
    }

    /// Returns the handle of a script, by the name of its file.
    pub fn script(&self, script: &'static str) -> ScriptMetrics {
        ScriptMetrics { metrics: self.clone(), script, duration: Arc::default() }
    }

    /// Removes the clock skew of a Redis that is unreachable.
    pub(super) fn clear_clock_skew(&self, redis: &str) {
        // Ignore the error: the gauge was never set.
        let _ = self.families().clock_skew.remove_label_values(&[redis]);
    }

    /// Sets the number of seconds by which this machine's clock is ahead of Redis's.
    pub(super) fn clock_skew(&self, redis: &str, seconds: f64) {
        self.families().clock_skew.with_label_values(&[redis]).set(seconds);
    }

    /// Sets the time since a file was last seen to be what is in use.
    pub(super) fn file_seen(&self, key: &str, age: Duration) {
        self.families().file_age.with_label_values(&[key]).set(age.as_secs_f64());
    }

    /// Records that a configuration was loaded, or refused.
    pub(super) fn reloaded(&self, successful: bool) {
        self.families().reload_successful.with_label_values::<&str>(&[]).set(successful.into());
        if successful {
            let now = delaybridge_core::clock::calendar_seconds();
            self.families().reload_success_timestamp.with_label_values::<&str>(&[]).set(now);
        }
    }

    /// Takes the count of possible duplicates of a queue that is about to be removed, and resets it.
    pub(super) fn take_possible_duplicates(&self, queue: &str) -> u64 {
        let label = self.0.shares.label(queue);
        if label == OTHERS {
            // The counter is shared with queues that remain.
            return 0;
        }
        let counter = self.families().possible_duplicates.with_label_values(&[label]);
        let count = counter.get();
        counter.reset();
        count
    }

    /// Removes the series of these queues or sinks; `label` is `queue` or `sink`.
    pub(super) fn forget(&self, label: &'static str, names: &[Arc<str>]) {
        if names.is_empty() {
            return;
        }
        let names: &HashSet<&str> = &names.iter().map(|name| &**name).collect();
        self.families().forget(label, names);
        for (definition, family) in self.0.of_sources.lock().values() {
            forget(family, Some(definition), label, names);
        }
        if label == "queue" {
            self.0.shares.forget(names);
            self.0.tallies.lock().retain(|queue, _| !names.contains(&**queue));
        }
        if label == "sink" {
            self.0.late_by_sink.lock().retain(|sink, _| !names.contains(&**sink));
        }
    }

    /// Returns the lateness of what this sink acknowledged, over all queues.
    fn lateness_of(&self, sink: &Arc<str>) -> Arc<SharedLateness> {
        self.0.late_by_sink.lock().entry(sink.clone()).or_default().clone()
    }

    /// Returns the tallies of all queues that were used.
    pub(super) fn tallies(&self) -> Vec<(Arc<str>, Arc<Tally>)> {
        self.0.tallies.lock().iter().map(|(queue, tally)| (queue.clone(), tally.clone())).collect()
    }

    /// Returns the answers of every sink so far, over all queues, with the lateness of what it acknowledged.
    pub(super) fn sink_counts(&self) -> HashMap<Arc<str>, Counts> {
        let mut sinks: HashMap<Arc<str>, Counts> = HashMap::new();
        let of = |series: &prometheus::proto::Metric, name: &str| {
            let label = series.get_label().iter().find(|label| label.name() == name);
            label.map(|label| label.value().to_owned())
        };
        for series in self.families().attempts.collect().iter().flat_map(|family| family.get_metric()) {
            let (Some(sink), Some(class)) = (of(series, "sink"), of(series, "class")) else { continue };
            let counts = sinks.entry(sink.into()).or_default();
            let total = series.get_counter().get_value() as u64;
            if class == OK { counts.delivered += total } else { counts.failed += total }
        }
        for (sink, lateness) in self.0.late_by_sink.lock().iter() {
            sinks.entry(sink.clone()).or_default().late = lateness.counts();
        }
        sinks
    }

    /// Returns the highest rate at which a queue was delivered within the last day while elements were overdue, by
    /// second; `None` if it always kept up.
    pub fn busy_rate(&self, queue: &str) -> Option<f64> {
        let tally = self.0.tallies.lock().get(queue).cloned();
        tally.and_then(|tally| tally.busy_rate())
    }

    /// Returns the help text of a metric, of a source's own or in the catalogue.
    fn help(&self, name: &str) -> Option<&'static str> {
        let of_source = self.0.of_sources.lock().get(name).map(|(definition, _)| definition.help);
        of_source.or_else(|| CATALOGUE.iter().find(|metric| metric.name == name).map(|metric| metric.help))
    }

    /// Renders all metrics in the Prometheus text format, version 0.0.4.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.gather())
    }

    /// Renders all metrics in the text format of Prometheus or of OpenMetrics; returns its media type too.
    ///
    /// # Errors
    ///
    /// As for [`render`](Metrics::render).
    pub fn render_as(&self, openmetrics: bool) -> Result<(&'static str, String), prometheus::Error> {
        if openmetrics {
            return Ok((openmetrics::CONTENT_TYPE, openmetrics::encode(&self.gather())));
        }
        self.render().map(|text| (prometheus::TEXT_FORMAT, text))
    }

    fn gather(&self) -> Vec<MetricFamily> {
        self.0.shares.show();
        let mut families = self.0.registry.gather();
        for family in &mut families {
            // Those of the process have no definition, and texts of their own.
            if let Some(help) = self.help(family.name()) {
                family.set_help(help.to_owned());
            }
        }
        families
    }

    pub(super) fn stalled(&self, queue: &str, waits_for: Stage) {
        self.families().stalls.with_label_values(&[self.0.shares.label(queue), waits_for.as_str()]).inc();
    }

    pub(super) fn redis_up(&self, redis: &str, up: bool) {
        self.families().redis_up.with_label_values(&[redis]).set(up.into());
    }

    pub(super) fn families(&self) -> &Families {
        &self.0.families
    }

    /// Returns the family of a source's metric, registered on first use.
    fn source_family(&self, definition: &'static Definition) -> GaugeVec {
        let mut families = self.0.of_sources.lock();
        let (_, family) = families.entry(definition.name).or_insert_with(|| {
            // As for the catalogue, every test that uses the source checks its names.
            let family = GaugeVec::build(definition).expect("a source's metric has a valid name");
            self.0.registry.register(Box::new(family.clone())).expect("no other metric has the name of a source's");
            (definition, family)
        });
        family.clone()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// The metrics of one queue. Cheap to clone.
#[derive(Clone)]
pub struct QueueMetrics(Arc<QueueInner>);

struct QueueInner {
    metrics: Metrics,
    queue: Arc<str>,
    /// Whether it has series of its own, decided by the first of them.
    is_own: OnceLock<bool>,
    /// Created on first use, because most of ten thousand queues never have a series.
    bound: OnceLock<Box<Bound>>,
}

/// The bound series, which change with every element or every look at Redis. Rare ones are looked up when they are
/// counted, which keeps a queue small.
struct Bound {
    claimed: [OnceLock<IntCounter>; 4],
    released: [OnceLock<IntCounter>; ReleaseReason::ALL.len()],
    wakeups: [OnceLock<IntCounter>; 6],
    recovered: OnceLock<IntCounter>,
    delivered: OnceLock<IntCounter>,
    /// Whether the gauges exist: not before the first look, and not while Redis is unreachable.
    has_gauges: AtomicBool,
    /// Whether the gauge of due times that are hardly meant exists: not before there was one.
    has_absurd: AtomicBool,
    tally: Arc<Tally>,
}

impl QueueMetrics {
    /// Counts `n` claimed elements.
    pub fn claimed(&self, from: ClaimLabel, n: u64) {
        // An expired lease is counted twice: as the origin of claimed elements, and as an expired lease.
        if from == ClaimLabel::Expired && n > 0 {
            self.families().leases_expired.with_label_values(&[self.label()]).inc_by(n);
        }
        let make = || self.families().claimed.with_label_values(&[self.label(), from.as_str()]);
        self.add(|bound| &bound.claimed[from as usize], n, make);
    }

    /// Returns whether any bound series was used.
    pub(super) fn is_bound(&self) -> bool {
        self.0.bound.get().is_some()
    }

    /// Counts `n` elements of a claim with a lost reply that were found again.
    pub fn recovered(&self, n: u64) {
        self.add(|bound| &bound.recovered, n, || self.families().recovered.with_label_values(&[self.label()]));
    }

    /// Counts `n` settled elements that are under the name of their claim again.
    pub fn returned(&self, n: u64) {
        if n > 0 {
            self.families().returned.with_label_values(&[self.label()]).inc_by(n);
        }
    }

    /// Counts `n` elements in flight that are no longer in Redis.
    pub fn missing(&self, n: u64) {
        if n > 0 {
            self.families().missing.with_label_values(&[self.label()]).inc_by(n);
        }
    }

    /// Counts `n` elements that were settled as confirmed.
    pub fn delivered(&self, n: u64) {
        self.add(|bound| &bound.delivered, n, || self.families().delivered.with_label_values(&[self.label()]));
        self.bound().tally.delivered(n);
    }

    /// Counts `n` elements that were released without counting an attempt.
    pub fn released(&self, reason: ReleaseReason, n: u64) {
        let make = || self.families().released.with_label_values(&[self.label(), reason.as_str()]);
        self.add(|bound| &bound.released[reason as usize], n, make);
    }

    /// Counts a wakeup of the claimer.
    pub fn woke(&self, reason: Wakeup) {
        let make = || self.families().wakeups.with_label_values(&[self.label(), reason.as_str()]);
        self.add(|bound| &bound.wakeups[reason as usize], 1, make);
    }

    /// Counts `n` deliveries that are retried although the sink may have taken them.
    pub fn possible_duplicates(&self, n: u64) {
        if n > 0 {
            self.families().possible_duplicates.with_label_values(&[self.label()]).inc_by(n);
        }
    }

    /// Counts `n` verdicts that may or may not have been written before their leases ended.
    pub fn unknown_acks(&self, n: u64) {
        if n > 0 {
            self.families().unknown_acks.with_label_values(&[self.label()]).inc_by(n);
        }
    }

    /// Counts `n` verdicts that came after their lease and were accepted.
    pub fn late_acks(&self, n: u64) {
        if n > 0 {
            self.families().late_acks.with_label_values(&[self.label()]).inc_by(n);
        }
    }

    /// Counts an element that is delivered although it is later than `max_lateness`.
    pub fn expired_delivery(&self) {
        self.families().expired_deliveries.with_label_values(&[self.label()]).inc();
    }

    /// Counts a dead letter that was forwarded to `sink`, with this answer.
    pub fn dead_letter_forwarded(&self, sink: &str, outcome: &Outcome) {
        let class = outcome.as_ref().map_or_else(|failure| failure.class.as_str(), |()| OK);
        self.families().dead_letters_forwarded.with_label_values(&[self.label(), sink, class]).inc();
    }

    /// Counts `n` dead letters that were trimmed by the stream's maximum length.
    pub fn dead_letters_trimmed(&self, n: u64) {
        if n > 0 {
            self.families().dead_letters_trimmed.with_label_values(&[self.label()]).inc_by(n);
        }
    }

    /// Counts `n` elements with which an operator has done this.
    pub fn operated(&self, action: OperatorAction, n: u64) {
        self.families().operated.with_label_values(&[self.label(), action.as_str()]).inc_by(n);
    }

    /// Counts an element for which no destination is meant.
    pub fn skipped(&self) {
        self.families().skipped.with_label_values(&[self.label()]).inc();
    }

    /// Counts `n` headers of a message that did not pass to its destination.
    pub fn headers_left_out(&self, sink: &str, reason: LeftOutReason, n: u64) {
        if n > 0 {
            self.families().headers_left_out.with_label_values(&[self.label(), sink, reason.as_str()]).inc_by(n);
        }
    }

    /// Counts an element with this fate whose record the trail has confirmed.
    pub fn audited(&self, fate: &'static str) {
        self.families().audited.with_label_values(&[self.label(), fate]).inc();
    }

    /// Counts `n` due jobs without a body.
    pub fn without_body(&self, n: u64) {
        self.families().without_body.with_label_values(&[self.label()]).inc_by(n);
    }

    /// Counts `n` jobs that are not due yet and went back to their source.
    pub fn put_back(&self, n: u64) {
        self.families().put_back.with_label_values(&[self.label()]).inc_by(n);
    }

    /// Counts an element that got a hash as its id, because its payload has none.
    pub fn id_by_hash(&self) {
        self.families().ids_by_hash.with_label_values(&[self.label()]).inc();
    }

    /// Counts a payload that the codec refused.
    pub fn decode_error(&self, codec: &'static str) {
        self.families().decode_errors.with_label_values(&[self.label(), codec]).inc();
    }

    /// Adds the time for which elements waited for the queue's own `max_rate`.
    pub fn throttled(&self, time: Duration) {
        self.families().throttled.with_label_values(&[self.label(), ""]).inc_by(time.as_secs_f64());
    }

    /// Records by how much an element was overdue when it was offered.
    pub fn offered_overdue(&self, by: Duration) {
        self.families().offered_overdue.with_label_values(&[self.label()]).observe(by.as_secs_f64());
    }

    /// Returns the handles for deliveries of this queue to one sink. Call it once and keep the result.
    pub fn to(&self, sink: &Arc<str>) -> DeliveryMetrics {
        DeliveryMetrics::new(self.clone(), sink)
    }

    pub(super) fn id(&self) -> &Arc<str> {
        &self.0.queue
    }

    pub(super) fn shadowed(&self, fate: Fate) {
        self.families().shadowed.with_label_values(&[self.label(), fate.as_str()]).inc();
    }

    pub(super) fn rescued(&self, terms: &'static SourceTerms, moved: u64, junk: u64) {
        if moved > 0 {
            self.families().rescued.with_label_values(&[self.label()]).inc_by(moved);
        }
        self.source_gauge(&terms.unreadable, Together::Sum, junk as f64);
    }

    pub(super) fn dead_lettered(&self, reason: &'static str) {
        self.families().dead_lettered.with_label_values(&[self.label(), reason]).inc();
    }

    pub(super) fn stale_acks(&self, n: u64) {
        self.families().stale_acks.with_label_values(&[self.label()]).inc_by(n);
    }

    pub(super) fn stale_drops(&self, n: u64) {
        self.families().stale_drops.with_label_values(&[self.label()]).inc_by(n);
    }

    pub(super) fn panicked(&self) {
        self.families().panics.with_label_values(&[self.label()]).inc();
    }

    pub(super) fn held(&self, held: bool) {
        self.gauge(&self.families().queue_held, None, (Together::Max, held.into()));
    }

    pub(super) fn active(&self, active: bool) {
        self.gauge(&self.families().queue_active, None, (Together::Max, active.into()));
    }

    pub(super) fn slot_migrates(&self) {
        self.families().slot_migrations.with_label_values(&[self.label()]).inc();
    }

    pub(super) fn paused(&self, paused: bool) {
        self.gauge(&self.families().queue_paused, None, (Together::Max, paused.into()));
    }

    pub(super) fn orphans(&self, terms: &'static SourceTerms, n: u64) {
        self.source_gauge(&terms.orphans, Together::Sum, n as f64);
    }

    fn source_gauge(&self, definition: &'static Definition, together: Together, value: f64) {
        self.gauge(&self.0.metrics.source_family(definition), None, (together, value));
    }

    pub(super) fn unknown_entries(&self, n: u64) {
        self.gauge(&self.families().unknown_entries, None, (Together::Sum, n as f64));
    }

    pub(super) fn unknown_claims(&self, n: u64) {
        self.families().unknown_claims.with_label_values(&[self.label()]).set(n.try_into().unwrap_or(i64::MAX));
    }

    fn bound(&self) -> &Bound {
        self.0.bound.get_or_init(|| {
            let tally = self.0.metrics.0.tallies.lock().entry(self.0.queue.clone()).or_default().clone();
            Box::new(Bound {
                claimed: Default::default(),
                released: Default::default(),
                wakeups: Default::default(),
                recovered: OnceLock::new(),
                delivered: OnceLock::new(),
                has_gauges: AtomicBool::new(false),
                has_absurd: AtomicBool::new(false),
                tally,
            })
        })
    }

    /// Adds to one of the bound series.
    fn add(&self, which: impl FnOnce(&Bound) -> &OnceLock<IntCounter>, n: u64, make: impl FnOnce() -> IntCounter) {
        if n > 0 {
            which(self.bound()).get_or_init(make).inc_by(n);
        }
    }

    fn families(&self) -> &Families {
        self.0.metrics.families()
    }

    fn label(&self) -> &str {
        if self.is_own() { &self.0.queue } else { OTHERS }
    }

    fn is_own(&self) -> bool {
        *self.0.is_own.get_or_init(|| {
            let assigned = self.0.metrics.0.shares.assign(&self.0.queue);
            if assigned.is_new {
                self.families().begin_queue(if assigned.is_own { &self.0.queue } else { OTHERS });
            }
            assigned.is_own
        })
    }
}

/// The duration of one script. Cheap to clone.
#[derive(Clone)]
pub struct ScriptMetrics {
    metrics: Metrics,
    script: &'static str,
    duration: Arc<OnceLock<Histogram>>,
}

impl ScriptMetrics {
    /// Records the time from sending the script to its reply.
    pub fn took(&self, duration: Duration) {
        let make = || self.metrics.families().script_duration.with_label_values(&[self.script]);
        self.duration.get_or_init(make).observe(duration.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
