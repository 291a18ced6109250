//! Runs against a real Kafka: records that a broker refuses, and keys of several partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::rig::{PATIENCE, Shared, records, records_of, unique};
use super::{spec, topic};
use crate::{KafkaDestination, KafkaSink, KafkaSpec};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::{Answers, Destination, Outbound, RunSink, Sink};
use delaybridge_testing::sink::outbound;

/// The runs of a sink, when it knows the partitions.
async fn runs<'a>(sink: &'a KafkaSink, destination: &Destination) -> &'a dyn RunSink {
    let runs = sink.runs().expect("a sink of runs");
    let begun = Instant::now();
    while runs.line(destination).is_none() {
        assert!(begun.elapsed() < PATIENCE, "the partitions are not known");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    runs
}

/// Sends a run. Returns its failures by their places, in their order.
async fn send(runs: &dyn RunSink, run: Vec<Outbound>) -> Vec<(usize, Failure)> {
    let answers = Answers::new(run.len());
    runs.deliver_run(run, &answers).await;
    assert!(answers.is_complete(), "without an answer: {:?}", answers.open());
    let mut failed = answers.take().failed;
    failed.sort_by_key(|(place, _)| *place);
    failed
}

#[tokio::test(flavor = "multi_thread")]
async fn the_producer_of_runs_is_begun_when_they_are_announced() {
    let kafka = Shared::get();
    let sink = KafkaSink::new(Arc::new(spec(&kafka.bootstrap())), Duration::from_secs(30));
    assert!(sink.runs.is_empty());
    sink.runs().expect("a sink of runs").prepare();
    assert!(sink.runs.is_making());
    let producer = sink.runs.get().await.expect("a producer");
    sink.runs().expect("a sink of runs").prepare();
    assert!(Arc::ptr_eq(&producer, &sink.runs.ready().expect("the same")));
    sink.close().await;
}

/// A broker refuses a batch for one of its records: the ones before it arrive, and nothing behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_refused_ends_its_run_and_no_other_record_suffers() {
    let kafka = Shared::get();
    // A broker that knows nothing of a producer takes any record of it, so the first one is a case of its own.
    for (a_batch, at) in [("1", 20), ("7", 20), ("10000", 20), ("1", 0), ("7", 1)] {
        let name = unique("t");
        kafka.create_topic(&name, 1, &[("max.message.bytes", "10000")]).expect("the topic is created");
        let properties = vec![("batch.num.messages".to_owned(), a_batch.to_owned())];
        let spec = KafkaSpec { properties, linger: Duration::from_millis(20), ..spec(&kafka.bootstrap()) };
        let sink = KafkaSink::new(Arc::new(spec), Duration::from_secs(30));
        sink.deliver(outbound(0, topic(&name), "n-0")).await.expect("the first record");
        let runs = runs(&sink, &topic(&name)).await;
        let mut run: Vec<_> = (1..=40).map(|n| outbound(n, topic(&name), format!("n-{n}"))).collect();
        run[at].body = Bytes::from(vec![b'x'; 20_000]);
        let failed = send(runs, run.clone()).await;
        assert!(sink.runs.is_empty(), "{a_batch}: the producer of the run is over, and is kept");
        assert_eq!(
            failed.iter().map(|(place, _)| *place).collect::<Vec<_>>(),
            (at..40).collect::<Vec<_>>(),
            "{a_batch}"
        );
        assert_eq!(failed[0].1.class, Class::MessagePermanent, "{a_batch}: {}", failed[0].1);
        for (_, failure) in &failed[1..] {
            assert_eq!(failure.code, Failure::BEHIND.as_str(), "{a_batch}: {failure}");
        }
        let arrived = |count: usize| {
            let all = records(&kafka, &name).into_iter();
            let values: Vec<_> = all.map(|record| String::from_utf8(record.value.expect("a value")).unwrap()).collect();
            let expected: Vec<_> = (0..=40).filter(|n| *n != at + 1).take(count).map(|n| format!("n-{n}")).collect();
            assert_eq!(values, expected, "batches of {a_batch}");
        };
        arrived(at + 1);
        let failed = send(runs, run.split_off(at + 1)).await;
        assert!(failed.is_empty(), "{a_batch}: {failed:?}");
        arrived(40);
        sink.close().await;
    }
}

