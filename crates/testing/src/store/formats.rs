//! What elements are, whoever wrote them, and what is done with what another version wrote.

use super::*;
use delaybridge_ledger::claims::EXPIRED_SHOWN;

/// Bytes that a newer version may have written.
fn newer(n: u8) -> Bytes {
    [&[0xdb, 2][..], &[n; 100]].concat().into()
}

pub async fn a_claimed_element_is_what_was_written(mut rig: impl Rig) {
    let due_ms = rig.now_ms();
    // Junk, nothing at all, and what looks like a header of ours.
    let looks_like_ours = [&Header::new(5).encode()[..], b"element"].concat();
    let mut elements = vec![Bytes::new(), Bytes::from_static(b"jun"), looks_like_ours.into(), newer(1)];
    elements.push(element(&rig, 1));
    elements.sort();
    for element in &elements {
        rig.offer(element, due_ms).await;
    }
    let mine = take(&rig, A, 1).await;
    assert_eq!(bytes(&mine), elements);
    assert!(mine.iter().all(|mine| mine.element.part() == Part::Bare && mine.element.due_ms() == Some(due_ms)));
    let ids = open(&rig, &mine);
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 5, "an id for each: {ids:?}");

    // The same elements come back from a retry, with the same ids; and all of them can be confirmed.
    let verdicts: Vec<_> = mine.iter().map(|mine| mine.verdict(mine.retry(ms(0)))).collect();
    assert_eq!(settle(&rig, &verdicts).await, [Answer::Done; 5]);
    let again = take(&rig, A, 2).await;
    assert_eq!((bytes(&again), open(&rig, &again)), (elements, ids));
    for mine in &again {
        assert_eq!(mine.element.part(), Part::Entries);
        assert_eq!(settle_one(&rig, mine, SettleOp::Confirm).await, Answer::Done);
        assert!(rig.places().await.of(&mine.element.bytes()).is_empty());
    }
}

pub async fn the_same_bytes_have_the_same_id_for_ever(mut rig: impl Rig) {
    offer(&mut rig, [7]).await;
    let expected = [(id(7), Some(Bytes::from_static(b"payload 7")))];
    let mine = take_one(&rig, A, 1).await;
    assert_eq!(open(&rig, std::slice::from_ref(&mine)), expected);
    settle_one(&rig, &mine, mine.retry(ms(0))).await;
    let mine = take_one(&rig, B, 1).await;
    assert_eq!(open(&rig, &[mine]), expected);
    rig.advance(LEASE).await;
    let (mine, _) = take_over(&rig, &takeover(name(B, 1), A, 2)).await;
    assert_eq!(open(&rig, &mine), expected);
}

pub async fn a_payload_of_the_ready_list_keeps_the_id_of_its_first_claim(mut rig: impl Rig) {
    let payload = Bytes::from_static(b"the same twice");
    for _ in 0..2 {
        rig.make_ready(&payload).await;
    }
    let first_claim_ms = rig.now_ms();
    let mine = take(&rig, A, 1).await;
    let ids = open(&rig, &mine);
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0].0, ids[1].0, "equal payloads are two elements");
    for (place, mine) in (1..).zip(&mine) {
        let header = mine.element.header();
        assert_eq!((mine.element.due_ms(), header.time_ms, header.attempts), (None, first_claim_ms, 0));
        assert_eq!(header.writer, Writer { owner: [A; 8], claim: 1, place });
        assert_eq!((mine.element.bytes(), mine.element.score_ms), (payload.clone(), first_claim_ms));
        assert_eq!(settle_one(&rig, mine, mine.retry(ms(5))).await, Answer::Done);
    }
    assert_eq!(rig.places().await.of(&payload), ["waiting"; 2]);
    rig.advance(ms(5)).await;
    let mine = take(&rig, B, 1).await;
    assert_eq!(open(&rig, &mine), ids);
    rig.advance(LEASE).await;
    let (mine, _) = take_over(&rig, &takeover(name(B, 1), A, 2)).await;
    assert_eq!(open(&rig, &mine), ids);
    assert!(mine.iter().all(|mine| mine.element.header().time_ms == first_claim_ms));
}

