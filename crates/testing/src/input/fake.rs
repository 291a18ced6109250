//! A broker in memory, with an input that takes from it: one queue, and its dead letters.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::InputRig;
use delaybridge_core::carried::Carried;
use delaybridge_core::message::{Class, Failure};
use delaybridge_input::{Arrival, Input, InputCheck, JobIntake, Verdict};

/// Messages that are taken together.
const PREFETCH: usize = 10;

#[derive(Default)]
struct Broker {
    queue: VecDeque<Arrival>,
    refused: usize,
    away: bool,
}

/// A broker in memory.
#[derive(Default)]
pub struct FakeInputRig(Arc<Mutex<Broker>>);

struct FakeInput(Arc<Mutex<Broker>>);

impl FakeInput {
    /// The first messages, which stay in the queue until they are settled; `None` while the broker is away.
    fn first(&self) -> Option<Vec<Arrival>> {
        let broker = self.0.lock();
        (!broker.away).then(|| broker.queue.iter().take(PREFETCH).cloned().collect())
    }
}

impl Input for FakeInput {
    fn kind(&self) -> &'static str {
        "fake"
    }

    fn run<'a>(&'a self, intake: &'a JobIntake, stop: CancellationToken) -> BoxFuture<'a, ()> {
        async move {
            while !stop.is_cancelled() {
                let taken = self.first().unwrap_or_default();
                if taken.is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                }
                let Some(verdicts) = intake.take(taken, &stop).await else { return };
                let mut broker = self.0.lock();
                for verdict in verdicts {
                    broker.queue.pop_front();
                    broker.refused += usize::from(matches!(verdict, Verdict::Refused(_)));
                }
            }
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<InputCheck, Failure>> {
        let answer = match self.first() {
            Some(_) => Ok(InputCheck { found: vec!["the queue".to_owned()], drawbacks: Vec::new() }),
            None => Err(Failure::new(Class::Transient, Failure::NOT_CONNECTED, "the fake broker is away")),
        };
        std::future::ready(answer).boxed()
    }
}

impl InputRig for FakeInputRig {
    fn input(&self) -> Arc<dyn Input> {
        Arc::new(FakeInput(self.0.clone()))
    }

    async fn publish(&mut self, id: &str, headers: &[(&str, &str)], body: &str) {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let carried = Carried { headers, ..Carried::default() };
        let arrival = Arrival::of(carried, Bytes::copy_from_slice(body.as_bytes()));
        self.0.lock().queue.push_back(Arrival { id: Some(id.to_owned()), ..arrival });
    }

    async fn left(&mut self) -> usize {
        self.0.lock().queue.len()
    }

    async fn refused(&mut self) -> usize {
        self.0.lock().refused
    }

    async fn outage(&mut self) {
        self.0.lock().away = true;
    }

    async fn recover(&mut self) {
        self.0.lock().away = false;
    }
}
