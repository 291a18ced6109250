//! The task of a sink that has one connection: connect, serve, replace.
//!
//! Elements wait only while no attempt has failed yet: an outage is reported at once, so that the pipeline stops claiming,
//! but neither the start nor a quick reconnect fails a delivery.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::worker_queue::WorkItem;
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};

/// Upper bound of the first wait after a failed attempt; doubles from there.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Upper bound of any wait while the server cannot be reached.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Upper bound of any wait while a person has to fix something: refused logins fill the server's log.
const MAX_WAIT_FOR_A_PERSON: Duration = Duration::from_secs(10);
/// A connection that lived shorter counts as a failed attempt: a server that accepts and drops is not hammered.
const STABLE_AFTER: Duration = Duration::from_secs(2);

/// The channels that a connection takes its work from.
pub struct Intake<Q> {
    /// The elements.
    pub items: mpsc::Receiver<WorkItem>,
    /// Questions of checks and probes.
    pub asks: mpsc::Receiver<Q>,
    /// No more elements come.
    pub closed: bool,
}

/// The reason why a connection is served no more.
#[derive(Debug, PartialEq, Eq)]
pub enum ServiceEnd {
    /// The sink is closed, and everything has its answer.
    Closed,
    /// The connection broke, or was given up.
    Lost(String),
}

/// The connections of one kind of sink.
pub trait Reconnects {
    /// A connection that is logged in.
    type Connection;
    /// A question of a check or a probe.
    type Question;

    /// Connects, to one server or to each of several once.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Connection, Failure>> + Send;

    /// Delivers over the connection until it or the sink ends. Everything that was sent has its answer then.
    fn serve(
        &mut self,
        connection: Self::Connection,
        intake: &mut Intake<Self::Question>,
        stop: &CancellationToken,
    ) -> impl Future<Output = ServiceEnd> + Send;

    /// Answers a question while there is no connection.
    fn refuse(question: Self::Question, failure: Failure);
}

/// Delivers until the queue is closed and empty, or `stop`. `draw` draws a random number in `0.0..1.0`.
pub async fn run<R: Reconnects>(
    mut to: R,
    mut intake: Intake<R::Question>,
    stop: CancellationToken,
    draw: fn() -> f64,
) {
    let mut failures = 0_u32;
    // Why the last attempt failed; none has since the start, or since the last connection.
    let mut failure: Option<Failure> = None;
    while !stop.is_cancelled() {
        let attempt = to.connect();
        let Some(attempt) = meanwhile::<R, _>(attempt, &mut intake, failure.as_ref(), &stop).await else { return };
        let max = match attempt {
            Ok(connection) => {
                failure = None;
                let since = Instant::now();
                if to.serve(connection, &mut intake, &stop).await == ServiceEnd::Closed {
                    return;
                }
                if since.elapsed() >= STABLE_AFTER {
                    failures = 0;
                    continue;
                }
                MAX_WAIT
            }
            Err(found) => {
                let max = if found.class == Class::TargetPermanent { MAX_WAIT_FOR_A_PERSON } else { MAX_WAIT };
                failure = Some(found);
                max
            }
        };
        failures = failures.saturating_add(1);
        // Near its bound, because many daemons lose their server at once.
        let wait = Backoff::doubling(FIRST_WAIT, max, Jitter::From(0.5)).wait(failures.saturating_sub(1), draw());
        let wait = tokio::time::sleep(wait);
        if meanwhile::<R, _>(wait, &mut intake, failure.as_ref(), &stop).await.is_none() {
            return;
        }
    }
}

/// Waits for `work`, and answers what comes meanwhile with the failure, if there is one. `None` when the sink is closed.
async fn meanwhile<R: Reconnects, T>(
    work: impl Future<Output = T>,
    intake: &mut Intake<R::Question>,
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
            Some(question) = intake.asks.recv(), if failure.is_some() => {
                if let Some(failure) = failure {
                    R::refuse(question, failure.clone());
                }
            }
        }
    }
}