pub async fn an_entry_of_a_newer_version_is_moved_on_by_a_minute(mut rig: impl Rig) {
    let due_ms = rig.now_ms() - 10;
    let elements = offer(&mut rig, [1, 2]).await;
    for mine in take(&rig, A, 1).await {
        settle_one(&rig, &mine, mine.retry(ms(0))).await;
    }
    for n in 0..3 {
        rig.add_waiting(&newer(n), due_ms).await;
    }
    let claimed = claim(&rig, &request(A, 2)).await;
    assert_eq!(claimed.elements.iter().map(Element::bytes).collect::<Vec<_>>(), elements, "they hide nothing");
    assert_eq!((claimed.retried, claimed.unknown, claimed.next_ms), (2, 3, Some(rig.now_ms() + 60_000)));
    let places = rig.places().await;
    assert_eq!(places.waiting, [0, 1, 2].map(|n| (rig.now_ms() + 60_000, newer(n))));
    assert_eq!(places.held(name(A, 2)).entries.len(), 2);
    // Alone, they make no claim.
    rig.advance(ms(60_000)).await;
    let claimed = claim(&rig, &request(A, 3)).await;
    assert_eq!((claimed.elements.len(), claimed.unknown), (0, 3));
    assert_eq!(rig.places().await.lease(name(A, 3)), None);
}

pub async fn an_entry_that_cannot_be_read_stays_in_its_claim(mut rig: impl Rig) {
    let damaged: Bytes = [&[0xdb, 1][..], &[0xff; 100]].concat().into();
    let at_ms = rig.now_ms() - 5;
    rig.add_waiting(&damaged, at_ms).await;
    offer(&mut rig, [1]).await;
    let claimed = claim(&rig, &request(A, 1)).await;
    assert_eq!((claimed.elements.len(), claimed.retried, claimed.unknown), (1, 0, 1));
    let contents = rig.store(A).contents(name(A, 1)).await.expect("the server reads");
    assert_eq!((&contents.elements, contents.unknown), (&claimed.elements, 1));
    rig.advance(LEASE).await;
    let request = takeover(name(A, 1), B, 1);
    let reply = rig.store(B).take_over(&request).await.expect("the server answers");
    let TakeOverReply::Taken { elements, left, unknown, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((&elements, left, unknown), (&claimed.elements, 0, 1));
    assert_eq!(rig.places().await.held(request.new).entries, [(at_ms, damaged)]);
}

pub async fn a_name_of_a_newer_version_is_counted_and_left_alone(mut rig: impl Rig) {
    let over_ms = rig.now_ms() - 1;
    offer(&mut rig, [1]).await;
    claim(&rig, &ClaimRequest { lease: ms(0), ..request(A, 1) }).await;
    for text in ["2.0101010101010101.7.0", "damage"] {
        rig.add_lease(text, over_ms).await;
    }
    let expired = rig.store(A).expired(rig.now_ms(), 10).await.expect("the server reads");
    assert_eq!(expired, (vec![name(A, 1)], 2));
    let before = rig.places().await;
    let claimed = claim(&rig, &request(A, 2)).await;
    assert_eq!((claimed.expired, claimed.unknown_names, claimed.unknown), (vec![name(A, 1)], 2, 0));
    assert_eq!(rig.places().await, before);
}

pub async fn names_that_cannot_be_read_hide_none_however_many_they_are(mut rig: impl Rig) {
    let over_ms = rig.now_ms() - 1;
    offer(&mut rig, [1]).await;
    claim(&rig, &ClaimRequest { lease: ms(0), ..request(A, 1) }).await;
    for n in 0..2_100 {
        rig.add_lease(&format!("7.other.{n}"), over_ms - 1).await;
    }
    let expired = rig.store(A).expired(rig.now_ms(), 1).await.expect("the server reads");
    assert_eq!(expired, (vec![name(A, 1)], 2_100));
    let claimed = claim(&rig, &request(A, 2)).await;
    assert_eq!(
        (claimed.expired, claimed.unknown_names),
        (vec![], EXPIRED_SHOWN as u64),
        "a claim shows the first alone"
    );
}
