//! Random histories of queues in order, on paused time: nothing overtakes, whatever happens.

use super::order::{first_taken, in_order, world};
use super::order_runs::{sink_of_keys, sink_of_runs};
use super::*;
use crate::tests::world::Trouble;
use delaybridge_core::template::Template;
use delaybridge_model::Ordered;
use delaybridge_testing::memory::{Fault, Op, element};

/// One seed: two processes, of which some are killed, stopped, cut off or frozen, on connections that lose what they carry, a server
/// that refuses and may be replaced by its replica, and a sink that fails now and then. `forgets`: whatever replaces the server lacks
/// its last calls, and the sink fails three of ten. `in_runs`: the sink takes runs, or the first of each key together.
async fn whatever_happens(seed: u64, by_key: bool, forgets: bool, in_runs: bool) {
    let mut draw = fastrand::Rng::with_seed(seed);
    let sink = match (in_runs, seed % 3) {
        (false, _) => sink(),
        (true, 0) => sink_of_keys(),
        (true, _) => sink_of_runs(),
    };
    let world = world();
    let sinks = [("s", sink.clone())];
    let key = Ordered::Key(Some(Box::new(Template::compile("${payload}").unwrap())));
    let order = if by_key { key } else { Ordered::Queue };
    let mut spec =
        QueueSpec { max_in_flight: MaxInFlight::Fixed(draw.u32(1..12)), lease: 4 * SECOND, ..in_order(&sinks, order) };
    // By itself, so that the seeds that broke something still do the same.
    spec.max_rate = (seed % 7 == 2).then(|| Box::new(20.0));
    if forgets {
        Arc::make_mut(&mut spec.retry).max_attempts = u32::MAX;
    }
    let keys = ["a", "b", "c"];
    let mut due_ms = Vec::new();
    let mut elements = Vec::new();
    for n in 0..120 {
        due_ms.push(world.server.now_ms() + draw.i64(100..20_000));
        elements.push(element(id(n), keys[draw.usize(0..3)].as_bytes()));
        world.store.offer_at(elements.last().unwrap().clone(), *due_ms.last().unwrap());
    }
    // By itself as well.
    let mut bodies = fastrand::Rng::with_seed(!seed);
    let mut owner = 0;
    let mut start = || {
        owner += 1;
        world.bridge_with(owner, &sinks, spec.clone())
    };
    let mut bridges = vec![start(), start()];
    let durable = draw.bool();
    if durable {
        world.server.await_replica();
    }
    if forgets {
        world.server.lag();
        sink.otherwise(uneven(seed, SECOND));
    }
    for _ in 0..draw.usize(10..40) {
        let at = draw.usize(0..bridges.len());
        if bodies.u8(0..4) == 0 {
            bridges[at].wire.leave_unread(elements[bodies.usize(0..120)].clone());
        }
        match draw.u8(0..if forgets { 26 } else { 18 }) {
            18.. => {
                let _ = world.server.promote_behind(draw.usize(0..20));
            }
            0..2 => {
                let _ = bridges.swap_remove(at);
                bridges.push(start());
            }
            2 => {
                bridges.swap_remove(at).stop(5 * SECOND).await;
                bridges.push(start());
            }
            3 => bridges[at].wire.connect(false),
            4 => bridges.iter().for_each(|bridge| bridge.wire.connect(true)),
            5 => bridges[at].wire.freeze(true),
            6 => bridges.iter().for_each(|bridge| bridge.wire.freeze(false)),
            7 => sink.outage(Some(failure(Class::Transient, "down"))),
            8 | 9 => sink.outage(None),
            10 => sink.outage(Some(failure(Class::TargetPermanent, "NOPERM"))),
            // A key of a wrong type: the first refusals are claims, or verdicts of what is in hand.
            11 => {
                for op in [Op::Claim, Op::TakeOver, Op::Settle] {
                    world.server.fail(op, vec![Fault::Refused("WRONGKEY"); draw.usize(0..4)]);
                }
            }
            12 => bridges[at].wire.trouble(Trouble { slow: SECOND.mul_f64(draw.f64()), lost: 0.3 * draw.f64() }),
            13 => bridges.iter().for_each(|bridge| bridge.wire.trouble(Trouble::default())),
            14 if durable => world.server.cut_replica(),
            15 if durable => world.server.reach_replica(),
            16 if durable => world.server.promote_replica(),
            _ => {
                let slow = Duration::from_millis(draw.u64(0..900));
                match (forgets, in_runs) {
                    (true, _) => sink.otherwise(uneven(draw.u64(..), slow)),
                    (false, true) => sink.otherwise(unsure(draw.u64(..), slow)),
                    (false, false) => sink.otherwise(move |_| Step::ConfirmAfter(slow)),
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(draw.u64(10..3_000))).await;
    }
    sink.outage(None);
    sink.otherwise(|_| Step::Confirm);
    world.server.reach_replica();
    for bridge in &bridges {
        bridge.wire.trouble(Trouble::default());
        bridge.wire.freeze(false);
    }
    // A call that waited since then gives up, and its connection is gone.
    tokio::time::sleep(MINUTE).await;
    bridges.iter().for_each(|bridge| bridge.wire.connect(true));
    world.until_empty().await;
    for key in keys {
        let taken = first_taken(&sink, |message| !by_key || message.body == key);
        assert!(taken.is_sorted_by_key(|n| due_ms[*n as usize]), "seed {seed}, {key}: {taken:?}");
    }
    // By key, others prove now and then that the destination works, so that failures count. Else only those do that came behind an
    // element, after it: a crash or a failover that forgets this brings it back, and it may be dead then.
    let taken = sink.taken();
    let dead = world.store.dead();
    let died_ms =
        |n: u64| dead.iter().find(|letter| letter.text("id") == id(n).to_string()).map(|letter| letter.text("died_ms"));
    let taken_ms = |n: u64| taken.iter().find(|message| number(message) == n).map(|message| message.now_ms);
    for n in 0..120 {
        match (taken_ms(n), died_ms(n)) {
            (None, died) => assert!(by_key && died.is_some(), "seed {seed}: {n} is lost, dead: {died:?}"),
            (Some(taken_ms), Some(died)) => {
                assert!(by_key || taken_ms <= died.parse().unwrap(), "seed {seed}: {n} is dead")
            }
            (Some(_), None) => {}
        }
    }
}

/// A sink that fails three of ten, and confirms the others up to `slow` later.
fn uneven(seed: u64, slow: Duration) -> impl FnMut(&Outbound) -> Step + Send + 'static {
    let mut draw = fastrand::Rng::with_seed(seed);
    move |_| match draw.u8(0..10) {
        0..3 => Step::FailAfter(slow.mul_f64(draw.f64()), failure(Class::Transient, "500")),
        _ => Step::ConfirmAfter(slow.mul_f64(draw.f64())),
    }
}

/// A sink that fails one of ten, and takes one of ten without an answer; in a run, perhaps those behind it too.
fn unsure(seed: u64, slow: Duration) -> impl FnMut(&Outbound) -> Step + Send + 'static {
    let mut draw = fastrand::Rng::with_seed(seed);
    move |_| match draw.u8(0..10) {
        0 => Step::FailAfter(slow.mul_f64(draw.f64()), failure(Class::Transient, "500")),
        1 => Step::FailAfterTaking(failure(Class::Ambiguous, "lost")),
        _ => Step::ConfirmAfter(slow.mul_f64(0.1 * draw.f64())),
    }
}

/// Elements that are all there when the first falls due are delivered in the order of their due times.
#[test]
fn whatever_happens_nothing_is_overtaken() {
    play(30, false, false);
}

/// The same where servers come back with older data.
#[test]
fn whatever_a_server_forgets_nothing_is_overtaken() {
    play(30, true, false);
}

/// The same at a sink that takes runs.
#[test]
fn whatever_happens_to_runs_nothing_is_overtaken() {
    play(30, false, true);
}

/// The same at a sink that takes runs, where servers come back with older data.
#[test]
fn whatever_a_server_forgets_of_runs_nothing_is_overtaken() {
    play(30, true, true);
}

fn play(seeds: u64, forgets: bool, in_runs: bool) {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let many = number("DELAYBRIDGE_SEEDS").unwrap_or(seeds);
    for seed in number("DELAYBRIDGE_SEED").map_or(0..many, |seed| seed..seed + 1) {
        println!("seed {seed}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(whatever_happens(seed, seed % 2 == 1, forgets, in_runs));
    }
}
