//! What a claim takes, how much of it, and when.

use bytes::Bytes;

use super::*;

pub(crate) async fn nothing_is_claimed_before_its_due_time(mut rig: impl Rig) {
    let store = rig.store(A);
    let (element, due_ms) = (element(&rig, 1), rig.now_ms() + 1_000);
    rig.offer(&element, due_ms).await;
    for (number, wait) in [(1, ms(0)), (2, ms(999))] {
        rig.advance(wait).await;
        let claimed = claim(&*store, &request(number)).await;
        assert!(claimed.entries.is_empty(), "{claimed:?}");
        assert_eq!((claimed.now_ms, claimed.next_ms), (rig.now_ms(), Some(due_ms)));
    }
    rig.advance(ms(1)).await;
    let (from, entry) = claim_one(&*store, 3).await;
    assert_eq!((from, &entry.element), (ClaimedFrom::Delayed, &element));
    assert_eq!(entry.header.due_ms(), Some(due_ms));
    assert_eq!((entry.header.generation, entry.header.attempts, entry.header.expiries), (1, 0, 0));
    assert_eq!((entry.header.owner, entry.header.key.claim), ([A; 8], 3));
    assert_eq!(rig.places().await.in_flight, [(rig.now_ms() + 10_000, entry.member)]);
}

pub(crate) async fn on_request_elements_are_claimed_ahead_of_their_due_times(mut rig: impl Rig) {
    let store = rig.store(A);
    let start = rig.now_ms();
    offer(&mut rig, [1]).await;
    let (_, waits) = claim_one(&*store, 1).await;
    settle_one(&*store, &waits, retry(&waits, ms(700))).await;
    let soon = element(&rig, 2);
    rig.offer(&soon, start + 1_000).await;

    let ahead = |number| ClaimRequest { ahead: ms(500), ..request(number) };
    rig.advance(ms(499)).await;
    let claimed = claim(&*store, &ahead(2)).await;
    assert!(claimed.entries.is_empty(), "{claimed:?}");
    assert_eq!(claimed.next_ms, Some(start + 500), "half a second before it is due");
    rig.advance(ms(1)).await;
    let claimed = claim(&*store, &ahead(3)).await;
    assert_eq!(taken(&claimed), [soon], "a retry is not claimed ahead");
    assert_eq!(claimed.entries[0].1.header.due_ms(), Some(start + 1_000));
    assert_eq!(claimed.next_ms, Some(start + 700), "the retry");
}

pub(crate) async fn elements_are_claimed_in_the_order_of_their_due_times(mut rig: impl Rig) {
    let store = rig.store(A);
    let start = rig.now_ms();
    // Elements of one due time are claimed in the order of their bytes.
    for n in [5, 2, 9, 4, 7, 1, 8, 3, 6] {
        rig.offer(&element(&rig, n), start + (n as i64 / 3) * 10).await;
    }
    rig.advance(ms(100)).await;
    for (number, most) in [(1, 4), (2, 500)] {
        let claimed = claim(&*store, &ClaimRequest { most, ..request(number) }).await;
        let numbers: Vec<_> = claimed.entries.iter().map(|(_, entry)| store.open(entry).0).collect();
        assert_eq!(numbers, if number == 1 { [1, 2, 3, 4].map(id).to_vec() } else { [5, 6, 7, 8, 9].map(id).to_vec() });
    }
    let payloads: Vec<Bytes> = (0..9).rev().map(|n| format!("ready {n}").into()).collect();
    for payload in &payloads {
        rig.make_ready(payload).await;
    }
    assert_eq!(taken(&claim(&*store, &request(3)).await), payloads, "in the order of the list");
}

pub(crate) async fn a_claim_takes_no_more_than_it_may(mut rig: impl Rig) {
    let store = rig.store(A);
    let elements = offer(&mut rig, 0..10).await;
    let claimed = claim(&*store, &ClaimRequest { most: 7, ..request(1) }).await;
    assert_eq!(taken(&claimed), elements[..7]);
    assert_eq!(claimed.next_ms, Some(rig.now_ms()), "more is due");
    let claimed = claim(&*store, &ClaimRequest { most: 0, ..request(2) }).await;
    assert_eq!((taken(&claimed).len(), claimed.next_ms), (0, Some(rig.now_ms())));
    let claimed = claim(&*store, &ClaimRequest { most: 7, ..request(3) }).await;
    assert_eq!(taken(&claimed), elements[7..]);
    assert_eq!((claimed.next_ms, claimed.more), (None, false));
}

