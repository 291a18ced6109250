//! Verdicts on single elements: what each does, and that it does nothing when it is sent again.

use super::*;

pub async fn an_element_is_always_in_exactly_one_place(mut rig: impl Rig) {
    let element = offer(&mut rig, [1]).await.remove(0);
    assert_eq!(rig.places().await.of(&element), ["scheduled"]);
    let mine = take_one(&rig, A, 1).await;
    assert_eq!(rig.places().await.of(&element), ["claimed"]);
    settle_one(&rig, &mine, mine.retry(ms(5))).await;
    assert_eq!(rig.places().await.of(&element), ["waiting"]);
    rig.advance(ms(5)).await;
    let mine = take_one(&rig, A, 2).await;
    assert_eq!((mine.element.attempts(), mine.element.score_ms), (1, rig.now_ms()), "due at this attempt");
    assert_eq!(rig.places().await.of(&element), ["claimed"]);
    settle_one(&rig, &mine, mine.progress(7)).await;
    assert_eq!(rig.places().await.of(&element), ["claimed"]);
    rig.advance(LEASE).await;
    let mine = take_over(&rig, &takeover(name(A, 2), B, 1)).await.0.remove(0);
    assert_eq!(mine.element.header().confirmed, [7]);
    assert_eq!(rig.places().await.of(&element), ["claimed"]);
    settle_one(&rig, &mine, mine.release()).await;
    assert_eq!(rig.places().await.of(&element), ["waiting"]);
    let mine = take_one(&rig, A, 3).await;
    for expected in [Answer::Done, Answer::NotMine] {
        assert_eq!(settle_one(&rig, &mine, mine.dead()).await, expected);
        assert_eq!(rig.places().await.of(&element), ["dead"]);
    }
    let fields = [("id".to_owned(), Bytes::from_static(b"x")), ("element".to_owned(), element.clone())];
    assert_eq!(rig.places().await.dead[0].fields, fields);
}

pub async fn a_retry_is_due_after_its_delay_by_the_server_s_clock(mut rig: impl Rig) {
    offer(&mut rig, [1]).await;
    let mine = take_one(&rig, A, 1).await;
    let verdict = mine.retry(ms(2_000));
    rig.advance(ms(300)).await;
    assert_eq!(settle_one(&rig, &mine, verdict.clone()).await, Answer::Done);
    let before = rig.places().await;
    assert_eq!(before.waiting.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [rig.now_ms() + 2_000]);
    rig.advance(ms(1_999)).await;
    assert_eq!(settle_one(&rig, &mine, verdict).await, Answer::Already);
    assert_eq!(rig.places().await, before, "sent again, it delays nothing");
    assert!(take(&rig, A, 2).await.is_empty());
    rig.advance(ms(1)).await;
    let claimed = claim(&rig, &request(A, 3)).await;
    assert_eq!(claimed.retried, 1);
    assert_eq!((claimed.elements[0].bytes(), claimed.elements[0].attempts()), (mine.element.bytes(), 1));
    assert_eq!(claimed.elements[0].due_ms(), mine.element.due_ms());
}

pub async fn a_released_element_keeps_its_order(mut rig: impl Rig) {
    let start = rig.now_ms();
    let elements: Vec<_> = (0..4).map(|n| element(&rig, n)).collect();
    for (n, element) in (0..).zip(&elements) {
        rig.offer(element, start + 10 - n).await;
    }
    rig.advance(ms(100)).await;
    let mine = take(&rig, A, 1).await;
    for n in [2, 0, 3, 1] {
        for expected in [Answer::Done, Answer::Already] {
            assert_eq!(settle_one(&rig, &mine[n], mine[n].release()).await, expected);
        }
    }
    let places = rig.places().await;
    let due: Vec<_> = places.waiting.iter().map(|(at, _)| *at - start).collect();
    assert_eq!(due, [7, 8, 9, 10], "their due times");
    let again = take(&rig, A, 2).await;
    assert_eq!(bytes(&again), bytes(&mine));
    assert!(again.iter().all(|mine| mine.element.attempts() == 0), "{again:?}");
}

