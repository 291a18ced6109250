//! `/v1/queues/{queue}/history`, `/v1/sinks/{sink}/history`: the last hour and the last day, as this daemon saw them.

use std::sync::Arc;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::find;
use delaybridge_telemetry::history::{Past, PastSpan};

/// The last hour and day of a queue or a sink.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub struct HistoryShape {
    /// Whether this daemon keeps it: it has room for 2,000 queues, those that were active first.
    kept: bool,
    /// Seconds since the end of the last minute.
    age_seconds: u64,
    /// The minutes of the last hour, the oldest first; fewer after a start of the daemon.
    minutes: Vec<SpanShape>,
    /// The quarters of an hour of the last day, the oldest first; fewer after a start.
    quarters: Vec<SpanShape>,
}

/// The events of a minute or of a quarter of an hour, as numbers.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "HistorySpan")]
struct SpanShape {
    /// Elements that this daemon delivered.
    delivered: u64,
    /// Attempts of this daemon that failed.
    failed: u64,
    /// Elements that were due and not delivered at its end; for a sink those of the queues that deliver to it.
    backlog: u64,
    /// Median of the lateness; none where nothing was delivered.
    lateness_p50_ms: Option<f64>,
    /// 99th percentile of the lateness.
    lateness_p99_ms: Option<f64>,
}

impl HistoryShape {
    fn of(past: Option<Past>) -> HistoryShape {
        let kept = past.is_some();
        let past = past.unwrap_or_default();
        let shapes = |spans: &[PastSpan]| spans.iter().map(SpanShape::of).collect();
        HistoryShape {
            kept,
            age_seconds: past.age.as_secs(),
            minutes: shapes(&past.minutes),
            quarters: shapes(&past.quarters),
        }
    }
}

impl SpanShape {
    fn of(span: &PastSpan) -> SpanShape {
        let PastSpan { delivered, failed, backlog, late_p50_ms, late_p99_ms } = *span;
        SpanShape { delivered, failed, backlog, lateness_p50_ms: late_p50_ms, lateness_p99_ms: late_p99_ms }
    }
}

/// Returns the history of a queue.
pub async fn queue(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let name = call.part("queue");
    find(&admin.session().config, name).map_err(|error| Problem::new(ProblemKind::NotFound, error.message))?;
    Reply::json(StatusCode::OK, &HistoryShape::of(admin.history.queue(name)))
}

/// Returns the history of a sink.
pub async fn sink(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let name = call.part("sink");
    known_sink(&admin, name)?;
    Reply::json(StatusCode::OK, &HistoryShape::of(admin.history.sink(name)))
}

/// Refuses a name that no sink has.
pub fn known_sink(admin: &Admin, name: &str) -> Result<(), Problem> {
    if admin.session().config.sinks.iter().any(|sink| *sink.name == *name) {
        Ok(())
    } else {
        Err(Problem::new(ProblemKind::NotFound, "find the sink: the configuration has none of this name"))
    }
}
