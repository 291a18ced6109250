//! The kinds of metric families: how each is built from its definition, and how one of its series is removed.

use prometheus::core::Collector;
use prometheus::{CounterVec, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};

use delaybridge_core::metric::Definition;

/// The help text that the library gets, because it keeps a copy of it in every series: with a thousand queues these were
/// megabytes. [`Metrics::render`](super::metrics::Metrics::render) shows that of the definition.
const HELP: &str = "-";

/// A kind of metric family that the catalogue can hold.
pub(super) trait Family: Collector + Clone + Sized + 'static {
    /// The type of metric in Prometheus's terms.
    const KIND: &'static str;
    /// Builds the family, without any series.
    fn build(definition: &Definition) -> prometheus::Result<Self>;
    /// Removes the series with these values of all labels, if it exists.
    fn remove(&self, values: &[&str]);
}

macro_rules! family {
    ($type:ty, $kind:literal) => {
        impl Family for $type {
            const KIND: &'static str = $kind;
            fn build(definition: &Definition) -> prometheus::Result<Self> {
                <$type>::new(Opts::new(definition.name, HELP), definition.labels)
            }
            fn remove(&self, values: &[&str]) {
                // Ignore the error: the series was removed concurrently.
                let _ = self.remove_label_values(values);
            }
        }
    };
}
family!(IntCounterVec, "counter");
family!(CounterVec, "counter");
family!(IntGaugeVec, "gauge");
family!(GaugeVec, "gauge");

impl Family for HistogramVec {
    const KIND: &'static str = "histogram";
    fn build(definition: &Definition) -> prometheus::Result<Self> {
        let options = HistogramOpts::new(definition.name, HELP).buckets(definition.buckets.to_vec());
        HistogramVec::new(options, definition.labels)
    }
    fn remove(&self, values: &[&str]) {
        let _ = self.remove_label_values(values);
    }
}
