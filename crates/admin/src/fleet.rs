//! This daemon in the fleet: its record, written every ten seconds for as long as it runs.

use std::time::Duration;

use super::Admin;
use delaybridge_ops::fleet::{FleetMember, leave, tell};

/// Time for a record to be written: the next one comes soon.
const TIME: Duration = Duration::from_secs(5);
/// The same at the end of the process.
const GOODBYE: Duration = Duration::from_secs(1);

impl Admin {
    /// Tells the other daemons of this one. Best effort: it is seen as gone while Redis is away.
    pub(super) async fn tell_fleet(&self) {
        let member = self.member();
        if !member.daemon.is_empty() {
            let _ = tokio::time::timeout(TIME, tell(&self.session(), &member)).await;
        }
    }

    /// Takes the record back.
    pub(super) async fn leave_fleet(&self) {
        let daemon = self.status.look().owner;
        if !daemon.is_empty() {
            let _ = tokio::time::timeout(GOODBYE, leave(&self.session(), &daemon)).await;
        }
    }

    fn member(&self) -> FleetMember {
        let look = self.status.look();
        let session = self.session();
        let total = self.recent.total();
        let round = |rate: f64| (rate * 100.0).round() / 100.0;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        FleetMember {
            daemon: look.owner,
            host,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: look.configuration,
            configured_seconds: Some(self.reload.age().as_secs()),
            listen: self.listen.clone(),
            up_seconds: self.began.elapsed().as_secs(),
            ready: look.ready,
            queues: session.config.queues.len(),
            held: look.held.len(),
            sinks_in_trouble: self.sinks().sinks.iter().filter(|sink| sink.has_trouble()).count(),
            in_flight: (self.in_flight)(),
            delivered_per_second: round(total.delivered_per_second),
            failed_per_second: round(total.failed_per_second),
            lateness_p99_ms: total.late_p99.map(|seconds| (seconds * 10_000.0).round() / 10.0),
            at_ms: 0,
            gone: false,
        }
    }
}
