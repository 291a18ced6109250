//! The cost of a job while very many wait.

use std::time::Duration;

use anyhow::{Context, Result};
use delaybridge_jobs::{Due, NewJob};

use super::library::{queue, topic};
use harness::redis_server::RedisServer;

/// Measures the costs while `depth` jobs wait: some due now, the rest in an hour. Each has a priority from 1 to 9, or none has.
pub(super) async fn run(depth: usize, priorities: bool) -> Result<Vec<String>> {
    const PROBES: usize = 2_000;
    let mut server = RedisServer::start().await;
    let jobs = queue(&server).await;
    let mut redis = server.client().await;
    let memory = |text: String| {
        let used = text.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse::<f64>().ok());
        used.context("INFO has no used_memory")
    };
    let empty = memory(redis::cmd("INFO").arg("memory").query_async(&mut redis).await?)?;
    let priority = |n: usize| if priorities { (n % 9 + 1) as u8 } else { 0 };
    let new = |n: usize| NewJob { priority: priority(n), ..NewJob::new(vec![0; 16]) };
    let mut left = depth;
    while left > 0 {
        let some = left.min(1_000);
        let hour = |n: usize| Due::After(Duration::from_secs(3600) + Duration::from_millis((left + n) as u64));
        let waiting = |n: usize| NewJob { due: hour(n), ..new(n) };
        jobs.add(&topic(), (0..some).map(waiting).collect()).await?;
        left -= some;
    }
    let full = memory(redis::cmd("INFO").arg("memory").query_async(&mut redis).await?)?;
    let began = server.running().usage().cpu;
    for n in 0..PROBES {
        jobs.add(&topic(), vec![new(n)]).await?;
    }
    let added = server.running().usage().cpu;
    for _ in 0..PROBES {
        let job = jobs.pop_now(&topic(), 1, None).await?.jobs.pop().context("a job is ready")?;
        jobs.finish(&job.id, job.token).await?;
    }
    let finished = server.running().usage().cpu;
    let us = |time: Duration| format!("{:.0}", time.as_secs_f64() * 1e6 / PROBES as f64);
    let bytes = (full - empty) / depth as f64;
    Ok(vec![
        depth.to_string(),
        if priorities { "1 to 9" } else { "none" }.to_owned(),
        us(added.saturating_sub(began)),
        us(finished.saturating_sub(added)),
        format!("{bytes:.0}"),
    ])
}
