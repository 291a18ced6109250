//! A batch at a sink, and its answers as they come.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::deliver::destinations::DestinationKey;
use crate::deliver::sink_handle::SinkHandle;
use delaybridge_core::clock::Instant;
use delaybridge_sink::{Answered, Answers, Destination, Outbound, Target};

/// The time that confirmed elements of a batch wait for its others before they are written: what a crash delivers twice.
const WAVE: Duration = Duration::from_millis(20);

/// A batch at a sink.
pub struct SinkDelivery {
    handle: Arc<SinkHandle>,
    answers: Answers,
    /// `None` when every element has its answer.
    delivering: Option<BoxFuture<'static, ()>>,
    /// The destination of each element.
    destinations: Vec<Destination>,
    target: Arc<dyn Target>,
    /// The one destination of all of them.
    one: Option<DestinationKey>,
    /// A batch of one.
    alone: bool,
    sent: Instant,
    now_ms: i64,
}

impl SinkDelivery {
    /// Brings every element to the sink, as far as the sink has room. `one`: all of them go to this destination. The breakers see
    /// the answers as well.
    pub fn begin(
        handle: &Arc<SinkHandle>,
        batch: Vec<Outbound>,
        target: Arc<dyn Target>,
        one: Option<DestinationKey>,
    ) -> SinkDelivery {
        let (answers, now_ms) = (Answers::new(batch.len()), batch.first().map_or(0, |message| message.now_ms));
        let alone = batch.len() == 1;
        let destinations = batch.iter().map(|message| message.destination.clone()).collect();
        let (at, into) = (handle.clone(), answers.clone());
        let mut delivering = async move { at.deliver_all(batch, &into).await }.boxed();
        let (handle, sent) = (handle.clone(), Instant::now());
        // Unconstrained: the runtime would let only so many of them get anywhere.
        let is_over = tokio::task::unconstrained(&mut delivering).now_or_never().is_some();
        let delivering = (!is_over).then_some(delivering);
        SinkDelivery { handle, answers, delivering, destinations, target, one, alone, sent, now_ms }
    }

    /// The next answers: all that come within a moment, or all that are left. `None` after the last. Cancel safe.
    pub async fn wave(&mut self) -> Option<Answered> {
        loop {
            match &mut self.delivering {
                // No other waits for it.
                Some(delivering) if self.alone => {
                    delivering.await;
                    self.delivering = None;
                }
                Some(delivering) => {
                    // Order: what is complete need not wait. Both may be left at any time.
                    tokio::select! {
                        biased;
                        () = delivering => self.delivering = None,
                        () = tokio::time::sleep(WAVE) => {}
                    }
                }
                None => {}
            }
            let answered = self.answers.take();
            if !answered.is_empty() {
                self.observe(&answered);
                return Some(answered);
            }
            self.delivering.as_ref()?;
        }
    }

    /// Whether no answer will come any more.
    pub fn is_over(&self) -> bool {
        self.delivering.is_none()
    }

    /// The time at which it was handed over, in Redis ms.
    pub fn sent_ms(&self) -> i64 {
        self.now_ms
    }

    /// The destination of the element at this place.
    pub fn destination(&self, at: usize) -> &Destination {
        &self.destinations[at]
    }

    fn observe(&self, answered: &Answered) {
        let took = self.sent.elapsed();
        let metrics = self.handle.metrics();
        let at_ms = self.now_ms.saturating_add(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
        for _ in &answered.confirmed {
            metrics.answered(&Ok(()), took);
        }
        // Meanwhile some parts of it may fail, and what is confirmed is confirmed for its own part.
        let one = self.one.filter(|_| !self.handle.has_parts(self.destination(0)));
        match (one, answered.confirmed.is_empty()) {
            (_, true) => {}
            (Some(lane), false) => self.handle.confirmed_at(Some(lane), at_ms),
            (None, false) => {
                let lanes = answered.confirmed.iter().map(|at| self.handle.lane(self.destination(*at)));
                let lanes: HashSet<DestinationKey> = lanes.collect();
                lanes.into_iter().for_each(|lane| self.handle.confirmed_at(Some(lane), at_ms));
            }
        }
        // It says something about us, nothing about the sink.
        for (at, failure) in answered.failed.iter().filter(|(_, failure)| !failure.is_stale()) {
            let outcome = Err(failure.clone());
            metrics.answered(&outcome, took);
            self.handle.failed(self.destination(*at), &*self.target, failure);
        }
    }
}
