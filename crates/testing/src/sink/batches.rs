//! The clauses about batches: `deliver_all`, as the trait has it or as the kind does it.

use super::*;
use delaybridge_core::clock;
use delaybridge_core::message::Failure;
use delaybridge_sink::{Answered, Answers};

/// The answers to a batch, each element's once.
struct Fates {
    confirmed: Vec<usize>,
    failed: HashMap<usize, Failure>,
}

impl Fates {
    /// Checks that every element is answered, once.
    fn of(answered: Answered, count: usize) -> Fates {
        assert!(answered.panicked.is_empty(), "{answered:?}");
        let mut places = answered.confirmed.clone();
        places.extend(answered.failed.iter().map(|(place, _)| *place));
        places.sort_unstable();
        assert_eq!(places, (0..count).collect::<Vec<_>>());
        Fates { confirmed: answered.confirmed, failed: answered.failed.into_iter().collect() }
    }

    /// Checks what has arrived against the answers: all that was confirmed, nothing that was not sent, nothing twice.
    fn check(&self, bodies: &[Bytes], counts: &HashMap<Vec<u8>, usize>) {
        for (place, body) in bodies.iter().enumerate() {
            let count = counts.get(&body[..]).copied().unwrap_or(0);
            let right = match self.failed.get(&place) {
                None => count == 1,
                Some(failure) if failure.class == Class::Ambiguous => count <= 1,
                Some(_) => count == 0,
            };
            assert!(right, "place {place} arrived {count} times: {:?}", self.failed.get(&place));
        }
    }
}

async fn deliver(sink: &dyn Sink, batch: Vec<Outbound>) -> Fates {
    let count = batch.len();
    let answers = Answers::new(batch.len());
    sink.deliver_all(batch, &answers).await;
    Fates::of(answers.take(), count)
}

fn bodies(batch: &[Outbound]) -> Vec<Bytes> {
    batch.iter().map(|message| message.body.clone()).collect()
}

pub async fn a_batch_has_an_answer_for_each_place(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let mut batch = numbered(&rig, 0..rig.batch());
    batch[50].destination = rig.refusing();
    let bodies = bodies(&batch);
    let fates = deliver(&*sink, batch).await;
    assert_eq!(fates.failed.keys().collect::<Vec<_>>(), [&50], "{:?}", fates.failed);
    let refused = &fates.failed[&50];
    assert!(matches!(refused.class, Class::TargetPermanent | Class::MessagePermanent), "{refused}");
    assert_eq!(fates.confirmed.len(), bodies.len() - 1);
    fates.check(&bodies, &counts(&mut rig).await);
    assert_eq!(deliver(&*sink, Vec::new()).await.confirmed, [0; 0]);
    sink.close().await;
}

pub async fn batches_arrive_in_the_order_in_which_they_began(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let all = rig.batch();
    let half = rig.batch() / 2;
    let batches = [numbered(&rig, 0..half), numbered(&rig, half..half + 1), numbered(&rig, half + 1..all)];
    let mut tasks = Vec::new();
    for batch in batches {
        let sink = sink.clone();
        let answers = Answers::new(batch.len());
        let mut delivery = async move {
            let count = batch.len();
            sink.deliver_all(batch, &answers).await;
            Fates::of(answers.take(), count)
        }
        .boxed();
        // Begun here, ended elsewhere: as the pipeline does it.
        match tokio::task::unconstrained(&mut delivery).now_or_never() {
            Some(fates) => tasks.push(tokio::spawn(async { fates })),
            None => tasks.push(tokio::spawn(delivery)),
        }
    }
    for task in tasks {
        let fates = task.await.expect("no panic");
        assert!(fates.failed.is_empty(), "{:?}", fates.failed);
    }
    let received = rig.received().await;
    let expected: Vec<_> = (0..all).map(|n| format!("body-{n}").into_bytes()).collect();
    assert_eq!(received.len(), expected.len());
    if rig.keeps_order() {
        assert!(received == expected, "not in order");
    }
    sink.close().await;
}

