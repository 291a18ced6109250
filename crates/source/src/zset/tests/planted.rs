//! Bugs that are planted in the set's fragments of the claim script: the random histories notice each of them.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::walk::World;
use super::*;
use crate::zset::scripts::FRAGMENTS;
use delaybridge_ledger::Scripts;
use delaybridge_ledger::claims::Patch;
use delaybridge_link::Clock;
use delaybridge_settings::words::Words as _;
use delaybridge_testing::store::walk::Walk;

/// Seeds that each bug is tried on. The first that notices it ends the search.
const SEEDS: u64 = 100;

const BUGS: [(&str, Patch<'static>); 7] = [
    (
        "it takes what is not due",
        ("claim", "look(Z, raw(now + tonumber(ARGV[12]))", "look(Z, raw(now + 500 + tonumber(ARGV[12]))"),
    ),
    ("it mistakes the unit", ("claim", "return at * times / by + more", "return at * times / by * 1.001 + more")),
    ("it leaves what it took", ("claim", "  call('ZREMRANGEBYRANK', Z, 0, got_z - 1)\n", "")),
    (
        "it removes one more than it took",
        ("claim", "call('ZREMRANGEBYRANK', Z, 0, got_z - 1)", "call('ZREMRANGEBYRANK', Z, 0, got_z)"),
    ),
    ("it takes nothing over", ("claim", "  call('ZRANGESTORE', D, Z, 0, got_z - 1)\n", "")),
    (
        "it takes one less than it removes",
        ("claim", "call('ZRANGESTORE', D, Z, 0, got_z - 1)", "call('ZRANGESTORE', D, Z, 1, got_z - 1)"),
    ),
    (
        "it rewrites scores in ms",
        (
            "claim",
            "call('ZRANGESTORE', D, Z, 0, got_z - 1)",
            "for i = 1, #elements, 2 do call('ZADD', D, ms(now), elements[i]) end",
        ),
    ),
];

#[tokio::test]
async fn every_planted_bug_is_noticed() {
    let servers = Servers::one();
    for (n, (bug, patch)) in BUGS.iter().enumerate() {
        // For the rest of the process, as the real ones.
        let scripts = Scripts::patched(&FRAGMENTS, Clock::Test, &[*patch]);
        let scripts: &'static Scripts = Box::leak(Box::new(scripts));
        let mut noticed = None;
        for seed in 0..SEEDS {
            let (_, unit) = Unit::VALUES[seed as usize % Unit::VALUES.len()];
            let key = format!("bug{n}-{seed}");
            let mut rig = ZsetRig::of(&key, unit, Naming::Hash, Body::Member, servers.clone()).await;
            rig.source = Arc::new(ZsetSource { scripts, ..(*rig.source).clone() });
            let mut world = World::new(seed, unit);
            if AssertUnwindSafe(world.run(&mut rig, 40)).catch_unwind().await.is_err() {
                noticed = Some(seed);
                break;
            }
        }
        assert!(noticed.is_some(), "no history of {SEEDS} notices: {bug}");
        println!("{bug}: seed {}", noticed.unwrap_or_default());
    }
}

/// What a walk over some seeds panics with, if one does.
async fn panics(walk: impl AsyncFn(u64)) -> Option<String> {
    for seed in 0..20 {
        if let Err(reason) = AssertUnwindSafe(walk(seed)).catch_unwind().await {
            return Some(reason.downcast_ref::<String>().cloned().unwrap_or_default());
        }
    }
    None
}

#[tokio::test]
async fn claims_that_wait_for_no_replica_are_noticed() {
    let servers = Servers::replicated();
    let noticed = panics(async |seed| {
        let mut rig = ZsetRig::seeded(&servers, seed).await;
        rig.daemon.durable = None;
        Walk::new(&rig, seed).run_replicated(&mut rig, 80).await;
    })
    .await;
    let noticed = noticed.expect("a history that notices it");
    assert!(noticed.contains("were answered without the replica") || noticed.contains("the replica has"), "{noticed}");
}
