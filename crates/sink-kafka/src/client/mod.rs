//! The sink itself: one record an element, confirmed by every replica in sync.
//!
//! librdkafka batches and bounds by itself, so records are queued at once, those of a batch in one loop (`batch.rs`), and
//! their reports are waited for. There is no worker and no hand-over: the order of the calls is the order of the records.

mod backlog;
mod batch;
mod check;
mod deliver;
mod health;
mod known;
mod look;
mod lookup;
mod partitions;
mod producer;
pub(crate) mod proof;
mod reading;
mod record;
mod reports;
mod run;
mod search;
mod seen;
pub(crate) mod settings;
mod slot;
mod topics;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use tokio::sync::Semaphore;

pub(super) use backlog::KafkaBacklog;
pub(super) use settings::validate;

use crate::tokens::LoginTokens;
use crate::{KafkaDestination, KafkaSpec, NAME};
use batch::RoomWaiters;
use delaybridge_core::message::{Failure, Outcome};
use delaybridge_sink::{Answers, Destination, Lookup, Outbound, RunSink, Sink};
use lookup::KafkaLookup;
use producer::Defect;
pub(crate) use producer::blocking;
use settings::ProducerPurpose;
use slot::Slot;
use topics::SinkTopics;

/// Longest wait of the close for records in flight; their callers have gone. The end of the process
/// does not wait much longer.
const FLUSH: Duration = Duration::from_millis(250);

/// Records that are sent alone at a time, each a request of its own. Enough to keep a broker busy; and few enough that none times
/// out in the client behind the others, as if its topic were in trouble.
const ALONE: usize = 16;

/// Delivers to the topics of one Kafka cluster.
#[derive(Debug)]
pub struct KafkaSink {
    spec: Arc<KafkaSpec>,
    timeout: Duration,
    /// The tokens that it logs in with, if it does.
    tokens: Option<Arc<LoginTokens>>,
    /// Sends records in batches.
    batches: Slot,
    /// Sends again, each by itself, the records of a batch that was refused as a whole.
    alone: Slot,
    /// Sends runs.
    runs: Slot,
    /// The turn of the record that is sent alone.
    turns: Semaphore,
    topics: SinkTopics,
    room: RoomWaiters,
    defect: Defect,
    lookup: KafkaLookup,
}

impl KafkaSink {
    /// Creates a sink that answers within `timeout`. It begins to connect.
    pub fn new(spec: Arc<KafkaSpec>, timeout: Duration) -> KafkaSink {
        let defect = Defect::default();
        let tokens = proof::tokens(&spec);
        let slot = |purpose| Slot::new(spec.clone(), timeout, purpose, defect.clone(), tokens.clone());
        let batches = slot(ProducerPurpose::Batches).warmed();
        let alone = slot(ProducerPurpose::Alone);
        let runs = slot(ProducerPurpose::Runs);
        let turns = Semaphore::new(ALONE);
        let lookup = KafkaLookup::new(spec.clone(), timeout, tokens.clone());
        KafkaSink {
            spec,
            timeout,
            tokens,
            batches,
            alone,
            runs,
            turns,
            topics: SinkTopics::new(),
            room: RoomWaiters::default(),
            defect,
            lookup,
        }
    }
}

impl Sink for KafkaSink {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.deliver_one(message).boxed()
    }

    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        self.deliver_batch(batch, answers).boxed()
    }

    fn runs(&self) -> Option<&dyn RunSink> {
        Some(self)
    }

    fn copies(&self, _bytes: usize) -> u64 {
        1
    }

    fn part(&self, destination: &Destination) -> Option<u32> {
        let KafkaDestination { topic, key } = destination.of_kind(NAME).ok()?;
        self.topics.partition(topic, key.as_deref()?.as_bytes())
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        Some(&self.lookup)
    }

    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        check::check(self.spec.clone(), self.timeout, self.tokens.clone(), destinations).map_ok(|()| Vec::new()).boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        Some(check::probe(self.spec.clone(), self.timeout, self.tokens.clone()).boxed())
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        // The sender is this sink's own, so there is no error.
        async move { drop(self.defect.subscribe().wait_for(|defect| *defect).await) }.boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            let flush = FLUSH.min(self.timeout);
            let closing = [self.batches.close(), self.alone.close(), self.runs.close()].into_iter().flatten();
            let closed = closing.map(|producer| async move { producer.close(flush).await });
            futures_util::future::join_all(closed).await;
        }
        .boxed()
    }
}

impl RunSink for KafkaSink {
    fn line(&self, destination: &Destination) -> Option<u32> {
        self.line_of(destination)
    }

    /// Makes the producer: librdkafka gives a new one its id half a second after its start.
    fn prepare(&self) {
        self.runs.prepare();
    }

    /// Returns `false`: keys would wait for each other at a partition without a leader, and fill batches one at a time
    /// as well.
    fn joins_keys(&self) -> bool {
        false
    }

    fn deliver_run<'a>(&'a self, run: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        async move { self.deliver_in_order(&run, answers).await }.boxed()
    }
}
