//! The tasks of the daemon: which queues need which, and their start.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch as watch_channel;
use tokio::task::JoinSet;

use crate::config::Mode;
use crate::link::SubscriberEvent;
use crate::pipeline::claim::{claimers, pollers};
use crate::pipeline::dead_letters::forwarder;
use crate::pipeline::leases::keeper;
use crate::pipeline::modes::{rescue, shadow};
use crate::pipeline::seats::Seats;
use crate::pipeline::{upkeep, watch};
use crate::source::{Announcement, millis};
use crate::telemetry::labels::Wakeup;

/// Starts every task of the queues of a Redis that ends only when the process stops. One that does not beat for as long as `stuck` is stuck.
pub(super) fn start(
    tasks: &mut JoinSet<&'static str>,
    seats: &Arc<Seats>,
    channels: watch_channel::Receiver<Arc<Channels>>,
    announcements: Receiver<SubscriberEvent>,
    stuck: Duration,
) {
    let process = seats.process();
    let beat = |task: &str| process.events.status().heartbeat(task, stuck);
    tasks.spawn(named("claimers", claimers::run(seats.clone(), stuck)));
    seats.places().into_iter().for_each(|place| forward(seats, place));
    tasks.spawn(named("lease keeper", keeper::run(seats.clone(), beat("lease keeper"))));
    tasks.spawn(named("sweeper", upkeep::run(seats.clone(), beat("sweeper"))));
    tasks.spawn(named("watchdog", watch::run(seats.clone(), stuck)));
    tasks.spawn(named("shadow", shadow::run(seats.clone(), beat("shadow"))));
    tasks.spawn(named("rescue", rescue::run(seats.clone(), beat("rescue"))));
    tasks.spawn(named("safety poll", pollers::safety_poll(seats.clone(), beat("safety poll"))));
    tasks.spawn(named("unannounced", pollers::unannounced(seats.clone())));
    tasks.spawn(named("gauges", pollers::gauges(seats.clone())));
    tasks.spawn(named("announcements", listen(seats.clone(), channels, announcements)));
    seats.look_at_all(Wakeup::Due);
}

/// Forwards the dead letters of a queue, if it wants that: it is at work for good.
pub(super) fn forward(seats: &Seats, place: usize) {
    let spec = seats.spec(place);
    if spec.mode != Mode::Deliver || spec.dead_letter_to.is_none() {
        return;
    }
    seats.wake(place, |queue| {
        if queue.dead_letter_to.is_some() {
            queue.spawn("dead letters", forwarder::run(queue.clone()));
        }
    });
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
async fn listen(
    seats: Arc<Seats>,
    channels: watch_channel::Receiver<Arc<Channels>>,
    mut announcements: Receiver<SubscriberEvent>,
) {
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
            // What was announced on these channels before is not known.
            Some(SubscriberEvent::More(more)) => {
                let channels = channels.borrow().clone();
                let places: BTreeSet<_> = more.iter().flat_map(|channel| channels.queues(channel)).collect();
                places.iter().filter_map(|place| seats.get(*place)).for_each(|queue| queue.doubt_pauses());
                seats.look_at(places, Wakeup::Reconnect);
                process.gates.send_modify(|n| *n += 1);
            }
            Some(SubscriberEvent::Message { channel, payload }) => {
                let channels = channels.borrow().clone();
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
