//! Rates, CPU, memory and lateness of the job queues over a network: the same clients, connections and bodies for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::client::Client;
use super::servers::{Peer, Server};
use super::{CONSUMERS, Kept, PRODUCERS, Ran, each, gathered, own_cpu, p99};

/// The delay of a job whose lateness is measured: lmstfy and beanstalkd have whole seconds only.
const DELAY_SECONDS: u64 = 3;
/// The interval of such jobs for each producer.
const INTERVAL: Duration = Duration::from_millis(20);
/// Their number for each producer.
const DELAYED: usize = 400;
/// Time-out for them: faktory looks for due jobs every five seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Measures adds, then takes from the full queue, each job finished before the next.
pub(super) async fn run(peer: Peer, count: usize, kept: Kept) -> Result<Ran> {
    let mut server = Server::start(peer, kept).await?;
    let port = server.port;
    let mut ran = Ran::default();
    let (before, own_before) = (server.usage(), own_cpu());
    let began = Instant::now();
    let producer = |producer: usize| {
        tokio::spawn(async move {
            let mut client = Client::connect(peer, port).await.expect("connect");
            let mut times = Vec::new();
            for n in 0..count / PRODUCERS {
                let at = Instant::now();
                client.add(n * PRODUCERS + producer, 0).await.expect("add");
                times.push(at.elapsed());
            }
            times
        })
    };
    let times = gathered((0..PRODUCERS).map(producer).collect()).await?;
    let added = times.len();
    ran.add_rate = added as f64 / began.elapsed().as_secs_f64();
    ran.add_p99 = p99(times);
    let (full, full_redis) = server.usage();
    ran.memory = Some((full.resident + full_redis.map_or(0, |redis| redis.resident)) as f64 / 1e6);

    // Without a job, faktory answers after two seconds; so no more jobs are asked for than there are.
    let left = Arc::new(AtomicUsize::new(added));
    let began = Instant::now();
    let consumer = |_| {
        let left = left.clone();
        tokio::spawn(async move {
            let mut client = Client::connect(peer, port).await.expect("connect");
            let mut times = Vec::new();
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                let at = Instant::now();
                let job = client.take().await.expect("take").expect("a job is ready");
                assert!(client.finish(&job).await.expect("finish"), "a finished job is its consumer's");
                times.push(at.elapsed());
            }
            times
        })
    };
    let times = gathered((0..CONSUMERS).map(consumer).collect()).await?;
    ran.take_rate = times.len() as f64 / began.elapsed().as_secs_f64();
    ensure!(times.len() == added, "{} of {added} jobs were taken", times.len());
    ran.take_p99 = p99(times);
    let after = server.usage();
    let cpu = each(after.0.cpu, before.0.cpu, added);
    match (after.1, before.1) {
        (Some(after), Some(before)) => {
            ran.daemon_us = Some(cpu);
            ran.server_us = each(after.cpu, before.cpu, added);
        }
        _ => ran.server_us = cpu,
    }
    ran.client_us = each(own_cpu(), own_before, added);
    Ok(ran)
}

/// Milliseconds between the due times of jobs and their arrival at a waiting consumer, sorted; negative if it was too early.
pub(super) async fn lateness(peer: Peer, kept: Kept) -> Result<Vec<f64>> {
    let server = Server::start(peer, kept).await?;
    let port = server.port;
    let began = Instant::now();
    let total = PRODUCERS * DELAYED;
    let due: Arc<Vec<AtomicU64>> = Arc::new((0..total).map(|_| AtomicU64::new(0)).collect());
    let left = Arc::new(AtomicUsize::new(total));
    let consumer = |_| {
        let (due, left) = (due.clone(), left.clone());
        tokio::spawn(async move {
            let mut client = Client::connect(peer, port).await.expect("connect");
            let mut late = Vec::new();
            while left.load(Ordering::Relaxed) > 0 {
                let Some(job) = client.take().await.expect("take") else { continue };
                let arrived = began.elapsed().as_micros() as f64;
                left.fetch_sub(1, Ordering::Relaxed);
                late.push((arrived - due[job.number].load(Ordering::Relaxed) as f64) / 1e3);
                client.finish(&job).await.expect("finish");
            }
            late
        })
    };
    let consumers: Vec<_> = (0..CONSUMERS).map(consumer).collect();
    let producer = |producer: usize| {
        let due = due.clone();
        tokio::spawn(async move {
            let mut client = Client::connect(peer, port).await.expect("connect");
            // Spread over the interval, and over the second.
            let first = Instant::now() + INTERVAL * producer as u32 / PRODUCERS as u32;
            for n in 0..DELAYED {
                tokio::time::sleep_until((first + INTERVAL * n as u32).into()).await;
                let number = n * PRODUCERS + producer;
                let at = began.elapsed() + Duration::from_secs(DELAY_SECONDS);
                due[number].store(at.as_micros() as u64, Ordering::Relaxed);
                client.add(number, DELAY_SECONDS).await.expect("add");
            }
        })
    };
    let producers: Vec<_> = (0..PRODUCERS).map(producer).collect();
    let mut late = Vec::new();
    let all = async {
        for producer in producers {
            producer.await.context("a producer")?;
        }
        for consumer in consumers {
            late.extend(consumer.await.context("a consumer")?);
        }
        anyhow::Ok(())
    };
    let limit = INTERVAL * DELAYED as u32 + Duration::from_secs(DELAY_SECONDS) + PATIENCE;
    tokio::time::timeout(limit, all).await.context("wait for delayed jobs")??;
    late.sort_by(f64::total_cmp);
    Ok(late)
}
