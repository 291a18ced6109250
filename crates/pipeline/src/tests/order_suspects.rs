//! Queues in order whose claims have run out again and again: what may kill the process is delivered alone, and overtakes nothing,
//! wherever that is: in other claims, or returned by a process that died while it did so.

use bytes::Bytes;

use super::order::{first_taken, in_order, left_behind, world};
use super::order_runs::sink_of_runs;
use super::*;
use crate::tests::world::Trouble;
use delaybridge_core::template::Template;
use delaybridge_ledger::claims::{ClaimName, SettleCommand, TakeOverReply, TakeOverRequest};
use delaybridge_ledger::store::Claims;
use delaybridge_model::Ordered;
use delaybridge_testing::memory::{Fault, Op, element};

/// The order of what [`left_behind`] leaves of these elements, and offers.
const ALL: [u64; 9] = [1, 2, 3, 4, 5, 6, 20, 21, 22];

/// Takes over a claim, as a process does that dies.
async fn taken_over(world: &World, old: ClaimName, owner: u8) -> ClaimName {
    let new = old.taken_over_by([owner; 8], old.number);
    let dead = world.server.store("q", [owner; 8]);
    let request =
        TakeOverRequest { old, new, not_after_ms: i64::MAX, lease: LEASE, most: 99, bytes: 1 << 20, largest: 0 };
    assert!(matches!(dead.take_over(&request).await, Ok(TakeOverReply::Taken { .. })));
    new
}

/// The claim with this number, which [`left_behind`] left, after two other processes have died with it: the next one finds it suspect.
pub(super) async fn dies_twice(world: &World, number: u64) -> ClaimName {
    let mut name = ClaimName::new([7; 8], number);
    for owner in 8..10 {
        tokio::time::sleep(2 * LEASE).await;
        name = taken_over(world, name, owner).await;
    }
    name
}

/// Returns these elements, as the owner of their claim.
async fn goes_back(world: &World, ids: &[u64]) {
    for (name, _, elements) in world.store.claims() {
        let chosen = |n: &u64| elements.iter().position(|held| held.bytes() == element(id(*n), b"a"));
        let places = ids.iter().filter_map(chosen);
        let back: Vec<_> = places.map(|at| SettleCommand::release(name, name.number, at, &elements[at])).collect();
        world.server.store("q", name.owner).settle(&back, None, None).await.unwrap();
    }
    assert_eq!(world.store.waiting().len(), ids.len());
}

/// What arrives first of what is here, after a process has started.
async fn delivered(world: &World) -> Vec<u64> {
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    within(10 * LEASE, "everything to arrive", || first_taken(&sink, |_| true).len() == ALL.len()).await;
    first_taken(&sink, |_| true)
}

