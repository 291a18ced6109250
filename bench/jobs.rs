//! The job queue beside beanstalkd and asynq, in the same run: adding one job a call, then taking and finishing one a call.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use brokers::process::{Process, command};
use delaybridge::jobs::{
    Dispenser, Due, JobQueue, JobSettings, NewJob, PopRequest, SCRIPTS, Topic, TopicSettings, WAKE,
};
use delaybridge::link::{Link, LinkOptions, Subscriber};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::passage::median;
use crate::ports::free_port;
use crate::redis_server::RedisServer;
use crate::report::{Findings, Table};
use crate::settings::{number, rounds, said};

const JOBS: usize = 50_000;
const PRODUCERS: usize = 4;
const CONSUMERS: usize = 20;
const BODY: usize = 256;

const COLUMNS: &[&str] =
    &["job queue", "added/s", "p99 ms", "taken and finished/s", "p99 ms", "server CPU us a job", "client CPU us a job"];

/// What one of them did.
#[derive(Default, Clone)]
struct Ran {
    add_rate: f64,
    add_p99: f64,
    take_rate: f64,
    take_p99: Option<f64>,
    server_us: f64,
    client_us: f64,
}

/// The rows of `ROWS=jobs`.
pub async fn measure() -> Result<Findings> {
    let jobs = number("JOBS", JOBS)?;
    let title = format!("{jobs} jobs of {BODY} B, {PRODUCERS} producers and {CONSUMERS} consumers, one job a call");
    let mut table = Table::new(title, COLUMNS);
    let mut all: [Vec<Ran>; 3] = Default::default();
    for _ in 0..rounds()? {
        said("jobs: delaybridge");
        all[0].push(delaybridge(jobs).await?);
        said("jobs: asynq");
        all[1].push(asynq(jobs).await?);
        said("jobs: beanstalkd");
        all[2].push(beanstalkd(jobs).await?);
    }
    for (name, runs) in ["delaybridge, library on Redis", "asynq 0.25.1 on Redis", "beanstalkd"].into_iter().zip(&all) {
        let middle = |figure: fn(&Ran) -> f64| median(runs.iter().map(figure));
        let p99 = match runs.iter().all(|ran| ran.take_p99.is_some()) {
            true => format!("{:.2}", middle(|ran| ran.take_p99.unwrap_or_default())),
            false => "-".to_owned(),
        };
        table.lines.push(vec![
            name.to_owned(),
            format!("{:.0}", middle(|ran| ran.add_rate)),
            format!("{:.2}", middle(|ran| ran.add_p99)),
            format!("{:.0}", middle(|ran| ran.take_rate)),
            p99,
            format!("{:.0}", middle(|ran| ran.server_us)),
            format!("{:.0}", middle(|ran| ran.client_us)),
        ]);
    }
    table.notes = vec![
        "server: Redis, or beanstalkd. client: producers and consumers, where delaybridge and asynq do their part."
            .into(),
        "beanstalkd keeps jobs in its own memory only, without a replica; here also without its log.".into(),
        "Redis without persistence, the same for both. Medians of all runs (ROUNDS).".into(),
    ];
    let mut deep = Table::new(
        "The same at depth, jobs of 16 B",
        &["jobs that wait", "Redis us to add", "Redis us to take and finish", "bytes a job"],
    );
    for depth in [1_000, 100_000, number("DEPTH", 1_000_000)?] {
        said(&format!("jobs: {depth} deep"));
        deep.lines.push(at_depth(depth).await?);
    }
    Ok(Findings { tables: vec![table, deep], ..Findings::default() })
}

/// Milliseconds that 99 of 100 do not exceed.
fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() * 99 / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

fn topic() -> Topic {
    "bench".parse().expect("a topic")
}

/// What this process has used.
fn own_cpu() -> Duration {
    brokers::process::Usage::of(std::process::id()).cpu
}

