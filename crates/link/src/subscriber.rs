//! One publish-and-subscribe connection for all channels, with a supervisor of its own.
//!
//! Its messages are hints: those published while it was disconnected are lost, so every (re)subscription asks the
//! receiver to look at everything again. It does not depend on the meaning of channels.
//!
//! A single subscription on any node receives all channels of a cluster, because `PUBLISH` reaches every node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use delaybridge_core::log;
use futures_util::{FutureExt, StreamExt};
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connect::connect_pubsub;
use super::endpoint::RedisEndpoint;
use super::error::{ConnectError, ConnectErrorKind};
use super::locator::Locator;
use super::refusal::lets_nobody_in;
use super::replies::Replies;
use super::wait::wait_after;
use delaybridge_core::clock::Instant;

/// Maximum number of channels in one `SUBSCRIBE`.
const CHUNK: usize = 256;
/// Capacity of the event queue; excess events are replaced by one [`SubscriberEvent::Subscribed`].
const BUFFER: usize = 1024;
/// Upper bound of the wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Maximum number of refused channels that are retried at a heartbeat.
const ASKED_AGAIN: usize = 16;
/// Interval between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// An event for the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriberEvent {
    /// Messages may have been missed: look at every queue. Sent after each (re)subscription, and after the receiver was
    /// too slow.
    Subscribed,
    /// The same for these channels, which were not subscribed to before.
    More(Vec<Arc<str>>),
    /// A message.
    Message {
        /// The channel, as passed to [`Subscriber::start`] or [`Subscriber::listen_to`].
        channel: Arc<str>,
        /// The bytes of the message.
        payload: Bytes,
    },
}

/// The state of the subscription.
#[derive(Debug, Clone)]
pub enum SubscriberState {
    /// Not subscribed; with the reason once an attempt has failed.
    Connecting {
        /// The error of the last attempt.
        last_error: Option<Arc<ConnectError>>,
    },
    /// Subscribed to all channels, except those to which the user has no right.
    Subscribed,
}

/// A handle on the subscription, which ends when the handle or the receiver is dropped.
#[derive(Debug)]
pub struct Subscriber {
    wanted: watch::Sender<Arc<[Arc<str>]>>,
    state: watch::Receiver<SubscriberState>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    task: JoinHandle<()>,
}

impl Subscriber {
    /// Subscribes to all channels on one connection, and resubscribes when necessary. Never fails: problems are
    /// reported by [`state`](Subscriber::state) and retried.
    pub fn start(at: impl Into<Locator>, channels: Vec<Arc<str>>) -> (Subscriber, mpsc::Receiver<SubscriberEvent>) {
        let (events, receiver) = mpsc::channel(BUFFER);
        let (state, state_seen) = watch::channel(SubscriberState::Connecting { last_error: None });
        let stop = CancellationToken::new();
        let channels = in_order(channels);
        let (wanted, wants) = watch::channel(channels.clone());
        let locator = at.into();
        let stop_too = stop.clone();
        let worker =
            Worker { locator, channels, wants, events, state, stop: stop_too, refused: Vec::new(), missed: false };
        let task = tokio::spawn(worker.run());
        let stop_on_drop = stop.clone().drop_guard();
        (Subscriber { wanted, state: state_seen, _stop_on_drop: stop_on_drop, stop, task }, receiver)
    }

    /// Replaces the set of channels, on the same connection. Unchanged subscriptions are not interrupted.
    pub fn listen_to(&self, channels: Vec<Arc<str>>) {
        self.wanted.send_replace(in_order(channels));
    }

    /// Returns a receiver of the state and its changes; its sender is dropped when the task ends.
    pub fn state(&self) -> watch::Receiver<SubscriberState> {
        self.state.clone()
    }

    /// Closes the connection and waits for the end of the task.
    pub async fn close(self) {
        self.stop.cancel();
        // The panic hook has reported a panic, and the receiver sees the closed channel.
        drop(self.task.await);
    }
}

