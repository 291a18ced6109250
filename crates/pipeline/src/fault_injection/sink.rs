//! A sink that lies.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::lie::Lie;
use delaybridge_core::message::{Failure, Outcome};
use delaybridge_sink::{Answered, Answers, Destination, Lookup, Outbound, RunSink, Sink, behind};

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
        // Nothing else begins as a record does.
        if self.lie == Lie::DroppedRecord && message.body.starts_with(br#"{"version":1,"fate":"#) {
            return std::future::ready(Ok(())).boxed();
        }
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

    fn runs(&self) -> Option<&dyn RunSink> {
        self.sink.runs().map(|_| self as &dyn RunSink)
    }

    fn part(&self, destination: &Destination) -> Option<u32> {
        self.sink.part(destination)
    }

    fn copies(&self, bytes: usize) -> u64 {
        self.sink.copies(bytes)
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        self.sink.lookup()
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

impl RunSink for LyingSink {
    fn line(&self, destination: &Destination) -> Option<u32> {
        self.sink.runs()?.line(destination)
    }

    fn prepare(&self) {
        self.sink.runs().into_iter().for_each(RunSink::prepare);
    }

    fn joins_keys(&self) -> bool {
        self.sink.runs().is_some_and(RunSink::joins_keys)
    }

    fn deliver_run<'a>(&'a self, run: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        let Some(sink) = self.sink.runs().filter(|_| self.lie != Lie::SettleBeforeAck) else {
            return self.deliver_all(run, answers);
        };
        let run: Vec<_> = run.into_iter().map(|message| self.changed(message)).collect();
        match self.lie {
            Lie::OvertakenInRun => without_the_first(sink, run, answers).boxed(),
            _ => sink.deliver_run(run, answers),
        }
    }
}

/// Answers that the first of a run has failed, and delivers those behind it.
async fn without_the_first(sink: &dyn RunSink, mut run: Vec<Outbound>, answers: &Answers) {
    if run.len() < 2 {
        return sink.deliver_run(run, answers).await;
    }
    let first = run.remove(0);
    let others = Answers::new(run.len());
    answers.put(0, Err(behind(&first.destination)));
    sink.deliver_run(run, &others).await;
    let Answered { confirmed, failed, panicked, .. } = others.take();
    confirmed.into_iter().for_each(|place| answers.put(place + 1, Ok(())));
    failed.into_iter().for_each(|(place, failure)| answers.put(place + 1, Err(failure)));
    panicked.into_iter().for_each(|place| answers.put_panic(place + 1));
}
