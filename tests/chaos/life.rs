//! Daemons: a seat with a configuration and links of its own, and the processes that run there one after the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use delaybridge_ops::acl::AclPurpose;
use rustix::process::Signal;

use crate::evidence::Lived;
use crate::fates;
use crate::jobs::TRIES;
use crate::offers::QUEUES;
use crate::plan::Plan;
use crate::target::Target;
use crate::what::Side;
use harness::daemon::ConfigFile;
use harness::http;
use harness::least::PASSWORD;
use harness::logs::Lines;
use harness::metrics::Metrics;
use harness::ports::free_port;
use harness::process::{Process, command};
use harness::proxy::Proxy;

const BINARY: &str = env!("CARGO_BIN_EXE_delaybridge");
/// Time-out for the end of a daemon: its `shutdown_timeout`, and some time for a busy machine.
const END: Duration = Duration::from_secs(20);

/// The interval between scrapes of an ending process.
const SCRAPE: Duration = Duration::from_millis(50);

/// The pause between two changes of a configuration.
const RELOAD: Duration = Duration::from_millis(400);

/// The number of a process, and its metrics.
type Scraped = (usize, BTreeMap<String, f64>);

/// The metrics that the oracle needs.
const LOOKED_AT: [&str; 11] = [
    "delaybridge_delivered_messages_total",
    "delaybridge_dead_lettered_messages_total",
    "delaybridge_possible_duplicates_total",
    "delaybridge_duplicates_avoided_total",
    "delaybridge_leases_expired_total",
    "delaybridge_recovered_messages_total",
    "delaybridge_stale_acks_total",
    "delaybridge_unknown_acks_total",
    "delaybridge_stale_drops_total",
    "delaybridge_panics_total",
    "delaybridge_jobs_without_body_total",
];

pub struct Life {
    number: usize,
    process: Process,
    log: Lines,
}

/// The route of a daemon to the Redis with the queues.
pub enum Road {
    /// Through a proxy before this port.
    Through(u16),
    /// Directly, by these keys under `redis`.
    Straight(String),
}

/// The seat of a daemon.
pub struct Seat {
    config: ConfigFile,
    file: PathBuf,
    port: u16,
    source: Option<Proxy>,
    target: Option<Proxy>,
    lie: Option<String>,
    /// Another binary for the next process.
    other: Mutex<Option<PathBuf>>,
    life: tokio::sync::Mutex<Option<Life>>,
    /// The last scrape.
    scraped: Mutex<Option<Scraped>>,
}

impl Seat {
    /// Creates a seat for a daemon of this plan, before these servers.
    pub async fn new(plan: &Plan, road: Road, target: &Target, lie: Option<String>) -> Seat {
        let (source, redis) = match road {
            Road::Through(port) => {
                let proxy = Proxy::start(port).await;
                let redis = format!("url: {}", proxy.url());
                (Some(proxy), redis)
            }
            Road::Straight(redis) => (None, redis),
        };
        // A daemon with jobs has its clients at the end of this link.
        let port = free_port();
        let api = free_port();
        let behind = if plan.settings.profile.delivers() { target.port() } else { Some(api) };
        let link = match behind {
            Some(port) => Some(Proxy::start(port).await),
            None => None,
        };
        let text = if plan.settings.profile.delivers() {
            yaml(plan, port, &redis, target, link.as_ref())
        } else {
            yaml_of_jobs(plan, port, &redis, api)
        };
        let config = ConfigFile::new(&text);
        // Once, not for every process: a server that is down or suspended cannot add a user.
        let file = config.confined(AclPurpose::Run);
        let life = tokio::sync::Mutex::default();
        let scraped = Mutex::default();
        let other = Mutex::default();
        Seat { config, file, port, source, target: link, lie, other, life, scraped }
    }

    pub fn link(&self, side: Side) -> &Proxy {
        let link = match side {
            Side::Source => self.source.as_ref(),
            Side::Target => self.target.as_ref(),
        };
        link.expect("a link of a profile that has one")
    }

    /// The configuration as a person would use it.
    pub fn config(&self) -> &ConfigFile {
        &self.config
    }

    /// Sets the binary of later processes; `None` for the tested one.
    pub fn run_binary(&self, other: Option<&Path>) {
        *lock(&self.other) = other.map(Path::to_owned);
    }

