//! The audit trail: nothing leaves without its record.

use serde_json::Value;

use super::*;
use delaybridge_core::condition::Condition;
use delaybridge_model::{AuditFate, AuditSpec, Ordered};
use delaybridge_testing::memory::{Fault, Op};

const RECORDS: &str = "delaybridge_audit_records_total{fate=\"delivered\",queue=\"q\"}";

/// A queue to the first of these sinks whose records go to the last.
fn audited(sinks: &[(&str, Arc<FakeSink>)], on: &[AuditFate]) -> QueueSpec {
    let (trail, to) = sinks.split_last().expect("a trail");
    let audit = AuditSpec { route: route(trail.0), on: on.into() };
    QueueSpec { audit: Some(Box::new(audit)), codec: Codec::String.into(), ..spec(to) }
}

const ALL: &[AuditFate] = &[AuditFate::Delivered, AuditFate::Skipped, AuditFate::Dead, AuditFate::Expired];

/// The records that the trail has taken, each as the id's number, the fate, and all of it.
fn records(trail: &FakeSink) -> Vec<(u64, String, Value)> {
    let read = |message: &Outbound| {
        let record: Value = serde_json::from_slice(&message.body).expect("a record is JSON");
        assert_eq!(record["id"], message.id.to_string());
        (number(message), record["fate"].as_str().expect("a fate").to_owned(), record)
    };
    trail.taken().iter().map(read).collect()
}

