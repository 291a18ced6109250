//! The long-running tasks of the queues, and their start.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch as watch_channel;
use tokio::task::JoinSet;

use delaybridge_ledger::{Announcement, millis};
use delaybridge_link::SubscriberEvent;
use delaybridge_model::Mode;
use delaybridge_ops::OperatorNote;
use delaybridge_pipeline::claim::{claimers, gauges, notes, pollers, safety_poll};
use delaybridge_pipeline::dead_letters::forwarder;
use delaybridge_pipeline::leases::keeper;
use delaybridge_pipeline::modes::{rescue, shadow};
use delaybridge_pipeline::registry::QueueRegistry;
use delaybridge_pipeline::{upkeep, watch};
use delaybridge_telemetry::labels::Wakeup;

/// Starts every task for the queues of a Redis that ends only when the process stops. A task without a heartbeat for
/// `stuck` counts as stuck.
pub(super) fn start(
    tasks: &mut JoinSet<&'static str>,
    registry: &Arc<QueueRegistry>,
    channels: watch_channel::Receiver<Arc<Channels>>,
    announcements: Receiver<SubscriberEvent>,
    stuck: Duration,
) {
    let process = registry.process();
    let beat = |task: &str| process.events.status().heartbeat(task, stuck);
    tasks.spawn(named("claimers", claimers::run(registry.clone(), stuck)));
    registry.places().into_iter().for_each(|place| forward(registry, place));
    tasks.spawn(named("lease keeper", keeper::run(registry.clone(), beat("lease keeper"))));
    tasks.spawn(named("sweeper", upkeep::run(registry.clone(), beat("sweeper"))));
    tasks.spawn(named("watchdog", watch::run(registry.clone(), stuck)));
    tasks.spawn(named("shadow", shadow::run(registry.clone(), beat("shadow"))));
    tasks.spawn(named("rescue", rescue::run(registry.clone(), beat("rescue"))));
    tasks.spawn(named("safety poll", safety_poll::run(registry.clone(), beat("safety poll"))));
    tasks.spawn(named("notes", notes::run(registry.clone())));
    tasks.spawn(named("unannounced", pollers::unannounced(registry.clone())));
    tasks.spawn(named("gauges", gauges::run(registry.clone())));
    tasks.spawn(named("announcements", listen(registry.clone(), channels, announcements)));
    registry.look_at_all(Wakeup::Due);
}

/// Starts to forward the dead letters of a queue, if it is configured to. Such a queue never idles.
pub(super) fn forward(registry: &QueueRegistry, place: usize) {
    let spec = registry.spec(place);
    if spec.mode != Mode::Deliver || spec.dead_letter_to.is_none() {
        return;
    }
    registry.wake(place, |queue| {
        if queue.dead_letter_to.is_some() {
            queue.spawn("dead letters", forwarder::run(queue.queue.clone()));
        }
    });
}

/// Returns the task with its name as output. A combinator, because an async block would hold the future twice.
pub(super) fn named(name: &'static str, task: impl Future<Output = ()>) -> impl Future<Output = &'static str> {
    task.map(move |()| name)
}

/// The channels of the queues with deliveries, each with the queue's slot; sorted for binary search.
pub(super) struct Channels(Vec<(Arc<str>, usize)>);

impl Channels {
    /// Collects the channels of all queues.
    pub(super) fn of(registry: &QueueRegistry) -> Channels {
        let delivering = registry.with_mode(|mode| mode == Mode::Deliver).into_iter();
        let of_queue = |place| registry.store(place).channels().into_iter().map(move |channel| (channel, place));
        let mut channels: Vec<_> = delivering.flat_map(of_queue).collect();
        channels.shrink_to_fit();
        channels.sort_unstable();
        Channels(channels)
    }

    /// Returns the distinct names of the channels.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.0.iter().map(|(name, _)| name.clone()).collect();
        // Several topics of the job queue share one channel.
        names.dedup();
        names.shrink_to_fit();
        names
    }

    fn queues(&self, channel: &str) -> impl Iterator<Item = usize> {
        let first = self.0.partition_point(|(name, _)| &**name < channel);
        self.0[first..].iter().take_while(move |(name, _)| &**name == channel).map(|(_, place)| *place)
    }
}

/// Dispatches the announcements on the channels to their queues.
async fn listen(
    registry: Arc<QueueRegistry>,
    channels: watch_channel::Receiver<Arc<Channels>>,
    mut announcements: Receiver<SubscriberEvent>,
) {
    let process = registry.process();
    loop {
        // Biased: shutdown takes priority. A lost announcement is only a hint.
        let event = tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            event = announcements.recv() => event,
        };
        match event {
            // Announcements made meanwhile were missed, also those of pauses.
            Some(SubscriberEvent::Subscribed) => {
                registry.at_work().iter().for_each(|(_, queue)| queue.doubt_pauses());
                registry.look_at_all(Wakeup::Reconnect);
                // Once for all queues: those that wait at a gate check it again.
                process.gates.send_modify(|n| *n += 1);
            }
            // Earlier announcements on these channels were missed.
            Some(SubscriberEvent::More(more)) => {
                let channels = channels.borrow().clone();
                let places: BTreeSet<_> = more.iter().flat_map(|channel| channels.queues(channel)).collect();
                places.iter().filter_map(|place| registry.get(*place)).for_each(|queue| queue.doubt_pauses());
                registry.look_at(places, Wakeup::Reconnect);
                process.gates.send_modify(|n| *n += 1);
            }
            Some(SubscriberEvent::Message { channel, payload }) => {
                let channels = channels.borrow().clone();
                for place in channels.queues(&channel) {
                    match registry.store(place).announcement(&channel, &payload) {
                        Some(Announcement::DueAt(due_ms)) => {
                            registry.announce(place, due_ms.saturating_sub(millis(registry.spec(place).claim_ahead)));
                        }
                        Some(Announcement::Changed) => {
                            registry.wake(place, |queue| queue.alarm.ring(Wakeup::Published))
                        }
                        // Wakes an idle queue, so that it shows the pause.
                        Some(Announcement::Pause) => registry.wake(place, |queue| queue.see_pauses()),
                        Some(Announcement::Note(at)) => {
                            if let Some(note) = OperatorNote::read(&payload[at..]) {
                                let OperatorNote { what, which, by, result, problem } = &note;
                                let result = problem.as_deref().map_or(Ok(result.as_deref().unwrap_or_default()), Err);
                                process.events.operated(&registry.spec(place).id, [what, which, by], result);
                            }
                        }
                        None => {}
                    }
                }
            }
            None => return,
        }
    }
}
