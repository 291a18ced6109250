//! Claim, reading of jobs and settling with few and with very many jobs in a pool: the library's own calls alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use delaybridge_ledger::claims::{ClaimName, ClaimReply, ClaimRequest, Confirmed, SettleCommand, SettleOp, Whole};
use delaybridge_ledger::redis::RedisStore;
use delaybridge_ledger::store::Claims;
use delaybridge_ledger::{Hints, Source};
use delaybridge_link::{Link, LinkOptions};
use delaybridge_source::job_pool::{JobPool, JobPoolSpec, PRESETS};
use redis::aio::MultiplexedConnection;

use crate::observed::{Counters, log_scripts, longest_scripts, show_longest};
use crate::report::Table;
use crate::settings::{number, numbers, said};
use harness::redis_server::RedisServer;

pub(crate) const DEPTHS: &[usize] = &[1_000, 100_000, 1_000_000];
/// Maximum number of jobs drained at each depth.
const DRAIN: usize = 20_000;
/// The measured layouts: one hash for all jobs, and a string for each.
const LAYOUTS: [&str; 2] = ["yii2", "hdt3213"];

/// Measures the table of `ROWS=pools`.
pub async fn measure() -> Result<Table> {
    let depths = numbers("DEPTHS", DEPTHS)?;
    let size = number("SIZE", 256)?;
    let columns =
        ["layout", "pending", "drained", "us of Redis each", "to least depth", "jobs/s with client", "longest scripts"];
    let mut table = Table::new(format!("Job pools: claim, reading of jobs and settling alone, {size} B"), &columns);
    for layout in LAYOUTS {
        let mut least = None;
        for &depth in &depths {
            said(&format!("pools: {layout}, {depth} pending"));
            let mut cells =
                at(layout, depth, size).await.with_context(|| format!("drain {layout} with {depth} pending"))?;
            let us: f64 = cells[3].parse()?;
            cells.insert(4, format!("{:.1}x", us / *least.get_or_insert(us)));
            table.lines.push(cells);
        }
    }
    table.notes = vec![
        "us of Redis each: scripts, and the reads of sizes and jobs.".into(),
        "to least depth: beside the first row of the same layout.".into(),
    ];
    Ok(table)
}

async fn at(layout: &str, depth: usize, size: usize) -> Result<Vec<String>> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let Some((.., fill)) = PRESETS.iter().find(|(name, ..)| *name == layout) else { bail!("no preset {layout}") };
    let spec = JobPoolSpec::of(fill("bench"));
    let body = format!("300;{}", "x".repeat(size.saturating_sub(4)));
    for first in (0..depth).step_by(5_000) {
        let mut pipe = redis::pipe();
        for n in first..(first + 5_000).min(depth) {
            match layout {
                "yii2" => pipe.hset("bench.messages", n, &body),
                _ => pipe.set(format!("dp:bench:msg:{n}"), &body),
            };
            pipe.zadd(&spec.buckets[0], n, 1_000 + n as i64);
        }
        pipe.exec_async(&mut redis).await?;
    }
    drain(&server, &mut redis, Arc::new(JobPool::of(&spec)), layout, depth).await
}

/// Claims and settles the due jobs of a queue; returns a row.
pub(crate) async fn drain(
    server: &RedisServer,
    redis: &mut MultiplexedConnection,
    source: Arc<dyn Source>,
    layout: &str,
    depth: usize,
) -> Result<Vec<String>> {
    let scripts = source.scripts().all().into_iter().cloned().collect();
    let options = LinkOptions { scripts, ..LinkOptions::default() };
    let link = Link::start(Arc::new(server.endpoint()), options);
    link.ready().await;
    let owner = fastrand::u64(..).to_le_bytes();
    let has_bodies = source.bodies().is_some();
    let store = RedisStore::new(link.clone(), source, owner);
    log_scripts(redis).await?;
    let before = Counters::read(redis).await?;
    let started = Instant::now();
    let mut drained = 0;
    let mut number = 0;
    while drained < DRAIN.min(depth) {
        number += 1;
        let request = ClaimRequest {
            name: ClaimName::new(owner, number),
            not_after_ms: i64::MAX >> 1,
            lease: Duration::from_secs(60),
            ahead: Duration::ZERO,
            most: 500,
            bytes: 1 << 20,
            rotation: number,
            hints: Hints::default(),
            back_before_ms: None,
        };
        let ClaimReply::Claimed(claimed) = store.claim(&request).await? else { bail!("a claim did not run") };
        ensure!(!claimed.elements.is_empty(), "a claim took nothing");
        let verdict = |element: &delaybridge_ledger::claims::Element| SettleCommand {
            claim: request.name,
            part: element.part(),
            member: element.member.clone(),
            step: SettleOp::Confirm,
            body: element.body_bytes().cloned(),
        };
        let count = claimed.elements.len();
        if has_bodies {
            let verdicts: Vec<_> = claimed.elements.iter().map(verdict).collect();
            // The daemon's own batch size.
            for some in verdicts.chunks(250) {
                store.settle(some, None, None).await?;
            }
        } else {
            let whole = Whole { name: request.name, bare: count, entries: 0 };
            let answers = store.confirm(&[whole]).await?;
            ensure!(answers == [Confirmed::Done], "a claim was not confirmed");
        }
        drained += count;
    }
    let after = Counters::read(redis).await?;
    let seconds = started.elapsed().as_secs_f64();
    let us = after.us_since(&before, &["evalsha", "hget", "hstrlen", "get", "strlen", "unlink"]) / drained as f64;
    let longest = show_longest(&longest_scripts(redis).await?);
    link.close().await;
    let per_second = drained as f64 / seconds;
    Ok(vec![
        layout.into(),
        depth.to_string(),
        drained.to_string(),
        format!("{us:.1}"),
        format!("{per_second:.0}"),
        longest,
    ])
}