async fn queue(server: &RedisServer) -> JobQueue {
    let link = Link::start(Arc::new(server.endpoint()), LinkOptions::default());
    link.ready().await;
    let defaults = TopicSettings { ttr: Duration::from_secs(600), ..TopicSettings::default() };
    JobQueue::new(link, JobSettings { defaults, ..JobSettings::default() }, &SCRIPTS)
}

async fn gathered(tasks: Vec<tokio::task::JoinHandle<Vec<Duration>>>) -> Result<Vec<Duration>> {
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.context("a client")?);
    }
    Ok(all)
}

async fn delaybridge(count: usize) -> Result<Ran> {
    let mut server = RedisServer::start().await;
    let jobs = queue(&server).await;
    let (mut ran, server_before, own_before) = (Ran::default(), server.running().usage().cpu, own_cpu());
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

    let (_subscriber, heard) = Subscriber::start(Arc::new(server.endpoint()), vec![WAKE.into()]);
    let (dispenser, dispensing) = Dispenser::new(jobs.clone());
    let stop = CancellationToken::new();
    let task = tokio::spawn(dispensing.run(heard, stop.clone()));
    let began = Instant::now();
    let consumer = |_| {
        let (jobs, dispenser) = (jobs.clone(), dispenser.clone());
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
    ran.take_p99 = Some(p99(times));
    stop.cancel();
    task.await.context("the dispenser")?;
    ran.server_us = server.running().usage().cpu.saturating_sub(server_before).as_secs_f64() * 1e6 / added as f64;
    ran.client_us = own_cpu().saturating_sub(own_before).as_secs_f64() * 1e6 / added as f64;
    Ok(ran)
}

async fn asynq(count: usize) -> Result<Ran> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/peers/asynq");
    let program = std::env::temp_dir().join(format!("asynq-peer-{}", std::process::id()));
    let built =
        std::process::Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(folder).status();
    ensure!(built.context("run go")?.success(), "go build in {folder} failed");
    let mut server = RedisServer::start().await;
    let before = server.running().usage().cpu;
    let mut peer = command(&program);
    peer.arg(format!("127.0.0.1:{}", server.port()));
    peer.args([count, PRODUCERS, CONSUMERS].map(|n| n.to_string()));
    peer.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut peer = Process::spawn("asynq", peer)?;
    let mut pipes = (peer.child_mut().stdin.take(), peer.child_mut().stdout.take());
    let text = tokio::task::spawn_blocking(move || {
        use std::io::{Read, Write};
        let mut text = String::new();
        // It waits for a line between its two parts.
        pipes.0.as_mut().map(|pipe| pipe.write_all(b"\n")).transpose()?;
        pipes.1.as_mut().map(|pipe| pipe.read_to_string(&mut text)).transpose()?;
        std::io::Result::Ok(text)
    })
    .await??;
    let after = server.running().usage().cpu;
    drop(std::fs::remove_file(&program));
    let report: serde_json::Value = serde_json::from_str(&text).context("read the report of asynq")?;
    let figure = |name: &str| report[name].as_f64().with_context(|| format!("asynq reports no {name}"));
    let jobs = figure("jobs")?;
    Ok(Ran {
        add_rate: jobs / figure("add_seconds")?,
        add_p99: figure("add_p99_ms")?,
        take_rate: jobs / figure("process_seconds")?,
        take_p99: None,
        server_us: after.saturating_sub(before).as_secs_f64() * 1e6 / jobs,
        client_us: (figure("add_cpu")? + figure("process_cpu")?) * 1e6 / jobs,
    })
}

