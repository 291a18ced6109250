//! The way of an element from place to place.

use super::*;

pub(crate) async fn an_element_is_always_in_exactly_one_place(mut rig: impl Rig) {
    let store = rig.store(A);
    let element = offer(&mut rig, [1]).await.remove(0);
    assert_eq!(rig.places().await.of(&element), ["scheduled"]);
    let (_, entry) = claim_one(&*store, 1).await;
    assert_eq!(rig.places().await.of(&element), ["in flight"]);
    settle_one(&*store, &entry, retry(&entry, ms(5))).await;
    assert_eq!(rig.places().await.of(&element), ["retry"]);
    rig.advance(ms(5)).await;
    let (from, entry) = claim_one(&*store, 2).await;
    assert_eq!((from, entry.header.generation, entry.header.attempts), (ClaimedFrom::Retry, 2, 1));
    assert_eq!(rig.places().await.of(&element), ["in flight"]);
    let mut header = entry.header.clone();
    header.confirm(7);
    settle_one(&*store, &entry, Move::Progress { header }).await;
    assert_eq!(rig.places().await.of(&element), ["in flight"]);
    rig.advance(LEASE).await;
    let another = rig.store(B);
    let (_, entry) = claim_one(&*another, 1).await;
    assert_eq!((entry.header.generation, &entry.header.confirmed[..]), (3, &[7][..]));
    assert_eq!(rig.places().await.of(&element), ["in flight"]);
    settle_one(&*another, &entry, release(&entry)).await;
    assert_eq!(rig.places().await.of(&element), ["retry"]);
    let (_, entry) = claim_one(&*store, 3).await;
    settle_one(&*store, &entry, dead(&entry)).await;
    assert_eq!(rig.places().await.of(&element), ["dead"]);
}
