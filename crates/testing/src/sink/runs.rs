//! The clauses about runs: `deliver_run` of the kinds that keep the order of elements that are sent together.

use super::*;
use delaybridge_core::clock;
use delaybridge_core::message::Failure;
use delaybridge_sink::{Answers, Outbound};

/// Sends a run. Returns the elements without a confirmation, in their order, each with its failure.
async fn send(sink: &dyn Sink, run: Vec<Outbound>) -> Vec<(Outbound, Failure)> {
    let answers = Answers::new(run.len());
    sink.runs().expect("a sink of runs").deliver_run(run.clone(), &answers).await;
    assert!(answers.is_complete(), "without an answer: {:?}", answers.open());
    let mut answered = answers.take();
    assert!(answered.panicked.is_empty(), "{answered:?}");
    answered.failed.sort_by_key(|(place, _)| *place);
    answered.failed.into_iter().map(|(place, failure)| (run[place].clone(), failure)).collect()
}

/// Sends what is not confirmed again, the first of it by itself, as the pipeline does, until all is.
async fn send_all(sink: &dyn Sink, mut left: Vec<Outbound>) {
    let started = Instant::now();
    while !left.is_empty() {
        assert!(started.elapsed() < PATIENCE, "{} are not confirmed", left.len());
        let failed = match sink.deliver(left[0].clone()).await {
            Ok(()) => send(sink, left.split_off(1)).await,
            Err(failure) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                left.iter().map(|message| (message.clone(), failure.clone())).collect()
            }
        };
        left = failed.into_iter().map(|(message, _)| message).collect();
    }
}

fn unconfirmed(failed: Vec<(Outbound, Failure)>) -> Vec<Outbound> {
    failed.into_iter().map(|(message, _)| message).collect()
}

/// Checks that all elements have arrived, first in their order.
async fn check_order(rig: &mut impl Rig, count: u64) {
    let mut first: Vec<Vec<u8>> = Vec::new();
    for body in rig.received().await {
        if body.starts_with(b"body-") && !first.contains(&body) {
            first.push(body);
        }
    }
    let expected: Vec<_> = (0..count).map(|n| format!("body-{n}").into_bytes()).collect();
    assert!(first == expected, "{} arrived: {:?}", first.len(), first.iter().zip(&expected).find(|(a, b)| a != b));
}

pub async fn a_run_arrives_in_its_order(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let count = rig.batch();
    let run = numbered(&rig, 0..rig.batch());
    let line = sink.runs().and_then(|runs| runs.line(&rig.destination()));
    assert!(line.is_some(), "no line for the rig's destination");
    let failed = send(&*sink, run).await;
    assert!(failed.is_empty(), "{failed:?}");
    check_order(&mut rig, count).await;
    assert!(send(&*sink, Vec::new()).await.is_empty());
    sink.close().await;
}

pub async fn a_stale_element_stops_its_run(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let mut run = numbered(&rig, 0..100);
    run[50].send_before = clock::Instant::now();
    let mut failed = send(&*sink, run).await;
    assert!(failed.iter().any(|(message, failure)| message.body == "body-50" && failure.is_stale()), "{failed:?}");
    let arrived = counts(&mut rig).await.len();
    assert!(arrived <= 50, "{arrived} have arrived");
    assert!(failed.len() >= 50, "{} have failed", failed.len());
    let fresh = numbered(&rig, 0..1)[0].send_before;
    failed.iter_mut().for_each(|(message, _)| message.send_before = fresh);
    send_all(&*sink, unconfirmed(failed)).await;
    check_order(&mut rig, 100).await;
    sink.close().await;
}

pub async fn an_outage_in_a_run_leaves_no_gap(mut rig: impl Rig) {
    let sink = rig.sink(IMPATIENT).await;
    deliver_in_the_end(&*sink, &outbound(10_000, rig.destination(), "first")).await;
    let count = rig.batch();
    let run = numbered(&rig, 0..rig.batch());
    let outage = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        rig.outage().await;
    };
    let (failed, ()) = tokio::join!(send(&*sink, run), outage);
    for (_, failure) in &failed {
        assert!(!matches!(failure.class, Class::MessagePermanent | Class::Unknown), "{failure}");
    }
    rig.recover().await;
    send_all(&*sink, unconfirmed(failed)).await;
    check_order(&mut rig, count).await;
    sink.close().await;
}

pub async fn a_run_at_a_silent_destination_is_answered_in_time_and_arrives_in_its_order(mut rig: impl Rig) {
    let sink = rig.sink(IMPATIENT).await;
    deliver_in_the_end(&*sink, &outbound(10_000, rig.destination(), "first")).await;
    // Runs may have a connection of their own.
    send_all(&*sink, vec![outbound(10_001, rig.destination(), "second"), outbound(10_002, rig.destination(), "third")])
        .await;
    rig.stall().await;
    let count = rig.batch();
    let run = numbered(&rig, 0..rig.batch());
    let begun = Stopwatch::start();
    let failed = send(&*sink, run).await;
    begun.assert_within(sink.timeout() + Duration::from_secs(5), "an answer of a silent destination");
    assert_eq!(failed.len() as u64, count, "some were confirmed");
    assert_eq!(failed[0].1.class, Class::Ambiguous, "{}", failed[0].1);
    // What is on its way arrives now, beside what is sent again.
    rig.resume().await;
    send_all(&*sink, unconfirmed(failed)).await;
    check_order(&mut rig, count).await;
    sink.close().await;
}

pub async fn a_dropped_run_leaves_no_gap(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    deliver_in_the_end(&*sink, &outbound(10_000, rig.destination(), "first")).await;
    rig.stall().await;
    let count = rig.batch();
    let run = numbered(&rig, 0..rig.batch());
    let unheard = Answers::new(rig.batch() as usize);
    let mut dropped = sink.runs().expect("a sink of runs").deliver_run(run.clone(), &unheard);
    assert!((&mut dropped).now_or_never().is_none());
    drop(dropped);
    rig.resume().await;
    send_all(&*sink, run).await;
    check_order(&mut rig, count).await;
    sink.close().await;
}

/// Makes one test of each clause about runs, in the place where it is called.
#[macro_export]
macro_rules! sink_run_contract_tests {
    ($rig:expr) => {
        $crate::sink_contract_tests! { $rig,
            a_run_arrives_in_its_order,
            a_stale_element_stops_its_run,
            an_outage_in_a_run_leaves_no_gap,
            a_run_at_a_silent_destination_is_answered_in_time_and_arrives_in_its_order,
            a_dropped_run_leaves_no_gap,
        }
    };
}