struct Worker {
    locator: Locator,
    /// The current channels, sorted for binary search.
    channels: Arc<[Arc<str>]>,
    wants: watch::Receiver<Arc<[Arc<str>]>>,
    events: mpsc::Sender<SubscriberEvent>,
    state: watch::Sender<SubscriberState>,
    stop: CancellationToken,
    /// Channels to which the user has no right. They are retried.
    refused: Vec<Arc<str>>,
    /// Whether the receiver must look at everything, and there was no room for that event.
    missed: bool,
}

impl Worker {
    async fn run(mut self) {
        let stop = self.stop.clone();
        let events = self.events.clone();
        // Everything inside only waits, sends hints or opens sockets, so it can be dropped at any point.
        tokio::select! {
            () = stop.cancelled() => {}
            () = events.closed() => {}
            () = self.supervise() => {}
        }
    }

    async fn supervise(&mut self) {
        let mut failures = 0_u32;
        loop {
            let mut news = self.locator.news();
            self.channels = self.wants.borrow_and_update().clone();
            let subscribing = &*self;
            match self.locator.first(|server| async move { subscribing.subscribe(&server).await }.boxed()).await {
                Ok((server, (sink, messages, refused))) => {
                    let since = Instant::now();
                    self.refused = refused;
                    log::debug!(redis = %server.address(), channels = self.channels.len(), refused = self.refused.len(), "subscribed");
                    self.state.send_replace(SubscriberState::Subscribed);
                    self.missed = true;
                    let locator = self.locator.clone();
                    // Unbiased. Listening can be dropped at any time: a message that was not passed on is made up for
                    // by the look at everything after the next subscription.
                    let reason = tokio::select! {
                        reason = self.listen(&server, sink, messages) => reason,
                        () = locator.left(&server) => "another server is the master",
                    };
                    log::debug!(redis = %server.address(), reason, "lost the subscription");
                    self.state.send_replace(SubscriberState::Connecting { last_error: None });
                    // A server that accepts and drops connections is not hammered.
                    if since.elapsed() >= MAX_WAIT {
                        failures = 0;
                    }
                }
                Err(error) => self.failed(error),
            }
            failures = failures.saturating_add(1);
            // Unbiased: both lead to another attempt.
            tokio::select! {
                () = tokio::time::sleep(wait_after(failures, MAX_WAIT)) => {}
                () = news.next() => failures = 0,
            }
        }
    }

    /// Publishes the reason of a failure; logged once for each reason.
    fn failed(&self, error: ConnectError) {
        self.state.send_modify(|state| {
            if let SubscriberState::Connecting { last_error: Some(last) } = state
                && **last == error
            {
                return;
            }
            log::debug!("subscribe: {error}");
            *state = SubscriberState::Connecting { last_error: Some(Arc::new(error)) };
        });
    }

    /// Subscribes at this server, which may be a replica, because replicas receive the messages of their master.
    /// Returns the refused channels.
    async fn subscribe(
        &self,
        server: &Arc<RedisEndpoint>,
    ) -> Result<(PubSubSink, Messages, Vec<Arc<str>>), ConnectError> {
        let error = |kind, message| ConnectError { kind, address: server.address(), message };
        let (connection, replies) = connect_pubsub(server).await?;
        let (mut sink, stream) = connection.split();
        let mut messages = Messages { stream, replies };
        let within = server.command_timeout;
        // The receiver looks at everything afterwards, so what comes meanwhile is not kept.
        let joined = messages.meanwhile(|_| {}, join(&mut sink, &self.channels, within)).await;
        let refused = match joined {
            Ok(without) => return Ok((sink, messages, without)),
            Err(NotJoined::Silent) => {
                return Err(error(ConnectErrorKind::Timeout, format!("SUBSCRIBE: no answer within {within:?}")));
            }
            Err(NotJoined::Refused(refused)) => refused,
        };
        let user = server.username.as_deref().unwrap_or("default");
        Err(match refused.code() {
            Some("NOPERM") => error(
                ConnectErrorKind::Permission,
                format!(
                    "user `{user}` may not subscribe ({refused}): grant `+subscribe` and the channels with `ACL SETUSER {user} {}`",
                    patterns(&self.channels)
                ),
            ),
            Some("NOAUTH") => error(
                ConnectErrorKind::Auth,
                format!("the server asks for a password and none is configured: set `password_file` ({refused})"),
            ),
            code => match lets_nobody_in(code.unwrap_or_default(), refused.detail().unwrap_or_default()) {
                Some((kind, text)) => error(kind, text),
                None => error(ConnectErrorKind::Server, format!("SUBSCRIBE failed: {refused}")),
            },
        })
    }