pub async fn an_outage_in_the_middle_of_a_batch_confirms_only_what_arrived(mut rig: impl Rig) {
    let sink = rig.sink(IMPATIENT).await;
    deliver_in_the_end(&*sink, &outbound(1000, rig.destination(), "first")).await;
    let batch = numbered(&rig, 0..rig.batch());
    let bodies = bodies(&batch);
    let outage = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        rig.outage().await;
    };
    let (fates, ()) = tokio::join!(deliver(&*sink, batch), outage);
    for failure in fates.failed.values() {
        assert!(!matches!(failure.class, Class::MessagePermanent | Class::Unknown), "{failure}");
    }
    rig.recover().await;
    deliver_in_the_end(&*sink, &outbound(2000, rig.destination(), "last")).await;
    fates.check(&bodies, &counts(&mut rig).await);
    let again = numbered(&rig, 3000..3000 + rig.batch());
    for place in deliver(&*sink, again.clone()).await.failed.into_keys() {
        deliver_in_the_end(&*sink, &again[place]).await;
    }
    sink.close().await;
}

pub async fn a_batch_at_a_silent_destination_is_answered_in_time(mut rig: impl Rig) {
    let sink = rig.sink(IMPATIENT).await;
    deliver_in_the_end(&*sink, &outbound(1000, rig.destination(), "first")).await;
    rig.stall().await;
    let batch = numbered(&rig, 0..rig.batch());
    let bodies = bodies(&batch);
    let begun = Stopwatch::start();
    let fates = deliver(&*sink, batch).await;
    begun.assert_within(sink.timeout() + Duration::from_secs(5), "an answer of a silent destination");
    assert!(fates.confirmed.is_empty(), "{:?}", fates.confirmed);
    assert!(fates.failed.values().any(|failure| failure.class == Class::Ambiguous), "{:?}", fates.failed);
    rig.resume().await;
    deliver_in_the_end(&*sink, &outbound(2000, rig.destination(), "last")).await;
    fates.check(&bodies, &counts(&mut rig).await);
    sink.close().await;
}

pub async fn stale_elements_of_a_batch_are_not_sent(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let mut batch = numbered(&rig, 0..100);
    for message in batch.iter_mut().step_by(3) {
        message.send_before = clock::Instant::now();
    }
    let bodies = bodies(&batch);
    let fates = deliver(&*sink, batch).await;
    for place in 0..100 {
        let stale = fates.failed.get(&place).is_some_and(Failure::is_stale);
        assert_eq!(stale, place % 3 == 0, "{place}: {:?}", fates.failed.get(&place));
    }
    fates.check(&bodies, &counts(&mut rig).await);
    sink.close().await;
}

pub async fn a_dropped_batch_hurts_no_other(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    deliver_in_the_end(&*sink, &outbound(1000, rig.destination(), "first")).await;
    rig.stall().await;
    let dropped = Answers::new(30);
    let kept = Answers::new(30);
    let mut first = sink.deliver_all(numbered(&rig, 0..30), &dropped);
    let mut second = sink.deliver_all(numbered(&rig, 30..60), &kept);
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    rig.resume().await;
    second.await;
    assert_eq!(Fates::of(kept.take(), 30).confirmed.len(), 30);
    let counts = counts(&mut rig).await;
    for n in 0..60 {
        let count = counts.get(format!("body-{n}").as_bytes()).copied().unwrap_or(0);
        assert!(if n < 30 { count <= 1 } else { count == 1 }, "body-{n} arrived {count} times");
    }
    sink.close().await;
}

pub async fn an_element_for_another_kind_fails_alone(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let Some(foreign) = rig.foreign() else { return };
    let mut batch = numbered(&rig, 0..10);
    batch[4].destination = foreign;
    let bodies = bodies(&batch);
    let fates = deliver(&*sink, batch).await;
    assert_eq!(fates.failed.keys().collect::<Vec<_>>(), [&4], "{:?}", fates.failed);
    assert_eq!(fates.failed[&4].code, "wrong_destination");
    fates.check(&bodies, &counts(&mut rig).await);
    sink.close().await;
}
