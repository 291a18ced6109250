//! A sink that lies.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::lie::Lie;
use delaybridge_core::message::{Failure, Outcome};
use delaybridge_sink::{Answers, Destination, Outbound, Sink};

/// A sink that changes messages, or answers before it knows.
pub(super) struct LyingSink {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) lie: Lie,
}

impl LyingSink {
    fn changed(&self, message: Outbound) -> Outbound {
        match self.lie {
            Lie::DroppedAttempt => Outbound { attempt: 1, ..message },
            Lie::FlippedByte if message.body.len() > 4_096 => {
                let mut body = message.body.to_vec();
                body[4_096] ^= 1;
                Outbound { body: body.into(), ..message }
            }
            _ => message,
        }
    }
}

impl Sink for LyingSink {
    fn kind(&self) -> &'static str {
        self.sink.kind()
    }

    fn timeout(&self) -> Duration {
        self.sink.timeout()
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.sink.deliver(self.changed(message))
    }

    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        let batch: Vec<_> = batch.into_iter().map(|message| self.changed(message)).collect();
        if self.lie != Lie::SettleBeforeAck {
            return self.sink.deliver_all(batch, answers);
        }
        let unheard = Answers::new(batch.len());
        (0..batch.len()).for_each(|place| answers.put(place, Ok(())));
        async move { self.sink.deliver_all(batch, &unheard).await }.boxed()
    }

    fn part(&self, destination: &Destination) -> Option<u32> {
        self.sink.part(destination)
    }

    fn copies(&self, bytes: usize) -> u64 {
        self.sink.copies(bytes)
    }

    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        self.sink.check(destinations)
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        self.sink.probe()
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        self.sink.ended()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.sink.close()
    }
}
