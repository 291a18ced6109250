//! The contract of [`Sink`], as tests that every kind passes; the trait describes it.
//!
//! A kind has a [`Rig`]: a destination that it can read, break, stall and repair. `sink_contract_tests!` makes one
//! test of each clause.

mod batches;
mod headers;
pub mod load;
mod runs;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brokers::Stopwatch;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;

pub use self::batches::*;
pub use self::headers::*;
pub use self::runs::*;
use delaybridge_core::message::{Class, MessageId};
use delaybridge_core::template::{ElementInfo, FieldValue, Fields, Filler, Template};
pub use delaybridge_sink::fixtures::{anywhere, outbound};
use delaybridge_sink::{Destination, HeaderRules, Outbound, Sink, Target};

/// The time that a test waits for anything before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time-out of a sink whose destination answers: no busy machine is taken for a failure.
pub const PATIENT: Duration = Duration::from_secs(60);

/// Time-out of a sink whose destination goes away or falls silent: the clause waits for it. A delivery that such a clause needs is
/// tried until it works.
pub const IMPATIENT: Duration = Duration::from_secs(4);

/// A sink with a destination that a test can read, break and repair.
pub trait Rig {
    /// A sink with this time-out, to the rig's destination.
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink>;
    /// A destination that takes everything.
    fn destination(&self) -> Destination;
    /// A destination that refuses every element, while others are taken.
    fn refusing(&self) -> Destination;
    /// Whether the destination gets elements in the order in which they are handed over, and `received` answers so.
    fn keeps_order(&self) -> bool {
        true
    }
    /// The number of elements that it takes in a few moments, on a machine with much else to do: a claim has 500 at most.
    fn batch(&self) -> u64 {
        500
    }
    /// The largest body that it takes, in bytes.
    fn largest(&self) -> usize {
        1 << 20
    }
    /// A destination of another kind, unless the kind takes any.
    fn foreign(&self) -> Option<Destination> {
        Some(anywhere())
    }
    /// The bodies that have arrived since the rig was made; without an order in any order.
    async fn received(&mut self) -> Vec<Vec<u8>>;
    /// The row of the kind in the table of headers.
    fn header_rules(&self) -> &'static HeaderRules;
    /// The messages that have arrived since the rig was made.
    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage>;
    /// The destination goes away; what has arrived still counts.
    async fn outage(&mut self);
    /// Ends the outage.
    async fn recover(&mut self);
    /// The destination falls silent without going away.
    async fn stall(&mut self);
    /// Ends the stall.
    async fn resume(&mut self);
}

/// Fields of a payload, by their path.
struct FakeFields(&'static [(&'static str, &'static str)]);

impl Fields for FakeFields {
    fn value(&self, path: &[String]) -> Option<FieldValue<'_>> {
        let path = path.join(".");
        self.0.iter().find(|(name, _)| *name == path).map(|(_, value)| FieldValue::Text((*value).into()))
    }
}

/// The destination of an element of the queue `orders` with some fields, or the code and the text of the error.
pub fn filled(target: &dyn Target) -> Result<Destination, String> {
    let id = MessageId(*b"RANDOM8B").into();
    let element = ElementInfo { id: &id, queue: "orders", due_ms: Some(1), attempt: 2, topic: None, carried: None };
    let payload = FakeFields(&[("orderId", "A-7"), ("vip", "true"), ("empty", "")]);
    let filled = target.fill(&Filler::new(&element, &payload, None));
    filled.map_err(|error| format!("{} {error}", error.code()))
}

pub fn template(text: &str) -> Template {
    Template::compile(text).unwrap()
}

fn numbered(rig: &impl Rig, range: std::ops::Range<u64>) -> Vec<Outbound> {
    range.map(|n| outbound(n, rig.destination(), format!("body-{n}"))).collect()
}

async fn counts(rig: &mut impl Rig) -> HashMap<Vec<u8>, usize> {
    let mut counts = HashMap::new();
    for body in rig.received().await {
        *counts.entry(body).or_default() += 1;
    }
    counts
}

/// Delivers until it works, as the pipeline does after an outage.
async fn deliver_in_the_end(sink: &dyn Sink, message: &Outbound) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(failure) = sink.deliver(message.clone()).await {
        assert!(Instant::now() < deadline, "still not delivered after {PATIENCE:?}: {failure}");
        assert_ne!(failure.class, Class::MessagePermanent, "an outage is not the message's fault: {failure}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub async fn confirms_what_has_arrived(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    sink.check(&[rig.destination()]).await.expect("the destination is there");
    sink.deliver(outbound(1, rig.destination(), "body")).await.expect("the destination takes it");
    assert_eq!(rig.received().await, [b"body".to_vec()]);
    sink.close().await;
}

pub async fn a_refused_element_is_the_only_one_that_fails(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let mut messages = numbered(&rig, 0..100);
    messages[50].destination = rig.refusing();
    let outcomes = join_all(messages.into_iter().map(|message| sink.deliver(message))).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_err(), n == 50, "{n}: {outcome:?}");
    }
    let refused = outcomes[50].as_ref().unwrap_err();
    assert!(matches!(refused.class, Class::TargetPermanent | Class::MessagePermanent), "{refused}");
    let counts = counts(&mut rig).await;
    assert_eq!((counts.len(), counts.values().sum::<usize>()), (99, 99));
    sink.close().await;
}

