//! The task that owns the connection: connect, declare, watch, replace.
//!
//! The library's own recovery stays off: with it, confirmations of a broker that has fallen silent never come to an end.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FusedStream;
use lapin::Event;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::connect::connect;
use super::session::AmqpSession;
use super::topology;
use crate::{AmqpSpec, codes};
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_dial::ReadBudget;

/// Upper bound of the first wait after a round of failed attempts; doubles from there.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Upper bound of any wait while no node can be reached.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Upper bound of any wait while a person has to fix something: refused logins fill the broker's log.
const MAX_WAIT_FOR_A_PERSON: Duration = Duration::from_secs(10);
/// A connection that lived shorter counts as a failed attempt: a broker that accepts and drops is not hammered.
const STABLE_AFTER: Duration = Duration::from_secs(2);
/// The interval at which the state is polled beside the library's events.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub(crate) enum ConnectionState {
    Connecting {
        /// Why the last round of attempts failed; none has failed yet since the start or since the last connection.
        failure: Option<Failure>,
    },
    Up {
        session: Arc<AmqpSession>,
        /// The broker's reason for accepting nothing for the moment.
        blocked: Option<Arc<str>>,
    },
    Closed,
}

impl ConnectionState {
    /// Returns the session, if it may be used.
    pub(super) fn session(&self) -> Option<&Arc<AmqpSession>> {
        match self {
            ConnectionState::Up { session, .. } if session.is_up() => Some(session),
            _ => None,
        }
    }
}

/// Keeps a connection until it is stopped, which reads within this budget.
pub(crate) async fn run(
    spec: Arc<AmqpSpec>,
    reads: Arc<ReadBudget>,
    state: watch::Sender<ConnectionState>,
    stop: CancellationToken,
) {
    let mut failures: u32 = 0;
    let mut node = 0;
    loop {
        // Abandoned attempts only close their socket.
        let attempt = tokio::select! {
            attempt = round(&spec, &reads, &mut node) => attempt,
            () = stop.cancelled() => break,
        };
        let wait = match attempt {
            Ok(session) => {
                let since = Instant::now();
                watch(&session, &state, &stop).await;
                if stop.is_cancelled() {
                    session.close().await;
                    break;
                }
                state.send_replace(ConnectionState::Connecting { failure: None });
                tracing::debug!(broker = %super::connect::address(&spec, node), "lost the connection to the broker");
                // Another node of the cluster is likelier to be well than the one that has just gone.
                node = (node + 1) % spec.nodes.len();
                if since.elapsed() >= STABLE_AFTER {
                    failures = 0;
                    continue;
                }
                MAX_WAIT
            }
            Err(failure) => {
                let wait = if failure.class == Class::TargetPermanent { MAX_WAIT_FOR_A_PERSON } else { MAX_WAIT };
                tracing::debug!(%failure, "cannot connect to the broker");
                state.send_replace(ConnectionState::Connecting { failure: Some(failure) });
                wait
            }
        };
        failures = failures.saturating_add(1);
        tokio::select! {
            () = tokio::time::sleep(wait_after(failures, wait)) => {}
            () = stop.cancelled() => break,
        }
    }
    state.send_replace(ConnectionState::Closed);
}

/// Tries each node once; `node` is where it begins, and then the one that answered.
async fn round(spec: &Arc<AmqpSpec>, reads: &Arc<ReadBudget>, node: &mut usize) -> Result<Arc<AmqpSession>, Failure> {
    let mut worst: Option<Failure> = None;
    for _ in 0..spec.nodes.len() {
        match open(spec, reads, *node).await {
            Ok(session) => return Ok(session),
            // A temporary problem is reported rather than one that a person must fix: another node may recover soon.
            Err(failure) => {
                if worst.as_ref().is_none_or(|worst| worst.class == Class::TargetPermanent) {
                    worst = Some(failure);
                }
            }
        }
        *node = (*node + 1) % spec.nodes.len();
    }
    Err(worst.unwrap_or_else(|| codes::NO_NODES.failure("connect to AMQP: no node is given".to_owned())))
}

async fn open(spec: &Arc<AmqpSpec>, reads: &Arc<ReadBudget>, node: usize) -> Result<Arc<AmqpSession>, Failure> {
    let session = connect(spec, reads, node).await?;
    if let Some(topology) = &spec.declare {
        topology::declare(&session, topology, spec.connect_timeout).await?;
    }
    Ok(Arc::new(session))
}

/// Reports the state of one connection until it is lost or the sink closes.
async fn watch(session: &Arc<AmqpSession>, state: &watch::Sender<ConnectionState>, stop: &CancellationToken) {
    let up = |blocked| ConnectionState::Up { session: session.clone(), blocked };
    let mut events = pin!(session.connection.events_listener().fuse());
    state.send_replace(up(None));
    while session.is_up() {
        // All branches are cancel safe.
        tokio::select! {
            event = next(events.as_mut()) => match event {
                Event::ConnectionBlocked(reason) => {
                    state.send_replace(up(Some(reason.into())));
                }
                Event::ConnectionUnblocked => {
                    state.send_replace(up(None));
                }
                // Of a channel, or of the connection: the loop looks which.
                _ => {}
            },
            () = tokio::time::sleep(LOOK) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn next(mut events: Pin<&mut impl FusedStream<Item = Event>>) -> Event {
    match events.next().await {
        Some(event) => event,
        // The library let go of the connection; the other branches see it.
        None => std::future::pending().await,
    }
}

/// Returns the wait after this many failures in a row: near its bound, because many daemons lose their broker at once.
fn wait_after(failures: u32, max: Duration) -> Duration {
    let backoff = Backoff::doubling(FIRST_WAIT, max, Jitter::From(0.5));
    backoff.wait(failures.saturating_sub(1), fastrand::f64())
}

/// Waits for the connection. Waits only while no round of attempts has failed yet: an outage is reported at once, so
/// that the pipeline stops claiming, but neither the start nor a quick reconnect fails a delivery.
pub(crate) async fn session(state: &mut watch::Receiver<ConnectionState>) -> Result<Arc<AmqpSession>, Failure> {
    loop {
        // Marked as seen before it is looked at: a change in between wakes the wait below at once.
        {
            let seen = state.borrow_and_update();
            match &*seen {
                ConnectionState::Connecting { failure: Some(failure) } => return Err(failure.clone()),
                ConnectionState::Closed => return Err(closed()),
                ConnectionState::Up { .. } => {
                    if let Some(session) = seen.session() {
                        return Ok(session.clone());
                    }
                }
                ConnectionState::Connecting { failure: None } => {}
            }
        }
        if state.changed().await.is_err() {
            return Err(closed());
        }
    }
}

fn closed() -> Failure {
    Failure::new(Class::Transient, "closed", "connect to AMQP: the connection is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_stay_bounded() {
        for (failures, max) in [(1, 50), (2, 100), (6, 1600), (7, 2000), (u32::MAX, 2000)] {
            let wait = wait_after(failures, MAX_WAIT);
            assert!(
                wait <= Duration::from_millis(max) && wait >= Duration::from_millis(max / 2),
                "{failures}: {wait:?}"
            );
        }
    }
}
