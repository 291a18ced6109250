//! Verdicts: what each does, and that it does nothing when it is sent again.

use super::*;
use crate::link::Side;

pub(crate) async fn a_confirmed_element_is_gone(mut rig: impl Rig) {
    let store = rig.store(A);
    let element = offer(&mut rig, [1]).await.remove(0);
    let (_, entry) = claim_one(&*store, 1).await;
    for expected in [Answer::Done, Answer::NotMine] {
        assert_eq!(settle_one(&*store, &entry, Move::Confirm).await, expected);
        assert!(rig.places().await.of(&element).is_empty());
    }
}

pub(crate) async fn a_retry_is_due_after_its_delay_by_the_server_s_clock(mut rig: impl Rig) {
    let store = rig.store(A);
    offer(&mut rig, [1]).await;
    let (_, entry) = claim_one(&*store, 1).await;
    let verdict = retry(&entry, ms(2_000));
    rig.advance(ms(300)).await;
    assert_eq!(settle_one(&*store, &entry, verdict.clone()).await, Answer::Done);
    let before = rig.places().await;
    assert_eq!(before.retry.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [rig.now_ms() + 2_000]);
    rig.advance(ms(1_999)).await;
    assert_eq!(settle_one(&*store, &entry, verdict).await, Answer::Already);
    assert_eq!(rig.places().await, before, "sent again, it delays nothing");
    assert!(claim(&*store, &request(2)).await.entries.is_empty());
    rig.advance(ms(1)).await;
    let (from, again) = claim_one(&*store, 3).await;
    assert_eq!((from, &again.element), (ClaimedFrom::Retry, &entry.element));
    assert_eq!((again.header.generation, again.header.attempts), (entry.header.generation + 1, 1));
    assert_eq!(again.header.due_ms(), entry.header.due_ms());
}

pub(crate) async fn a_released_entry_keeps_its_order(mut rig: impl Rig) {
    let store = rig.store(A);
    let start = rig.now_ms();
    let elements: Vec<_> = (0..4).map(|n| element(&rig, n)).collect();
    for (n, element) in (0..).zip(&elements) {
        rig.offer(element, start + 10 - n).await;
    }
    rig.advance(ms(100)).await;
    let claimed = claim(&*store, &request(1)).await.entries;
    for n in [2, 0, 3, 1] {
        let (_, entry) = &claimed[n];
        for expected in [Answer::Done, Answer::Already] {
            assert_eq!(settle_one(&*store, entry, release(entry)).await, expected);
        }
    }
    let places = rig.places().await;
    assert_eq!(places.retry.iter().map(|(at, _)| *at - start).collect::<Vec<_>>(), [7, 8, 9, 10], "their due times");
    let again = claim(&*store, &request(2)).await;
    assert_eq!(taken(&again), claimed.iter().map(|(_, entry)| entry.element.clone()).collect::<Vec<_>>());
    assert!(again.entries.iter().all(|(_, entry)| entry.header.attempts == 0), "{again:?}");
}

pub(crate) async fn progress_is_noted_and_the_lease_runs_on(mut rig: impl Rig) {
    let store = rig.store(A);
    offer(&mut rig, [1]).await;
    let (_, entry) = claim_one(&*store, 1).await;
    let lease_end_ms = rig.now_ms() + 10_000;
    rig.advance(ms(3_000)).await;
    let mut header = entry.header.clone();
    header.confirm(42);
    let noted = entry.under(&header);
    for expected in [Answer::Done, Answer::Already] {
        let step = Move::Progress { header: header.clone() };
        assert_eq!(settle_one(&*store, &entry, step).await, expected);
        assert_eq!(rig.places().await.in_flight, [(lease_end_ms, noted.clone())]);
    }
    assert_eq!(settle_one(&*store, &entry, Move::Confirm).await, Answer::NotMine, "the old member");
    let noted = Entry::decode(noted).expect("an entry");
    assert_eq!(settle_one(&*store, &noted, Move::Confirm).await, Answer::Done);
}

pub(crate) async fn a_dead_element_is_one_letter(mut rig: impl Rig) {
    let store = rig.store(A);
    let element = offer(&mut rig, [1]).await.remove(0);
    let (_, entry) = claim_one(&*store, 1).await;
    for expected in [Answer::Done, Answer::NotMine] {
        assert_eq!(settle_one(&*store, &entry, dead(&entry)).await, expected);
        let places = rig.places().await;
        assert_eq!(places.of(&element), ["dead"]);
        let fields = [("id".to_owned(), Bytes::from_static(b"x")), ("element".to_owned(), element.clone())];
        assert_eq!(places.dead[0].fields, fields);
    }
}

pub(crate) async fn dead_letters_are_trimmed_when_one_is_added(mut rig: impl Rig) {
    let store = rig.store(A);
    let elements = offer(&mut rig, 0..4).await;
    let entries: Vec<_> = claim(&*store, &request(1)).await.entries.into_iter().map(|(_, entry)| entry).collect();
    for entry in &entries[..3] {
        settle_one(&*store, entry, dead(entry)).await;
    }
    let settle = async |entry: &Entry, step| {
        let batch = [(entry.member.clone(), step)];
        store.settle(&batch, None, Some(2)).await.expect("the server settles").trimmed
    };
    assert_eq!(settle(&entries[3], release(&entries[3])).await, 0, "nothing was added");
    let (_, last) = claim_one(&*store, 2).await;
    assert_eq!(settle(&last, dead(&last)).await, 2);
    let places = rig.places().await;
    assert_eq!(
        places.dead.iter().filter_map(|letter| letter.bytes("element")).collect::<Vec<_>>(),
        [&elements[2], &elements[3]]
    );
}