/// A process dies while it returns what it has taken over.
#[tokio::test(start_paused = true)]
async fn what_may_kill_the_process_overtakes_nothing_that_has_gone_back() {
    for ids in [&[1, 2][..], &[2, 4], &[1, 2, 3, 4], &[1], &[5], &[3, 6]] {
        let world = world();
        left_behind(&world, &[&[1, 2, 3], &[4, 5, 6]]).await;
        dies_twice(&world, 1).await;
        goes_back(&world, ids).await;
        assert_eq!(delivered(&world).await, ALL, "{ids:?} had gone back");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_kill_the_process_overtakes_no_other_claim_and_is_not_overtaken_by_one() {
    for claims in [[&[4, 5][..], &[1, 3, 6], &[2]], [&[2, 6], &[1, 3, 5], &[4]], [&[1, 2], &[3, 4, 5], &[6]]] {
        for suspects in [&[1][..], &[1, 2], &[3], &[1, 2, 3]] {
            let world = world();
            left_behind(&world, &claims).await;
            for owner in 8..10 {
                tokio::time::sleep(2 * LEASE).await;
                for (name, ..) in world.store.claims().iter().filter(|(name, ..)| suspects.contains(&name.number)) {
                    taken_over(&world, *name, owner).await;
                }
            }
            assert_eq!(delivered(&world).await, ALL, "of {claims:?} {suspects:?} may kill");
        }
    }
}

/// Which of the claims falls due first cannot be seen.
#[tokio::test(start_paused = true)]
async fn what_may_kill_the_process_waits_until_all_claims_can_be_read() {
    for fault in [Fault::ReplyLost, Fault::RequestLost, Fault::Refused("WRONGTYPE")] {
        for faults in 1..5 {
            let world = world();
            left_behind(&world, &[&[4, 5, 6], &[1, 2, 3]]).await;
            dies_twice(&world, 1).await;
            // Read last, and last among those that cannot be read.
            tokio::time::sleep(2 * LEASE).await;
            taken_over(&world, ClaimName::new([7; 8], 2), 12).await;
            world.server.fail(Op::Contents, vec![fault.clone(); faults]);
            assert_eq!(delivered(&world).await, ALL, "{faults} times {fault:?}");
        }
    }
}

/// A queue that stands still says why.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_read_holds_the_queue_and_says_so_until_it_can() {
    let world = world();
    left_behind(&world, &[&[4, 5, 6], &[1, 2, 3]]).await;
    let name = dies_twice(&world, 1).await;
    world.server.fail(Op::Contents, vec![Fault::Refused("WRONGTYPE"); 60]);
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    within(LEASE, "the hold", || bridge.metric(HELD) == 1.0).await;
    let reason = bridge.process.events.status().ready().body.to_string();
    assert!(reason.contains(&name.to_string()) && reason.contains("WRONGTYPE"), "{reason}");
    within(10 * LEASE, "everything to arrive", || first_taken(&sink, |_| true).len() == ALL.len()).await;
    assert_eq!(first_taken(&sink, |_| true), ALL);
    assert_eq!(bridge.metric(HELD), 0.0);
}

/// Names that cannot be read hide a claim that is due before, and a look behind them has no answer.
#[tokio::test(start_paused = true)]
async fn what_may_kill_the_process_overtakes_no_claim_that_is_hidden() {
    for looks in 0..3 {
        let world = world();
        left_behind(&world, &[&[4, 5, 6], &[1, 2, 3]]).await;
        let name = dies_twice(&world, 1).await;
        let first = ClaimName::new([7; 8], 2);
        // The leases of both have run out, the one that is due later first, with others between them.
        tokio::time::sleep(2 * LEASE).await;
        let end_ms = world.server.now_ms() - 1_000;
        world.store.add_lease(&name.to_string(), end_ms);
        (0..20).for_each(|n| world.store.add_lease(&format!("7.other.{n}"), end_ms + 1 + n));
        world.store.add_lease(&first.to_string(), end_ms + 100);
        let before = world.server.calls(Op::Claim);
        let sink = sink();
        let sinks = [("s", sink.clone())];
        let bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
        bridge.wire.trouble(Trouble { slow: SECOND / 5, lost: 0.0 });
        within(LEASE, "a claim", || world.server.calls(Op::Claim) > before).await;
        world.server.fail(Op::Expired, vec![Fault::ReplyLost; looks]);
        within(10 * LEASE, "everything to arrive", || first_taken(&sink, |_| true).len() == ALL.len()).await;
        assert_eq!(first_taken(&sink, |_| true), ALL, "after {looks} looks without an answer");
    }
}

/// It was seen to be the first when its former owner, which was frozen, returned it.
#[tokio::test(start_paused = true)]
async fn what_may_kill_the_process_does_not_overtake_what_its_former_owner_returns_meanwhile() {
    for ids in [&[1][..], &[1, 2]] {
        let world = world();
        let sink = sink();
        left_behind(&world, &[&[1, 2, 3], &[4, 5, 6]]).await;
        dies_twice(&world, 1).await;
        tokio::time::sleep(2 * LEASE).await;
        let before = world.server.calls(Op::Contents);
        let sinks = [("s", sink.clone())];
        let bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
        bridge.wire.trouble(Trouble { slow: SECOND / 5, lost: 0.0 });
        // After the second claim, which sees that nothing has gone back, it looks once more at the one that was the first of both.
        within(LEASE, "the last look", || world.server.calls(Op::Contents) == before + 3).await;
        goes_back(&world, ids).await;
        within(10 * LEASE, "everything to arrive", || first_taken(&sink, |_| true).len() == ALL.len()).await;
        assert_eq!(first_taken(&sink, |_| true), ALL, "{ids:?} had gone back");
    }
}

/// What another program has put before what has gone back hides nothing of that.
#[tokio::test(start_paused = true)]
async fn what_is_taken_over_waits_for_what_has_gone_back_behind_foreign_members() {
    for (suspect, foreign) in [(false, 1), (false, 3), (true, 1), (true, 3)] {
        let world = world();
        left_behind(&world, &[&[1, 2, 3], &[4, 5, 6]]).await;
        if suspect {
            dies_twice(&world, 1).await;
        }
        goes_back(&world, &[2, 5]).await;
        for n in 0..foreign {
            world.store.add_waiting(Bytes::from(format!("foreign {n}")), n);
        }
        assert_eq!(delivered(&world).await, ALL, "behind {foreign}, suspect: {suspect}");
    }
}

/// One seed: claims that processes left behind, some of them again and again, with any of their elements returned; a sink that fails;
/// and a process that works on them, dies now and then, and is not always answered.
async fn in_pieces(seed: u64) {
    let mut draw = fastrand::Rng::with_seed(seed);
    let world = world();
    let sink = if draw.bool() { sink_of_runs() } else { sink() };
    let mut ids: Vec<u64> = (0..18).collect();
    draw.shuffle(&mut ids);
    // One of five has a claim that comes to its keys in a task of its own.
    let (least, most, few) = if seed % 5 == 4 { (17, 18, 60) } else { (1, 7, 4) };
    let mut claims: Vec<&[u64]> = Vec::new();
    let mut rest = &ids[..];
    while !rest.is_empty() && claims.len() < 6 {
        let (claim, others) = rest.split_at(draw.usize(least.min(rest.len())..=rest.len().min(most)));
        claims.push(claim);
        rest = others;
    }
    left_behind(&world, &claims).await;
    let mut all: Vec<u64> = ids[..ids.len() - rest.len()].to_vec();
    for owner in 8..8 + draw.u8(0..5) {
        tokio::time::sleep(2 * LEASE).await;
        for (name, ..) in world.store.claims() {
            if draw.bool() {
                taken_over(&world, name, owner).await;
            }
        }
    }
    goes_back(&world, &all.iter().copied().filter(|_| draw.u8(0..few) == 0).collect::<Vec<_>>()).await;
    if draw.bool() {
        tokio::time::sleep(2 * LEASE).await;
        let end_ms = world.server.now_ms() - 1_000;
        (0..draw.i64(0..12)).for_each(|n| world.store.add_lease(&format!("7.other.{n}"), end_ms + n));
        (0..draw.i64(0..3)).for_each(|n| world.store.add_waiting(Bytes::from(format!("foreign {n}")), n));
    }
    let mut mood = fastrand::Rng::with_seed(!seed);
    sink.otherwise(move |_| match mood.u8(0..10) {
        0 => Step::Fail(failure(Class::Transient, "500")),
        1 => Step::FailAfterTaking(failure(Class::Ambiguous, "lost")),
        2 => Step::ConfirmAfter(LEASE.mul_f64(0.2 * mood.f64())),
        _ => Step::Confirm,
    });
    let sinks = [("s", sink.clone())];
    let by_key = seed % 4 == 3;
    let key = Ordered::Key(Some(Box::new(Template::compile("${payload}").unwrap())));
    let order = if by_key { key } else { Ordered::Queue };
    let mut spec = QueueSpec { max_in_flight: MaxInFlight::Fixed(draw.u32(1..12)), ..in_order(&sinks, order) };
    // No element dies of its sink.
    Arc::make_mut(&mut spec.retry).max_attempts = u32::MAX;
    let mut owner = 20;
    let mut bridge = world.bridge_with(owner, &sinks, spec.clone());
    for _ in 0..draw.usize(0..8) {
        for op in [Op::Claim, Op::TakeOver, Op::Contents, Op::Settle, Op::Expired, Op::Extend] {
            let faults = [Fault::ReplyLost, Fault::RequestLost, Fault::Refused("NOPERM")];
            let few = (0..draw.usize(0..3)).map(|_| faults[draw.usize(0..3)].clone()).collect::<Vec<_>>();
            world.server.fail(op, few);
        }
        tokio::time::sleep(LEASE.mul_f64(1.5 * draw.f64())).await;
        if draw.bool() {
            owner += 1;
            drop(bridge);
            bridge = world.bridge_with(owner, &sinks, spec.clone());
        }
    }
    all.extend([20, 21, 22]);
    all.sort_unstable();
    let arrives = || first_taken(&sink, |_| true).len() == all.len();
    within(HOUR, &format!("everything of seed {seed} to arrive"), arrives).await;
    assert_eq!(first_taken(&sink, |_| true), all, "seed {seed}: of {claims:?}");
    drop(bridge);
}

#[test]
fn whatever_processes_leave_behind_is_delivered_in_its_order() {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let many = number("DELAYBRIDGE_SEEDS").unwrap_or(60);
    for seed in number("DELAYBRIDGE_SEED").map_or(0..many, |seed| seed..seed + 1) {
        println!("seed {seed}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(in_pieces(seed));
    }
}