/// The fates of these elements by the trail, each once.
fn fates(trail: &FakeSink) -> Vec<(u64, String)> {
    let mut all: Vec<_> = records(trail).into_iter().map(|(n, fate, _)| (n, fate)).collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn each_fate_is_recorded_once_and_without_the_payload() {
    let (world, sink, trail) = (World::new(), sink(), sink());
    sink.on_id(id(3), [Step::Fail(failure(Class::MessagePermanent, "too_large"))]);
    sink.on_id(id(4), [Step::Fail(failure(Class::Unknown, "odd"))]);
    let sinks = [("s", sink.clone()), ("trail", trail.clone())];
    let mut spec = audited(&sinks, ALL);
    let condition = Condition::compile("not payload == 'payload 2'").expect("a condition");
    spec.to[0].rules = RouteRules::of(Some(condition), Duplicates::Allow, None);
    let bridge = world.bridge_with(1, &sinks, spec);
    bridge.offer(1..5);
    world.until_empty().await;
    let expected = [(1, "delivered"), (2, "skipped"), (3, "dead"), (4, "delivered")];
    assert_eq!(fates(&trail), expected.map(|(n, fate)| (n, fate.to_owned())));
    assert_eq!((arrived(&sink), world.store.dead().len()), (vec![1, 4], 2));
    let all = records(&trail);
    let of = |n: u64| all.iter().find(|(other, ..)| *other == n).map(|(.., record)| record).expect("a record");
    assert_eq!((&of(4)["attempt"], &of(4)["counted_attempts"]), (&2.into(), &1.into()));
    assert_eq!(of(4)["confirmed"][0]["sink"], "s");
    assert_eq!(
        (&of(3)["reason"], &of(3)["code"], &of(3)["failed"]["sink"]),
        (&"message_permanent".into(), &"too_large".into(), &"s".into())
    );
    assert_eq!((&of(2)["reason"], &of(2)["confirmed"]), (&"skipped".into(), &Value::Array(Vec::new())));
    assert!(all.iter().all(|(.., record)| !record.to_string().contains("payload ")), "{all:?}");
    bridge.metric_is(RECORDS, 2.0).await;
    bridge.metric_is(DELIVERED, 2.0).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_late_is_recorded_as_expired() {
    let (world, sink, trail) = (World::new(), sink(), sink());
    let sinks = [("s", sink.clone()), ("trail", trail.clone())];
    let expiry = QueueSpec {
        max_lateness: Some(SECOND),
        on_expired: OnExpired::DeadLetter,
        ..audited(&sinks, &[AuditFate::Expired])
    };
    world.offer(0..3);
    tokio::time::sleep(MINUTE).await;
    world.offer(3..5);
    let _bridge = world.bridge_with(1, &sinks, expiry);
    world.until_empty().await;
    assert_eq!(fates(&trail), (0..3).map(|n| (n, "expired".to_owned())).collect::<Vec<_>>());
    assert_eq!((arrived(&sink), world.store.dead().len()), (vec![3, 4], 3));
}

/// Nothing leaves while the trail is down, and no sink gets an element again for it; nor does an element expire that was delivered.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_trail_keeps_elements_and_delivers_none_twice() {
    for trouble in [Class::Transient, Class::Backpressure, Class::TargetPermanent, Class::MessagePermanent] {
        let (world, sink, trail) = (World::new(), sink(), sink());
        trail.outage(Some(failure(trouble, "down")));
        let sinks = [("s", sink.clone()), ("trail", trail.clone())];
        let spec =
            QueueSpec { max_lateness: Some(10 * MINUTE), on_expired: OnExpired::DeadLetter, ..audited(&sinks, ALL) };
        let bridge = world.bridge_with(1, &sinks, spec.clone());
        bridge.offer(0..5);
        eventually("all to be delivered", || sink.taken().len() == 5).await;
        tokio::time::sleep(9 * MINUTE).await;
        assert!(!world.store.is_empty(), "{trouble:?}");
        // What is offered now waits, but for single ones that try the trail.
        let asked = sink.taken().len();
        bridge.offer(10..100);
        tokio::time::sleep(2 * MINUTE).await;
        assert!(sink.taken().len() < asked + 20, "{trouble:?}: {} more", sink.taken().len() - asked);
        // Another process goes on with it. The first elements are later than allowed, and were delivered in time.
        drop(bridge);
        trail.outage(None);
        let second = world.bridge_with(2, &sinks, spec);
        world.until_empty().await;
        let all: Vec<u64> = (0..5).chain(10..100).collect();
        assert_eq!(fates(&trail), all.iter().map(|n| (*n, "delivered".to_owned())).collect::<Vec<_>>(), "{trouble:?}");
        assert_eq!((arrived(&sink), world.store.dead().len()), (all, 0), "{trouble:?}");
        assert!(second.metric(DELIVERED) > 0.0);
    }
}

/// A process that dies at any time leaves no element without a record, and delivers none again that is noted.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_time_loses_no_record() {
    for after_ms in (0..4_000).step_by(100) {
        let (world, sink, trail) = (World::new(), sink(), sink());
        sink.otherwise(|_| Step::ConfirmAfter(SECOND / 2));
        sink.on_id(id(2), [Step::Fail(failure(Class::MessagePermanent, "too_large"))]);
        trail.otherwise(|_| Step::ConfirmAfter(2 * SECOND));
        let sinks = [("s", sink.clone()), ("trail", trail.clone())];
        world.offer(0..4);
        let first = world.bridge_with(1, &sinks, audited(&sinks, ALL));
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        drop(first);
        let gone = 4 - world.store.in_flight().len() - world.store.waiting().len();
        let recorded = records(&trail).len();
        assert!(gone <= recorded || after_ms < 100, "{gone} left with {recorded} records after {after_ms} ms");
        sink.on_id(id(2), [Step::Fail(failure(Class::MessagePermanent, "too_large"))]);
        let _second = world.bridge_with(2, &sinks, audited(&sinks, ALL));
        world.until_empty().await;
        let mut found = fates(&trail);
        found.dedup();
        let expected = [(0, "delivered"), (1, "delivered"), (2, "dead"), (3, "delivered")];
        assert_eq!(found, expected.map(|(n, fate)| (n, fate.to_owned())), "after {after_ms} ms");
        assert_eq!(world.store.dead().len(), 1, "after {after_ms} ms");
        // From a second after the confirmation on, the entry says that the sink has it.
        let most = if (1_600..2_400).contains(&after_ms) { 1 } else { 2 };
        assert!(
            times(&sink, [0, 1, 3]).iter().all(|times| *times <= most),
            "after {after_ms} ms: {:?}",
            times(&sink, 0..4)
        );
    }
}