/// The client does not take a record that is larger than it may be: the run ends before it, and the producer goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_the_client_refuses_ends_its_run_also_as_the_first_of_it() {
    let kafka = Shared::get();
    for at in [0, 1, 5] {
        let name = unique("t");
        kafka.create_topic(&name, 1, &[]).expect("the topic is created");
        let spec = KafkaSpec { max_message_size: 10_000, ..spec(&kafka.bootstrap()) };
        let sink = KafkaSink::new(Arc::new(spec), Duration::from_secs(30));
        sink.deliver(outbound(0, topic(&name), "n-0")).await.expect("the first record");
        let runs = runs(&sink, &topic(&name)).await;
        let mut run: Vec<_> = (1..=8).map(|n| outbound(n, topic(&name), format!("n-{n}"))).collect();
        run[at].body = Bytes::from(vec![b'x'; 20_000]);
        let failed = send(runs, run.clone()).await;
        assert_eq!(failed.iter().map(|(place, _)| *place).collect::<Vec<_>>(), (at..8).collect::<Vec<_>>(), "{at}");
        let class = failed[0].1.class;
        let code = failed[0].1.code;
        assert_eq!((class, code), (Class::MessagePermanent, "MESSAGE_TOO_LARGE"), "{at}: {}", failed[0].1);
        for (_, failure) in &failed[1..] {
            assert_eq!(failure.code, Failure::BEHIND.as_str(), "{at}: {failure}");
        }
        assert!(!sink.runs.is_empty(), "{at}: nothing of the producer is in doubt");
        let failed = send(runs, run.split_off(at + 1)).await;
        assert!(failed.is_empty(), "{at}: {failed:?}");
        let values = records(&kafka, &name).into_iter().map(|record| String::from_utf8(record.value.expect("a value")));
        let expected = (0..=8).filter(|n| *n != at + 1).map(|n| format!("n-{n}"));
        assert!(values.map(Result::unwrap).eq(expected), "{at}: in their order, once");
        sink.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_several_partitions_share_a_run_each_in_its_order() {
    let kafka = Shared::get();
    let name = unique("t");
    kafka.create_topic(&name, 3, &[]).expect("the topic is created");
    let sink = KafkaSink::new(Arc::new(spec(&kafka.bootstrap())), Duration::from_secs(30));
    let to = |n: u64| -> Destination {
        KafkaDestination { topic: name.as_str().into(), key: Some(format!("k{}", n % 20)) }.into()
    };
    sink.deliver(outbound(0, to(0), "first")).await.expect("the first record");
    let runs = runs(&sink, &to(0)).await;
    assert_eq!(runs.line(&topic(&name)), None, "without a key it may go to any partition");
    let few = runs.line(&to(3));
    let many = (0..20).map(|n| runs.line(&to(n))).collect::<BTreeSet<_>>();
    assert!(few.is_some() && many.len() == 3, "{many:?}");
    let failed = send(runs, (0..2_000).map(|n| outbound(n, to(n), n.to_string())).collect()).await;
    assert!(failed.is_empty(), "{failed:?}");
    let mut last = BTreeMap::new();
    for record in (0..3).flat_map(|partition| records_of(&kafka, &name, partition)) {
        let key = record.key.expect("a key");
        let value = String::from_utf8(record.value.expect("a value")).unwrap();
        let Ok(number) = value.parse::<u64>() else { continue };
        assert!(last.insert(key.clone(), number).is_none_or(|before| before < number), "{key:?}: {number}");
    }
    assert_eq!(last.values().sum::<u64>(), (1_980..2_000).sum::<u64>(), "the last of each key");
    sink.close().await;
}

/// Runs share a producer, which ends with the refusal of a record: the other runs are only sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_record_costs_another_run_no_attempt() {
    let kafka = Shared::get();
    let good = unique("t");
    let bad = unique("t");
    kafka.create_topic(&good, 1, &[]).expect("the topic is created");
    kafka.create_topic(&bad, 1, &[("max.message.bytes", "10000")]).expect("the topic is created");
    let properties = vec![("batch.num.messages".to_owned(), "10".to_owned())];
    let spec = KafkaSpec { properties, ..spec(&kafka.bootstrap()) };
    let sink = KafkaSink::new(Arc::new(spec), Duration::from_secs(30));
    for name in [&good, &bad] {
        sink.deliver(outbound(0, topic(name), "first")).await.expect("the first record");
        runs(&sink, &topic(name)).await;
    }
    let runs = runs(&sink, &topic(&good)).await;
    let mut left: Vec<_> = (0..300).map(|n| outbound(n, topic(&good), n.to_string())).collect();
    let mut interrupted = 0;
    while !left.is_empty() {
        let mut refused = outbound(0, topic(&bad), "too large");
        refused.body = Bytes::from(vec![b'x'; 20_000]);
        let (failed, of_bad) = tokio::join!(send(runs, left.clone()), send(runs, vec![refused]));
        assert!(of_bad.iter().all(|(_, failure)| failure.class == Class::MessagePermanent), "{of_bad:?}");
        for (_, failure) in &failed {
            assert_eq!(failure.code, Failure::BEHIND.as_str(), "{failure}");
        }
        interrupted += usize::from(!failed.is_empty());
        left = left.split_off(left.len() - failed.len());
    }
    let values = records(&kafka, &good)
        .into_iter()
        .filter_map(|record| String::from_utf8(record.value?).ok()?.parse::<u64>().ok());
    assert!(values.eq(0..300), "in their order, once");
    println!("interrupted {interrupted} times");
    sink.close().await;
}
