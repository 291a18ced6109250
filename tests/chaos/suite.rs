//! The entry points: one seed for `make chaos`, and the fixed ones of the tests.

use std::path::PathBuf;
use std::time::Duration;

use crate::forgets::{How, forget};
use crate::gateway::{self, GatewayPlan};
use crate::offers::now_ms;
use crate::options::{Options, VARIABLE};
use crate::others;
use crate::plan::Plan;
use crate::planted::{ALL, Planted, honest, notice};
use crate::report::report;
use crate::run::{Outcome, run, write};
use crate::shrink::shrink;

/// The folder of the runs' files.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("chaos").join(name)
}

async fn play(options: &Options, plan: &Plan, name: &str) -> Outcome {
    let outcome = run(plan, options.lie.as_deref(), &folder(name)).await;
    let text = report(&outcome);
    write(&outcome.folder, "report.txt", &text);
    println!("{text}");
    outcome
}

/// `make chaos`: the run that the variable describes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "make chaos"]
async fn asked() {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let options = Options::parse(&text).unwrap_or_else(|e| panic!("{VARIABLE}={text:?}: {e}"));
    let plan = Plan::new(&options);
    println!("{plan}");
    if options.plan {
        return;
    }
    // A run that breaks a rule under load may not do so again: another run does not replace its files.
    let name = format!("seed-{}-{}-{}", options.seed, options.profile, now_ms());
    let outcome = play(&options, &plan, &name).await;
    let Some(first) = outcome.violations.first() else { return };
    let few = shrink(&plan, first.rule, options.lie.as_deref(), &outcome.folder, options.shrink).await;
    let few: Vec<String> = few.iter().map(ToString::to_string).collect();
    panic!(
        "seed {} breaks {}; these faults are enough: --only {} (files in {})",
        options.seed,
        first.rule.name(),
        few.join(","),
        outcome.folder.display()
    );
}

/// `make chaos PROFILE=gateway`: the way in.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "make chaos PROFILE=gateway"]
async fn the_way_in() {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let options = Options::parse(&text).unwrap_or_else(|e| panic!("{VARIABLE}={text:?}: {e}"));
    let plan = GatewayPlan::new(options.seed, options.length, options.only.as_ref());
    println!("{plan}");
    if options.plan {
        return;
    }
    let folder = folder(&format!("gateway-{}", options.seed));
    let broken = gateway::play(&plan, options.lie.as_deref(), &folder).await;
    let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "seed {} (files in {}):\n{}", options.seed, folder.display(), lines.join("\n"));
}

/// One fixed seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fixed_seed_breaks_no_rule() {
    let options = Options { seed: 19, length: Duration::from_secs(60), ..Options::default() };
    let outcome = play(&options, &Plan::new(&options), "fixed").await;
    assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
}

/// Two fixed lies; `make chaos-plant` plays all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_lies_are_noticed_by_their_rules() {
    let told = |lie: &str| ALL.iter().find(|planted| planted.lie == lie).expect("a lie of this name");
    let folder = folder("planted");
    let tell = async |lie: &str| {
        let took = notice(told(lie), &folder).await.unwrap_or_else(|instead| panic!("{instead}"));
        println!("{lie}: noticed by `{}` after {:.0} s", told(lie).rule.name(), took.as_secs_f64());
    };
    tokio::join!(tell("flipped_byte"), tell("claim_without_fence"));
}

/// `make chaos-plant`: all lies, or the one that the variable names, with the seconds until each was detected.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "make chaos-plant"]
async fn every_lie_is_noticed_by_its_rule() {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let options = Options::parse(&text).unwrap_or_else(|e| panic!("{VARIABLE}={text:?}: {e}"));
    let meant = |planted: &&Planted| options.lie.as_ref().is_none_or(|lie| lie == planted.lie);
    let mut missed = Vec::new();
    println!("| lie | noticed by | after |\n|---|---|---|");
    for planted in ALL.iter().filter(meant) {
        // A rule that is broken without the lie detects nothing.
        missed.extend(honest(planted, &folder("planted")).await.err());
        match notice(planted, &folder("planted")).await {
            Ok(took) => println!("| {} | {} | {:.0} s |", planted.lie, planted.rule.name(), took.as_secs_f64()),
            Err(instead) => missed.push(instead),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

/// `make chaos-others`: the alternatives under the same faults.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "make chaos-others"]
async fn others_under_the_same_faults() {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let options = Options::parse(&text).unwrap_or_else(|e| panic!("{VARIABLE}={text:?}: {e}"));
    println!(
        "| consumer | kills | stops | Redis killed | taken | lost | handled twice | dead | left |\n\
         |---|---|---|---|---|---|---|---|---|"
    );
    for kind in others::ALL {
        let seen = others::play(kind, options.seed, options.length).await;
        println!("| {kind} | {seen} |");
        let ours = kind == others::Kind::Delaybridge;
        assert!(!ours || seen.lost.is_empty(), "lost by a daemon: {:?}", seen.lost);
    }
}

/// `make chaos-forget`: the losses of Redis itself, separate from those of the daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "make chaos-forget"]
async fn what_redis_forgets_is_counted_apart() {
    println!(
        "| Redis | taken | lost by Redis | lost by us | back | twice | unannounced |\n|---|---|---|---|---|---|---|"
    );
    let mut lost = Vec::new();
    for how in [How::EverySecond, How::Snapshot, How::Replica] {
        for seed in 1..=3 {
            let forgot = forget(how, seed).await;
            println!("| {how:?} | {forgot} |");
            if forgot.lost_by_us > 0 {
                lost.push((how, seed, forgot));
            }
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}
