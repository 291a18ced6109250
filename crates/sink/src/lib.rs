//! Sinks: one folder a kind, one trait, one contract suite that all of them pass.
//!
//! A sink turns an [`Outbound`] into an [`Outcome`]. It knows nothing of claims, retries, leases or metrics: it answers
//! truthfully, once, for each element, and the pipeline decides.
//!
//! All that belongs to one kind is in its folder: its keys in the configuration and the function that reads them
//! ([`SinkKind`]), the settings and targets that they make ([`Connector`], [`Target`]), its destinations
//! ([`SinkAddress`]), its error codes, and the [`Sink`] itself. A kind knows no other. A new kind is a folder, a `mod` line
//! here and a line in the list of kinds, which nothing here knows.

mod answers;
mod backlog;
pub mod codes;
mod destination;
mod error_row;
#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
pub mod header_rules;
pub mod headers;
pub mod kind;
pub mod output;
pub mod reconnect;
mod redis_write;
mod repeats;
mod spec;
pub mod task;
mod task_sink;
pub mod worker_queue;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

pub use self::answers::{Answered, Answers};
pub use self::backlog::{Backlog, BacklogMessage};
pub use self::destination::{Destination, SinkAddress};
pub use self::error_row::ErrorRow;
pub use self::header_rules::{HeaderFate, HeaderRules};
pub use self::kind::{ReadTarget, RouteSite, SinkKind, SinkSettings};
pub use self::redis_write::{MARKS, RedisCommand, RedisWrite, SinkRedis};
pub use self::repeats::{AttemptId, CopyMark, DeliveryMark, Lookup, Recognition, Suspicion};
pub use self::spec::{Connector, Fixed, RouteHeaders, SinkSpec, SinkStart, Target};
pub use self::task_sink::TaskSink;
use delaybridge_core::carried::Carried;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, Identity, Outcome};
use delaybridge_core::unordered;

/// One element on its way to one sink: decoded and routed, nothing left to decide.
#[derive(Clone, Debug)]
pub struct Outbound {
    /// Identity, the same at every attempt.
    pub id: Identity,
    /// The queue's id in the configuration.
    pub queue: Arc<str>,
    /// Due time in Redis milliseconds since the epoch; absent for elements of the ready list.
    pub due_ms: Option<i64>,
    /// Number of this attempt: 1 only if no sink can have had the element before. What does not count towards `max_attempts`
    /// raises it to 2 at least.
    pub attempt: u32,
    /// Redis time, in milliseconds since the epoch, at which the element was given to the sink.
    pub now_ms: i64,
    /// A sink that has not begun to send by then must not send: the lease may be over, and the element may belong to
    /// another daemon. It answers [`Failure::stale`].
    pub send_before: Instant,
    /// The destination in the sink.
    pub destination: Destination,
    /// The bytes to deliver, after the envelope.
    pub body: Bytes,
    /// The user's headers, in the order of the configuration, and those of a message of an input as texts.
    pub headers: Vec<(Arc<str>, String)>,
    /// The message of an input without its body, for sinks that can say more of it than texts.
    pub carried: Option<Arc<Carried>>,
    /// The mark by which a copy is recognised at the destination; only with `duplicates: look`.
    pub mark: Option<Box<DeliveryMark>>,
}

