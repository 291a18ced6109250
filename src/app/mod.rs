//! Builds everything from the configuration, owns the tasks, and takes everything down in order.
//!
//! What runs: the supervised connections and their [`watch`], one subscription for all queues, the [`tasks`] of the queues;
//! deliveries and settlings come and go. A task that must not end and ends all the same takes the process with it: a daemon
//! that only looks alive loses more than a restart.

mod api;
mod drain;
mod jobs;
mod signals;
mod systemd;
mod tasks;
mod watch;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::JoinSet;

use self::signals::{Signal, Signals};
use self::systemd::Notifier;
use self::tasks::Channels;
use self::watch::{Watched, watch_redis};
use crate::config::{Config, QueueSpec};
use crate::jobs::SCRIPTS;
use crate::link::{Durability, DurableRedis, LinkOptions, Redis, RedisTarget, Subscriber, tls};
use crate::pipeline::deliver::probes;
use crate::pipeline::deliver::sink_handle::SinkHandle;
use crate::pipeline::limits::budget::Budget;
use crate::pipeline::process::Process;
use crate::pipeline::seats::{Parts, Seats};
use crate::source;
use crate::source::redis::{RedisServer, RedisStore};
use crate::source::store::Store;
use crate::telemetry::events::Events;
use crate::telemetry::http;

/// Exit code of a run that ended as it should.
pub const OK: u8 = 0;
/// Exit code of a run that ended by itself.
pub const FAILED: u8 = 1;
/// Exit code of a drain that left elements in flight to their leases.
pub const LEFTOVERS: u8 = 3;

/// Number of queues with a check of rights at start. Each command costs a round trip.
const RIGHTS_CHECKED: usize = 20;
/// A task that has to come by every second and does not for this long, beside one command's time-out, is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// Time for the last notifications to systemd, and for the HTTP server's outstanding answers.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Runs the daemon until a signal ends it; returns the exit code.
///
/// # Errors
///
/// When it cannot start: the HTTP address is taken, no signal can be caught.
pub async fn run(config: Config) -> anyhow::Result<u8> {
    tls::init();
    let mut signals = Signals::listen().context("catch signals")?;
    let events = Events::default();
    let server = match config.http_listen {
        Some(listen) => Some(http::serve(listen, events.metrics().clone(), events.status().clone())?),
        None => None,
    };
    let app = App::start(&config, events.clone())?;
    let notifier = Notifier::start(events)?;
    let code = app.until_stopped(&mut signals, &notifier, config.shutdown_timeout).await;
    notifier.stop(LAST_WORDS);
    if let Some(server) = server {
        // Last: until here the probes report the state.
        server.stop(LAST_WORDS);
    }
    Ok(code)
}

/// Everything that runs.
struct App {
    /// Every Redis that holds queues or jobs.
    servers: Vec<Redis>,
    process: Arc<Process>,
    /// The queues, by the Redis that holds them.
    seats: Vec<Arc<Seats>>,
    sinks: Vec<Arc<SinkHandle>>,
    /// One for each Redis.
    subscribers: Vec<Subscriber>,
    /// The job queue, if there is one.
    _jobs: Option<jobs::Jobs>,
    /// Tasks that end only when the process stops.
    tasks: JoinSet<&'static str>,
}

impl App {
    fn start(config: &Config, events: Events) -> anyhow::Result<App> {
        let mut owner = [0; 8];
        getrandom::fill(&mut owner).context("draw a random number for this process")?;
        let (in_flight, bytes) = (u64::from(config.limits.in_flight), config.limits.in_flight_bytes);
        let process = Process::new(owner, Budget::new(in_flight, bytes), events.clone());
        let names: Vec<_> = config.redis.iter().map(|(name, _)| name.clone()).collect();
        let process = Arc::new(process.shared_by(names.iter(), in_flight, bytes));
        let connect =
            |(name, target): (&Arc<str>, &RedisTarget)| Redis::start(target, options(config, name)).named(name.clone());
        let servers: Vec<Redis> = config.redis.iter().map(connect).collect();
        servers.iter().for_each(|redis| events.status().add_redis(redis.name()));
        let named = |name: &str| servers.iter().find(|redis| &**redis.name() == name).unwrap_or(&servers[0]);

        let sinks: Vec<Arc<SinkHandle>> = config
            .sinks
            .iter()
            .map(|spec| {
                let sink = spec.connect(named(config.redis_of_sink(&spec.name)));
                let (events, gates) = (events.sink(&spec.name), process.gates.clone());
                Arc::new(SinkHandle::new(spec.name.clone(), sink, spec.max_rate, events, gates))
            })
            .collect();
        let by_name: HashMap<_, _> = sinks.iter().map(|handle| (handle.name.clone(), handle.clone())).collect();
        let (mut tasks, mut all, mut subscribers) = (JoinSet::new(), Vec::new(), Vec::new());
        let stuck = |redis: &Redis| STUCK.saturating_add(redis.command_timeout());
        let started = Arc::new(AtomicBool::new(false));
        for redis in &servers {
            let seats = Arc::new(seats(config, &process, redis, by_name.clone()));
            let channels = Channels::of(&seats);
            let (subscriber, announcements) = Subscriber::start(redis.locator(), channels.names());
            subscribers.push(subscriber);
            tasks::start(&mut tasks, &seats, channels, announcements, stuck(redis));
            let of = (config.queues.len(), sinks.len());
            let watched = Watched { redis: redis.clone(), seats: seats.clone(), of, started: started.clone() };
            tasks.spawn(tasks::named("Redis watch", watch_redis(watched)));
            all.push(seats);
        }
        let of_jobs = named(&config.jobs_redis);
        let jobs = jobs::start(config, of_jobs, &process, &mut tasks, stuck(of_jobs));
        if let (Some(jobs), Some(spec)) = (&jobs, &config.api) {
            api::start(spec, jobs, &process, &mut tasks)?;
        }
        for handle in &sinks {
            tasks.spawn(tasks::named("sink probe", probes::run(handle.clone(), process.stopping.clone())));
        }
        Ok(App { servers, process, seats: all, sinks, subscribers, _jobs: jobs, tasks })
    }

