//! Builds everything from the configuration, owns the tasks, and takes everything down in order.
//!
//! What runs: a supervised connection, one subscription for all queues, a claimer for each queue, the lease keeper, the
//! sweeper, three watchers; deliveries and settlings come and go. A task that must not end and ends all the same takes
//! the process with it: a daemon that only looks alive loses more than a restart.

mod drain;
mod signals;
mod systemd;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::JoinSet;

use self::signals::{Signal, Signals};
use self::systemd::Notifier;
use crate::config::{Config, Mode, QueueSpec};
use crate::link::{Link, LinkOptions, LinkState, Subscriber, SubscriberEvent, missing_rights, tls};
use crate::pipeline::claim::{claimer, pollers};
use crate::pipeline::dead_letters::forwarder;
use crate::pipeline::deliver::sink_handle::SinkHandle;
use crate::pipeline::leases::keeper;
use crate::pipeline::limits::budget::Budget;
use crate::pipeline::modes::{rescue, shadow};
use crate::pipeline::process::Process;
use crate::pipeline::queue::Queue;
use crate::pipeline::upkeep;
use crate::source::competitors::{advice, blocked_consumers};
use crate::source::redis::{RedisServer, RedisStore};
use crate::source::{self, Announcement, millis};
use crate::telemetry::events::Events;
use crate::telemetry::http;
use crate::telemetry::labels::Wakeup;

/// Exit code of a run that ended as it should.
pub const OK: u8 = 0;
/// Exit code of a run that ended by itself.
pub const FAILED: u8 = 1;
/// Exit code of a drain that left elements in flight, for their leases to run out.
pub const LEFTOVERS: u8 = 3;

/// Queues whose rights are asked for at start; asking costs a round trip for each command.
const RIGHTS_CHECKED: usize = 20;
/// A task that has to come by every second and does not for this long, beside one command's time-out, is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// Time for systemd to hear what it is told, and for the HTTP server to answer what it is answering.
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
        // Last: until here the probes told what was going on.
        server.stop(LAST_WORDS);
    }
    Ok(code)
}

/// Everything that runs.
struct App {
    link: Link,
    process: Arc<Process>,
    queues: Vec<Arc<Queue>>,
    sinks: Vec<Arc<SinkHandle>>,
    subscriber: Subscriber,
    /// Tasks that end only when the process stops.
    tasks: JoinSet<&'static str>,
}

