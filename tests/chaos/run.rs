//! A run: warm-up and faults, repair, settling within the bound, verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::fates;
use crate::foreign;
use crate::jobs::{self, Crowd};
use crate::judge::{Violation, judge};
use crate::offers::{Answer, Book, QUEUES};
use crate::plan::Plan;
use crate::play::{resume_all, strand, strands};
use crate::produce::Producer;
use crate::quiet;
use crate::source::Guide;
use crate::stage::Stage;
use crate::strangers;
use crate::what::Side;

/// Sizes of the elements that must arrive at the end, in bytes.
const PROBES: [usize; 4] = [60, 5_000, 100_000, 1_000_000];
/// Time for which commands of idle daemons are counted.
const REST: Duration = Duration::from_secs(2);

pub struct Outcome {
    pub evidence: Evidence,
    pub violations: Vec<Violation>,
    /// The folder with its files.
    pub folder: PathBuf,
}

/// Plays a schedule and judges the result.
pub async fn run(plan: &Plan, lie: Option<&str>, folder: &Path) -> Outcome {
    std::fs::create_dir_all(folder).unwrap_or_else(|e| panic!("create {}: {e}", folder.display()));
    write(folder, "plan.txt", &plan.to_string());
    let stage = Stage::start(plan, lie).await;
    let book = Arc::new(Book::default());
    let end = CancellationToken::new();
    let watch = tokio::spawn(Arc::clone(&stage).watch(end.clone()));
    let clock = tokio::spawn(Arc::clone(&stage).watch_the_clock(end.clone()));
    let collected = CancellationToken::new();
    let collector = stage.target.lock().await.collect(collected.clone());
    let began = Instant::now();
    let mut work = JoinSet::new();
    let delivers = plan.settings.profile.delivers();
    let mut crowd = (!delivers).then(|| Crowd::start(&stage, plan, &book, began + plan.length));
    for queue in (0..QUEUES.len()).filter(|_| delivers) {
        let producer = Producer::new(&stage.guide, plan.seed, queue, Arc::clone(&book));
        let producer = if plan.settings.fails { producer.in_bursts() } else { producer };
        let rate = plan.settings.orders.rate(queue, plan.settings.rate);
        work.spawn(producer.run(rate, began + plan.length));
    }
    let faults = strands(plan).into_iter().map(|faults| strand(Arc::clone(&stage), Arc::clone(&book), began, faults));
    join_all(faults).await;
    while let Some(done) = work.join_next().await {
        done.expect("producers go on to their end");
    }
    if let Some(crowd) = &mut crowd {
        crowd.added().await;
    }
    sleep_until(began + plan.length).await;

    // Every fault is undone at its end.
    let healed = Instant::now();
    for seat in 0..stage.seats.len() {
        stage.start_daemon(seat).await;
    }
    resume_all(&stage, plan).await;
    if plan.settings.fails {
        stage.target.lock().await.receiver().fails(None);
    }
    for queue in (0..QUEUES.len()).filter(|_| delivers) {
        foreign::remove(&stage, queue).await;
    }
    let hostile = if plan.settings.profile.is_hostile() { QUEUES.len() } else { 0 };
    for queue in 0..hostile {
        strangers::come(&stage, queue).await;
    }
    if hostile > 0 {
        // Its elements in flight are settled all the same, together with them.
        stage.ended(stage.seats[0].kill().await);
        stage.start_daemon(0).await;
    }
    if let Some(crowd) = &crowd {
        crowd.probe(&stage, plan, &book, &PROBES).await;
    }
    for queue in (0..QUEUES.len()).filter(|_| delivers) {
        let probe = Producer::new(&stage.guide, plan.seed, queue, Arc::clone(&book));
        probe.probe(&PROBES).await;
    }
    let mut redis = stage.clients().await;
    let mut stuck = if delivers {
        quiet::settled(&mut redis, healed + plan.bound()).await.err()
    } else {
        jobs::look::settled(&mut redis, healed + plan.bound()).await.err()
    };
    let settled_after = healed.elapsed();
    for queue in 0..hostile {
        strangers::go(&stage, queue).await;
    }
    if hostile > 0 && delivers && stuck.is_none() {
        // Claims end that only they kept.
        stuck = quiet::settled(&mut redis, Instant::now() + plan.bound()).await.err();
    }
    let residue = match (&stuck, delivers) {
        (Some(_), _) => Vec::new(),
        (None, true) => quiet::residue(&mut redis).await,
        (None, false) => jobs::look::residue(&mut redis).await,
    };
    let handed = match crowd {
        Some(crowd) => crowd.end().await,
        None => Vec::new(),
    };
    let died = if delivers { Vec::new() } else { jobs::look::dead(stage.seats[0].link(Side::Target).port()).await };
    // Replicas and sentinels send commands as well.
    let idle_commands = match &stage.guide {
        Guide::Fixed(_) => commands_at_rest(&mut redis.0[0]).await,
        _ => 0.0,
    };
    end.cancel();
    watch.await.expect("the watch goes on to its end");
    clock.await.expect("the clock goes on to its end");
    for seat in &stage.seats {
        seat.scrape().await;
        stage.ended(seat.terminate().await);
    }
    collected.cancel();
    if let Some(collector) = collector {
        collector.await.expect("the collector goes on to its end");
    }
    let (arrivals, dead) = if delivers {
        let arrivals = quiet::arrivals(&*stage.target.lock().await, plan.seed, &book, plan.settings.trail).await;
        (arrivals, quiet::dead_letters(&mut redis).await)
    } else {
        (jobs::judge::arrivals(&handed), died)
    };
    let records = if plan.settings.trail { fates::records(&*stage.target.lock().await).await } else { Vec::new() };
    let (lives, struck, stalls) = stage.take_seen();
    let clock = stage.clock.as_ref().map(Clock::history).unwrap_or_default();
    let mut offers = book.all();
    if !clock.is_empty() {
        // By a clock that was ahead, it may have been due.
        offers.iter_mut().for_each(|offer| offer.withdrawn = offer.withdrawn.map(|_| Answer::Unknown));
    }
    let evidence = Evidence {
        plan: plan.clone(),
        offers,
        clock,
        arrivals,
        handed,
        dead,
        records,
        struck,
        lives,
        stalls,
        stuck,
        residue,
        settled_after,
        idle_commands,
    };
    let violations = judge(&evidence);
    if !violations.is_empty() {
        for life in &evidence.lives {
            write(folder, &format!("process-{}.log", life.number), &life.log.join("\n"));
        }
        write(folder, "offers.txt", &lines(&evidence.offers));
        write(folder, "arrivals.txt", &lines(&evidence.arrivals));
        write(folder, "handed.txt", &lines(&evidence.handed));
        write(folder, "struck.txt", &lines(&evidence.struck));
    }
    Outcome { evidence, violations, folder: folder.to_owned() }
}

fn lines<T: std::fmt::Debug>(all: &[T]) -> String {
    all.iter().map(|one| format!("{one:?}\n")).collect()
}

/// Number of commands that Redis runs in a second, without those of the test.
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
