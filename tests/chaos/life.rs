//! Daemons: a place with a configuration and links of its own, and the processes that live there one after the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use delaybridge::operate::acl::Purpose;
use rustix::process::Signal;

use crate::daemon::ConfigFile;
use crate::evidence::Lived;
use crate::http;
use crate::jobs::TRIES;
use crate::least::PASSWORD;
use crate::logs::Lines;
use crate::metrics::Metrics;
use crate::offers::QUEUES;
use crate::order::InOrder;
use crate::plan::{Plan, Side};
use crate::ports::free_port;
use crate::process::{Process, command};
use crate::proxy::Proxy;
use crate::target::Target;

/// The binary that cargo built beside this test.
const BINARY: &str = env!("CARGO_BIN_EXE_delaybridge");
/// How long a daemon may take to end when it is asked to: its `shutdown_timeout`, and a busy machine.
const END: Duration = Duration::from_secs(20);

/// Pause between two looks at the metrics of a process that ends.
const SCRAPE: Duration = Duration::from_millis(50);

/// Pause between two changes of a configuration.
const RELOAD: Duration = Duration::from_millis(400);

/// The number of a process, and what it counts.
type Scraped = (usize, BTreeMap<String, f64>);

/// Metrics that the oracle looks at.
const LOOKED_AT: [&str; 10] = [
    "delaybridge_delivered_messages_total",
    "delaybridge_dead_lettered_messages_total",
    "delaybridge_possible_duplicates_total",
    "delaybridge_leases_expired_total",
    "delaybridge_recovered_messages_total",
    "delaybridge_stale_acks_total",
    "delaybridge_unknown_acks_total",
    "delaybridge_stale_drops_total",
    "delaybridge_panics_total",
    "delaybridge_jobs_without_body_total",
];

/// A process.
pub struct Life {
    number: usize,
    process: Process,
    log: Lines,
}

/// How a daemon reaches the Redis with the queues.
pub enum Road {
    /// Through a proxy in front of this port.
    Through(u16),
    /// By these keys under `redis`.
    Straight(String),
}

/// A daemon's place.
pub struct Seat {
    config: ConfigFile,
    file: PathBuf,
    port: u16,
    source: Option<Proxy>,
    target: Option<Proxy>,
    lie: Option<String>,
    /// What the next process runs, if it is not ours.
    other: Mutex<Option<PathBuf>>,
    life: tokio::sync::Mutex<Option<Life>>,
    /// The last scrape.
    scraped: Mutex<Option<Scraped>>,
}