/// The leases run out while records wait at the trail. What was delivered is not forgotten as unsent: it comes back as what it is,
/// or as a repetition that is announced.
#[tokio::test(start_paused = true)]
async fn what_waits_for_its_record_beyond_its_lease_is_not_forgotten() {
    for takes_over in [false, true] {
        let (world, sink, trail) = (World::new(), sink(), sink());
        let sinks = [("s", sink.clone()), ("trail", trail.clone())];
        (0..40).for_each(|n| trail.on_id(id(n), [Step::Fail(Failure::stale())]));
        let first = world.bridge_with(1, &sinks, audited(&sinks, ALL));
        first.offer(0..40);
        eventually("all to be delivered", || sink.taken().len() == 40).await;
        let second = takes_over.then(|| world.bridge_with(2, &sinks, audited(&sinks, ALL)));
        tokio::time::sleep(2 * LEASE).await;
        world.until_empty().await;
        let mut seen = std::collections::HashSet::new();
        for message in sink.taken() {
            let n = number(&message);
            assert!(seen.insert(n) || message.attempt > 1, "{n} comes twice, and says that it is new ({takes_over})");
        }
        assert_eq!(seen.len(), 40);
        let mut recorded = fates(&trail);
        recorded.dedup();
        assert_eq!(recorded.len(), 40);
        drop((first, second));
    }
}

/// The answer of the script that ends the elements is lost, and it has run.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_the_verdict_makes_no_second_record() {
    let (world, sink, trail) = (World::new(), sink(), sink());
    let sinks = [("s", sink.clone()), ("trail", trail.clone())];
    world.server.fail(Op::Settle, [Fault::ReplyLost, Fault::ReplyLost]);
    world.server.fail(Op::Confirm, [Fault::ReplyLost, Fault::ReplyLost]);
    let bridge = world.bridge_with(1, &sinks, audited(&sinks, ALL));
    bridge.offer(0..5);
    world.until_empty().await;
    assert_eq!(fates(&trail).len(), 5);
    bridge.metric_is(DELIVERED, 5.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_records_and_what_it_gives_up_is_not_delivered_again() {
    let (world, sink, trail) = (World::new(), sink(), sink());
    trail.stall(true);
    let sinks = [("s", sink.clone()), ("trail", trail.clone())];
    let bridge = world.bridge_with(1, &sinks, audited(&sinks, ALL));
    bridge.offer(0..3);
    eventually("all to be delivered", || sink.taken().len() == 3).await;
    assert!(bridge.stop(10 * SECOND).await, "everything is settled or released");
    assert_eq!(world.store.waiting().len() + world.store.in_flight().len(), 3);
    trail.stall(false);
    let _second = world.bridge_with(2, &sinks, audited(&sinks, ALL));
    world.until_empty().await;
    assert_eq!((times(&sink, 0..3), world.store.dead().len()), (vec![1; 3], 0));
}

#[tokio::test(start_paused = true)]
async fn in_order_the_next_element_waits_for_the_record() {
    let (world, sink, trail) = (World::new(), sink(), sink());
    world.server.in_order("q");
    trail.on_id(id(2), [Step::Fail(failure(Class::Transient, "again")), Step::Panic]);
    let sinks = [("s", sink.clone()), ("trail", trail.clone())];
    let order = Some(Box::new(Ordered::Queue));
    for n in 0..6 {
        world.offer_in(Duration::from_millis(n), n..n + 1);
    }
    let _bridge = world.bridge_with(1, &sinks, QueueSpec { order, ..audited(&sinks, ALL) });
    world.until_empty().await;
    let taken = |sink: &FakeSink| sink.taken().iter().map(number).collect::<Vec<_>>();
    assert_eq!((taken(&sink), taken(&trail)), ((0..6).collect(), (0..6).collect()));
    assert_eq!(times(&sink, [2]), [1]);
}