    async fn until_stopped(mut self, signals: &mut Signals, notifier: &Notifier, timeout: Duration) -> u8 {
        let process = self.process.clone();
        let mut dead_servers: FuturesUnordered<_> = self.servers.iter().map(Redis::ended).collect();
        let mut dead_sinks: FuturesUnordered<_> = self
            .sinks
            .iter()
            .map(|handle| async move {
                handle.ended().await;
                &handle.name
            })
            .collect();
        let signal = loop {
            // Order does not matter: whichever comes first ends the run or is only noted. Both may be left at any time.
            tokio::select! {
                signal = signals.next() => match signal {
                    Signal::Reload => process.events.reload_refused(),
                    Signal::Stop(name) => break Some(name),
                },
                () = process.failed.cancelled() => break None,
                Some(()) = dead_servers.next() => {
                    process.events.task_ended("Redis supervisor", "it returned");
                    break None;
                }
                Some(sink) = dead_sinks.next() => {
                    process.events.task_ended(sink, "the worker of this sink ended");
                    break None;
                }
                ended = self.tasks.join_next() => {
                    let (task, problem) = match ended {
                        Some(Ok(task)) => (task, "it returned".to_owned()),
                        Some(Err(error)) => ("a task", error.to_string()),
                        None => ("all", "there is nothing to do".to_owned()),
                    };
                    process.events.task_ended(task, &problem);
                    break None;
                }
            }
        };
        drop((dead_sinks, dead_servers));
        notifier.stopping(timeout);
        let code = drain::run(&self.seats, &process, &mut self.tasks, signal, timeout).await;
        for handle in &self.sinks {
            // What had an answer to give has given it; a sink that does not close in time is left behind.
            drop(tokio::time::timeout(Duration::from_millis(500), handle.close()).await);
        }
        let listening = join_all(self.subscribers.into_iter().map(Subscriber::close));
        drop(tokio::time::timeout(Duration::from_millis(500), listening).await);
        let connected = join_all(self.servers.iter().map(Redis::close));
        drop(tokio::time::timeout(Duration::from_millis(500), connected).await);
        if signal.is_some() { code } else { FAILED }
    }
}

/// What connections to a Redis are made with: the scripts of what it holds.
fn options(config: &Config, name: &str) -> LinkOptions {
    let queues = config.queues_on(name);
    let mut scripts: Vec<_> = source::scripts(queues.iter().map(|spec| &spec.source)).into_iter().cloned().collect();
    if config.jobs.is_some() && &*config.jobs_redis == name {
        scripts.extend(SCRIPTS.all().into_iter().cloned());
    }
    LinkOptions { scripts, ..LinkOptions::default() }
}

/// The further connections of queues with durable claims: one for each way to be durable.
fn durable(queues: &[Arc<QueueSpec>], redis: &Redis, options: &LinkOptions) -> HashMap<Durability, DurableRedis> {
    let needs: HashSet<_> = queues.iter().filter_map(|spec| spec.durability.as_deref().copied()).collect();
    needs.into_iter().map(|need| (need, DurableRedis::beside(redis, options.clone(), need))).collect()
}

/// The queues of a Redis.
fn seats(config: &Config, process: &Arc<Process>, redis: &Redis, sinks: HashMap<Arc<str>, Arc<SinkHandle>>) -> Seats {
    let queues = config.queues_on(redis.name());
    let durable = durable(&queues, redis, &options(config, redis.name()));
    let store = {
        let (redis, owner) = (redis.clone(), process.owner);
        move |spec: &QueueSpec| -> Arc<dyn Store> {
            let store = RedisStore::new(&redis, source::build(&spec.source), owner);
            Arc::new(store.durable(spec.durability.as_deref().map(|need| &durable[need])))
        }
    };
    let parts = Parts { store: Box::new(store), sinks };
    Seats::new(process.clone(), Arc::new(RedisServer::new(redis)), &queues, parts)
}