pub(crate) async fn a_push_happens_once(mut rig: impl Rig) {
    let store = rig.store(A);
    let elements = offer(&mut rig, 0..3).await;
    let claimed = claim(&*store, &request(1)).await;
    for ((_, entry), side) in claimed.entries.iter().zip([Side::Right, Side::Right, Side::Left]) {
        let body = store.open(entry).1.expect("a payload");
        for expected in [Answer::Done, Answer::NotMine] {
            let step = Move::Push { side, body: body.clone() };
            assert_eq!(settle_one(&*store, entry, step).await, expected);
        }
    }
    let places = rig.places().await;
    assert_eq!(places.pushed, [&b"payload 2"[..], b"payload 0", b"payload 1"]);
    assert!(elements.iter().all(|element| places.of(element).is_empty()), "{places:?}");
}

pub(crate) async fn a_push_to_what_is_no_list_changes_nothing(mut rig: impl Rig) {
    let store = rig.store(A);
    let elements = offer(&mut rig, 0..2).await;
    let entries: Vec<_> = claim(&*store, &request(1)).await.entries.into_iter().map(|(_, entry)| entry).collect();
    rig.spoil_list().await;
    let push = Move::Push { side: Side::Right, body: Bytes::from_static(b"body") };
    let batch = [(entries[0].member.clone(), push), (entries[1].member.clone(), retry(&entries[1], ms(1)))];
    assert_eq!(settle(&*store, &batch).await, [Answer::WrongType, Answer::Done]);
    let places = rig.places().await;
    assert_eq!((places.of(&elements[0]), places.of(&elements[1])), (vec!["in flight"], vec!["retry"]));
}

pub(crate) async fn each_verdict_of_a_batch_has_its_answer(mut rig: impl Rig) {
    let store = rig.store(A);
    let elements = offer(&mut rig, 0..6).await;
    let entries: Vec<_> = claim(&*store, &request(1)).await.entries.into_iter().map(|(_, entry)| entry).collect();
    assert_eq!(settle_one(&*store, &entries[5], Move::Confirm).await, Answer::Done);
    let mut header = entries[4].header.clone();
    header.confirm(1);
    let steps = [
        Move::Confirm,
        retry(&entries[1], ms(5)),
        release(&entries[2]),
        dead(&entries[3]),
        Move::Progress { header },
        Move::Confirm,
    ];
    let batch: Vec<_> = entries.iter().map(|entry| entry.member.clone()).zip(steps).collect();
    use Answer::{Already, Done, NotMine};
    let first = store.settle(&batch, None, None).await.expect("the server settles");
    assert_eq!((first.now_ms, first.trimmed), (Some(rig.now_ms()), 0));
    assert_eq!(first.answers, [Done, Done, Done, Done, Done, NotMine]);
    let before = rig.places().await;
    assert_eq!(settle(&*store, &batch).await, [NotMine, Already, Already, NotMine, Already, NotMine]);
    assert_eq!(rig.places().await, before);
    let expected: [&[&str]; 6] = [&[], &["retry"], &["retry"], &["dead"], &["in flight"], &[]];
    for (element, expected) in elements.iter().zip(expected) {
        assert_eq!(before.of(element), expected);
    }
}

pub(crate) async fn of_confirmations_alone_the_number_is_right(mut rig: impl Rig) {
    let store = rig.store(A);
    offer(&mut rig, 0..5).await;
    let entries: Vec<_> = claim(&*store, &request(1)).await.entries.into_iter().map(|(_, entry)| entry).collect();
    for entry in &entries[1..3] {
        settle_one(&*store, entry, release(entry)).await;
    }
    let batch: Vec<_> = entries.iter().map(|entry| (entry.member.clone(), Move::Confirm)).collect();
    for expected in [3, 0] {
        let answers = settle(&*store, &batch).await;
        assert_eq!(answers.len(), 5, "an answer for each");
        assert_eq!(answers.iter().filter(|answer| **answer == Answer::Done).count(), expected);
        assert!(answers.iter().all(|answer| matches!(answer, Answer::Done | Answer::NotMine)), "{answers:?}");
    }
    let places = rig.places().await;
    assert_eq!((places.in_flight.len(), places.retry.len()), (0, 2));
    assert!(settle(&*store, &[]).await.is_empty());
}

pub(crate) async fn a_verdict_that_comes_again_after_the_next_claim_does_nothing(mut rig: impl Rig) {
    let store = rig.store(A);
    let element = offer(&mut rig, [1]).await.remove(0);
    let steps: [fn(&Entry) -> Move; 2] = [|entry| retry(entry, ms(0)), release];
    for (number, step) in [(1, steps[0]), (3, steps[1])] {
        let (_, entry) = claim_one(&*store, number).await;
        assert_eq!(settle_one(&*store, &entry, step(&entry)).await, Answer::Done);
        let (_, next) = claim_one(&*store, number + 1).await;
        assert_eq!(settle_one(&*store, &entry, step(&entry)).await, Answer::NotMine);
        assert_eq!(rig.places().await.of(&element), ["in flight"]);
        assert_eq!(settle_one(&*store, &next, release(&next)).await, Answer::Done);
    }
}
