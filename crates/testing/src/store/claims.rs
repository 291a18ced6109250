//! What a claim takes, how much of it, and when.

use super::*;

pub async fn nothing_is_claimed_before_its_due_time(mut rig: impl Rig) {
    let element = element(&rig, 1);
    let due_ms = rig.now_ms() + 1_000;
    rig.offer(&element, due_ms).await;
    for (number, wait) in [(1, ms(0)), (2, ms(999))] {
        rig.advance(wait).await;
        let claimed = claim(&rig, &request(A, number)).await;
        assert!(claimed.elements.is_empty(), "{claimed:?}");
        assert_eq!((claimed.now_ms, claimed.next_ms), (rig.now_ms(), Some(due_ms)));
    }
    assert_eq!(rig.places().await.leases, [], "a claim that takes nothing has no lease");
    rig.advance(ms(1)).await;
    let mine = take_one(&rig, A, 3).await;
    assert_eq!((mine.element.bytes(), mine.element.due_ms()), (element.clone(), Some(due_ms)));
    let places = rig.places().await;
    assert_eq!(places.leases, [(rig.now_ms() + 10_000, name(A, 3).to_string())]);
    assert_eq!(places.held(name(A, 3)), Parts { bare: vec![(due_ms, element)], entries: vec![] });
}

pub async fn on_request_elements_are_claimed_ahead_of_their_due_times(mut rig: impl Rig) {
    let start = rig.now_ms();
    offer(&mut rig, [1]).await;
    let waits = take_one(&rig, A, 1).await;
    settle_one(&rig, &waits, waits.retry(ms(700))).await;
    let soon = element(&rig, 2);
    rig.offer(&soon, start + 1_000).await;

    let ahead = |number| ClaimRequest { ahead: ms(500), ..request(A, number) };
    rig.advance(ms(499)).await;
    let claimed = claim(&rig, &ahead(2)).await;
    assert!(claimed.elements.is_empty(), "{claimed:?}");
    assert_eq!(claimed.next_ms, Some(start + 500), "half a second before it is due");
    rig.advance(ms(1)).await;
    let claimed = claim(&rig, &ahead(3)).await;
    let due: Vec<_> = claimed.elements.iter().map(|element| (element.bytes(), element.due_ms())).collect();
    assert_eq!(due, [(soon, Some(start + 1_000))], "a retry is not claimed ahead");
    assert_eq!(claimed.next_ms, Some(start + 700), "the retry");
}

pub async fn elements_are_claimed_in_the_order_of_their_due_times(mut rig: impl Rig) {
    let start = rig.now_ms();
    // Elements of one due time are claimed in the order of their bytes.
    for n in [5, 2, 9, 4, 7, 1, 8, 3, 6] {
        rig.offer(&element(&rig, n), start + (n as i64 / 3) * 10).await;
    }
    rig.advance(ms(100)).await;
    for (number, most, expected) in [(1, 4, 1..5), (2, 500, 5..10)] {
        let claimed = claim(&rig, &ClaimRequest { most, ..request(A, number) }).await;
        let ids: Vec<_> = open(&rig, &Mine::all(name(A, number), claimed.elements)).iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, expected.map(id).collect::<Vec<_>>());
    }
    let payloads: Vec<Bytes> = (0..9).rev().map(|n| format!("ready {n}").into()).collect();
    for payload in &payloads {
        rig.make_ready(payload).await;
    }
    assert_eq!(bytes(&take(&rig, A, 3).await), payloads, "in the order of the list");
}

pub async fn a_claim_takes_no_more_than_it_may(mut rig: impl Rig) {
    let elements = offer(&mut rig, 0..10).await;
    let limited = |number| ClaimRequest { most: 7, ..request(A, number) };
    let claimed = claim(&rig, &limited(1)).await;
    assert_eq!(claimed.elements.iter().map(Element::bytes).collect::<Vec<_>>(), elements[..7]);
    assert_eq!(claimed.next_ms, Some(rig.now_ms()), "more is due");
    let claimed = claim(&rig, &limited(2)).await;
    assert_eq!(claimed.elements.iter().map(Element::bytes).collect::<Vec<_>>(), elements[7..]);
    assert_eq!((claimed.next_ms, claimed.more), (None, false));
}