    /// Passes messages on until the connection ends or stops answering; returns the reason.
    async fn listen(&mut self, server: &RedisEndpoint, mut sink: PubSubSink, mut messages: Messages) -> &'static str {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let events = self.events.clone();
        loop {
            // All branches are cancel safe: a message taken from the stream is handled before the next wait. Biased:
            // the request to look at everything comes first, because it replaces all messages before it.
            tokio::select! {
                biased;
                Ok(permit) = events.reserve(), if self.missed => {
                    permit.send(SubscriberEvent::Subscribed);
                    self.missed = false;
                }
                message = messages.next() => {
                    let Some(message) = message else { return "the connection ended" };
                    self.hand_on(&message);
                }
                Ok(()) = self.wants.changed() => {
                    let wanted = self.wants.borrow_and_update().clone();
                    if let Err(why) = self.change(server, &mut sink, &mut messages, wanted).await {
                        return why;
                    }
                }
                _ = heartbeat.tick() => {
                    let ping = sink.ping::<redis::Value>();
                    let ping = tokio::time::timeout(server.command_timeout, ping);
                    match messages.meanwhile(|message| self.hand_on(message), ping).await {
                        Ok(Ok(_)) => {
                            if let Err(why) = self.ask_again(server, &mut sink, &mut messages).await {
                                return why;
                            }
                        }
                        // A server that cannot save its data refuses PING, and is there.
                        Ok(Err(error)) if error.code() == Some("MISCONF") => {}
                        Ok(Err(_)) => return "the connection broke",
                        Err(_elapsed) => return "the server stopped answering",
                    }
                }
            }
        }
    }

    /// Changes the channels on the same connection.
    async fn change(
        &mut self,
        server: &RedisEndpoint,
        sink: &mut PubSubSink,
        messages: &mut Messages,
        wanted: Arc<[Arc<str>]>,
    ) -> Result<(), &'static str> {
        let without = |all: &Arc<[Arc<str>]>, known: &Arc<[Arc<str>]>| -> Vec<Arc<str>> {
            all.iter().filter(|channel| known.binary_search(channel).is_err()).cloned().collect()
        };
        let more = without(&wanted, &self.channels);
        let fewer = without(&self.channels, &wanted);
        let within = server.command_timeout;
        for chunk in fewer.chunks(CHUNK) {
            let chunk: Vec<&str> = chunk.iter().map(|channel| &**channel).collect();
            let left = tokio::time::timeout(within, sink.unsubscribe(&chunk));
            if !matches!(messages.meanwhile(|message| self.hand_on(message), left).await, Ok(Ok(()))) {
                return Err("it could not leave a channel");
            }
        }
        let joined = messages.meanwhile(|message| self.hand_on(message), join(sink, &more, within)).await;
        let refused = match joined {
            Ok(refused) => refused,
            // Some channels work, so they are not given up because of these.
            Err(NotJoined::Refused(error)) if error.code() == Some("NOPERM") => more.clone(),
            // The next attempt to subscribe to all channels reports the reason.
            Err(_) => return Err("it could not subscribe to a further channel"),
        };
        self.refused.retain(|channel| wanted.binary_search(channel).is_ok());
        let joined: Vec<_> = more.into_iter().filter(|channel| !refused.contains(channel)).collect();
        self.refused.extend(refused);
        self.channels = wanted;
        self.announce(joined);
        Ok(())
    }

    /// Retries some of the refused channels: the user may have received the right.
    async fn ask_again(
        &mut self,
        server: &RedisEndpoint,
        sink: &mut PubSubSink,
        messages: &mut Messages,
    ) -> Result<(), &'static str> {
        let count = self.refused.len().min(ASKED_AGAIN);
        let some: Vec<_> = self.refused.drain(..count).collect();
        let mut joined = Vec::new();
        for channel in some {
            let asked = ask(sink, std::slice::from_ref(&channel), server.command_timeout);
            match messages.meanwhile(|message| self.hand_on(message), asked).await {
                Ok(()) => joined.push(channel),
                // To the end of the queue.
                Err(NotJoined::Refused(_)) => self.refused.push(channel),
                Err(NotJoined::Silent) => return Err("the server stopped answering"),
            }
        }
        self.announce(joined);
        Ok(())
    }

    /// Asks the receiver to look at these channels.
    fn announce(&mut self, joined: Vec<Arc<str>>) {
        if !joined.is_empty() {
            self.missed |= self.events.try_send(SubscriberEvent::More(joined)).is_err();
        }
    }

    /// Passes a message on without waiting: the server must not disconnect us because of a slow receiver, which looks
    /// at everything instead.
    fn hand_on(&mut self, message: &redis::Msg) {
        if self.missed {
            return;
        }
        let name = message.get_channel_name();
        let found = self.channels.binary_search_by(|channel| (**channel).cmp(name));
        let Some(channel) = found.ok().and_then(|place| self.channels.get(place)) else { return };
        let payload = Bytes::copy_from_slice(message.get_payload_bytes());
        let event = SubscriberEvent::Message { channel: channel.clone(), payload };
        self.missed = self.events.try_send(event).is_err();
    }
}

