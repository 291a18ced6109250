//! A run: warm-up and faults, heal, settle within the bound, judge.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::evidence::Evidence;
use crate::judge::{Violation, judge};
use crate::offers::{Book, QUEUES};
use crate::plan::{Plan, Side};
use crate::play::{strand, strands};
use crate::produce::Producer;
use crate::quiet;
use crate::stage::Stage;

/// Sizes of the elements that must pass at the end.
const PROBES: [usize; 4] = [60, 5_000, 100_000, 1_000_000];
/// Over so long commands of daemons at rest are counted.
const REST: Duration = Duration::from_secs(2);

/// What came of a run.
pub struct Outcome {
    /// What it left behind.
    pub evidence: Evidence,
    /// What the oracle says.
    pub violations: Vec<Violation>,
    /// Where its files are.
    pub folder: PathBuf,
}

/// Plays a schedule and judges what came of it.
pub async fn run(plan: &Plan, lie: Option<&str>, folder: &Path) -> Outcome {
    std::fs::create_dir_all(folder).unwrap_or_else(|e| panic!("create {}: {e}", folder.display()));
    write(folder, "plan.txt", &plan.to_string());
    let stage = Stage::start(plan, lie).await;
    let book = Arc::new(Book::default());
    let end = CancellationToken::new();
    let watch = tokio::spawn(Arc::clone(&stage).watch(end.clone()));
    let clock = tokio::spawn(Arc::clone(&stage).watch_the_clock(end.clone()));
    let began = Instant::now();
    let mut work = JoinSet::new();
    for queue in 0..QUEUES.len() {
        let producer = Producer::new(stage.url(Side::Source), plan.seed, queue, Arc::clone(&book));
        work.spawn(producer.run(plan.settings.rate, began + plan.length));
    }
    for faults in strands(plan) {
        work.spawn(strand(Arc::clone(&stage), Arc::clone(&book), began, faults));
    }
    while let Some(done) = work.join_next().await {
        done.expect("producers and faults go on to their end");
    }
    sleep_until(began + plan.length).await;

    // Everything is well again: every fault is undone at its end.
    let healed = Instant::now();
    for seat in 0..stage.seats.len() {
        stage.start_daemon(seat).await;
    }
    for queue in 0..QUEUES.len() {
        let probe = Producer::new(stage.url(Side::Source), plan.seed, queue, Arc::clone(&book));
        probe.probe(&PROBES).await;
    }
    let mut redis = stage.client(Side::Source).await;
    let stuck = quiet::settled(&mut redis, healed + plan.bound()).await.err();
    let settled_after = healed.elapsed();
    let residue = if stuck.is_none() { quiet::residue(&mut redis).await } else { Vec::new() };
    let idle_commands = commands_at_rest(&mut redis).await;
    end.cancel();
    watch.await.expect("the watch goes on to its end");
    clock.await.expect("the clock goes on to its end");
    for seat in &stage.seats {
        seat.scrape().await;
        if stuck.is_some() {
            write(
                folder,
                &format!("log-{}.txt", seat.config().path().display()).replace('/', "-"),
                &seat.log().await.join("\n"),
            );
        }
        stage.ended(seat.terminate().await);
    }
    let mut target = stage.client(Side::Target).await;
    let arrivals = quiet::arrivals(&mut target, plan.seed, &book).await;
    let dead = quiet::dead_letters(&mut redis).await;
    let (lives, struck, stalls) = stage.take_seen();
    let evidence = Evidence {
        plan: plan.clone(),
        offers: book.all(),
        arrivals,
        dead,
        struck,
        lives,
        stalls,
        stuck,
        residue,
        settled_after,
        idle_commands,
    };
    let violations = judge(&evidence);
    Outcome { evidence, violations, folder: folder.to_owned() }
}

/// Commands that Redis runs in a second, without ours.
async fn commands_at_rest(redis: &mut redis::aio::MultiplexedConnection) -> f64 {
    let before = commands(redis).await;
    tokio::time::sleep(REST).await;
    (commands(redis).await - before - 1.0) / REST.as_secs_f64()
}

async fn commands(redis: &mut redis::aio::MultiplexedConnection) -> f64 {
    let info: String = redis::cmd("INFO").arg("stats").query_async(redis).await.expect("ask Redis what it did");
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.and_then(|count| count.trim().parse().ok()).expect("a number of commands")
}

/// Writes a file of the run.
pub fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap_or_else(|e| panic!("write {}: {e}", path.display()));
}