impl App {
    fn start(config: &Config, events: Events) -> anyhow::Result<App> {
        let mut owner = [0; 8];
        getrandom::fill(&mut owner).context("draw a random number for this process")?;
        let scripts = source::scripts(&config.queues).into_iter().cloned().collect();
        let link = Link::start(config.redis.clone(), LinkOptions { scripts, ..LinkOptions::default() });
        let budget = Budget::new(config.limits.in_flight.into(), config.limits.in_flight_bytes);
        let process = Arc::new(Process::new(owner, Arc::new(RedisServer::new(link.clone())), budget, events.clone()));

        let sinks: Vec<Arc<SinkHandle>> = config
            .sinks
            .iter()
            .map(|spec| {
                let sink = spec.connect(&link);
                let (events, gates) = (events.sink(&spec.name), process.gates.clone());
                Arc::new(SinkHandle::new(spec.name.clone(), sink, spec.max_rate, events, gates))
            })
            .collect();
        let by_name: HashMap<&str, &Arc<SinkHandle>> = sinks.iter().map(|handle| (&*handle.name, handle)).collect();
        let stores: Vec<Arc<RedisStore>> = config
            .queues
            .iter()
            .map(|spec| Arc::new(RedisStore::new(link.clone(), source::build(spec), owner)))
            .collect();
        let new_queue = |(spec, store): (&Arc<QueueSpec>, &Arc<RedisStore>)| {
            Queue::new(spec.clone(), process.clone(), store.clone(), |name| by_name.get(name).map(|&sink| sink.clone()))
        };
        let queues: Vec<Arc<Queue>> = config.queues.iter().zip(&stores).map(new_queue).collect();

        let of_mode = |meant: fn(Mode) -> bool| -> Vec<_> {
            queues.iter().filter(|queue| meant(queue.spec.mode)).cloned().collect()
        };
        let delivering = of_mode(|mode| mode == Mode::Deliver);
        let rescued = of_mode(|mode| matches!(mode, Mode::Rescue { .. }));
        let shadowed = of_mode(|mode| mode == Mode::Shadow);
        // A shadow writes nothing, so it sweeps nothing either.
        let swept = of_mode(|mode| mode != Mode::Shadow);

        let channels = delivering.iter().flat_map(|queue| queue.store.channels()).collect();
        let (subscriber, announcements) = Subscriber::start(config.redis.clone(), channels);

        let stuck = STUCK.saturating_add(config.redis.command_timeout);
        let beat = |task: &str| events.status().heartbeat(task, stuck);
        let mut tasks = JoinSet::new();
        for queue in &delivering {
            let heartbeat = beat(&format!("claimer {}", queue.spec.id));
            tasks.spawn(named("claimer", claimer::run(queue.clone(), heartbeat)));
        }
        for queue in delivering.iter().filter(|queue| queue.dead_letter_to.is_some()) {
            tasks.spawn(named("dead letters", forwarder::run(queue.clone())));
        }
        tasks.spawn(named("lease keeper", keeper::run(process.clone(), delivering.clone(), beat("lease keeper"))));
        tasks.spawn(named("sweeper", upkeep::run(process.clone(), swept, beat("sweeper"))));
        // A task that has nothing to do would end, and none may.
        if !shadowed.is_empty() {
            tasks.spawn(named("shadow", shadow::run(process.clone(), shadowed, beat("shadow"))));
        }
        if !rescued.is_empty() {
            tasks.spawn(named("rescue", rescue::run(process.clone(), rescued, beat("rescue"))));
        }
        if !delivering.is_empty() {
            let poll = pollers::safety_poll(process.clone(), delivering.clone(), beat("safety poll"));
            tasks.spawn(named("safety poll", poll));
        }
        if delivering.iter().any(|queue| queue.store.unannounced().is_some()) {
            tasks.spawn(named("unannounced", pollers::unannounced(process.clone(), delivering.clone())));
        }
        tasks.spawn(named("gauges", pollers::gauges(process.clone(), queues.clone())));
        tasks.spawn(named("announcements", listen(process.clone(), delivering, announcements)));
        let watched = Watched { link: link.clone(), stores };
        tasks.spawn(named("Redis watch", watch_link(watched, process.clone(), queues.clone(), sinks.len())));
        Ok(App { link, process, queues, sinks, subscriber, tasks })
    }