pub async fn progress_gives_an_element_a_header_and_the_lease_runs_on(mut rig: impl Rig) {
    let element = offer(&mut rig, [1]).await.remove(0);
    let due_ms = rig.now_ms();
    let end_ms = rig.now_ms() + 10_000;
    let mut mine = take_one(&rig, A, 1).await;
    rig.advance(ms(3_000)).await;
    // From the bare elements to the entries, and from one entry to the next.
    for sink in [42, 43] {
        let step = mine.progress(sink);
        let SettleOp::Progress { header } = &step else { unreachable!("progress") };
        let noted = Element::entry(mine.element.under(header), due_ms).expect("an entry");
        for expected in [Answer::Done, Answer::Already] {
            assert_eq!(settle_one(&rig, &mine, step.clone()).await, expected);
            let places = rig.places().await;
            assert_eq!(places.lease(name(A, 1)), Some(end_ms));
            let expected = Parts { bare: vec![], entries: vec![(due_ms, noted.member.clone())] };
            assert_eq!(places.held(name(A, 1)), expected);
        }
        assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::NotMine, "the old member");
        mine.element = noted;
    }
    assert_eq!((mine.element.bytes(), mine.element.header().confirmed), (element, vec![42, 43]));
    // Nothing new to note.
    for _ in 0..2 {
        assert_eq!(settle_one(&rig, &mine, mine.progress(43)).await, Answer::Done);
    }
    assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
    assert!(rig.places().await.claims.is_empty());
}

pub async fn dead_letters_are_trimmed_when_one_is_added(mut rig: impl Rig) {
    let elements = offer(&mut rig, 0..4).await;
    let mine = take(&rig, A, 1).await;
    let dead: Vec<_> = mine[..3].iter().map(|mine| mine.verdict(mine.dead())).collect();
    settle(&rig, &dead).await;
    let store = rig.store(A);
    let settle = async |verdict| store.settle(&[verdict], None, Some(2)).await.expect("the server settles").trimmed;
    assert_eq!(settle(mine[3].verdict(mine[3].release())).await, 0, "nothing was added");
    let last = take_one(&rig, A, 2).await;
    assert_eq!(settle(last.verdict(last.dead())).await, 2);
    assert_eq!(settle(last.verdict(last.dead())).await, 0);
    let dead = rig.places().await.dead;
    let left: Vec<_> = dead.iter().filter_map(|letter| letter.bytes("element")).collect();
    assert_eq!(left, [&elements[2], &elements[3]]);
}

pub async fn a_push_happens_once(mut rig: impl Rig) {
    let elements = offer(&mut rig, 0..3).await;
    let mine = take(&rig, A, 1).await;
    for (mine, side) in mine.iter().zip([Side::Right, Side::Right, Side::Left]) {
        let body = open(&rig, std::slice::from_ref(mine)).remove(0).1.expect("a payload");
        for expected in [Answer::Done, Answer::NotMine] {
            let step = SettleOp::Push { side, body: body.clone() };
            assert_eq!(settle_one(&rig, mine, step).await, expected);
        }
    }
    let places = rig.places().await;
    assert_eq!(places.pushed, [&b"payload 2"[..], b"payload 0", b"payload 1"]);
    assert!(elements.iter().all(|element| places.of(element).is_empty()), "{places:?}");
}

pub async fn a_push_to_what_is_no_list_changes_nothing(mut rig: impl Rig) {
    let elements = offer(&mut rig, 0..2).await;
    let mine = take(&rig, A, 1).await;
    rig.spoil_list().await;
    let batch = [mine[0].verdict(mine[0].push()), mine[1].verdict(mine[1].retry(ms(1)))];
    assert_eq!(settle(&rig, &batch).await, [Answer::WrongType, Answer::Done]);
    let places = rig.places().await;
    assert_eq!((places.of(&elements[0]), places.of(&elements[1])), (vec!["claimed"], vec!["waiting"]));
}