pub async fn a_claim_takes_no_more_bytes_than_it_may_but_always_one_element(mut rig: impl Rig) {
    let due_ms = rig.now_ms();
    let mut elements = Vec::new();
    for n in 0..5 {
        elements.push(rig.element(id(n), &[b'x'; 1_000]));
        rig.offer(&elements[elements.len() - 1], due_ms).await;
    }
    let limited = async |rig: &_, number, bytes| {
        let claimed = claim(rig, &ClaimRequest { bytes, ..request(A, number) }).await;
        (Mine::all(name(A, number), claimed.elements), claimed.more)
    };
    let (mine, more) = limited(&rig, 1, 2_500).await;
    assert_eq!((bytes(&mine), more), (elements[..2].to_vec(), true));
    let (mine, more) = limited(&rig, 2, 10).await;
    assert_eq!((bytes(&mine), more), (elements[2..3].to_vec(), true));
    // The same where they wait for a retry, and on the ready list.
    settle_one(&rig, &mine[0], mine[0].retry(ms(0))).await;
    rig.make_ready(&elements[0]).await;
    let mut found = Vec::new();
    for number in 3..7 {
        let (mine, more) = limited(&rig, number, 10).await;
        assert_eq!((mine.len(), more), (1, number < 6));
        found.extend(bytes(&mine));
    }
    found.sort();
    let mut expected = [&elements[..1], &elements[2..]].concat();
    expected.sort();
    assert_eq!(found, expected);
}

pub async fn a_late_claim_does_nothing(mut rig: impl Rig) {
    let elements = offer(&mut rig, [1]).await;
    let not_after_ms = rig.now_ms() + 10;
    rig.advance(ms(11)).await;
    let before = rig.places().await;
    let late = ClaimRequest { not_after_ms, ..request(A, 1) };
    let reply = rig.store(A).claim(&late).await.expect("the server answers");
    assert!(matches!(reply, ClaimReply::Late { now_ms } if now_ms == rig.now_ms()), "{reply:?}");
    assert_eq!(rig.places().await, before);
    let claimed = claim(&rig, &ClaimRequest { not_after_ms: rig.now_ms(), ..request(A, 2) }).await;
    assert_eq!(claimed.elements[0].bytes(), elements[0], "the last moment is in time");
}

/// Sends a claim again that ran before: nothing happens.
async fn send_again(rig: &mut impl Rig, owner: u8) {
    let before = rig.places().await;
    let reply = rig.store(owner).claim(&request(owner, 1)).await.expect("the server answers");
    assert!(matches!(reply, ClaimReply::Twice { now_ms } if now_ms == rig.now_ms()), "{reply:?}");
    assert_eq!(rig.places().await, before);
}

pub async fn a_claim_that_is_sent_twice_does_nothing_the_second_time(mut rig: impl Rig) {
    // One alone, and many of every place.
    offer(&mut rig, [1]).await;
    let mine = take_one(&rig, A, 1).await;
    send_again(&mut rig, A).await;
    assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
    for due in [2..3, 3..6] {
        offer(&mut rig, due).await;
        send_again(&mut rig, A).await;
    }
    let mine = take(&rig, B, 1).await;
    settle_one(&rig, &mine[0], mine[0].retry(ms(0))).await;
    offer(&mut rig, 6..10).await;
    rig.make_ready(&Bytes::from_static(b"ready")).await;
    send_again(&mut rig, B).await;
    // Not even after everything in it has been settled.
    for mine in &mine[1..] {
        assert_eq!(settle_one(&rig, mine, SettleOp::Confirm).await, Answer::Done);
    }
    send_again(&mut rig, B).await;
}

