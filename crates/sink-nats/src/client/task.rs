//! The task that owns the connection: connect, serve, replace.
//!
//! Elements wait only while no round of attempts has failed yet: an outage is reported at once, so that the pipeline stops
//! claiming, but neither the start nor a quick reconnect fails a delivery.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::connect::{NatsConnection, connect};
use super::session::{self, Intake, SessionEnd};
use crate::NatsSpec;
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};

/// Upper bound of the first wait after a round of failed attempts; doubles from there.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Upper bound of any wait while no server can be reached.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Upper bound of any wait while a person has to fix something: refused logins fill the server's log.
const MAX_WAIT_FOR_A_PERSON: Duration = Duration::from_secs(10);
/// A connection that lived shorter counts as a failed attempt: a server that accepts and drops is not hammered.
const STABLE_AFTER: Duration = Duration::from_secs(2);

/// Delivers until the queue is closed and empty, or `stop`.
pub(super) async fn run(spec: Arc<NatsSpec>, timeout: Duration, mut intake: Intake, stop: CancellationToken) {
    let (mut failures, mut server) = (0_u32, 0);
    // Why the last round failed; none has since the start, or since the last connection.
    let mut failure: Option<Failure> = None;
    while !stop.is_cancelled() {
        let attempt = round(&spec, &mut server);
        let Some(attempt) = meanwhile(attempt, &mut intake, failure.as_ref(), &stop).await else { return };
        let max = match attempt {
            Ok(connection) => {
                failure = None;
                let (since, address) = (Instant::now(), connection.address.clone());
                let end = session::run(&spec, timeout, connection, &mut intake, &stop).await;
                let SessionEnd::Lost(why) = end else { return };
                tracing::debug!(server = address, why, "lost the connection to the NATS server");
                // Another server of the cluster is likelier to be well than the one that has just gone.
                server = (server + 1) % spec.servers.len().max(1);
                if since.elapsed() >= STABLE_AFTER {
                    failures = 0;
                    continue;
                }
                MAX_WAIT
            }
            Err(found) => {
                tracing::debug!(failure = %found, "cannot connect to NATS");
                let max = if found.class == Class::TargetPermanent { MAX_WAIT_FOR_A_PERSON } else { MAX_WAIT };
                failure = Some(found);
                max
            }
        };
        failures = failures.saturating_add(1);
        let wait = tokio::time::sleep(wait_after(failures, max));
        if meanwhile(wait, &mut intake, failure.as_ref(), &stop).await.is_none() {
            return;
        }
    }
}

/// Tries each server once; `server` is where it begins, and then the one that answered.
async fn round(spec: &Arc<NatsSpec>, server: &mut usize) -> Result<NatsConnection, Failure> {
    let mut worst: Option<Failure> = None;
    for _ in 0..spec.servers.len().max(1) {
        match connect(spec, *server).await {
            Ok(connection) => return Ok(connection),
            // A temporary problem is reported rather than one that a person must fix: another server may recover soon.
            Err(failure) => {
                if worst.as_ref().is_none_or(|worst| worst.class == Class::TargetPermanent) {
                    worst = Some(failure);
                }
            }
        }
        *server = (*server + 1) % spec.servers.len().max(1);
    }
    Err(worst
        .unwrap_or_else(|| Failure::new(Class::TargetPermanent, "settings", "connect to NATS: no server is given")))
}

/// Waits for `work`, and answers what comes meanwhile with the failure, if there is one. `None` when the sink is closed.
async fn meanwhile<T>(
    work: impl Future<Output = T>,
    intake: &mut Intake,
    failure: Option<&Failure>,
    stop: &CancellationToken,
) -> Option<T> {
    let mut work = pin!(work);
    loop {
        // Without a failure, what waits is delivered over the next connection. All branches are cancel safe.
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = stop.cancelled() => return None,
            item = intake.items.recv(), if failure.is_some() && !intake.closed => match (item, failure) {
                (Some(item), Some(failure)) => item.finish(Err(failure.clone())),
                _ => {
                    intake.closed = true;
                    return None;
                }
            },
            Some(ask) = intake.asks.recv(), if failure.is_some() => {
                if let Some(failure) = failure {
                    drop(ask.reply.send(Err(failure.clone())));
                }
            }
        }
    }
}

/// The wait after this many failures in a row: near its bound, because many daemons lose their server at once.
fn wait_after(failures: u32, max: Duration) -> Duration {
    let backoff = Backoff::doubling(FIRST_WAIT, max, Jitter::From(0.5));
    backoff.wait(failures.saturating_sub(1), fastrand::f64())
}