pub async fn each_verdict_of_a_batch_has_its_answer(mut rig: impl Rig) {
    let elements = offer(&mut rig, 0..7).await;
    let mine = take(&rig, A, 1).await;
    assert_eq!(settle_one(&rig, &mine[6], SettleOp::Confirm).await, Answer::Done);
    let steps = |n: usize| mine[n].all_steps()[n.min(5)].clone();
    let batch: Vec<_> = (0..7).map(|n| mine[n].verdict(steps(n))).collect();
    use Answer::{Already, Done, NotMine};
    assert_eq!(settle(&rig, &batch).await, [Done, Done, Done, Done, Done, Done, NotMine]);
    let before = rig.places().await;
    assert_eq!(settle(&rig, &batch).await, [NotMine, Already, Already, Already, NotMine, NotMine, NotMine]);
    assert_eq!(rig.places().await, before);
    let expected: [&[&str]; 7] = [&[], &["waiting"], &["waiting"], &["claimed"], &["dead"], &["pushed"], &[]];
    for (element, expected) in elements.iter().zip(expected) {
        assert_eq!(before.of(element), expected);
    }
    assert!(settle(&rig, &[]).await.is_empty());
}

pub async fn verdicts_of_several_claims_are_written_together(mut rig: impl Rig) {
    offer(&mut rig, 0..2).await;
    let mut all = take(&rig, A, 1).await;
    for n in 0..2 {
        rig.make_ready(&format!("ready {n}").into()).await;
    }
    all.extend(take(&rig, A, 2).await);
    offer(&mut rig, 2..4).await;
    all.extend(take(&rig, B, 1).await);
    let order = [4, 0, 3, 1, 2];
    let batch: Vec<_> = order.iter().map(|&n: &usize| all[n].verdict(all[n].release())).collect();
    assert_eq!(settle(&rig, &batch).await, [Answer::Done; 5]);
    let places = rig.places().await;
    assert_eq!(places.claims.keys().collect::<Vec<_>>(), [&name(B, 1)]);
    assert_eq!((places.of(&all[5].element.bytes()), places.waiting.len()), (vec!["claimed"], 5));
}

pub async fn a_verdict_names_the_claim_and_the_part(mut rig: impl Rig) {
    offer(&mut rig, [1]).await;
    let mine = take_one(&rig, A, 1).await;
    let before = rig.places().await;
    let right = mine.verdict(SettleOp::Confirm);
    let wrong = [
        SettleCommand { claim: name(A, 2), ..right.clone() },
        SettleCommand { claim: name(A, 1).taken_over_by([A; 8], 1), ..right.clone() },
        SettleCommand { part: Part::Entries, ..right.clone() },
        SettleCommand { member: Bytes::from_static(b"another"), ..right.clone() },
    ];
    assert_eq!(settle(&rig, &wrong).await, [Answer::NotMine; 4]);
    assert_eq!(rig.places().await, before);
    assert_eq!(settle(&rig, &[right]).await, [Answer::Done]);
}

pub async fn a_verdict_that_comes_again_after_the_next_claim_does_nothing(mut rig: impl Rig) {
    let element = offer(&mut rig, [1]).await.remove(0);
    let steps: [fn(&Mine) -> SettleOp; 2] = [|mine| mine.retry(ms(0)), Mine::release];
    for (number, step) in [(1, steps[0]), (3, steps[1])] {
        let mine = take_one(&rig, A, number).await;
        assert_eq!(settle_one(&rig, &mine, step(&mine)).await, Answer::Done);
        let next = take_one(&rig, A, number + 1).await;
        assert_eq!(settle_one(&rig, &mine, step(&mine)).await, Answer::NotMine);
        assert_eq!(rig.places().await.of(&element), ["claimed"]);
        assert_eq!(settle_one(&rig, &next, next.release()).await, Answer::Done);
        assert_eq!(settle_one(&rig, &mine, step(&mine)).await, Answer::NotMine, "released by the next claim");
    }
}
