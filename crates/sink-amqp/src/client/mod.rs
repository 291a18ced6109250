//! The sink itself: publishes to exchanges of an AMQP 0-9-1 broker (RabbitMQ) and waits for its confirmations.
//!
//! ```text
//! deliver -> worker -> publisher of the exchange -> flight on a channel of its own
//!                            supervisor: one connection to one node of the cluster
//!                                         and a second one for routes that have fallen silent
//! ```
//!
//! **Returned messages.** An unroutable message is returned and then confirmed, and the library may hand out the return
//! with another message's confirmation: with a thousand messages in flight, dozens of unroutable ones look delivered. Its
//! pairing is not used. Every publication has a `message_id` of its own, by which a return is recognised, and a
//! confirmation without a return is believed when it is known that no return of that message can be left anywhere; the
//! rules, and why they are exact, are in `ledger.rs`. They delay nothing: a window of messages is always outstanding, and
//! each is settled by itself as soon as its fate is certain. (Waiting for whole batches would be exact as well, but a
//! message to a queue that does not answer would delay the others of its batch.)
//!
//! **What a failure of one costs the others.** Exchanges do not share a channel. The first message on a channel, very
//! large ones, and those that were there when the broker closed a channel go alone, so that where it closes the channel
//! over one message it is known which; see `publisher.rs`. `errors.rs` has the meaning of each error. A route that does not
//! answer leaves the channel and the connection to the others; see `aside.rs`.
//!
//! **Blocked connections.** While an alarm of the broker lasts, what was not sent is refused at once, what was sent goes
//! on waiting, and nothing more is published. The library may hold messages back then; where one has timed out, the
//! connection is ended, so that none leaves after its answer.

mod aside;
pub(crate) mod channels;
mod connect;
mod context;
mod draining;
mod flight;
mod ledger;
mod message;
mod publisher;
mod session;
pub(crate) mod supervisor;
mod suspects;
mod topology;
mod worker;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::aside::AsideRoutes;
use self::context::{Ids, SinkContext};
pub(crate) use self::session::AmqpSession;
pub(crate) use self::supervisor::ConnectionState;
use crate::{AmqpSpec, NAME, errors};
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_dial::ReadBudget;
use delaybridge_sink::worker_queue::WorkerQueue;
use delaybridge_sink::{Answers, Destination, Outbound, Sink};

/// Elements that wait for the worker; later ones wait in `deliver`.
const QUEUE: usize = 1024;
/// Time allowed for closing, beyond the time-out of the deliveries that it waits for.
const CLOSE: Duration = Duration::from_secs(3);

/// Delivers to the exchanges of one broker, or cluster of brokers.
#[derive(Debug)]
pub struct AmqpSink {
    context: Arc<SinkContext>,
    items: WorkerQueue,
    state: watch::Receiver<ConnectionState>,
    stop: CancellationToken,
    worker: Mutex<Option<JoinHandle<()>>>,
    supervisor: Mutex<Option<JoinHandle<()>>>,
}

impl AmqpSink {
    /// Creates a sink that answers within `timeout`. It begins to connect at once, and declares what the configuration
    /// says.
    pub fn new(spec: Arc<AmqpSpec>, timeout: Duration) -> AmqpSink {
        AmqpSink::start(spec.clone(), spec, timeout)
    }

    /// Returns a sink for [`Sink::check`]: it declares nothing.
    pub fn to_check(spec: Arc<AmqpSpec>, timeout: Duration) -> AmqpSink {
        let connection = Arc::new(AmqpSpec { declare: None, ..(*spec).clone() });
        AmqpSink::start(spec, connection, timeout)
    }

    /// Starts the sink; `connection` has what is done at every connect.
    fn start(spec: Arc<AmqpSpec>, connection: Arc<AmqpSpec>, timeout: Duration) -> AmqpSink {
        let (items, taken) = WorkerQueue::new(NAME, timeout, QUEUE);
        let (sender, state) = watch::channel(ConnectionState::Connecting { failure: None });
        let stop = CancellationToken::new();
        // One for all connections of the sink.
        let reads = ReadBudget::new(ReadBudget::ANSWERS);
        let supervisor = tokio::spawn(supervisor::run(connection.clone(), reads.clone(), sender, stop.clone()));
        let aside = AsideRoutes::new(connection, reads, stop.clone());
        let context = Arc::new(SinkContext { spec, timeout, ids: Ids::new(), aside });
        let worker = tokio::spawn(worker::run(context.clone(), taken, state.clone()));
        AmqpSink {
            context,
            items,
            state,
            stop,
            worker: Mutex::new(Some(worker)),
            supervisor: Mutex::new(Some(supervisor)),
        }
    }
}

impl AmqpSink {
    /// Waits for the broker's answer, at most for the sink's time-out.
    async fn in_time<T>(&self, asking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::time::timeout(self.timeout(), asking).await.unwrap_or_else(|_elapsed| {
            let address = connect::address(&self.context.spec, 0);
            let text = format!("connect to AMQP {address}: not connected within {:?}", self.timeout());
            Err(Failure::new(Class::Transient, Failure::NOT_CONNECTED, text))
        })
    }
}

impl Drop for AmqpSink {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Sink for AmqpSink {
    fn kind(&self) -> &'static str {
        self.items.kind()
    }

    fn timeout(&self) -> Duration {
        self.items.timeout()
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.items.deliver(message).boxed()
    }

    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        self.items.deliver_all(batch, answers).boxed()
    }

    fn copies(&self, _bytes: usize) -> u64 {
        1
    }

    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        let mut state = self.state.clone();
        let check = async move {
            let session = supervisor::session(&mut state).await?;
            topology::look(&session, self.context.spec.declare.as_ref(), destinations, self.timeout()).await
        };
        self.in_time(check).boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        let mut state = self.state.clone();
        let ask = async move {
            let session = supervisor::session(&mut state).await?;
            // During an alarm the broker reads nothing.
            if let ConnectionState::Up { blocked: Some(reason), .. } = &*state.borrow() {
                return Err(errors::blocked("open a channel", reason));
            }
            // Dropped, it is closed.
            channels::open(&session, self.timeout()).await.map(drop)
        };
        Some(self.in_time(ask).boxed())
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        async move {
            let mut state = self.state.clone();
            tokio::select! {
                () = self.items.ended() => {}
                // An error means that the supervisor ended without a word.
                Err(_) = state.wait_for(|state| matches!(state, ConnectionState::Closed)) => {}
            }
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.items.close();
            let take = |task: &Mutex<Option<JoinHandle<()>>>| task.lock().take();
            if let Some(mut worker) = take(&self.worker) {
                // What is in the queue is answered by then, or has timed out. A panic has answered all deliveries.
                if tokio::time::timeout(self.timeout() + CLOSE, &mut worker).await.is_err() {
                    worker.abort();
                }
            }
            self.stop.cancel();
            for supervisor in take(&self.supervisor).into_iter().chain(self.context.aside.supervisor()) {
                let _ = tokio::time::timeout(CLOSE, supervisor).await;
            }
        }
        .boxed()
    }
}
