//! Builds everything from the configuration, owns the tasks, and shuts everything down in order.
//!
//! The long-running parts are the supervised connections and their [`watch`], one subscription for all queues, and the
//! [`tasks`] of the queues; deliveries and settlements come and go. The unexpected end of an essential task ends the
//! process: a daemon that only looks alive loses more than a restart costs.

mod admin;
mod api;
mod codecs;
mod descriptors;
mod drain;
mod exit_codes;
mod group;
mod inputs;
mod jobs;
mod probes;
mod reload;
mod resting;
mod signals;
mod sinks;
mod systemd;
mod tasks;
mod traces;
mod watch;
mod workers;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::JoinSet;

pub use self::exit_codes::{FAILED, LEFTOVERS, OK};
use self::group::{Group, options};
pub use self::reload::ConfigFile;
use self::reload::Reloads;
pub use self::signals::{CaughtSignals, Signals};
use self::signals::{InFlight, Signal};
use self::sinks::{ByName, Sinks};
use self::systemd::Notifier;
use delaybridge_config::{Loaded, summary};
use delaybridge_link::{Redis, RedisTarget};
use delaybridge_model::Config;
use delaybridge_ops::reload::ReloadHandle;
use delaybridge_pipeline::limits::budget::Budget;
use delaybridge_pipeline::process::Process;
use delaybridge_pipeline::registry::QueueRegistry;
use delaybridge_pipeline::watch::holders;
use delaybridge_sink::SinkSpec;
use delaybridge_telemetry::events::Events;

/// Time without a heartbeat, beside one command's time-out, after which a task counts as stuck. Tasks beat every
/// second.
const STUCK: Duration = Duration::from_secs(60);
/// Time for the last notifications to systemd, and for the pending responses of the HTTP server.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Time for a sink, a subscription or a connection to close at the end.
const CLOSE: Duration = Duration::from_millis(500);

/// Runs the daemon with the loaded configuration of this file until a signal stops it; returns the exit code.
///
/// # Errors
///
/// Returns an error if it cannot start: the HTTP address is in use.
pub async fn run(loaded: Loaded, file: ConfigFile, mut signals: Signals) -> anyhow::Result<u8> {
    let config = Arc::new(loaded.config);
    let (handle, wishes) = ReloadHandle::new(config.clone(), loaded.parts);
    delaybridge_dial::init();
    let events = Events::default();
    let limit = descriptors::raise();
    events.configured(&config.queue_ids());
    workers::watch(events.clone()).context("start a thread")?;
    let server = match config.http_listen {
        Some(listen) => Some(probes::serve(probes::bind(listen)?, &events)?),
        None => None,
    };
    let mut app = App::start(&config, events.clone(), limit)?;
    // The queues do not wait for the hash of ten thousand of them.
    let hashed = config.clone();
    events.loaded(&tokio::task::spawn_blocking(move || summary(&hashed)).await.context("hash the configuration")?);
    let notifier = Notifier::start(events)?;
    let reloads = Reloads {
        file,
        handle: handle.clone(),
        process: app.process.clone(),
        groups: app.groups.clone(),
        sinks: app.sinks.clone(),
        words: notifier.words(),
    };
    app.tasks.spawn(tasks::named("reload", reloads.run(wishes)));
    admin::start(&config, &handle, &app.process, &mut app.tasks)?;
    let code = app.until_stopped(&mut signals, &handle, &notifier, config.shutdown_timeout).await;
    notifier.stop(LAST_WORDS);
    if let Some(server) = server {
        // Last, because the probes report the state until here.
        server.stop(LAST_WORDS);
    }
    Ok(code)
}

struct App {
    /// Every Redis that holds queues or jobs.
    servers: Vec<Redis>,
    process: Arc<Process>,
    /// The queues, by the Redis that holds them.
    groups: Arc<Vec<Group>>,
    sinks: Arc<Sinks>,
    /// The job queue, if it is configured.
    _jobs: Option<jobs::Jobs>,
    /// The task that sends spans, if elements are traced.
    traces: Option<traces::Exporter>,
    /// The tasks that end only when the process stops.
    tasks: JoinSet<&'static str>,
}

