//! The tasks of the daemon: which queues need which, and their start.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use crate::config::{Mode, QueueSpec};
use crate::link::SubscriberEvent;
use crate::pipeline::claim::{claimers, pollers};
use crate::pipeline::dead_letters::forwarder;
use crate::pipeline::leases::keeper;
use crate::pipeline::modes::{rescue, shadow};
use crate::pipeline::queue::Queue;
use crate::pipeline::seats::Seats;
use crate::pipeline::{upkeep, watch};
use crate::source::{Announcement, millis};
use crate::telemetry::labels::Wakeup;

/// Starts every task of the queues of a Redis that ends only when the process stops. One that does not beat for as long as `stuck` is stuck.
pub(super) fn start(
    tasks: &mut JoinSet<&'static str>,
    seats: &Arc<Seats>,
    channels: Channels,
    announcements: Receiver<SubscriberEvent>,
    stuck: Duration,
) {
    let process = seats.process();
    let beat = |task: &str| process.events.status().heartbeat(task, stuck);
    tasks.spawn(named("claimers", claimers::run(seats.clone(), stuck)));
    for queue in forwarding(seats) {
        tasks.spawn(named("dead letters", forwarder::run(queue)));
    }
    tasks.spawn(named("lease keeper", keeper::run(seats.clone(), beat("lease keeper"))));
    tasks.spawn(named("sweeper", upkeep::run(seats.clone(), beat("sweeper"))));
    let limit = stuck.saturating_add(longest_wait(seats));
    tasks.spawn(named("watchdog", watch::run(seats.clone(), limit)));
    // A task that has nothing to do would end, and none may.
    let shadowed = seats.find(|queue| queue.spec.mode == Mode::Shadow);
    if !shadowed.is_empty() {
        tasks.spawn(named("shadow", shadow::run(process.clone(), shadowed, beat("shadow"))));
    }
    let rescued = seats.find(|queue| matches!(queue.spec.mode, Mode::Rescue { .. }));
    if !rescued.is_empty() {
        tasks.spawn(named("rescue", rescue::run(process.clone(), rescued, beat("rescue"))));
    }
    if !seats.with_mode(|mode| mode == Mode::Deliver).is_empty() {
        tasks.spawn(named("safety poll", pollers::safety_poll(seats.clone(), beat("safety poll"))));
        tasks.spawn(named("unannounced", pollers::unannounced(seats.clone())));
    }
    tasks.spawn(named("gauges", pollers::gauges(seats.clone())));
    tasks.spawn(named("announcements", listen(seats.clone(), channels, announcements)));
    seats.look_at_all(Wakeup::Due);
}

/// The queues whose dead letters are forwarded: they are at work for good.
fn forwarding(seats: &Seats) -> Vec<Arc<Queue>> {
    let forwards = |spec: &QueueSpec| spec.mode == Mode::Deliver && spec.dead_letter_to.is_some();
    seats.places().filter(|place| forwards(seats.spec(*place))).for_each(|place| seats.wake(place, |_| ()));
    seats.find(|queue| forwards(&queue.spec) && queue.dead_letter_to.is_some())
}

/// The longest that elements in flight may keep the room that another claim waits for.
fn longest_wait(seats: &Seats) -> Duration {
    let of_queue = |place| {
        let spec = seats.spec(place);
        let sinks = spec.to.iter().filter_map(|route| seats.sink(&route.sink)).map(|sink| sink.longest());
        sinks.max().unwrap_or_default().saturating_add(spec.claim_ahead)
    };
    seats.places().map(of_queue).max().unwrap_or_default()
}

/// Not an async block: it would hold the task twice.
pub(super) fn named(name: &'static str, task: impl Future<Output = ()>) -> impl Future<Output = &'static str> {
    task.map(move |()| name)
}

/// The channels of the queues that are delivered from, and the places of these queues; in order, to be searched.
pub(super) struct Channels(Vec<(Arc<str>, usize)>);

impl Channels {
    /// Of all queues.
    pub(super) fn of(seats: &Seats) -> Channels {
        let delivering = seats.with_mode(|mode| mode == Mode::Deliver).into_iter();
        let of_queue = |place| seats.store(place).channels().into_iter().map(move |channel| (channel, place));
        let mut channels: Vec<_> = delivering.flat_map(of_queue).collect();
        channels.shrink_to_fit();
        channels.sort_unstable();
        Channels(channels)
    }

    /// Their names.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.0.iter().map(|(name, _)| name.clone()).collect();
        // Several topics of the job queue are announced on one channel.
        names.dedup();
        names.shrink_to_fit();
        names
    }

    fn queues(&self, channel: &str) -> impl Iterator<Item = usize> {
        let first = self.0.partition_point(|(name, _)| &**name < channel);
        self.0[first..].iter().take_while(move |(name, _)| &**name == channel).map(|(_, place)| *place)
    }
}

/// Passes on what is announced on the channels of the queues.
async fn listen(seats: Arc<Seats>, channels: Channels, mut announcements: Receiver<SubscriberEvent>) {
    let process = seats.process();
    loop {
        // Order: the end goes first. An announcement that is left behind is only a hint.
        let event = tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            event = announcements.recv() => event,
        };
        match event {
            // What was announced meanwhile is not known, also of pauses.
            Some(SubscriberEvent::Subscribed) => {
                seats.at_work().iter().for_each(|(_, queue)| queue.doubt_pauses());
                seats.look_at_all(Wakeup::Reconnect);
                // Once for all: those that wait at a gate look as well.
                process.gates.send_modify(|n| *n += 1);
            }
            Some(SubscriberEvent::Message { channel, payload }) => {
                for place in channels.queues(&channel) {
                    match seats.store(place).announcement(&channel, &payload) {
                        Some(Announcement::DueAt(due_ms)) => {
                            seats.announce(place, due_ms.saturating_sub(millis(seats.spec(place).claim_ahead)));
                        }
                        Some(Announcement::Changed) => seats.wake(place, |queue| queue.alarm.ring(Wakeup::Published)),
                        // A queue at rest wakes up to show it.
                        Some(Announcement::Pause) => seats.wake(place, |queue| queue.see_pauses()),
                        None => {}
                    }
                }
            }
            None => return,
        }
    }
}