pub async fn no_place_starves_another(mut rig: impl Rig) {
    offer(&mut rig, 0..12).await;
    let waiting = take(&rig, A, 1).await;
    let verdicts: Vec<_> = waiting.iter().map(|mine| mine.verdict(mine.release())).collect();
    settle(&rig, &verdicts).await;
    offer(&mut rig, 20..32).await;
    for n in 0..12 {
        rig.make_ready(&format!("ready {n}").into()).await;
    }
    let place = |element: &Element| match (&element.header, element.due_ms()) {
        (None, _) => "scheduled",
        (Some(_), None) => "ready",
        (Some(_), Some(_)) => "waiting",
    };
    let all = ["waiting", "ready", "scheduled"];
    for rotation in 0..3 {
        let claimed = claim(&rig, &ClaimRequest { most: 6, rotation, ..request(A, 10 + rotation) }).await;
        let times = all.map(|at| claimed.elements.iter().filter(|element| place(element) == at).count());
        assert_eq!((times, claimed.retried), ([2; 3], 2), "{rotation}");
        let order: Vec<_> = claimed.elements.iter().map(place).collect();
        assert_eq!(order[..2], ["waiting"; 2], "what waited comes first in the reply");
    }
    // One element: the place that is first in turn.
    let mut first = Vec::new();
    for rotation in 0..3 {
        let claimed = claim(&rig, &ClaimRequest { most: 1, rotation, ..request(A, 20 + rotation) }).await;
        first.push(place(&claimed.elements[0]));
    }
    assert!(all.iter().all(|place| first.contains(place)), "{first:?}");
}

pub async fn a_claim_says_when_something_falls_due_next(mut rig: impl Rig) {
    let start = rig.now_ms();
    let next = async |rig: &_, number| claim(rig, &request(A, number)).await.next_ms;
    assert_eq!(next(&rig, 1).await, None);
    rig.offer(&element(&rig, 1), start + 3_000).await;
    assert_eq!(next(&rig, 2).await, Some(start + 3_000));
    rig.offer(&element(&rig, 2), start).await;
    let mine = take_one(&rig, A, 3).await;
    assert_eq!(settle_one(&rig, &mine, mine.retry(ms(2_000))).await, Answer::Done);
    assert_eq!(next(&rig, 4).await, Some(start + 2_000), "the retry");
    rig.offer(&element(&rig, 3), start + 1_000).await;
    assert_eq!(next(&rig, 5).await, Some(start + 1_000), "the new head");
    rig.advance(ms(2_500)).await;
    let claimed = claim(&rig, &ClaimRequest { most: 1, ..request(A, 6) }).await;
    assert_eq!((claimed.elements.len(), claimed.next_ms), (1, Some(rig.now_ms())), "at once");
}

pub async fn an_element_that_is_offered_again_falls_due_at_the_latest_time(mut rig: impl Rig) {
    let twin = element(&rig, 1);
    let start = rig.now_ms();
    for due_ms in [start + 100, start + 50, start + 200] {
        rig.offer(&twin, due_ms).await;
        assert_eq!(rig.places().await.scheduled, [(due_ms, twin.clone())]);
    }
    rig.advance(ms(199)).await;
    assert!(take(&rig, A, 1).await.is_empty());
    rig.advance(ms(1)).await;
    assert_eq!(take_one(&rig, A, 2).await.element.due_ms(), Some(start + 200));
    assert_eq!(rig.places().await.of(&twin), ["claimed"]);
}

pub async fn an_element_that_is_offered_while_in_flight_is_an_element_of_its_own(mut rig: impl Rig) {
    let twin = offer(&mut rig, [1]).await.remove(0);
    let first = take_one(&rig, A, 1).await;
    rig.offer(&twin, rig.now_ms()).await;
    assert_eq!(rig.places().await.of(&twin), ["scheduled", "claimed"]);
    let second = take_one(&rig, A, 2).await;
    assert_eq!(first.element, second.element);
    assert_eq!(settle_one(&rig, &first, first.retry(ms(5))).await, Answer::Done);
    assert_eq!(rig.places().await.of(&twin), ["claimed", "waiting"], "no verdict covers the other element");
    assert_eq!(settle_one(&rig, &second, second.retry(ms(5))).await, Answer::Done);
    assert_eq!(rig.places().await.of(&twin), ["waiting", "waiting"]);
}
