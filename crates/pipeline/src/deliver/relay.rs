//! The way of a claim whose elements go each by itself: decode, route, deliver to every sink that has not confirmed it, judge,
//! settle.
//!
//! ```text
//! outcome = decode -> route -> deliver        verdict = judge(round)        element.settle(verdict)
//! ```

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::claim::batch::ClaimBatch;
use crate::claim::claimed::ClaimedElement;
use crate::deliver::conclude;
use crate::deliver::result::NoDelivery;
use crate::deliver::round::round;

/// The time that confirmed elements of a claim wait for its others before they are written.
const FLUSH: Duration = Duration::from_millis(20);

/// Begins to deliver a batch, in its order, and returns what brings it to its verdicts.
///
/// Every element is at its sink's door when this returns, as far as the door is open and there is room: two batches, each in
/// a task of its own, could overtake each other on the way there, and elements of one Kafka partition would change places.
pub fn begin(batch: &mut ClaimBatch) -> BoxFuture<'static, ()> {
    let (claim, settler) = (batch.claim().clone(), batch.settler().clone());
    let mut outstanding = FuturesUnordered::new();
    for held in batch {
        let mut relay = Box::pin(relay(held));
        // Unconstrained, because the runtime would let only so many of them get anywhere, and those behind would wait for
        // the task that is spawned later. One by one, because `FuturesUnordered` pauses after two that are ready.
        if tokio::task::unconstrained(&mut relay).now_or_never().is_none() {
            outstanding.push(relay);
        }
    }
    let finish = async move {
        let mut tick = tokio::time::interval(FLUSH);
        loop {
            // Order: answers first. Both may be left at any time.
            tokio::select! {
                biased;
                answered = outstanding.next() => if answered.is_none() { break },
                _ = tick.tick() => settler.flush(&claim),
            }
        }
        settler.flush(&claim);
    };
    finish.boxed()
}

async fn relay(mut held: ClaimedElement) {
    match round(&mut held).await {
        Err(NoDelivery::Stale) => held.drop_stale(),
        Err(NoDelivery::Decided(verdict)) => conclude::without_sinks(held, verdict),
        Ok(found) => conclude::by_answers(held, found),
    }
}