/// A place that elements are delivered to.
///
/// The contract, tested for every kind by the suite in `contract.rs`:
///
/// - `Ok(())` means that the destination has taken the element. Everything else is a [`Failure`]: a code that the
///   sink's table does not know is [`Class::Unknown`](delaybridge_core::message::Class::Unknown), never a success.
/// - `deliver` answers within [`timeout`](Sink::timeout). An element without a known outcome by then is
///   [`Class::Ambiguous`](delaybridge_core::message::Class::Ambiguous) if a byte of it may have been sent, else `Transient`.
/// - Dropping the future abandons the element: whether it arrived is unknown to the caller, and no other element
///   suffers from it.
/// - One element's failure is not its neighbours'.
/// - Many calls run at once; the sink batches and bounds them by itself.
pub trait Sink: Send + Sync + 'static {
    /// Returns the kind as written in the configuration (`redis`, `stdout`).
    fn kind(&self) -> &'static str;

    /// Returns the longest that [`deliver`](Sink::deliver) takes; the lease of a queue is longer.
    fn timeout(&self) -> Duration;

    /// Delivers one element.
    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome>;

    /// Delivers a batch: each element as by [`deliver`](Sink::deliver), in this order. The answers come one by one,
    /// under the places in the batch; when this ends, each element has its answer.
    ///
    /// As far as the sink has room, all elements are on their way after the first poll: what is handed over later by
    /// another task does not overtake them.
    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        one_by_one(self, batch, answers).boxed()
    }

    /// Returns the sink as one for runs, if it keeps the order of elements that are sent together. `None`: elements
    /// that depend on their order go one at a time.
    fn runs(&self) -> Option<&dyn RunSink> {
        None
    }

    /// Returns the part of this destination that the element goes to and that can fail by itself, where that is known:
    /// the partition of a topic of which some have no leader.
    fn part(&self, _destination: &Destination) -> Option<u32> {
        None
    }

    /// Returns the number of copies of a body of this many bytes that the client library keeps beside it: they count as
    /// in flight too.
    fn copies(&self, _bytes: usize) -> u64 {
        0
    }

    /// Returns the sink's way to look for what earlier attempts have left, if it has one. The kind says so beforehand
    /// ([`Target::recognition`]).
    fn lookup(&self) -> Option<&dyn Lookup> {
        None
    }

    /// Connects, authenticates and asks whether delivery to these destinations could work now, without delivering or
    /// making anything (`check --live`). Returns what does not exist yet and what the sink makes when it connects for
    /// delivery, destinations by their [`Fixed::name`].
    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>>;

    /// Lists the drawbacks of these destinations, after [`check`](Sink::check) has found them (`check --live`): each is
    /// a sentence with what to do.
    fn drawbacks<'a>(&'a self, _destinations: &'a [Destination]) -> BoxFuture<'a, Vec<String>> {
        std::future::ready(Vec::new()).boxed()
    }

    /// Asks whether the sink answers, at next to no cost and without delivering anything; it ends within
    /// [`timeout`](Sink::timeout). `None` for a sink that has nothing to ask: it counts as up. An answer proves less
    /// than a confirmed element, so that a sink that delivers is not asked. Cancel safe.
    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>>;

    /// Ends when the sink can never deliver again because a task of its own has ended by a defect. Cancel safe.
    fn ended(&self) -> BoxFuture<'_, ()>;

    /// Flushes what is buffered and closes; called once, after the last `deliver` has answered.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A sink that keeps the order of elements that are sent together.
pub trait RunSink: Send + Sync {
    /// Returns the line of elements with this destination: the part of it within which their order is kept. `None`
    /// where it is not, or where that is not certain: such elements are delivered one at a time.
    fn line(&self, destination: &Destination) -> Option<u32>;

    /// Says that runs will come, so that the first one need not wait for what a kind makes for runs alone. Does not
    /// wait.
    fn prepare(&self) {}

    /// Returns whether a run may have elements of several keys, each of which is in order by itself.
    fn joins_keys(&self) -> bool {
        true
    }

    /// Delivers elements that depend on their order, each with a [`line`](RunSink::line), in the place of
    /// [`deliver_all`](Sink::deliver_all). The contract, tested for every such kind:
    ///
    /// - Elements of one destination and line arrive in their order.
    /// - When one fails, whatever the reason, nothing behind it on its line arrives, now or later, unless it has arrived itself
    ///   before. So if it and those behind it are sent again in their order, all arrive first in their order. One that can
    ///   never be delivered ([`Class::MessagePermanent`]) is no exception: it goes to the dead letters before the next is sent.
    /// - What was not sent because of one before it is answered with [`behind`].
    fn deliver_run<'a>(&'a self, run: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()>;
}

/// Delivers each element of a batch by itself.
pub async fn one_by_one<S: Sink + ?Sized>(sink: &S, batch: Vec<Outbound>, answers: &Answers) {
    let mut outstanding = FuturesUnordered::new();
    for (place, message) in batch.into_iter().enumerate() {
        // A panic is one element's, not that of its neighbours.
        let mut delivery = AssertUnwindSafe(sink.deliver(message)).catch_unwind();
        // Unconstrained, because the runtime would let only so many of them get anywhere, and those behind would wait for
        // a later poll. One by one, because `FuturesUnordered` pauses after two that are ready.
        match tokio::task::unconstrained(&mut delivery).now_or_never() {
            Some(ended) => put(answers, place, ended),
            None => outstanding.push(async move { (place, delivery.await) }),
        }
    }
    while let Some((place, ended)) = unordered::next(&mut outstanding).await {
        put(answers, place, ended);
    }
}

/// Builds the answer to an element of a run that was not sent, because one before it has failed.
pub fn behind(destination: &Destination) -> Failure {
    let text = format!("send to {destination}: not sent, because an element before it has failed");
    Failure::new(Class::Transient, Failure::BEHIND, text)
}

fn put(answers: &Answers, place: usize, ended: std::thread::Result<Outcome>) {
    match ended {
        Ok(outcome) => answers.put(place, outcome),
        Err(_panic) => answers.put_panic(place),
    }
}

/// Joins the failures that a check has found into its answer.
pub fn together(failures: Vec<Failure>) -> Result<(), Failure> {
    let texts: Vec<_> = failures.iter().map(|failure| failure.message.as_str()).collect();
    let text = texts.join("; ");
    failures.into_iter().next().map_or(Ok(()), |first| Err(Failure::new(first.class, first.code, text)))
}
