//! The way in: messages of a broker become jobs, and wait for their due time in Redis.
//!
//! ```text
//! broker -> Input (a kind, with its client library) -> JobIntake -> job queue in Redis
//!        <- acknowledged, committed or refused      <- Verdict
//! ```
//!
//! An [`Input`] receives messages and settles them at its broker; the [`JobIntake`] decides what becomes of each, adds the jobs,
//! and waits while Redis is away. The decisions are pure functions: [`due`], [`identity`].
//!
//! No message is acknowledged before Redis has its job. A message that arrives twice is scheduled once, if it has an identity
//! of its own. Another message with the same identity is never taken for it.

mod arrival;
pub mod due;
pub mod identity;
mod intake;
mod kind;

pub use self::arrival::{Arrival, FormerId, InputRefusal, Verdict};
pub use self::intake::{IntakeRules, JobIntake, OnBadDelay};
pub use self::kind::{InputConnector, InputKind, ReadInput, RedeliveryPlace};

use delaybridge_core::message::Failure;
pub use delaybridge_telemetry::events::inputs::{InputEvents, InputReset, PartitionLag};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

/// A queue or topics of a broker that messages come from.
///
/// The contract, tested for every kind by the same suite:
///
/// - A message is acknowledged only after the intake has said [`Verdict::Scheduled`] or [`Verdict::Duplicate`].
/// - A refused message goes to the broker's dead letters. Where it cannot, it stays where it is, and the input says so.
/// - What is held in memory is bounded, by count and by bytes. While the intake waits, nothing more is taken.
/// - After a lost connection it connects again, with growing waits.
/// - After `stop` nothing is taken. What the intake has decided is settled, everything else goes back to the broker.
pub trait Input: Send + Sync + 'static {
    /// Returns the kind as written in the configuration (`amqp`).
    fn kind(&self) -> &'static str;

    /// Takes messages until `stop`.
    fn run<'a>(&'a self, intake: &'a JobIntake, stop: CancellationToken) -> BoxFuture<'a, ()>;

    /// Asks whether it could work now, without taking anything (`check --live`): whether what it consumes is there and may be
    /// read, and where refused messages go.
    ///
    /// # Errors
    /// Everything that is missing, and what to do.
    fn check(&self) -> BoxFuture<'_, Result<InputCheck, Failure>>;
}

/// The findings of a check that has found nothing wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputCheck {
    /// The things that are there, in the order in which they were asked for.
    pub found: Vec<String>,
    /// The drawbacks, each with the advice.
    pub drawbacks: Vec<String>,
}
