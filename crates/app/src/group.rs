//! One Redis and its queues: everything that is built for it at the start and runs until the process stops.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::codecs;
use super::sinks::ByName;
use super::tasks::{self, Channels};
use super::watch::{Watched, watch_redis};
use delaybridge_jobs::SCRIPTS;
use delaybridge_ledger::RedisServer;
use delaybridge_ledger::redis::RedisStore;
use delaybridge_ledger::store::Store;
use delaybridge_link::{Durability, DurableRedis, LinkOptions, Redis, Subscriber};
use delaybridge_model::{Config, QueueSpec};
use delaybridge_pipeline::process::Process;
use delaybridge_pipeline::registry::{QueueParts, QueueRegistry};

/// A Redis that holds queues.
pub(super) struct Group {
    /// The connections to it.
    pub(super) redis: Redis,
    pub(super) registry: Arc<QueueRegistry>,
    subscriber: Subscriber,
    channels: watch::Sender<Arc<Channels>>,
}

impl Group {
    /// Builds the queues of this Redis and starts their tasks. A task without a heartbeat for `stuck` counts as stuck.
    pub(super) fn start(
        config: &Config,
        process: &Arc<Process>,
        redis: &Redis,
        sinks: ByName,
        (tasks, stuck, started): (&mut JoinSet<&'static str>, Duration, &Arc<AtomicBool>),
    ) -> Group {
        let registry = Arc::new(registry(config, process, redis, sinks));
        let channels = Channels::of(&registry);
        let (subscriber, announcements) = Subscriber::start(redis.locator(), channels.names());
        let (channels, seen) = watch::channel(Arc::new(channels));
        tasks::start(tasks, &registry, seen, announcements, stuck);
        let of = (config.queues.len(), config.sinks.len());
        let watched = Watched { redis: redis.clone(), registry: registry.clone(), of, started: started.clone() };
        tasks.spawn(tasks::named("Redis watch", watch_redis(watched)));
        let beat = process.events.status().heartbeat("codecs", stuck);
        tasks.spawn(tasks::named("codecs", codecs::run(redis.clone(), registry.clone(), beat)));
        Group { redis: redis.clone(), registry, subscriber, channels }
    }

    /// Subscribes to the channels of the current queues.
    pub(super) fn listen(&self) {
        let channels = Channels::of(&self.registry);
        let names = channels.names();
        // The map is replaced first, so that every message finds its queues.
        self.channels.send_replace(Arc::new(channels));
        self.subscriber.listen_to(names);
    }

    pub(super) async fn close(self) {
        self.subscriber.close().await;
    }
}

/// Returns the options for connections to a Redis: the scripts of its queues. Scripts of queues that are added later
/// are loaded on first use.
pub(super) fn options(config: &Config, name: &str) -> LinkOptions {
    let queues = config.queues_on(name);
    let mut scripts: Vec<_> =
        delaybridge_source::scripts(queues.iter().map(|spec| &spec.source)).into_iter().cloned().collect();
    if config.jobs.is_some() && &*config.jobs_redis == name {
        scripts.extend(SCRIPTS.all().into_iter().cloned());
    }
    LinkOptions { scripts, ..LinkOptions::default() }
}

fn registry(config: &Config, process: &Arc<Process>, redis: &Redis, sinks: ByName) -> QueueRegistry {
    let queues = config.queues_on(redis.name());
    #[cfg(debug_assertions)]
    let queues: Vec<_> = queues.iter().map(delaybridge_pipeline::fault_injection::spec).collect();
    let options = options(config, redis.name());
    let durable = Mutex::new(HashMap::<Durability, DurableRedis>::new());
    // Additional connections for queues with durable claims, one for each durability setting.
    let beside = {
        let redis = redis.clone();
        move |need: Durability| {
            let mut durable = durable.lock();
            durable.entry(need).or_insert_with(|| DurableRedis::beside(&redis, options.clone(), need)).clone()
        }
    };
    // Before any task runs, as all connections of the start are.
    queues.iter().filter_map(|spec| spec.durability.as_deref()).for_each(|need| drop(beside(*need)));
    let store = {
        let redis = redis.clone();
        #[cfg(debug_assertions)]
        let stopping = process.stopping.clone();
        move |spec: &QueueSpec, owner: [u8; 8]| -> Arc<dyn Store> {
            let store = RedisStore::new(&redis, spec.source.build(), owner).in_order(spec.order.is_some());
            let durable = spec.durability.as_deref().copied().map(&beside);
            let store: Arc<dyn Store> = Arc::new(store.durable(durable.as_ref()));
            #[cfg(debug_assertions)]
            let store = delaybridge_pipeline::fault_injection::store(store, &stopping);
            store
        }
    };
    let parts = QueueParts { store: Box::new(store), sinks };
    QueueRegistry::new(process.clone(), Arc::new(RedisServer::new(redis)), &queues, parts)
}
