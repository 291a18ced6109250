//! A Redis with its queues: what is built for each of them at the start, and goes on until the process stops.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::sinks::ByName;
use super::tasks::{self, Channels};
use super::watch::{Watched, watch_redis};
use crate::config::{Config, QueueSpec};
use crate::jobs::SCRIPTS;
use crate::link::{Durability, DurableRedis, LinkOptions, Redis, Subscriber};
use crate::pipeline::process::Process;
use crate::pipeline::seats::{Parts, Seats};
use crate::source;
use crate::source::redis::{RedisServer, RedisStore};
use crate::source::store::Store;

/// A Redis that holds queues.
pub(super) struct Group {
    /// Its connections.
    pub(super) redis: Redis,
    /// Its queues.
    pub(super) seats: Arc<Seats>,
    subscriber: Subscriber,
    channels: watch::Sender<Arc<Channels>>,
}

impl Group {
    /// Builds the queues that this Redis holds, and starts their tasks. One that does not beat for as long as `stuck` is stuck.
    pub(super) fn start(
        config: &Config,
        process: &Arc<Process>,
        redis: &Redis,
        sinks: ByName,
        (tasks, stuck, started): (&mut JoinSet<&'static str>, Duration, &Arc<AtomicBool>),
    ) -> Group {
        let seats = Arc::new(seats(config, process, redis, sinks));
        let channels = Channels::of(&seats);
        let (subscriber, announcements) = Subscriber::start(redis.locator(), channels.names());
        let (channels, seen) = watch::channel(Arc::new(channels));
        tasks::start(tasks, &seats, seen, announcements, stuck);
        let of = (config.queues.len(), config.sinks.len());
        let watched = Watched { redis: redis.clone(), seats: seats.clone(), of, started: started.clone() };
        tasks.spawn(tasks::named("Redis watch", watch_redis(watched)));
        Group { redis: redis.clone(), seats, subscriber, channels }
    }

    /// Listens to the channels of the queues that there are now.
    pub(super) fn listen(&self) {
        let channels = Channels::of(&self.seats);
        let names = channels.names();
        // Known before they are heard.
        self.channels.send_replace(Arc::new(channels));
        self.subscriber.listen_to(names);
    }

    /// Ends the subscription.
    pub(super) async fn close(self) {
        self.subscriber.close().await;
    }
}

/// What connections to a Redis are made with: the scripts of what it holds. Those of queues that come later are loaded when
/// they are first used.
pub(super) fn options(config: &Config, name: &str) -> LinkOptions {
    let queues = config.queues_on(name);
    let mut scripts: Vec<_> = source::scripts(queues.iter().map(|spec| &spec.source)).into_iter().cloned().collect();
    if config.jobs.is_some() && &*config.jobs_redis == name {
        scripts.extend(SCRIPTS.all().into_iter().cloned());
    }
    LinkOptions { scripts, ..LinkOptions::default() }
}

/// The queues of a Redis.
fn seats(config: &Config, process: &Arc<Process>, redis: &Redis, sinks: ByName) -> Seats {
    let queues = config.queues_on(redis.name());
    let options = options(config, redis.name());
    let durable = Mutex::new(HashMap::<Durability, DurableRedis>::new());
    // The further connections of queues with durable claims: one for each way to be durable.
    let beside = {
        let redis = redis.clone();
        move |need: Durability| {
            let mut durable = durable.lock();
            durable.entry(need).or_insert_with(|| DurableRedis::beside(&redis, options.clone(), need)).clone()
        }
    };
    let store = {
        let redis = redis.clone();
        move |spec: &QueueSpec, owner: [u8; 8]| -> Arc<dyn Store> {
            let store = RedisStore::new(&redis, source::build(&spec.source), owner).in_order(spec.order.is_some());
            let durable = spec.durability.as_deref().copied().map(&beside);
            Arc::new(store.durable(durable.as_ref()))
        }
    };
    // Made before anything runs, as all connections of the start are.
    queues.iter().for_each(|spec| drop(store(spec, process.owner)));
    let parts = Parts { store: Box::new(store), sinks };
    Seats::new(process.clone(), Arc::new(RedisServer::new(redis)), &queues, parts)
}