    async fn until_stopped(mut self, signals: &mut Signals, notifier: &Notifier, timeout: Duration) -> u8 {
        let (process, link) = (self.process.clone(), self.link.clone());
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
                () = link.ended() => {
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
        drop(dead_sinks);
        notifier.stopping(timeout);
        let code = drain::run(&self.process, &self.queues, &mut self.tasks, signal, timeout).await;
        for handle in &self.sinks {
            // What had an answer to give has given it; a sink that does not close in time is left behind.
            drop(tokio::time::timeout(Duration::from_millis(500), handle.close()).await);
        }
        drop(tokio::time::timeout(Duration::from_millis(500), self.subscriber.close()).await);
        drop(tokio::time::timeout(Duration::from_millis(500), self.link.close()).await);
        if signal.is_some() { code } else { FAILED }
    }
}

/// Not an async block: it would hold the task twice, for ten thousand queues.
fn named(name: &'static str, task: impl Future<Output = ()>) -> impl Future<Output = &'static str> {
    task.map(move |()| name)
}

/// Passes on what is announced on the channels of the queues.
async fn listen(
    process: Arc<Process>,
    queues: Vec<Arc<Queue>>,
    mut announcements: tokio::sync::mpsc::Receiver<SubscriberEvent>,
) {
    let of = |queue: &Arc<Queue>| {
        queue.store.channels().into_iter().map(|channel| (channel, queue.clone())).collect::<Vec<_>>()
    };
    let by_channel: HashMap<Arc<str>, Arc<Queue>> = queues.iter().flat_map(of).collect();
    loop {
        // Order: the end goes first. An announcement that is left behind is only a hint.
        let event = tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            event = announcements.recv() => event,
        };
        match event {
            Some(SubscriberEvent::Subscribed) => queues.iter().for_each(|queue| queue.alarm.ring(Wakeup::Reconnect)),
            Some(SubscriberEvent::Message { channel, payload }) => {
                let Some(queue) = by_channel.get(&channel) else { continue };
                match queue.store.announcement(&channel, &payload) {
                    Some(Announcement::DueAt(due_ms)) => {
                        queue.alarm.announce(due_ms.saturating_sub(millis(queue.spec.claim_ahead)));
                    }
                    Some(Announcement::Changed) => queue.alarm.ring(Wakeup::Published),
                    None => {}
                }
            }
            None => return,
        }
    }
}

/// What the watch of the connection looks at.
struct Watched {
    link: Link,
    /// Of all queues, in the order of the configuration.
    stores: Vec<Arc<RedisStore>>,
}

/// Tells what becomes of the connection, and makes everybody look after each reconnect.
async fn watch_link(watched: Watched, process: Arc<Process>, queues: Vec<Arc<Queue>>, sinks: usize) {
    let mut state = watched.link.state();
    let mut started = false;
    loop {
        let now = state.borrow_and_update().clone();
        let address = watched.link.address();
        match now {
            LinkState::Up { info, .. } => {
                process.events.redis_up(address, &info.version.to_string());
                if !std::mem::replace(&mut started, true) {
                    if info.evicts() {
                        let policy = &info.maxmemory_policy;
                        process.events.redis_advice(
                            address,
                            &format!(
                                "maxmemory-policy is {policy}: a full Redis would throw away scheduled elements; set it \
                                 to noeviction"
                            ),
                        );
                    }
                    process.events.started(queues.len(), sinks);
                    tell_missing_rights(&watched, &process, &queues).await;
                    tell_consumers(&watched, &process, &queues).await;
                } else {
                    queues.iter().for_each(|queue| queue.alarm.ring(Wakeup::Reconnect));
                }
            }
            LinkState::Connecting { last_error: Some(error), .. } => {
                process.events.redis_lost(address, &error.to_string());
            }
            LinkState::Connecting { last_error: None, .. } => {}
        }
        // Order: the end goes first; a change of state that is left behind changes nothing.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            changed = state.changed() => if changed.is_err() { return },
        }
    }
}

/// Consumers that wait on a list that a daemon drains would share its elements.
async fn tell_consumers(watched: &Watched, process: &Process, queues: &[Arc<Queue>]) {
    let Some(conn) = watched.link.current() else { return };
    let delivering = queues.iter().filter(|queue| !matches!(queue.spec.mode, Mode::Rescue { .. }));
    let drained: Vec<_> = delivering.filter_map(|queue| Some(queue.store.unannounced()?.0)).collect();
    // A user who may not ask is not advised: `check --live` says so.
    let Ok(Some((blocked, empty))) = blocked_consumers(&conn, &drained).await else { return };
    if let (Some(advice), true) = (advice(&blocked), empty > 0) {
        process.events.redis_advice(watched.link.address(), &advice);
    }
}

async fn tell_missing_rights(watched: &Watched, process: &Process, queues: &[Arc<Queue>]) {
    let Some(conn) = watched.link.current() else { return };
    for (queue, store) in queues.iter().zip(&watched.stores).take(RIGHTS_CHECKED) {
        // A server that cannot answer, or a connection that is gone: the first command refused will show it.
        let Ok(Some(missing)) = missing_rights(&conn, &store.rights(&queue.spec)).await else { return };
        if let Some(first) = missing.first() {
            let text = format!(
                "queue {}: {} rights are missing, the first: {}; `check --live` prints what gives them",
                queue.spec.id,
                missing.len(),
                first.words
            );
            process.events.redis_advice(watched.link.address(), &text);
        }
    }
}
