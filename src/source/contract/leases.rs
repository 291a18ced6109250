//! Leases: how they end, who takes over, and what a former owner can still do.

use super::*;

pub(crate) async fn an_expired_lease_is_claimed_by_another_process_with_one_expiry_more(mut rig: impl Rig) {
    let (store, another) = (rig.store(A), rig.store(B));
    let element = offer(&mut rig, [1]).await.remove(0);
    let (_, before) = claim_one(&*store, 1).await;
    rig.advance(LEASE.saturating_sub(ms(1))).await;
    assert!(claim(&*another, &request(1)).await.entries.is_empty(), "the lease is not over");
    rig.advance(ms(1)).await;
    let (from, after) = claim_one(&*another, 2).await;
    assert_eq!((from, &after.element), (ClaimedFrom::Expired, &element));
    assert_eq!((after.header.generation, after.header.expiries), (before.header.generation + 1, 1));
    assert_eq!((after.header.owner, after.header.key.claim), ([B; 8], 2));
    assert_eq!(after.header.due_ms(), before.header.due_ms());
    assert_eq!(rig.places().await.in_flight, [(rig.now_ms() + 10_000, after.member)]);
}

pub(crate) async fn own_expired_leases_are_renewed_and_reported(mut rig: impl Rig) {
    let (store, another) = (rig.store(A), rig.store(B));
    offer(&mut rig, [1, 2]).await;
    let claimed = claim(&*store, &request(1)).await;
    rig.advance(LEASE).await;
    let again = claim(&*store, &request(2)).await;
    assert!(again.entries.is_empty(), "{again:?}");
    assert_eq!(again.own, claimed.entries.iter().map(|(_, entry)| entry.header.key).collect::<Vec<_>>());
    rig.advance(LEASE.saturating_sub(ms(1))).await;
    assert!(claim(&*another, &request(1)).await.entries.is_empty(), "the lease was renewed");
    for (_, entry) in &claimed.entries {
        assert_eq!(settle_one(&*store, entry, Move::Confirm).await, Answer::Done, "the member is the same");
    }
}

pub(crate) async fn who_lost_an_entry_can_do_nothing_to_it(mut rig: impl Rig) {
    let (store, another) = (rig.store(A), rig.store(B));
    let element = offer(&mut rig, [1]).await.remove(0);
    let (_, lost) = claim_one(&*store, 1).await;
    rig.advance(LEASE).await;
    let (_, mine) = claim_one(&*another, 1).await;
    let before = rig.places().await;
    let progress = Move::Progress { header: lost.header.clone() };
    let push = Move::Push { side: crate::link::Side::Right, body: element.clone() };
    for step in [Move::Confirm, retry(&lost, ms(0)), release(&lost), progress, dead(&lost), push] {
        assert_eq!(settle_one(&*store, &lost, step.clone()).await, Answer::NotMine, "{step:?}");
    }
    let members = [lost.member.clone()];
    assert_eq!(store.extend(LEASE * 2, &members).await.expect("the server extends"), [false]);
    assert_eq!(rig.places().await, before);
    assert_eq!(settle_one(&*another, &mine, Move::Confirm).await, Answer::Done);
    assert!(rig.places().await.of(&element).is_empty());
}

pub(crate) async fn a_late_verdict_counts_while_no_process_took_over(mut rig: impl Rig) {
    let store = rig.store(A);
    let elements = offer(&mut rig, 0..4).await;
    let claimed = claim(&*store, &request(1)).await;
    rig.advance(LEASE * 3).await;
    let entries: Vec<_> = claimed.entries.into_iter().map(|(_, entry)| entry).collect();
    let members = [entries[0].member.clone()];
    assert_eq!(store.extend(LEASE, &members).await.expect("the server extends"), [true]);
    for (entry, step) in [(0, Move::Confirm), (1, retry(&entries[1], ms(1))), (2, release(&entries[2]))] {
        assert_eq!(settle_one(&*store, &entries[entry], step).await, Answer::Done);
    }
    assert_eq!(settle_one(&*store, &entries[3], dead(&entries[3])).await, Answer::Done);
    let places = rig.places().await;
    let expected: [&[&str]; 4] = [&[], &["retry"], &["retry"], &["dead"]];
    for (element, expected) in elements.iter().zip(expected) {
        assert_eq!(places.of(element), expected);
    }
}

