//! Every state of the protocol keeps the rules, and every hole is noticed by one of them.

use std::time::Instant;

use protocol::protocol::{Bounds, Protocol};
use protocol::{HOLES, Hole};
use stateright::{Checker, HasDiscoveries, Model};

const NONE: Bounds = Bounds { elements: 2, daemons: 2, claims: 1, expiries: 0, crashes: 0, failovers: 0, losses: 0 };

/// What goes wrong together. All at once has too many orders for a minute.
const WORLDS: [(&str, Bounds); 7] = [
    ("a process dies, and its lease runs out", Bounds { claims: 2, expiries: 1, crashes: 1, ..NONE }),
    ("a lease runs out, and a reply is lost", Bounds { expiries: 1, losses: 1, ..NONE }),
    ("one daemon, a failover and a lost reply", Bounds { daemons: 1, claims: 2, failovers: 1, losses: 1, ..NONE }),
    ("a failover and a lease that runs out", Bounds { failovers: 1, expiries: 1, ..NONE }),
    (
        "a process dies, its lease runs out, and a reply is lost",
        Bounds { claims: 2, expiries: 1, crashes: 1, losses: 1, ..NONE },
    ),
    ("one daemon, two failovers", Bounds { daemons: 1, claims: 2, failovers: 2, ..NONE }),
    (
        "everything, to one element",
        Bounds { elements: 1, daemons: 2, claims: 2, expiries: 1, crashes: 1, failovers: 1, losses: 1 },
    ),
];

#[test]
fn every_state_keeps_the_rules() {
    for (what, bounds) in WORLDS {
        let begun = Instant::now();
        let checked = Protocol { bounds, hole: None }.checker().threads(2).spawn_bfs().join();
        println!(
            "{what}: {} states, {} steps at most, {:.1} s",
            checked.unique_state_count(),
            checked.max_depth(),
            begun.elapsed().as_secs_f64()
        );
        checked.assert_properties();
    }
}

#[test]
fn every_hole_is_found() {
    for hole in HOLES {
        let found = WORLDS.iter().find_map(|(what, bounds)| {
            let model = Protocol { bounds: *bounds, hole: Some(hole) };
            let checked = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
            let broken = checked.discoveries().into_iter().find(|(rule, _)| rule.starts_with(rule_of(hole)));
            broken.map(|(rule, path)| (what, rule, path.into_actions()))
        });
        let (what, rule, steps) = found.unwrap_or_else(|| panic!("{hole:?} was not noticed"));
        println!("{hole:?}: {what}: {rule}: {steps:?}");
    }
}

/// The rule that notices a hole.
fn rule_of(hole: Hole) -> &'static str {
    match hole {
        Hole::EndsWholeBlindly | Hole::UnknownIsSuccess => "R1",
        Hole::LeaseGoesFirst | Hole::BuriesLostClaim => "R5",
        Hole::OwnClock => "R9",
        Hole::KeepsName | Hole::TakesRunning | Hole::NoFence => "R3",
        Hole::OffersBlindly | Hole::RetriesInTwoSteps => "R2",
    }
}
