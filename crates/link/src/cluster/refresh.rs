//! The task that refreshes the map of a cluster: at every reason to doubt it, and periodically.
//!
//! A map is taken only if it covers the slots in use. `MOVED` changes one slot at once. The whole map is requested 100 ms
//! later, after each disconnect, `READONLY` and `CLUSTERDOWN`, every half second while a master is away, and otherwise
//! every 10 to 30 seconds. A node that lost its connection may have left the cluster: it counts as down, and is logged,
//! only if the next map still contains it.

use std::sync::Arc;
use std::time::Duration;

use delaybridge_core::log;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use super::shared::Shared;
use super::slots::Slots;
use crate::address::Address;
use crate::connect::ask;
use crate::error::{ConnectError, ConnectErrorKind};
use crate::wait::wait_after;

/// Time in which requests for a map are gathered and answered by one.
const GATHER: Duration = Duration::from_millis(100);
/// Minimum interval between two periodic refreshes.
const AT_EASE: Duration = Duration::from_secs(10);
/// Random part of the interval, so that many daemons do not ask in step.
const SPREAD: Duration = Duration::from_secs(20);
/// Interval while a master is unreachable, because its replica may have been promoted.
const AWAY: Duration = Duration::from_millis(500);
/// Longest wait after no node returned a map.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Time without an answer after which the next node is asked as well.
const NEXT: Duration = Duration::from_millis(250);

/// Refreshes until the cluster is closed. `_lives` is dropped with the task.
pub(super) async fn run(shared: Arc<Shared>, _lives: watch::Sender<()>) {
    let stop = shared.stop.clone();
    // Everything inside only asks and waits, so it can be dropped at any point.
    tokio::select! {
        () = stop.cancelled() => {}
        () = keep(&shared) => {}
    }
}

async fn keep(shared: &Arc<Shared>) {
    let mut failures = 0;
    loop {
        let wait = match refresh(shared).await {
            Ok(()) => {
                failures = 0;
                if shared.any_is_down() {
                    AWAY.mul_f64(0.5 + fastrand::f64())
                } else {
                    AT_EASE + SPREAD.mul_f64(fastrand::f64())
                }
            }
            Err(problem) => {
                log::debug!("{problem}");
                failures += 1;
                shared.no_map(problem);
                wait_after(failures, MAX_WAIT)
            }
        };
        tokio::select! {
            () = shared.refresh.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
        tokio::time::sleep(GATHER).await;
    }
}

/// Asks node after node until one returns a map that covers the slots in use. A silent node does not delay the next.
async fn refresh(shared: &Arc<Shared>) -> Result<(), ConnectError> {
    let mut nodes = shared.candidates().into_iter();
    let mut asked = FuturesUnordered::new();
    let mut problem = None;
    loop {
        match nodes.next() {
            Some(node) => asked.push(map_of(shared, node)),
            None if asked.is_empty() => break,
            None => {}
        }
        let patience = if nodes.len() > 0 { NEXT } else { Duration::MAX };
        match tokio::time::timeout(patience, asked.next()).await {
            Ok(Some(Ok((slots, at)))) => {
                if shared.take(slots) {
                    return Ok(());
                } else {
                    let message = "the node knows no master for slots that the queues use: assign the slots".to_owned();
                    problem = Some(error(shared, ConnectErrorKind::Server, &at, message));
                }
            }
            Ok(Some(Err(failed))) => problem = Some(failed),
            Ok(None) | Err(_) => {}
        }
    }
    // There is at least one seed.
    Err(problem.unwrap_or_else(|| ConnectError {
        kind: ConnectErrorKind::Server,
        address: shared.address.to_string(),
        message: "no node is named".to_owned(),
    }))
}

async fn map_of(shared: &Shared, node: Address) -> Result<(Slots, Address), ConnectError> {
    let endpoint = shared.target.node(&node);
    let answer = ask(&endpoint, "CLUSTER SLOTS", redis::cmd("CLUSTER").arg("SLOTS")).await?;
    match Slots::parse(answer, &node, endpoint.tls.is_some()) {
        Ok(slots) => Ok((slots, node)),
        Err(problem) => Err(error(shared, ConnectErrorKind::Server, &node, problem.to_owned())),
    }
}

fn error(shared: &Shared, kind: ConnectErrorKind, node: &Address, message: String) -> ConnectError {
    ConnectError { kind, address: shared.target.node(node).address(), message }
}
