//! Sinks: one folder a kind, one trait, one contract suite that all of them pass.
//!
//! A sink turns an [`Outbound`] into an [`Outcome`]. It knows nothing of claims, retries, leases or metrics: it answers
//! truthfully, once, for each element, and the pipeline decides.

#[doc(hidden)]
pub mod fake;
mod handoff;
pub mod stdout;

#[cfg(test)]
pub(crate) mod contract;

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::message::{Class, Destination, Failure, Outbound, Outcome};

/// A place that elements are delivered to.
///
/// The contract, tested for every kind by the suite in `contract.rs`:
///
/// - `Ok(())` means that the destination has taken the element. Everything else is a [`Failure`]: a code that the
///   sink's table does not know is [`Class::Unknown`](crate::message::Class::Unknown), never a success.
/// - `deliver` answers within [`timeout`](Sink::timeout). An element whose fate is not known by then is
///   [`Class::Ambiguous`](crate::message::Class::Ambiguous) if a byte of it may have been sent, else `Transient`.
/// - Dropping the future abandons the element: whether it arrived is unknown to the caller, and no other element
///   suffers from it.
/// - One element's failure is not its neighbours'.
/// - Many calls run at once; the sink batches and bounds them by itself.
pub trait Sink: Send + Sync + 'static {
    /// The kind as written in the configuration (`redis`, `stdout`).
    fn kind(&self) -> &'static str;

    /// The longest that [`deliver`](Sink::deliver) takes; the lease of a queue is longer.
    fn timeout(&self) -> Duration;

    /// Delivers one element.
    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome>;

    /// Connects, authenticates and asks whether delivery could work now, without delivering anything (`check --live`).
    fn check(&self) -> BoxFuture<'_, Result<(), Failure>>;

    /// Ends when the sink can never deliver again because a task of its own has ended by a defect. Cancel safe.
    fn ended(&self) -> BoxFuture<'_, ()>;

    /// Flushes what is buffered and closes; called once, after the last `deliver` has answered.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The answer to an element that was routed to a sink of another kind: the configuration check refuses that, so it is
/// a defect, and nothing can be delivered until it is mended.
fn wrong_destination(kind: &str, destination: &Destination) -> Failure {
    Failure::new(
        Class::TargetPermanent,
        "wrong_destination",
        format!("deliver to sink of kind {kind}: it has no {destination}"),
    )
}
