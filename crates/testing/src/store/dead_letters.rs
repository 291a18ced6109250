//! Dead letters: how they are read, and who forwards them.

use super::*;
use delaybridge_ledger::{Forwarder, Order};

/// Makes this many letters; their places in the stream, the oldest first.
async fn letters(rig: &mut impl Rig, count: u64) -> Vec<String> {
    offer(rig, 0..count).await;
    for mine in take(rig, A, 1).await {
        assert_eq!(settle_one(rig, &mine, mine.dead()).await, Answer::Done);
    }
    ids(rig).await
}

/// The places of the letters in the stream.
async fn ids(rig: &mut impl Rig) -> Vec<String> {
    rig.places().await.dead.into_iter().map(|letter| letter.stream_id).collect()
}

pub async fn letters_are_read_from_either_end(mut rig: impl Rig) {
    let store = rig.store(A);
    assert_eq!(store.dead_count().await.expect("the server counts"), 0);
    let ids = letters(&mut rig, 5).await;
    let expected = rig.places().await.dead;
    assert_eq!(store.dead_count().await.expect("the server counts"), 5);
    assert_eq!(store.dead_range(Order::Oldest, "-", "+", 100).await.expect("the server reads"), expected);
    let range = async |order, from: &str, until: &str, count| {
        let letters = store.dead_range(order, from, until, count).await.expect("the server reads");
        letters.into_iter().map(|letter| letter.stream_id).collect::<Vec<_>>()
    };
    let after = |n: usize| format!("({}", ids[n]);
    let backwards: Vec<_> = ids.iter().rev().cloned().collect();
    assert_eq!(range(Order::Newest, "+", "-", 100).await, backwards);
    assert_eq!(range(Order::Oldest, "-", "+", 2).await, ids[..2]);
    assert_eq!(range(Order::Newest, "+", "-", 2).await, backwards[..2]);
    assert_eq!(range(Order::Oldest, &after(1), "+", 2).await, ids[2..4]);
    assert_eq!(range(Order::Newest, &after(3), "-", 2).await, backwards[2..4]);
    assert_eq!(range(Order::Oldest, &ids[1], &ids[3], 100).await, ids[1..4]);
    assert_eq!(range(Order::Newest, &ids[3], &ids[1], 100).await, backwards[1..4]);
    assert_eq!(range(Order::Oldest, &after(1), &after(3), 100).await, ids[2..3]);
    assert!(range(Order::Oldest, &after(4), "+", 100).await.is_empty());
}

pub async fn one_process_at_a_time_forwards_letters(mut rig: impl Rig) {
    let a = rig.store(A);
    let b = rig.store(B);
    let ask = async |store: &Arc<dyn Store>, lease| store.forwarded(lease, &[]).await.expect("the server answers");
    assert_eq!(ask(&a, LEASE).await, Forwarder::Own);
    rig.advance(LEASE / 2).await;
    assert_eq!(ask(&b, LEASE).await, Forwarder::Another);
    assert_eq!(ask(&a, LEASE).await, Forwarder::Own, "kept, for a full lease from now");
    rig.advance(LEASE.saturating_sub(ms(1))).await;
    assert_eq!(ask(&b, LEASE).await, Forwarder::Another);
    rig.advance(ms(1)).await;
    assert_eq!(ask(&b, LEASE).await, Forwarder::TakenOver);
    assert_eq!(ask(&a, LEASE).await, Forwarder::Another);
    assert_eq!(ask(&b, Duration::ZERO).await, Forwarder::Own, "given back");
    assert_eq!(ask(&a, LEASE).await, Forwarder::Own, "what was given back is not taken over");
    assert_eq!(ask(&b, LEASE).await, Forwarder::Another);
    rig.advance(LEASE * 2).await;
    assert_eq!(ask(&a, LEASE).await, Forwarder::Own, "over, but no process took it");
    rig.advance(LEASE * 2).await;
    assert_eq!(ask(&b, LEASE).await, Forwarder::TakenOver);
}

pub async fn forwarded_letters_are_removed_whoever_says_so(mut rig: impl Rig) {
    let a = rig.store(A);
    let b = rig.store(B);
    let all = letters(&mut rig, 4).await;
    let answer = a.forwarded(LEASE, &all[1..2]).await.expect("the server answers");
    assert_eq!((answer, ids(&mut rig).await), (Forwarder::Own, [&all[..1], &all[2..]].concat()));
    let answer = b.forwarded(LEASE, &[all[0].clone(), all[1].clone()]).await.expect("the server answers");
    assert_eq!((answer, ids(&mut rig).await), (Forwarder::Another, all[2..].to_vec()));
}
