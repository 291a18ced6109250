//! The sink that one task makes: a kind says what it asks the task, and the rest of [`Sink`] follows.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::task::SinkTask;
use crate::{Answers, Destination, Outbound, Sink, SinkAddress, together};
use delaybridge_core::message::{Failure, Outcome};

/// A kind of sink whose elements all go through one [`SinkTask`].
pub trait TaskSink: Send + Sync + 'static {
    /// A question of checks and probes.
    type Question: Send + 'static;
    /// The destinations of the kind.
    type Address: SinkAddress;
    /// The answer about a destination that is there.
    type Found: Send;

    /// Whether destinations can have drawbacks: where not, nobody asks for them again after a check.
    const HAS_DRAWBACKS: bool = true;

    /// Returns the task.
    fn task(&self) -> &SinkTask<Self::Question>;

    /// Asks whether the server answers.
    fn connects(&self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Asks the same at next to no cost; see [`Sink::probe`].
    fn probes(&self) -> impl Future<Output = Result<(), Failure>> + Send {
        self.connects()
    }

    /// Asks for a destination.
    fn look(&self, address: &Self::Address) -> impl Future<Output = Result<Self::Found, Failure>> + Send;

    /// Lists the drawbacks of destinations that are there; see [`Sink::drawbacks`].
    fn drawbacks_of(&self, _found: Vec<(&Destination, Self::Found)>) -> impl Future<Output = Vec<String>> + Send {
        std::future::ready(Vec::new())
    }
}

/// Asks for a destination of any kind.
async fn look<T: TaskSink>(sink: &T, destination: &Destination) -> Result<T::Found, Failure> {
    sink.look(destination.of_kind(sink.task().items.kind())?).await
}

impl<T: TaskSink> Sink for T {
    fn kind(&self) -> &'static str {
        self.task().items.kind()
    }

    fn timeout(&self) -> Duration {
        self.task().items.timeout()
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.task().items.deliver(message).boxed()
    }

    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        self.task().items.deliver_all(batch, answers).boxed()
    }

    fn copies(&self, _bytes: usize) -> u64 {
        // The request, while it is under way.
        1
    }

    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        async move {
            let mut failures = Vec::new();
            for destination in destinations {
                failures.extend(look(self, destination).await.err());
            }
            if destinations.is_empty() {
                self.connects().await?;
            }
            together(failures).map(|()| Vec::new())
        }
        .boxed()
    }

    fn drawbacks<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Vec<String>> {
        async move {
            let mut found = Vec::new();
            let mut drawbacks = Vec::new();
            for destination in destinations.iter().filter(|_| T::HAS_DRAWBACKS) {
                match look(self, destination).await {
                    Ok(answer) => found.push((destination, answer)),
                    Err(failure) => drawbacks.push(failure.message),
                }
            }
            drawbacks.extend(self.drawbacks_of(found).await);
            drawbacks
        }
        .boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        Some(self.probes().boxed())
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        self.task().items.ended().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.task().close().boxed()
    }
}