pub(crate) async fn a_claim_takes_no_more_bytes_than_it_may_but_always_one_element(mut rig: impl Rig) {
    let store = rig.store(A);
    let due_ms = rig.now_ms();
    let mut elements = Vec::new();
    for n in 0..5 {
        elements.push(rig.element(id(n), &[b'x'; 1_000]));
        rig.offer(&elements[elements.len() - 1], due_ms).await;
    }
    let limited = |number, bytes| ClaimRequest { bytes, ..request(number) };
    let claimed = claim(&*store, &limited(1, 2_500)).await;
    assert_eq!((taken(&claimed), claimed.more), (elements[..2].to_vec(), true));
    let claimed = claim(&*store, &limited(2, 10)).await;
    assert_eq!((taken(&claimed), claimed.more), (elements[2..3].to_vec(), true));
    // The same where they wait for a retry, and on the ready list.
    for (_, entry) in &claimed.entries {
        settle_one(&*store, entry, retry(entry, ms(0))).await;
    }
    let rest = claim(&*store, &request(3)).await;
    assert_eq!((taken(&rest).len(), rest.more), (3, false));
    for (_, entry) in &rest.entries {
        settle_one(&*store, entry, retry(entry, ms(0))).await;
    }
    for (number, left) in [(4, 2), (5, 1), (6, 0)] {
        let claimed = claim(&*store, &limited(number, 10)).await;
        assert_eq!((taken(&claimed).len(), rig.places().await.retry.len()), (1, left));
        assert!(claimed.more || left == 0, "{claimed:?}");
    }
    for _ in 0..2 {
        rig.make_ready(&Bytes::from(vec![b'y'; 1_000])).await;
    }
    let claimed = claim(&*store, &limited(7, 10)).await;
    assert_eq!((taken(&claimed).len(), claimed.more, rig.places().await.ready.len()), (1, true, 1));
}

pub(crate) async fn a_late_claim_does_nothing(mut rig: impl Rig) {
    let store = rig.store(A);
    let elements = offer(&mut rig, [1]).await;
    let not_after_ms = rig.now_ms() + 10;
    rig.advance(ms(11)).await;
    let reply = store.claim(&ClaimRequest { not_after_ms, ..request(1) }).await.expect("the server answers");
    assert!(matches!(reply, ClaimReply::Late { now_ms } if now_ms == rig.now_ms()), "{reply:?}");
    assert_eq!(rig.places().await.of(&elements[0]), ["scheduled"]);
    let claimed = claim(&*store, &ClaimRequest { not_after_ms: rig.now_ms(), ..request(2) }).await;
    assert_eq!(taken(&claimed), elements, "the last moment is in time");
}

pub(crate) async fn no_place_starves_another(mut rig: impl Rig) {
    let (store, another) = (rig.store(A), rig.store(B));
    offer(&mut rig, 0..20).await;
    for (_, entry) in claim(&*store, &request(1)).await.entries {
        settle_one(&*store, &entry, release(&entry)).await;
    }
    let waiting = claim(&*another, &request(1)).await.entries;
    assert_eq!(waiting.len(), 20);
    let elements = offer(&mut rig, 20..40).await;
    // Expired: what the other process claims now. It gives back what it had before.
    assert_eq!(taken(&claim(&*another, &request(2)).await), elements);
    for (_, entry) in &waiting {
        settle_one(&*another, entry, release(entry)).await;
    }
    rig.advance(LEASE).await;
    offer(&mut rig, 40..60).await;
    for n in 0..20 {
        rig.make_ready(&format!("ready {n}").into()).await;
    }
    let all = [ClaimedFrom::Expired, ClaimedFrom::Retry, ClaimedFrom::Ready, ClaimedFrom::Delayed];
    for rotation in 0..5 {
        let claimed = claim(&*store, &ClaimRequest { most: 8, rotation, ..request(10 + rotation) }).await;
        let times = all.map(|place| claimed.entries.iter().filter(|(from, _)| *from == place).count());
        assert_eq!(times, [2; 4], "{rotation}");
    }
    // One entry: the place that is first in turn.
    let mut first = Vec::new();
    for rotation in 0..4 {
        let claimed = claim(&*store, &ClaimRequest { most: 1, rotation, ..request(20 + rotation) }).await;
        first.push(claimed.entries[0].0);
    }
    assert!(all.iter().all(|place| first.contains(place)), "{first:?}");
}

pub(crate) async fn a_claim_says_when_something_falls_due_next(mut rig: impl Rig) {
    let store = rig.store(A);
    let start = rig.now_ms();
    let next = async |number| claim(&*store, &request(number)).await.next_ms;
    assert_eq!(next(1).await, None);
    rig.offer(&element(&rig, 1), start + 3_000).await;
    assert_eq!(next(2).await, Some(start + 3_000));
    rig.offer(&element(&rig, 2), start).await;
    let (_, entry) = claim_one(&*store, 3).await;
    assert_eq!(settle_one(&*store, &entry, retry(&entry, ms(2_000))).await, Answer::Done);
    assert_eq!(next(4).await, Some(start + 2_000), "the retry");
    rig.offer(&element(&rig, 3), start + 1_000).await;
    assert_eq!(next(5).await, Some(start + 1_000), "the new head");
    rig.advance(ms(2_500)).await;
    let claimed = claim(&*store, &ClaimRequest { most: 1, ..request(6) }).await;
    assert_eq!((claimed.entries.len(), claimed.next_ms), (1, Some(rig.now_ms())), "at once");
}

