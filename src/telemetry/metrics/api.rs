//! What is counted on the HTTP API of the job queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{Histogram, IntCounter, IntGauge};

use super::Metrics;

/// What is counted on the API. Cheap to clone.
#[derive(Clone)]
pub struct ApiMetrics(Arc<Inner>);

struct Inner {
    metrics: Metrics,
    connections: IntGauge,
    /// By route and status: both are words of the program.
    bound: Mutex<HashMap<(&'static str, u16), Bound>>,
}

/// Number and duration of requests.
type Bound = (IntCounter, Histogram);

impl Metrics {
    /// The handles of the API; ask once and keep them.
    pub fn api(&self) -> ApiMetrics {
        let connections = self.families().api_connections.with_label_values::<&str>(&[]);
        ApiMetrics(Arc::new(Inner { metrics: self.clone(), connections, bound: Mutex::default() }))
    }
}

impl ApiMetrics {
    /// A request to the route was answered with the status, this long after its head was there.
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

    /// A connection is open, until the result is dropped.
    pub fn connected(&self) -> Open {
        self.0.connections.inc();
        Open(self.0.connections.clone())
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Open(IntGauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