/// The messages of a subscription. The server's answers are behind them, so they are taken while one is awaited.
struct Messages {
    stream: PubSubStream,
    replies: Arc<Replies>,
}

impl Messages {
    /// Waits for the next message; `None` at the end of the connection. Cancel safe.
    async fn next(&mut self) -> Option<redis::Msg> {
        let message = self.stream.next().await?;
        self.replies.taken();
        Some(message)
    }

    /// Waits for an answer of the server, and gives each message that comes before it to `each`.
    async fn meanwhile<T>(&mut self, mut each: impl FnMut(&redis::Msg), answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        loop {
            // Both are cancel safe: the answer is polled on.
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                Some(message) = self.next() => each(&message),
            }
        }
    }
}

/// The reason why channels are not subscribed to.
enum NotJoined {
    /// The server refused, or the connection broke.
    Refused(redis::RedisError),
    /// The server did not answer.
    Silent,
}

/// Subscribes to these channels; returns those to which the user has no right. Redis refuses a whole command because of
/// one of them; then each channel is requested alone, so that a queue without rights does not affect others.
async fn join(sink: &mut PubSubSink, channels: &[Arc<str>], within: Duration) -> Result<Vec<Arc<str>>, NotJoined> {
    let mut refused = Vec::new();
    let mut joined = false;
    for chunk in channels.chunks(CHUNK) {
        let all = match ask(sink, chunk, within).await {
            Ok(()) => {
                joined = true;
                continue;
            }
            Err(NotJoined::Refused(error)) if error.code() == Some("NOPERM") => error,
            Err(other) => return Err(other),
        };
        for channel in chunk {
            match ask(sink, std::slice::from_ref(channel), within).await {
                Ok(()) => joined = true,
                Err(NotJoined::Refused(error)) if error.code() == Some("NOPERM") => refused.push(channel.clone()),
                Err(other) => return Err(other),
            }
        }
        // None so far: the right to subscribe is missing altogether.
        if !joined {
            return Err(NotJoined::Refused(all));
        }
    }
    Ok(refused)
}

/// Sends one `SUBSCRIBE`.
async fn ask(sink: &mut PubSubSink, channels: &[Arc<str>], within: Duration) -> Result<(), NotJoined> {
    let names: Vec<&str> = channels.iter().map(|channel| &**channel).collect();
    match tokio::time::timeout(within, sink.subscribe(&names)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(NotJoined::Refused(error)),
        Err(_elapsed) => Err(NotJoined::Silent),
    }
}

fn in_order(mut channels: Vec<Arc<str>>) -> Arc<[Arc<str>]> {
    channels.sort_unstable();
    channels.into()
}

/// Returns the ACL patterns for these channels, as `ACL SETUSER` takes them: one for each kind.
fn patterns(names: &[Arc<str>]) -> String {
    let kind = |name: &Arc<str>| match name.split_once(':') {
        Some((kind, _)) => format!("&{kind}:*"),
        None => format!("&{name}"),
    };
    names.iter().map(kind).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}