impl App {
    fn start(config: &Arc<Config>, events: Events, limit: u64) -> anyhow::Result<App> {
        let mut owner = [0; 8];
        getrandom::fill(&mut owner).context("draw a random number for this process")?;
        let in_flight = u64::from(config.limits.in_flight);
        let bytes = config.limits.in_flight_bytes;
        let (tracer, traces) = traces::start(config, &events, owner).unzip();
        let process = Process::new(owner, Budget::new(in_flight, bytes), events.clone()).traced_by(tracer);
        let names: Vec<_> = config.redis.iter().map(|(name, _)| name.clone()).collect();
        let process = Arc::new(process.shared_by(names.iter(), in_flight, bytes));
        let connect =
            |(name, target): (&Arc<str>, &RedisTarget)| Redis::start(target, options(config, name)).named(name.clone());
        let servers: Vec<Redis> = config.redis.iter().map(connect).collect();
        servers.iter().for_each(|redis| events.status().add_redis(redis.name()));
        let named = |name: &str| servers.iter().find(|redis| &**redis.name() == name).unwrap_or(&servers[0]);

        let sinks = Arc::new(Sinks::new(process.clone()));
        let open =
            |spec: &Arc<SinkSpec>| (spec.name.clone(), sinks.open(spec, named(config.redis_of_sink(&spec.name))));
        let by_name: ByName = config.sinks.iter().map(open).collect();
        let _ = sinks.replace(by_name.clone());
        let mut tasks = JoinSet::new();
        let mut groups = Vec::new();
        let stuck = |redis: &Redis| STUCK.saturating_add(redis.command_timeout());
        let started = Arc::new(AtomicBool::new(false));
        for redis in &servers {
            let shared = (&mut tasks, stuck(redis), &started);
            groups.push(Group::start(config, &process, redis, by_name.clone(), shared));
        }
        let of_jobs = named(&config.jobs_redis);
        let jobs = jobs::start(config, of_jobs, &process, &mut tasks, stuck(of_jobs));
        let listeners = descriptors::share(limit, config, &events);
        if let Some(jobs) = &jobs {
            api::start(&listeners, jobs, &process, &mut tasks)?;
            inputs::start(config, (of_jobs, &jobs.queue), &process, &mut tasks);
        }
        Ok(App { servers, process, groups: Arc::new(groups), sinks, _jobs: jobs, traces, tasks })
    }

    async fn until_stopped(
        mut self,
        signals: &mut Signals,
        reload: &ReloadHandle,
        notifier: &Notifier,
        timeout: Duration,
    ) -> u8 {
        let process = self.process.clone();
        let registries: Vec<Arc<QueueRegistry>> = self.groups.iter().map(|group| group.registry.clone()).collect();
        let counted = registries.clone();
        signals.count_with(move || InFlight { elements: drain::in_flight(&counted), holders: holders(&counted) });
        let mut dead_servers: FuturesUnordered<_> = self.servers.iter().map(Redis::ended).collect();
        let signal = loop {
            // Unbiased: each branch ends the run or only records a request. Both futures are cancel safe.
            tokio::select! {
                signal = signals.next() => match signal {
                    Signal::Reload => reload.knock(),
                    Signal::Stop(name) => break Some(name),
                },
                () = process.failed.cancelled() => break None,
                Some(()) = dead_servers.next() => {
                    process.events.task_ended("Redis supervisor", "it returned");
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
        drop(dead_servers);
        notifier.stopping(timeout);
        let code = drain::run(&registries, &process, &mut self.tasks, signal, timeout).await;
        // All pending answers have been given; a sink that does not close in time is abandoned.
        self.sinks.close_all(CLOSE).await;
        // The reloads have ended, so this is the last reference; otherwise the subscriptions end when it is dropped.
        if let Ok(groups) = Arc::try_unwrap(self.groups) {
            let _ = tokio::time::timeout(CLOSE, join_all(groups.into_iter().map(Group::close))).await;
        }
        if let Some(traces) = self.traces {
            traces.close().await;
        }
        let connected = join_all(self.servers.iter().map(Redis::close));
        let _ = tokio::time::timeout(CLOSE, connected).await;
        if signal.is_some() { code } else { FAILED }
    }
}
