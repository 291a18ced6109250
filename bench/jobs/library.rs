//! The library in the clients' process, without HTTP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delaybridge_jobs::{Dispenser, JobQueue, JobSettings, NewJob, PopRequest, SCRIPTS, Topic, TopicSettings, wake};
use delaybridge_link::{Link, LinkOptions, Subscriber};
use tokio_util::sync::CancellationToken;

use super::{BODY, CONSUMERS, Kept, PRODUCERS, Ran, each, gathered, own_cpu, p99};
use harness::redis_server::RedisServer;

pub fn topic() -> Topic {
    "bench".parse().expect("a topic")
}

pub async fn queue(server: &RedisServer) -> JobQueue {
    let link = Link::start(Arc::new(server.endpoint()), LinkOptions::default());
    link.ready().await;
    let defaults = TopicSettings { ttr: Duration::from_secs(600), ..TopicSettings::default() };
    JobQueue::new(link, JobSettings { defaults, ..JobSettings::default() }, &SCRIPTS)
}

pub(super) async fn run(count: usize, kept: Kept) -> Result<Ran> {
    let mut server = kept.redis().await;
    let jobs = queue(&server).await;
    let mut ran = Ran::default();
    let server_before = server.running().usage().cpu;
    let own_before = own_cpu();
    let began = Instant::now();
    let producer = |_| {
        let jobs = jobs.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            for _ in 0..count / PRODUCERS {
                let at = Instant::now();
                jobs.add(&topic(), vec![NewJob::new(vec![0; BODY])]).await.expect("add");
                times.push(at.elapsed());
            }
            times
        })
    };
    let times = gathered((0..PRODUCERS).map(producer).collect()).await?;
    let added = times.len();
    ran.add_rate = added as f64 / began.elapsed().as_secs_f64();
    ran.add_p99 = p99(times);

    let (_subscriber, heard) = Subscriber::start(Arc::new(server.endpoint()), vec![wake(&Default::default()).into()]);
    let (dispenser, dispensing) = Dispenser::new(jobs.clone());
    let stop = CancellationToken::new();
    let task = tokio::spawn(dispensing.run(heard, stop.clone()));
    let began = Instant::now();
    let consumer = |_| {
        let jobs = jobs.clone();
        let dispenser = dispenser.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            loop {
                let at = Instant::now();
                let ask = PopRequest { topics: vec![topic()], count: 1, ttr: None, wait: Duration::ZERO };
                let Some(job) = dispenser.take(ask).await.expect("take").pop() else { return times };
                jobs.finish(&job.id, job.token).await.expect("finish");
                times.push(at.elapsed());
            }
        })
    };
    let times = gathered((0..CONSUMERS).map(consumer).collect()).await?;
    ran.take_rate = times.len() as f64 / began.elapsed().as_secs_f64();
    ensure!(times.len() == added, "{} of {added} jobs were taken", times.len());
    ran.take_p99 = p99(times);
    stop.cancel();
    task.await.context("the dispenser")?;
    ran.server_us = each(server.running().usage().cpu, server_before, added);
    ran.client_us = each(own_cpu(), own_before, added);
    Ok(ran)
}