impl Seat {
    /// A place for a daemon of this plan, in front of these servers.
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
        let (port, api) = (free_port(), free_port());
        let behind = if plan.settings.profile.delivers() { target.port() } else { Some(api) };
        let link = match behind {
            Some(port) => Some(Proxy::start(port).await),
            None => None,
        };
        let text = match plan.settings.profile.delivers() {
            true => yaml(plan, port, &redis, target, link.as_ref()),
            false => yaml_of_jobs(plan, port, &redis, api),
        };
        let config = ConfigFile::new(&text);
        // Once, and not for every process: a server that is down or frozen cannot take a user.
        let file = config.confined(Purpose::Run);
        let (life, scraped, other) = (tokio::sync::Mutex::default(), Mutex::default(), Mutex::default());
        Seat { config, file, port, source, target: link, lie, other, life, scraped }
    }

    /// The link to this side.
    pub fn link(&self, side: Side) -> &Proxy {
        let link = match side {
            Side::Source => self.source.as_ref(),
            Side::Target => self.target.as_ref(),
        };
        link.expect("a link of a profile that has one")
    }

    /// Its configuration as a person would use it.
    pub fn config(&self) -> &ConfigFile {
        &self.config
    }

    /// From now on processes run this binary; without one, ours.
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

    /// Waits until `/readyz` says yes; `false` if it does not in time.
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

    /// The configuration changes, and the process is asked to read it: a file that is broken, one with another bound, and the one
    /// that it had. How often it was asked.
    pub async fn reload(&self) -> u64 {
        // Held until all is as it was: a process that starts must not find the broken file.
        let mut life = self.life.lock().await;
        let starts = |life: &Life| !life.log.all().iter().any(|line| owner(line).is_some());
        if life.as_ref().is_some_and(starts) {
            return 0;
        }
        let text = std::fs::read_to_string(&self.file).expect("read the configuration");
        let other = text.replace("max_in_flight: ", "max_in_flight: 1").replace("max_body: ", "max_body: 1");
        let mut times = 0;
        for text in [format!("{text}  broken: ["), other, text] {
            // As an operator or a volume replaces it: by another file of the same name.
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

    /// SIGKILL. `None` if there was no process.
    pub async fn kill(&self) -> Option<Lived> {
        let mut life = self.life.lock().await.take()?;
        let resident = life.resident();
        life.process.kill();
        Some(self.lived(life, resident, None))
    }

    /// SIGTERM, and its end.
    pub async fn terminate(&self) -> Option<Lived> {
        // Held until it has ended: no other process may begin in its place.
        let mut place = self.life.lock().await;
        let mut life = place.take()?;
        let resident = life.resident();
        life.process.signal(Signal::TERM);
        // It may be stopped by another fault, which no longer finds it.
        life.process.signal(Signal::CONT);
        // What it counts in its drain is worth knowing: its endpoint is the last that ends.
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

    /// SIGSTOP, when every thread has stopped; `false` if there was no process.
    pub async fn stop(&self) -> bool {
        let mut life = self.life.lock().await;
        life.as_mut().map(|life| life.process.freeze()).is_some()
    }

    /// SIGCONT.
    pub async fn go_on(&self) {
        if let Some(life) = self.life.lock().await.as_mut() {
            life.process.signal(Signal::CONT);
        }
    }

    /// The process, if it has ended without being asked.
    pub fn ended(&self) -> Option<Lived> {
        let mut life = self.life.try_lock().ok()?;
        let status = life.as_mut()?.process.exit_status()?;
        let life = life.take()?;
        Some(self.lived(life, 0, Some(format!("ended by itself: {status}"))))
    }

    /// Reads the metrics of the process that lives now; of one that begins or ends meanwhile, nothing.
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

    /// What is in its log, of the process that lives now.
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
        // Before it listens for signals it has nothing to end in order.
        let odd_end = odd_end.filter(|odd| owner.is_some() || !odd.contains("(SIGTERM)"));
        let log = life.log.all();
        let (number, metrics) = (life.number, metrics.map(|(_, metrics)| metrics).unwrap_or_default());
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

/// The number in the names of a daemon's claims, as it logs it at its start.
fn owner(line: &str) -> Option<String> {
    let fields: serde_json::Value = serde_json::from_str(line).ok()?;
    (fields.get("message")?.as_str()? == "started").then(|| fields.get("owner")?.as_str().map(str::to_owned))?
}

/// The configuration of a daemon that serves jobs, whose time to run is the lease.
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

/// The configuration: one queue of each source, one sink.
fn yaml(plan: &Plan, port: u16, source: &str, target: &Target, link: Option<&Proxy>) -> String {
    let settings = &plan.settings;
    let lease = settings.lease.as_millis();
    // The sink's answer within four fifths of the lease; a lost reply is noticed in less than half of it.
    let (timeout, command) = (lease * 7 / 10, lease * 2 / 5);
    // Retries that come late enough for a failover before them.
    let retry = if settings.fails { "2s" } else { "100ms" };
    // Any replica may be the next master.
    let durable = match settings.durable {
        true => format!("durability: {{ replicas: {}, timeout: {}ms }}, ", settings.profile.replicas(), lease / 6),
        false => String::new(),
    };
    let (sink, link) = (target, link.map(Proxy::port));
    let queue = |place: usize, source: &str| {
        let route = sink.route(QUEUES[place]);
        let (key, order) = InOrder::yaml(settings.order, place, sink);
        format!(
            "{{ source: {source}, codec: json, lease: {lease}ms, {durable}{order}max_in_flight: {}, \
             to: [{{ sink: out, {route}{key}, headers: {{ life: \"${{CHAOS_LIFE:-0}}\" }} }}] }}",
            settings.max_in_flight
        )
    };
    format!(
        "http: {{ listen: 127.0.0.1:{port} }}\n\
         shutdown_timeout: 4s\n\
         limits: {{ in_flight_bytes: {}MiB }}\n\
         redis: {{ {source}, connect_timeout: 1s, command_timeout: {command}ms }}\n\
         retry: {{ default: {{ max_attempts: 6, initial_interval: {retry}, max_interval: 2s }} }}\n\
         sinks: {{ out: {{ {} }} }}\n\
         queues:\n  orders: {}\n  due: {}\n  pool: {}\n",
        settings.in_flight_mib.unwrap_or(64),
        sink.sink(link, timeout),
        queue(0, "{ redisson: { name: orders, ghost_max_age: 1s } }"),
        queue(1, "{ zset: { key: due, score: ms, id: \"${payload.n}\" } }"),
        queue(
            2,
            "{ job_pool: { buckets: [\"{pool}:due\"], score: ms, id: member, job: { string: \"{pool}:job:{id}\" } } }"
        ),
    )
}
