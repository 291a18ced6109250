//! The tasks of the daemon: which queues need which, and their start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use crate::config::Mode;
use crate::link::SubscriberEvent;
use crate::pipeline::claim::{claimer, pollers};
use crate::pipeline::dead_letters::forwarder;
use crate::pipeline::leases::keeper;
use crate::pipeline::modes::{rescue, shadow};
use crate::pipeline::process::Process;
use crate::pipeline::queue::Queue;
use crate::pipeline::{upkeep, watch};
use crate::source::redis::RedisServer;
use crate::source::{Announcement, millis};
use crate::telemetry::labels::Wakeup;

/// The queues by what is to be done with them.
pub(super) struct Work {
    all: Vec<Arc<Queue>>,
    /// Claimed from.
    pub(super) delivering: Vec<Arc<Queue>>,
    rescued: Vec<Arc<Queue>>,
    shadowed: Vec<Arc<Queue>>,
    /// A shadow writes nothing, so nothing is swept there either.
    swept: Vec<Arc<Queue>>,
}

impl Work {
    /// Sorts the queues by their modes.
    pub(super) fn of(all: Vec<Arc<Queue>>) -> Self {
        let of_mode = |meant: fn(Mode) -> bool| -> Vec<_> {
            all.iter().filter(|queue| meant(queue.spec.mode)).cloned().collect()
        };
        Work {
            delivering: of_mode(|mode| mode == Mode::Deliver),
            rescued: of_mode(|mode| matches!(mode, Mode::Rescue { .. })),
            shadowed: of_mode(|mode| mode == Mode::Shadow),
            swept: of_mode(|mode| mode != Mode::Shadow),
            all,
        }
    }

    /// Starts every task that ends only when the process stops. One that does not beat for as long as `stuck` is stuck.
    pub(super) fn start(
        self,
        process: &Arc<Process>,
        server: &Arc<RedisServer>,
        announcements: Receiver<SubscriberEvent>,
        stuck: Duration,
    ) -> JoinSet<&'static str> {
        let limit = stuck.saturating_add(self.longest_wait());
        let beat = |task: &str| process.events.status().heartbeat(task, stuck);
        let mut tasks = JoinSet::new();
        for queue in &self.delivering {
            let heartbeat = beat(&format!("claimer {}", queue.spec.id));
            tasks.spawn(named("claimer", claimer::run(queue.clone(), heartbeat)));
        }
        for queue in self.delivering.iter().filter(|queue| queue.dead_letter_to.is_some()) {
            tasks.spawn(named("dead letters", forwarder::run(queue.clone())));
        }
        tasks.spawn(named("lease keeper", keeper::run(process.clone(), self.delivering.clone(), beat("lease keeper"))));
        tasks.spawn(named("sweeper", upkeep::run(process.clone(), self.swept, beat("sweeper"))));
        tasks.spawn(named("watchdog", watch::run(process.clone(), self.delivering.clone(), limit)));
        // A task that has nothing to do would end, and none may.
        if !self.shadowed.is_empty() {
            tasks.spawn(named("shadow", shadow::run(process.clone(), self.shadowed, beat("shadow"))));
        }
        if !self.rescued.is_empty() {
            tasks.spawn(named("rescue", rescue::run(process.clone(), self.rescued, beat("rescue"))));
        }
        if !self.delivering.is_empty() {
            let poll =
                pollers::safety_poll(process.clone(), server.clone(), self.delivering.clone(), beat("safety poll"));
            tasks.spawn(named("safety poll", poll));
        }
        if self.delivering.iter().any(|queue| queue.store.unannounced().is_some()) {
            let poll = pollers::unannounced(process.clone(), server.clone(), self.delivering.clone());
            tasks.spawn(named("unannounced", poll));
        }
        tasks.spawn(named("gauges", pollers::gauges(process.clone(), server.clone(), self.all)));
        tasks.spawn(named("announcements", listen(process.clone(), self.delivering, announcements)));
        tasks
    }

    /// The longest that elements in flight may keep the room that another claim waits for.
    fn longest_wait(&self) -> Duration {
        let of_queue = |queue: &Arc<Queue>| {
            let sinks = queue.routes.iter().map(|route| route.handle.longest()).max().unwrap_or_default();
            sinks.saturating_add(queue.spec.claim_ahead)
        };
        self.delivering.iter().map(of_queue).max().unwrap_or_default()
    }
}

/// Not an async block: it would hold the task twice, for ten thousand queues.
pub(super) fn named(name: &'static str, task: impl Future<Output = ()>) -> impl Future<Output = &'static str> {
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
    // Several topics of the job queue are announced on one channel.
    let mut by_channel: HashMap<Arc<str>, Vec<Arc<Queue>>> = HashMap::new();
    for (channel, queue) in queues.iter().flat_map(of) {
        by_channel.entry(channel).or_default().push(queue);
    }
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
                for queue in by_channel.get(&channel).into_iter().flatten() {
                    match queue.store.announcement(&channel, &payload) {
                        Some(Announcement::DueAt(due_ms)) => {
                            queue.alarm.announce(due_ms.saturating_sub(millis(queue.spec.claim_ahead)));
                        }
                        Some(Announcement::Changed) => queue.alarm.ring(Wakeup::Published),
                        None => {}
                    }
                }
            }
            None => return,
        }
    }
}
