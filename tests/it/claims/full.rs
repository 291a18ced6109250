//! A full Redis: dead letters leave it, the sweep takes over, an offer is refused.

use std::time::Duration;

use delaybridge_ledger::{Forwarder, Start, UpkeepRequest, UpkeepState};

use super::directed::element;
use super::directed_sweep::{NOW_MS, start};
use super::rig::Rig;
use super::world::{LEASE, LEASE_MS};

async fn fill_up(rig: &mut Rig) {
    rig.run(redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg("noeviction")).await;
    rig.run(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1")).await;
    let refused = redis::cmd("SET").arg("more").arg("text").exec_async(&mut rig.redis).await.unwrap_err();
    assert_eq!(refused.code(), Some("OOM"));
}

/// Sets the clock, which needs free memory.
async fn set_clock(rig: &mut Rig, now_ms: i64) {
    rig.run(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0")).await;
    rig.set_clock(now_ms * 1000).await;
    fill_up(rig).await;
}

#[tokio::test]
async fn dead_letters_leave_a_full_redis() {
    let (mut rig, a, b) = start().await;
    let id: String =
        redis::cmd("XADD").arg(&a.keys.dead[..]).arg("*").arg("a").arg("b").query_async(&mut rig.redis).await.unwrap();
    fill_up(&mut rig).await;
    assert_eq!(a.forwarded(&rig.conn, LEASE, &[]).await.unwrap(), Forwarder::Own);
    // A confirmation is final, with any owner of the lease and any number of calls.
    for _ in 0..2 {
        assert_eq!(b.forwarded(&rig.conn, LEASE, std::slice::from_ref(&id)).await.unwrap(), Forwarder::Another);
        let left: usize = redis::cmd("XLEN").arg(&a.keys.dead[..]).query_async(&mut rig.redis).await.unwrap();
        assert_eq!(left, 0);
    }
    set_clock(&mut rig, NOW_MS + LEASE_MS + 1).await;
    assert_eq!(b.forwarded(&rig.conn, LEASE, &[]).await.unwrap(), Forwarder::TakenOver);
    assert_eq!(b.forwarded(&rig.conn, Duration::ZERO, &[]).await.unwrap(), Forwarder::Own);
    assert_eq!(a.forwarded(&rig.conn, LEASE, &[]).await.unwrap(), Forwarder::Own, "it was released");
}

#[tokio::test]
async fn a_full_redis_joins_the_ghosts_of_a_turn_that_was_left() {
    let (mut rig, a, _) = start().await;
    rig.run(redis::cmd("SADD").arg(&a.keys.ghosts[..]).arg("one")).await;
    rig.run(redis::cmd("SADD").arg(&a.keys.ghosts_turn[..]).arg("two")).await;
    fill_up(&mut rig).await;
    let step = UpkeepRequest {
        step: None,
        max_age: Duration::from_secs(30),
        bandwidth: 16 << 20,
        start: Start::Urgent,
        largest: 0,
    };
    assert_eq!(a.sweep(&rig.conn, &step).await.unwrap().state, UpkeepState::Begun);
}

#[tokio::test]
async fn an_offer_to_a_full_redis_is_refused_and_leaves_nothing_half_done() {
    let (mut rig, a, _) = start().await;
    fill_up(&mut rig).await;
    assert!(a.offer(&rig.conn, element(1), Duration::ZERO).await.is_err());
    let stats = a.stats(&rig.conn).await.unwrap();
    assert_eq!((stats.source.scheduled, stats.source.leftovers.of), (0, 0));
}