pub(crate) async fn an_extended_lease_lasts_from_then_on(mut rig: impl Rig) {
    let (store, another) = (rig.store(A), rig.store(B));
    let elements = offer(&mut rig, [1, 2]).await;
    let claimed = claim(&*store, &request(1)).await;
    let members: Vec<_> = claimed.entries.iter().map(|(_, entry)| entry.member.clone()).collect();
    rig.advance(LEASE / 2).await;
    assert_eq!(store.extend(LEASE, &[]).await.expect("the server extends"), [false; 0]);
    let unknown = Bytes::from_static(b"never seen");
    let extended = store.extend(LEASE, &[unknown, members[1].clone()]).await.expect("the server extends");
    assert_eq!(extended, [false, true], "an answer for each, in their order");
    rig.advance(LEASE / 2).await;
    assert_eq!(taken(&claim(&*another, &request(1)).await), elements[..1]);
    rig.advance((LEASE / 2).saturating_sub(ms(1))).await;
    assert!(claim(&*another, &request(2)).await.entries.is_empty());
    rig.advance(ms(1)).await;
    assert_eq!(taken(&claim(&*another, &request(3)).await), elements[1..]);
    let extended = store.extend(LEASE, &members).await.expect("the server extends");
    assert_eq!(extended, [false, false]);
}

/// Lets the lease of what is in flight run out, and claims it again and again by different processes. The entries of the
/// last claim are in flight.
async fn expire(rig: &mut impl Rig, times: u64) {
    for n in 0..times {
        rig.advance(LEASE).await;
        let alone = n >= 2;
        let store = rig.store(100 + (n % 2) as u8);
        let claimed = claim(&*store, &ClaimRequest { alone, ..request(1_000 + n) }).await;
        assert!(claimed.entries.iter().all(|(_, entry)| u64::from(entry.header.expiries) == n + 1), "{claimed:?}");
        assert!(!claimed.entries.is_empty());
    }
}

pub(crate) async fn an_entry_whose_lease_ran_out_three_times_is_claimed_alone(mut rig: impl Rig) {
    let store = rig.store(A);
    let suspects = offer(&mut rig, [1, 2]).await;
    claim(&*store, &request(1)).await;
    expire(&mut rig, 2).await;
    rig.advance(LEASE).await;
    let due = offer(&mut rig, [3, 4]).await;

    let claimed = claim(&*store, &request(2)).await;
    assert_eq!((taken(&claimed), claimed.suspects), (due, 2), "a claim of many leaves them");
    for (_, entry) in &claimed.entries {
        settle_one(&*store, entry, retry(entry, ms(0))).await;
    }
    for (number, suspect) in [(3, &suspects[0]), (4, &suspects[1])] {
        let claimed = claim(&*store, &ClaimRequest { alone: true, ..request(number) }).await;
        assert_eq!(taken(&claimed), [suspect], "one, and nothing else that is due");
        assert_eq!((claimed.entries[0].0, claimed.entries[0].1.header.expiries), (ClaimedFrom::Expired, 3));
    }
    let claimed = claim(&*store, &ClaimRequest { alone: true, ..request(5) }).await;
    assert!(claimed.entries.is_empty(), "{claimed:?}");
    assert_eq!(rig.places().await.retry.len(), 2);
}

pub(crate) async fn an_entry_whose_lease_ran_out_ten_times_is_exhausted(mut rig: impl Rig) {
    let store = rig.store(A);
    let element = offer(&mut rig, [1]).await.remove(0);
    claim(&*store, &request(1)).await;
    expire(&mut rig, 9).await;
    rig.advance(LEASE).await;
    let alone = claim(&*store, &ClaimRequest { alone: true, ..request(2) }).await;
    assert!(alone.entries.is_empty(), "it is not delivered again: {alone:?}");
    let (from, entry) = claim_one(&*store, 3).await;
    assert_eq!((from, &entry.element, entry.header.expiries), (ClaimedFrom::Exhausted, &element, 10));
    assert_eq!(settle_one(&*store, &entry, dead(&entry)).await, Answer::Done);
    assert_eq!(rig.places().await.of(&element), ["dead"]);
}

pub(crate) async fn entries_to_be_claimed_alone_do_not_hide_others(mut rig: impl Rig) {
    let store = rig.store(A);
    let suspects = offer(&mut rig, 0..150).await;
    claim(&*store, &request(1)).await;
    expire(&mut rig, 2).await;
    rig.advance(ms(1)).await;
    let expired = offer(&mut rig, [200]).await;
    claim(&*rig.store(B), &request(1)).await;
    rig.advance(LEASE).await;
    let mut found = Vec::new();
    for number in 2..6 {
        let claimed = claim(&*store, &request(number)).await;
        assert!(claimed.suspects > 0, "{}", claimed.suspects);
        found.extend(taken(&claimed));
    }
    assert_eq!(found, expired);
    let places = rig.places().await;
    for suspect in &suspects {
        assert_eq!(places.of(suspect), ["in flight"]);
    }
}
