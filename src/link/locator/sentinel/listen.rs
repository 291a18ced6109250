//! Listens to every sentinel, and looks at all of them when something may have been missed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SelectAll, StreamExt, unfold};
use tokio::sync::mpsc;

use super::Group;
use super::verdict::Switch;
use crate::link::subscriber::{Subscriber, SubscriberEvent};

/// Where sentinels announce a new master: when they take it over into their state, and, from the one that makes it a master,
/// right before that. In between, a second or more, the former one still takes writes, which are lost.
pub(in crate::link) const CHANNELS: [&str; 2] = ["+switch-master", "+failover-state-send-slaveof-noone"];
/// Longest time between two looks at all sentinels; half of it is the shortest, so that many daemons do not ask in step.
const LOOK: Duration = Duration::from_secs(20);

/// Runs until it is dropped.
pub(super) async fn run(group: Arc<Group>) {
    // Both only wait. A look, which may take a second, keeps no message waiting.
    tokio::join!(hear(&group), look(&group));
}

/// Hears announcements, on a connection of its own to each sentinel: they announce at different times, and any of them
/// may be cut off.
async fn hear(group: &Group) {
    let channels = CHANNELS.map(Arc::from);
    let mut subscribers = Vec::new();
    let mut events = SelectAll::new();
    for node in &group.target.nodes {
        let (subscriber, heard) = Subscriber::start(node.clone(), channels.to_vec());
        subscribers.push(subscriber);
        let next = |mut heard: mpsc::Receiver<_>| async move { Some((heard.recv().await?, heard)) };
        events.push(unfold(heard, next).boxed());
    }
    while let Some(event) = events.next().await {
        match event {
            SubscriberEvent::Message { payload, .. } => {
                if let Some(switch) = Switch::read(&payload, &group.target.master) {
                    tracing::debug!(master = group.target.master, ?switch, "a sentinel announces another master");
                    group.switched(switch);
                }
            }
            // What was announced before is lost.
            SubscriberEvent::Subscribed | SubscriberEvent::More(_) => group.look.notify_one(),
        }
    }
}

/// Looks at all sentinels whenever that is asked for, and now and then.
async fn look(group: &Group) {
    loop {
        let wait = LOOK.mul_f64(0.5 + fastrand::f64() / 2.0);
        // Order does not matter: both lead to a look.
        tokio::select! {
            () = group.look.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
        if let Err(error) = group.ask().await {
            tracing::debug!("{error}");
        }
    }
}
