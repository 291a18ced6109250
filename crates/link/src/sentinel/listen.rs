//! Subscribes to every sentinel, and asks all of them when an announcement may have been missed.

use std::sync::Arc;
use std::time::Duration;

use delaybridge_core::log;
use futures_util::stream::{SelectAll, StreamExt, unfold};
use tokio::sync::mpsc;

use super::group::Group;
use super::verdict::Switch;
use crate::subscriber::{Subscriber, SubscriberEvent};

/// The channels on which sentinels announce a new master: when they learn of it, and, from the one that promotes it,
/// right before that. In between, a second or more, the former master still accepts writes, which are lost.
pub(crate) const CHANNELS: [&str; 2] = ["+switch-master", "+failover-state-send-slaveof-noone"];
/// Maximum interval between two questions to all sentinels; the minimum is half of it, so that many daemons do not ask
/// in step.
const LOOK: Duration = Duration::from_secs(20);

/// Runs until it is dropped.
pub(super) async fn run(group: Arc<Group>) {
    // Both only wait. A question, which may take a second, does not delay messages.
    tokio::join!(hear(&group), look(&group));
}

/// Receives announcements, on one connection for each sentinel: they announce at different times, and any of them may
/// be cut off.
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
                    log::debug!(master = group.target.master, ?switch, "a sentinel announces another master");
                    group.switched(switch);
                }
            }
            // Earlier announcements are lost.
            SubscriberEvent::Subscribed | SubscriberEvent::More(_) => group.look.notify_one(),
        }
    }
}

/// Asks all sentinels on request and periodically.
async fn look(group: &Group) {
    loop {
        let wait = LOOK.mul_f64(0.5 + fastrand::f64() / 2.0);
        // Unbiased: both lead to a question.
        tokio::select! {
            () = group.look.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
        if let Err(error) = group.ask().await {
            log::debug!("{error}");
        }
    }
}