async fn beanstalkd(count: usize) -> Result<Ran> {
    let port = free_port();
    let mut program = command("beanstalkd");
    program.args(["-l", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Process::spawn("beanstalkd", program)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        ensure!(Instant::now() < deadline, "beanstalkd does not answer (Debian package beanstalkd)");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (mut ran, before, own_before) = (Ran::default(), server.usage().cpu, own_cpu());
    let began = Instant::now();
    let producer = |_| {
        tokio::spawn(async move {
            let mut client = Beanstalk::connect(port).await;
            let mut times = Vec::new();
            let put = [format!("put 0 0 600 {BODY}\r\n").as_bytes(), &[0; BODY], b"\r\n"].concat();
            for _ in 0..count / PRODUCERS {
                let at = Instant::now();
                let answer = client.ask(&put).await;
                assert!(answer.starts_with("INSERTED"), "{answer}");
                times.push(at.elapsed());
            }
            times
        })
    };
    let times = gathered((0..PRODUCERS).map(producer).collect()).await?;
    let added = times.len();
    ran.add_rate = added as f64 / began.elapsed().as_secs_f64();
    ran.add_p99 = p99(times);
    let began = Instant::now();
    let consumer = |_| {
        tokio::spawn(async move {
            let mut client = Beanstalk::connect(port).await;
            let mut times = Vec::new();
            loop {
                let at = Instant::now();
                let answer = client.ask(b"reserve-with-timeout 0\r\n").await;
                let Some(words) = answer.strip_prefix("RESERVED ") else { return times };
                let id = words.split(' ').next().unwrap_or_default().to_owned();
                client.body().await;
                let answer = client.ask(format!("delete {id}\r\n").as_bytes()).await;
                assert!(answer.starts_with("DELETED"), "{answer}");
                times.push(at.elapsed());
            }
        })
    };
    let times = gathered((0..CONSUMERS).map(consumer).collect()).await?;
    ran.take_rate = times.len() as f64 / began.elapsed().as_secs_f64();
    ensure!(times.len() == added, "{} of {added} jobs were taken", times.len());
    ran.take_p99 = Some(p99(times));
    ran.server_us = server.usage().cpu.saturating_sub(before).as_secs_f64() * 1e6 / added as f64;
    ran.client_us = own_cpu().saturating_sub(own_before).as_secs_f64() * 1e6 / added as f64;
    Ok(ran)
}

/// A connection to beanstalkd.
struct Beanstalk(BufReader<TcpStream>);

impl Beanstalk {
    async fn connect(port: u16) -> Beanstalk {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("connect");
        stream.set_nodelay(true).expect("set TCP_NODELAY");
        Beanstalk(BufReader::new(stream))
    }

    async fn ask(&mut self, command: &[u8]) -> String {
        self.0.get_mut().write_all(command).await.expect("write");
        let mut line = String::new();
        self.0.read_line(&mut line).await.expect("read");
        line
    }

    async fn body(&mut self) {
        let mut body = [0; BODY + 2];
        self.0.read_exact(&mut body).await.expect("read");
    }
}

/// Costs while so many jobs wait: some due now, the rest in an hour.
async fn at_depth(depth: usize) -> Result<Vec<String>> {
    const PROBES: usize = 2_000;
    let mut server = RedisServer::start().await;
    let jobs = queue(&server).await;
    let mut redis = server.client().await;
    let memory = |text: String| {
        let used = text.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse::<f64>().ok());
        used.context("INFO has no used_memory")
    };
    let empty = memory(redis::cmd("INFO").arg("memory").query_async(&mut redis).await?)?;
    let mut left = depth;
    while left > 0 {
        let some = left.min(1_000);
        let hour = |n: usize| Due::After(Duration::from_secs(3600) + Duration::from_millis((left + n) as u64));
        let new = |n: usize| NewJob { due: hour(n), ..NewJob::new(vec![0; 16]) };
        jobs.add(&topic(), (0..some).map(new).collect()).await?;
        left -= some;
    }
    let full = memory(redis::cmd("INFO").arg("memory").query_async(&mut redis).await?)?;
    let began = server.running().usage().cpu;
    for _ in 0..PROBES {
        jobs.add(&topic(), vec![NewJob::new(vec![0; 16])]).await?;
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
        us(added.saturating_sub(began)),
        us(finished.saturating_sub(added)),
        format!("{bytes:.0}"),
    ])
}
