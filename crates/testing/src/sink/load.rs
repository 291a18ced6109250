//! Elements that are delivered while their destination is in trouble.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::outbound;
use delaybridge_core::message::Class;
use delaybridge_sink::{Destination, Sink};

/// Time that an element may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(180);

/// Delivers elements for as long as `trouble` takes and some more, each until it is confirmed; the body is the element's
/// number. Returns how many they were, and how many answers left an element in doubt.
pub async fn deliver_during(
    sink: Arc<dyn Sink>,
    destination: Destination,
    trouble: impl Future<Output = ()>,
) -> (u64, u64) {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let load = tokio::spawn(async move {
        let mut tasks = JoinSet::new();
        let mut sent = 0_u64;
        let mut doubts = 0;
        while !*stopped.borrow() || sent < 500 {
            for _ in 0..10 {
                let message = outbound(sent, destination.clone(), sent.to_string());
                tasks.spawn(deliver_at_last(sink.clone(), message));
                sent += 1;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        while let Some(done) = tasks.join_next().await {
            doubts += done.expect("a delivery does not panic");
        }
        (sent, doubts)
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    trouble.await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.send(true).expect("the load runs");
    load.await.expect("the load does not panic")
}

/// Delivers an element until it is confirmed. Returns how many answers left it in doubt.
async fn deliver_at_last(sink: Arc<dyn Sink>, message: delaybridge_sink::Outbound) -> u64 {
    let begun = Instant::now();
    let mut doubts = 0;
    while let Err(failure) = sink.deliver(message.clone()).await {
        assert!(begun.elapsed() < PATIENCE, "still not delivered: {failure}");
        let wrong = matches!(failure.class, Class::MessagePermanent | Class::Unknown | Class::TargetPermanent);
        assert!(!wrong, "an outage is no such thing: {failure}");
        doubts += u64::from(failure.class == Class::Ambiguous);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    doubts
}