pub(crate) async fn an_element_that_is_offered_again_falls_due_at_the_latest_time(mut rig: impl Rig) {
    let store = rig.store(A);
    let (twin, start) = (element(&rig, 1), rig.now_ms());
    for due_ms in [start + 100, start + 50, start + 200] {
        rig.offer(&twin, due_ms).await;
        assert_eq!(rig.places().await.scheduled, [(due_ms, twin.clone())]);
    }
    rig.advance(ms(199)).await;
    assert!(claim(&*store, &request(1)).await.entries.is_empty());
    rig.advance(ms(1)).await;
    let (_, entry) = claim_one(&*store, 2).await;
    assert_eq!(entry.header.due_ms(), Some(start + 200));
    assert_eq!(rig.places().await.of(&twin), ["in flight"]);
}

pub(crate) async fn an_element_that_is_offered_while_in_flight_is_an_entry_of_its_own(mut rig: impl Rig) {
    let store = rig.store(A);
    let twin = offer(&mut rig, [1]).await.remove(0);
    let (_, first) = claim_one(&*store, 1).await;
    rig.offer(&twin, rig.now_ms()).await;
    assert_eq!(rig.places().await.of(&twin), ["scheduled", "in flight"]);
    let (_, second) = claim_one(&*store, 2).await;
    assert_ne!(first.member, second.member);
    assert_eq!(store.open(&first).0, store.open(&second).0);
    for entry in [&first, &second] {
        assert_eq!(settle_one(&*store, entry, retry(entry, ms(5))).await, Answer::Done);
    }
    assert_eq!(rig.places().await.of(&twin), ["retry", "retry"], "neither verdict covers the other entry");
}

pub(crate) async fn the_same_bytes_have_the_same_id_for_ever(mut rig: impl Rig) {
    let (store, another) = (rig.store(A), rig.store(B));
    let element = offer(&mut rig, [7]).await.remove(0);
    let expected = (id(7), Ok(Bytes::from_static(b"payload 7")));
    assert_eq!(store.open_scheduled(&element), expected);
    let (_, entry) = claim_one(&*store, 1).await;
    assert_eq!(store.open(&entry), expected);
    settle_one(&*store, &entry, retry(&entry, ms(0))).await;
    let (from, entry) = claim_one(&*another, 1).await;
    assert_eq!((from, another.open(&entry)), (ClaimedFrom::Retry, expected.clone()));
    rig.advance(LEASE).await;
    let (from, entry) = claim_one(&*store, 2).await;
    assert_eq!((from, store.open(&entry)), (ClaimedFrom::Expired, expected));
}

pub(crate) async fn a_payload_of_the_ready_list_keeps_the_id_of_its_first_claim(mut rig: impl Rig) {
    let (store, another) = (rig.store(A), rig.store(B));
    let payload = Bytes::from_static(b"the same twice");
    for _ in 0..2 {
        rig.make_ready(&payload).await;
    }
    let first_claim_ms = rig.now_ms();
    let claimed = claim(&*store, &request(1)).await;
    let ids: Vec<_> = claimed.entries.iter().map(|(_, entry)| store.open(entry).0).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1], "two elements");
    for (from, entry) in &claimed.entries {
        assert_eq!((*from, entry.header.due_ms()), (ClaimedFrom::Ready, None));
        assert_eq!(entry.header.time_ms, first_claim_ms);
        assert_eq!(store.open(entry).1, Ok(payload.clone()));
        assert_eq!(settle_one(&*store, entry, retry(entry, ms(5))).await, Answer::Done);
    }
    rig.advance(ms(5)).await;
    for (store, number) in [(&another, 1), (&store, 2), (&another, 3)] {
        let claimed = claim(&**store, &request(number)).await;
        let again: Vec<_> = claimed.entries.iter().map(|(_, entry)| store.open(entry)).collect();
        assert_eq!(again, ids.iter().map(|id| (*id, Ok(payload.clone()))).collect::<Vec<_>>());
        assert!(claimed.entries.iter().all(|(_, entry)| entry.header.time_ms == first_claim_ms));
        rig.advance(LEASE).await;
    }
}

pub(crate) async fn junk_is_claimed_and_has_an_id(mut rig: impl Rig) {
    let store = rig.store(A);
    let junk = [Bytes::from_static(b"jun"), Bytes::from_static(b"k")];
    for junk in &junk {
        rig.offer(junk, rig.now_ms()).await;
    }
    let claimed = claim(&*store, &request(1)).await;
    assert_eq!(taken(&claimed), junk);
    let mut ids = Vec::new();
    for (_, entry) in &claimed.entries {
        let (id, payload) = store.open(entry);
        assert!(payload.is_err(), "{payload:?}");
        assert_eq!(store.open_scheduled(&entry.element).0, id);
        settle_one(&*store, entry, retry(entry, ms(0))).await;
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
    let again = claim(&*rig.store(B), &request(1)).await;
    assert_eq!(again.entries.iter().map(|(_, entry)| store.open(entry).0).collect::<Vec<_>>(), ids);
}
