//! The metrics of the HTTP APIs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{Histogram, IntCounter, IntGauge};

use super::Metrics;

/// The metrics of the HTTP APIs. Cheap to clone.
#[derive(Clone)]
pub struct ApiMetrics(Arc<Inner>);

struct Inner {
    metrics: Metrics,
    /// `None`: they are not counted.
    connections: Option<IntGauge>,
    /// By route and status; both come from fixed lists.
    bound: Mutex<HashMap<(&'static str, u16), Bound>>,
}

/// The number and the duration of requests.
type Bound = (IntCounter, Histogram);

impl Metrics {
    /// Returns the handles of the APIs. Call it once and keep the result.
    pub fn api(&self) -> ApiMetrics {
        self.api_with(Some(self.families().api_connections.with_label_values::<&str>(&[])))
    }

    /// Returns the handles of a listener whose connections are not counted.
    pub fn uncounted_api(&self) -> ApiMetrics {
        self.api_with(None)
    }

    fn api_with(&self, connections: Option<IntGauge>) -> ApiMetrics {
        ApiMetrics(Arc::new(Inner { metrics: self.clone(), connections, bound: Mutex::default() }))
    }
}

impl ApiMetrics {
    /// Counts an answer to a request to the route, and records the time since its head was read.
    pub fn answered(&self, route: &'static str, status: u16, duration: Duration) {
        let mut bound = self.0.bound.lock();
        let (count, time) = bound.entry((route, status)).or_insert_with(|| {
            let families = self.0.metrics.families();
            let count = families.api_requests.with_label_values(&[route, &status.to_string()]);
            (count, families.api_duration.with_label_values(&[route]))
        });
        count.inc();
        time.observe(duration.as_secs_f64());
    }

    pub(crate) fn all(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Counts a new connection as open until the result is dropped.
    pub fn connected(&self) -> Open {
        let open = Open(self.0.connections.clone());
        open.0.iter().for_each(IntGauge::inc);
        open
    }
}

/// A guard for an open connection, which counts until it is dropped.
#[derive(Debug)]
pub struct Open(Option<IntGauge>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.iter().for_each(IntGauge::dec);
    }
}