pub async fn an_outage_fails_deliveries_and_ends(mut rig: impl Rig) {
    let sink = rig.sink(IMPATIENT).await;
    let messages = numbered(&rig, 0..3);
    deliver_in_the_end(&*sink, &messages[0]).await;
    rig.outage().await;
    let failure = sink.deliver(messages[1].clone()).await.expect_err("the destination is down");
    assert!(!matches!(failure.class, Class::MessagePermanent | Class::Unknown), "{failure}");
    rig.recover().await;
    for message in &messages[1..] {
        deliver_in_the_end(&*sink, message).await;
    }
    let counts = counts(&mut rig).await;
    assert_eq!(counts.len(), 3, "{counts:?}");
    sink.close().await;
}

pub async fn a_silent_destination_is_ambiguous_in_time(mut rig: impl Rig) {
    let sink = rig.sink(IMPATIENT).await;
    let messages = numbered(&rig, 0..2);
    deliver_in_the_end(&*sink, &messages[0]).await;
    rig.stall().await;
    let begun = Stopwatch::start();
    let failure = sink.deliver(messages[1].clone()).await.expect_err("no confirmation comes");
    begun.assert_within(sink.timeout() + Duration::from_secs(5), "an answer of a silent destination");
    assert_eq!(failure.class, Class::Ambiguous, "{failure}");
    rig.resume().await;
    deliver_in_the_end(&*sink, &messages[1]).await;
    sink.close().await;
}

pub async fn a_dropped_delivery_hurts_no_other(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    sink.deliver(outbound(1000, rig.destination(), "first")).await.expect("the destination takes it");
    rig.stall().await;
    let mut deliveries: Vec<_> = numbered(&rig, 0..60).into_iter().map(|message| sink.deliver(message)).collect();
    for delivery in &mut deliveries {
        // Begun, not only made.
        assert!(delivery.now_or_never().is_none());
    }
    let mut kept = Vec::new();
    for (n, delivery) in deliveries.into_iter().enumerate() {
        if n % 2 == 0 {
            kept.push(delivery);
        }
    }
    rig.resume().await;
    for outcome in join_all(kept).await {
        outcome.expect("a neighbour was dropped, not this one");
    }
    let counts = counts(&mut rig).await;
    for n in 0..60 {
        let count = counts.get(format!("body-{n}").as_bytes()).copied().unwrap_or(0);
        assert!(if n % 2 == 0 { count == 1 } else { count <= 1 }, "body-{n} arrived {count} times");
    }
    sink.close().await;
}

pub async fn a_thousand_at_once_arrive_once_each(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let messages = numbered(&rig, 0..1000);
    for outcome in join_all(messages.into_iter().map(|message| sink.deliver(message))).await {
        outcome.expect("the destination takes it");
    }
    let counts = counts(&mut rig).await;
    assert_eq!((counts.len(), counts.values().sum::<usize>()), (1000, 1000));
    sink.close().await;
}

pub async fn bodies_arrive_byte_for_byte(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let all_values: Vec<u8> = (0..=255).collect();
    let big = vec![b'x'; rig.largest()];
    let binary: Vec<u8> = (0_u32..).take(rig.largest()).map(|n| n.wrapping_mul(31).to_be_bytes()[2]).collect();
    let mut bodies = vec![all_values, Vec::new(), b"\r\n$-1\r\n".to_vec(), big, binary];
    for (n, body) in (0..).zip(&bodies) {
        sink.deliver(outbound(n, rig.destination(), body)).await.expect("the destination takes it");
    }
    let mut received = rig.received().await;
    received.sort();
    bodies.sort();
    assert!(received == bodies, "lengths: {:?}", received.iter().map(Vec::len).collect::<Vec<_>>());
    sink.close().await;
}

pub async fn a_closed_sink_takes_nothing_more(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let deliveries = join_all(numbered(&rig, 0..100).into_iter().map(|message| sink.deliver(message)));
    for outcome in deliveries.await {
        outcome.expect("the destination takes it");
    }
    sink.close().await;
    assert_eq!(rig.received().await.len(), 100, "what was confirmed is there");
}

/// One test of each clause of the contract, on rigs made by the expression.
#[macro_export]
macro_rules! sink_contract_tests {
    ($rig:expr) => {
        $crate::sink_contract_tests! { $rig,
            confirms_what_has_arrived,
            a_refused_element_is_the_only_one_that_fails,
            an_outage_fails_deliveries_and_ends,
            a_silent_destination_is_ambiguous_in_time,
            a_dropped_delivery_hurts_no_other,
            a_thousand_at_once_arrive_once_each,
            bodies_arrive_byte_for_byte,
            a_closed_sink_takes_nothing_more,
            a_batch_has_an_answer_for_each_place,
            batches_arrive_in_the_order_in_which_they_began,
            an_outage_in_the_middle_of_a_batch_confirms_only_what_arrived,
            a_batch_at_a_silent_destination_is_answered_in_time,
            stale_elements_of_a_batch_are_not_sent,
            a_dropped_batch_hurts_no_other,
            an_element_for_another_kind_fails_alone,
            headers_pass_as_the_table_says,
        }
    };
    ($rig:expr, $($clause:ident,)*) => {
        $(
            #[tokio::test]
            async fn $clause() {
                $crate::sink::$clause($rig).await;
            }
        )*
    };
}