    /// Starts a process, unless there is one.
    pub async fn start(&self, number: usize) {
        let mut life = self.life.lock().await;
        if life.is_some() {
            return;
        }
        let binary = lock(&self.other).clone().unwrap_or_else(|| PathBuf::from(BINARY));
        let mut command = command(&binary);
        command.arg("run").arg("--config").arg(&self.file).envs([PASSWORD]);
        command.env("CHAOS_LIFE", number.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(lie) = &self.lie {
            command.env("DELAYBRIDGE_PLANT", lie);
        }
        let mut process =
            Process::spawn("delaybridge", command).unwrap_or_else(|e| panic!("spawn {}: {e}", binary.display()));
        let log = Lines::collect(process.child_mut().stderr.take().expect("stderr is piped"));
        *life = Some(Life { number, process, log });
    }

    /// Waits until `/readyz` reports ready; returns false after the time-out.
    pub async fn ready(&self, patience: Duration) -> bool {
        let until = tokio::time::Instant::now() + patience;
        while tokio::time::Instant::now() < until {
            if http::get(self.port, "/readyz", Duration::from_secs(1)).await.is_ok_and(|answer| answer.status == 200) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// Changes the configuration and asks the process to read it: a broken file, one with another bound, and the
    /// original one. Returns how often it was asked.
    pub async fn reload(&self) -> u64 {
        // Locked until the original is back: a starting process must not find the broken file.
        let mut life = self.life.lock().await;
        let starts = |life: &Life| !life.log.all().iter().any(|line| owner(line).is_some());
        if life.as_ref().is_some_and(starts) {
            return 0;
        }
        let text = std::fs::read_to_string(&self.file).expect("read the configuration");
        let other = text.replace("max_in_flight: ", "max_in_flight: 1").replace("max_body: ", "max_body: 1");
        let mut times = 0;
        for text in [format!("{text}  broken: ["), other, text] {
            // Replaced by another file of the same name, as operators and volumes do.
            let beside = self.file.with_extension("new");
            std::fs::write(&beside, &text).and_then(|()| std::fs::rename(&beside, &self.file)).expect("replace a file");
            if let Some(life) = life.as_mut() {
                life.process.signal(Signal::HUP);
                times += 1;
            }
            tokio::time::sleep(RELOAD).await;
        }
        times
    }

    /// Kills the process with SIGKILL; returns `None` if there was none.
    pub async fn kill(&self) -> Option<Lived> {
        let mut life = self.life.lock().await.take()?;
        let resident = life.resident();
        life.process.kill();
        Some(self.lived(life, resident, None))
    }

    /// Sends SIGTERM, and waits for the end.
    pub async fn terminate(&self) -> Option<Lived> {
        // Locked until the end: no other process may start in this seat.
        let mut place = self.life.lock().await;
        let mut life = place.take()?;
        let resident = life.resident();
        life.process.signal(Signal::TERM);
        // It may be suspended by another fault, which no longer finds it.
        life.process.signal(Signal::CONT);
        // Scrape during the drain: the metrics endpoint is the last to end.
        let until = tokio::time::Instant::now() + END;
        let odd = loop {
            match life.process.wait(SCRAPE).await {
                Some(status) => break (status.code().is_none()).then(|| format!("ended by a signal: {status}")),
                None if tokio::time::Instant::now() > until => {
                    break Some(format!("still there {END:?} after SIGTERM"));
                }
                None => {
                    if let Some(metrics) = self.metrics().await {
                        *self.scraped() = Some((life.number, metrics));
                    }
                }
            }
        };
        Some(self.lived(life, resident, odd))
    }

    /// Suspends the process with SIGSTOP; returns when every thread has stopped, or false if there was no process.
    pub async fn stop(&self) -> bool {
        let mut life = self.life.lock().await;
        life.as_mut().map(|life| life.process.freeze()).is_some()
    }

    /// Resumes the process with SIGCONT.
    pub async fn go_on(&self) {
        if let Some(life) = self.life.lock().await.as_mut() {
            life.process.signal(Signal::CONT);
        }
    }

    /// Takes the process if it has ended without a request.
    pub fn ended(&self) -> Option<Lived> {
        let mut life = self.life.try_lock().ok()?;
        let status = life.as_mut()?.process.exit_status()?;
        let life = life.take()?;
        Some(self.lived(life, 0, Some(format!("ended by itself: {status}"))))
    }

    /// Scrapes the current process; ignores the result if the process begins or ends meanwhile.
    pub async fn scrape(&self) {
        let now = || self.life.try_lock().ok()?.as_ref().map(|life| life.number);
        let number = now();
        let metrics = self.metrics().await;
        if let (Some(number), Some(metrics)) = (number, metrics)
            && now() == Some(number)
        {
            *self.scraped() = Some((number, metrics));
        }
    }

    async fn metrics(&self) -> Option<BTreeMap<String, f64>> {
        let answer = http::get(self.port, "/metrics", Duration::from_secs(1)).await.ok()?;
        let metrics = (answer.status == 200).then(|| Metrics::parse(&answer.body))?;
        Some(LOOKED_AT.map(|name| (name.to_owned(), metrics.sum(name))).into())
    }

    /// The log of the current process.
    pub async fn log(&self) -> Vec<String> {
        self.life.lock().await.as_ref().map_or_else(Vec::new, |life| life.log.all())
    }

    fn scraped(&self) -> MutexGuard<'_, Option<Scraped>> {
        lock(&self.scraped)
    }

    fn lived(&self, mut life: Life, resident: u64, odd_end: Option<String>) -> Lived {
        let metrics = self.scraped().clone().filter(|(number, _)| *number == life.number);
        let code = life.process.exit_status().and_then(|status| status.code());
        let panics = life.log.all().into_iter().filter(|line| line.contains("panicked at")).collect();
        let owner = life.log.all().iter().find_map(|line| owner(line));
        // Before it listens for signals, a process cannot end gracefully.
        let odd_end = odd_end.filter(|odd| owner.is_some() || !odd.contains("(SIGTERM)"));
        let log = life.log.all();
        let number = life.number;
        let metrics = metrics.map(|(_, metrics)| metrics).unwrap_or_default();
        let odd_end = odd_end.map(|odd| {
            let all = life.log.all();
            format!("{odd}; its last lines:\n{}", all[all.len().saturating_sub(15)..].join("\n"))
        });
        Lived { number, code, odd_end, metrics, panics, resident, owner, left: Vec::new(), log }
    }
}

impl Life {
    fn resident(&mut self) -> u64 {
        if self.process.exit_status().is_some() { 0 } else { self.process.usage().resident }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The owner number in the names of a daemon's claims, from its line at the start.
fn owner(line: &str) -> Option<String> {
    let fields: serde_json::Value = serde_json::from_str(line).ok()?;
    (fields.get("message")?.as_str()? == "started").then(|| fields.get("owner")?.as_str().map(str::to_owned))?
}

/// The configuration of a daemon that serves jobs, with the lease as the time to run.
fn yaml_of_jobs(plan: &Plan, port: u16, source: &str, api: u16) -> String {
    let lease = plan.settings.lease.as_millis();
    format!(
        "http: {{ listen: 127.0.0.1:{port} }}\n\
         shutdown_timeout: 4s\n\
         redis: {{ {source}, connect_timeout: 1s, command_timeout: {}ms }}\n\
         jobs: {{ listen: 127.0.0.1:{api}, defaults: {{ ttr: {lease}ms, tries: {TRIES}, max_body: 2MiB }} }}\n",
        lease * 2 / 5
    )
}

/// The configuration: one queue of each source, and one sink.
fn yaml(plan: &Plan, port: u16, source: &str, target: &Target, link: Option<&Proxy>) -> String {
    let settings = &plan.settings;
    let lease = settings.lease.as_millis();
    // The sink must answer within 7/10 of the lease; a lost reply of Redis is noticed after 2/5 of it. Earlier if claims
    // are to be confirmed as a whole after a failover: that needs the time of a command, and a second.
    let fifths = if settings.fails { 1 } else { 2 };
    let timeout = lease * 7 / 10;
    let command = lease * fifths / 5;
    // Retries later than a failover that began before them.
    let retry = if settings.fails { "2s" } else { "100ms" };
    // Any replica may be the next master.
    let durable = if settings.durable {
        format!("durability: {{ replicas: {}, timeout: {}ms }}, ", settings.profile.replicas(), command * 5 / 12)
    } else {
        String::new()
    };
    let sink = target;
    let link = link.map(Proxy::port);
    let queue = |place: usize, source: &str| {
        let route = sink.route(QUEUES[place]);
        let (key, order) = settings.orders.yaml(place, sink);
        let looks = if settings.looks { ", duplicates: look" } else { "" };
        let more = format!("{looks}, headers: {{ life: \"${{CHAOS_LIFE:-0}}\" }}");
        let to = if settings.trail {
            fates::destinations(QUEUES[place], &more)
        } else {
            format!("to: [{{ sink: out, {route}{key}{more} }}]")
        };
        format!(
            "{{ source: {source}, codec: json, lease: {lease}ms, {durable}{order}max_in_flight: {}, {to} }}",
            settings.max_in_flight
        )
    };
    let out = sink.sink(link, timeout);
    let trail = if settings.trail { format!(", {}", fates::sink(&out)) } else { String::new() };
    format!(
        "http: {{ listen: 127.0.0.1:{port} }}\n\
         shutdown_timeout: 4s\n\
         limits: {{ in_flight_bytes: {}MiB }}\n\
         redis: {{ {source}, connect_timeout: 1s, command_timeout: {command}ms }}\n\
         retry: {{ default: {{ max_attempts: 6, initial_interval: {retry}, max_interval: 2s }} }}\n\
         sinks: {{ out: {{ {out} }}{trail} }}\n\
         queues:\n  orders: {}\n  due: {}\n  pool: {}\n",
        settings.in_flight_mib.unwrap_or(64),
        queue(0, "{ redisson: { name: orders, ghost_max_age: 1s } }"),
        queue(1, "{ zset: { key: due, score: ms, id: \"${payload.n}\" } }"),
        queue(
            2,
            "{ job_pool: { buckets: [\"{pool}:due\"], score: ms, id: member, job: { string: \"{pool}:job:{id}\" } } }"
        ),
    )
}
