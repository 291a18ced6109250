//! Takes messages of a queue and settles them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions,
};
use lapin::types::FieldTable;
use lapin::{Acker, Channel, Consumer};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::arrival::Taken;
use super::aside::{Aside, KnownRefused, is_to_wait};
use super::declared::Declared;
use super::questions::{CLOSE, short};
use super::window::Window;
use super::{AmqpInputSpec, DeadLetterExchange, dead_lettering};
use crate::client::{AmqpSession, ConnectionState, channels, supervisor};
use delaybridge_core::message::Failure;
use delaybridge_input::{Arrival, Input, InputCheck, InputConnector, JobIntake, Verdict};

/// Messages that are added to Redis in one call.
const BATCH: usize = 500;
/// Bytes of messages in one batch, beside a larger one.
const BATCH_BYTES: usize = 4 << 20;
/// The interval at which a consumer looks whether its connection is still there, and at the length of the queue, and rejects one
/// message of those that come back.
const LOOK: Duration = Duration::from_secs(1);
/// The wait before a queue is tried again that cannot be consumed.
const AGAIN: Duration = Duration::from_secs(1);

/// The input itself.
pub(super) struct AmqpInput {
    spec: AmqpInputSpec,
}

/// The end of a consumer.
enum End {
    /// The input is to stop.
    Stopped,
    /// The queue cannot be consumed, or not any more.
    Failed(Failure),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> End {
        End::Failed(failure)
    }
}

impl AmqpInput {
    pub(super) fn new(spec: AmqpInputSpec) -> AmqpInput {
        AmqpInput { spec }
    }

    /// Consumes on each connection, until `stop`.
    async fn take(&self, intake: &JobIntake, mut state: watch::Receiver<ConnectionState>, stop: &CancellationToken) {
        let mut known = KnownRefused::default();
        loop {
            // Both can be dropped at any time.
            let session = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                session = supervisor::session(&mut state) => session,
            };
            let failure = match session {
                Ok(session) => match self.consume(&session, intake, &mut known, stop).await {
                    Ok(never) => match never {},
                    Err(End::Stopped) => return,
                    Err(End::Failed(failure)) => failure,
                },
                Err(failure) => failure,
            };
            intake.events().down(&failure);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }

    async fn consume(
        &self,
        session: &Arc<AmqpSession>,
        intake: &JobIntake,
        known: &mut KnownRefused,
        stop: &CancellationToken,
    ) -> Result<std::convert::Infallible, End> {
        let channel = channels::open(session, self.spec.time()).await?;
        self.spec.look(&channel).await?;
        self.spec.may_consume(session).await?;
        let rejects = match self.spec.dead_letter_exchange {
            DeadLetterExchange::Policy => Ok(()),
            DeadLetterExchange::Argument => self.place(session).await.map(drop),
        };
        // A message that is taken and comes back counts towards the delivery limit of a quorum queue, so none is taken that
        // Redis would not keep.
        if !intake.ready(stop).await {
            return Err(End::Stopped);
        }
        let mut aside = Aside::new();
        let mut window = Window::new(self.spec.prefetch, self.spec.prefetch_bytes, intake.max_body());
        let mut consumer = self.begin(&channel, window.open()).await?;
        intake.events().up(&self.spec.address());
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The messages of a consumer that was ended, and the window of the next one.
        let (mut ahead, mut next_window) = (VecDeque::new(), None);
        loop {
            // A broker applies a window only to new consumers.
            if ahead.is_empty()
                && let Some(count) = next_window.take()
            {
                consumer = self.begin(&channel, count).await?;
                aside.begin();
            }
            // All of them can be dropped at any time: the consumer keeps what has come. A tick comes before a message, which may
            // always be there.
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    self.give_back(&channel, &consumer).await;
                    return Err(End::Stopped);
                }
                _ = look.tick() => {
                    if is_gone(session, &channel) {
                        return Err(self.spec.lost("the connection is gone").into());
                    }
                    intake.events().lag(self.spec.look(&channel).await?.into());
                    if let Some(acker) = aside.tick() {
                        self.settle(&acker, false).await?;
                    }
                    self.show(&mut aside, &rejects, intake);
                    continue;
                }
                // Taken out when it is polled: a tick that comes first would drop it.
                Some(next) = async { ahead.pop_front() } => next,
                next = consumer.next() => self.delivered(next)?,
            };
            let (mut arrivals, mut settling, mut bytes) = (Vec::new(), Vec::new(), 0);
            let mut next = Some(first);
            while let Some(Taken { acker, mut arrival, rounds }) = next {
                bytes += arrival.size();
                window.note(arrival.size());
                arrival.was_refused = known.has(&arrival);
                settling.push((acker, rounds, arrival.hash()));
                arrivals.push(arrival);
                next = match arrivals.len() < BATCH && bytes < BATCH_BYTES {
                    true if next_window.is_some() => ahead.pop_front(),
                    true => consumer.next().now_or_never().map(|next| self.delivered(next)).transpose()?,
                    false => None,
                };
            }
            let Some(verdicts) = self.decide(session, &channel, intake, arrivals, stop).await else {
                if stop.is_cancelled() {
                    self.give_back(&channel, &consumer).await;
                    return Err(End::Stopped);
                }
                return Err(self.spec.lost("the connection is gone").into());
            };
            for ((acker, rounds, hash), verdict) in settling.into_iter().zip(verdicts) {
                match verdict {
                    Verdict::Scheduled | Verdict::Duplicate => {
                        self.settle(&acker, true).await?;
                        continue;
                    }
                    Verdict::Refused(_) => known.add(hash),
                }
                match &rejects {
                    Ok(()) if is_to_wait(rounds) => aside.delay(acker),
                    Ok(()) => self.settle(&acker, false).await?,
                    Err(_) => aside.hold(acker),
                }
                self.show(&mut aside, &rejects, intake);
            }
            if next_window.is_none() {
                next_window = window.changed().or_else(|| aside.fills(window.open()).then(|| window.open()));
                if next_window.is_some() {
                    ahead = self.end(&channel, &mut consumer).await?;
                }
            }
        }
    }

    /// Asks the intake for verdicts; `None` if `stop` came first, or the connection was lost. The broker hands messages out again
    /// that were not acknowledged on a lost connection, so it is not waited for Redis then: a message without an identity would be
    /// scheduled twice.
    async fn decide(
        &self,
        session: &AmqpSession,
        channel: &Channel,
        intake: &JobIntake,
        arrivals: Vec<Arrival>,
        stop: &CancellationToken,
    ) -> Option<Vec<Verdict>> {
        let waits = stop.child_token();
        let mut verdicts = std::pin::pin!(intake.take(arrivals, &waits));
        loop {
            tokio::select! {
                biased;
                verdicts = &mut verdicts => return verdicts,
                () = tokio::time::sleep(LOOK) => {
                    if is_gone(session, channel) {
                        waits.cancel();
                    }
                }
            }
        }
    }

    /// Shows the messages that are aside.
    fn show(&self, aside: &mut Aside<Acker>, rejects: &Result<(), String>, intake: &JobIntake) {
        if let Err(why) = rejects
            && aside.held() > 0
        {
            intake.events().holds(aside.held(), why);
            return;
        }
        match aside.comes_back() {
            Some(false) => {}
            Some(true) => intake.events().comes_back(&format!(
                "rejected messages of queue {} come back to it, so one is rejected in a second: let its dead-letter exchange lead to \
                 another queue",
                self.spec.queue
            )),
            None => intake.events().up(&self.spec.address()),
        }
    }

    /// Ends a consumer; returns the messages that it had been given, which are settled before another one begins.
    async fn end(&self, channel: &Channel, consumer: &mut Consumer) -> Result<VecDeque<Taken>, Failure> {
        self.spec.in_time(channel.basic_cancel(consumer.tag(), BasicCancelOptions::default())).await?;
        let mut ahead = VecDeque::new();
        loop {
            match tokio::time::timeout(self.spec.time(), consumer.next()).await {
                Ok(None) => return Ok(ahead),
                Ok(next) => ahead.push_back(self.delivered(next)?),
                Err(_) => return Err(self.spec.lost("the consumer did not end")),
            }
        }
    }

    /// Returns everything that is not settled to the queue, and closes the channel. From RabbitMQ 4.3 on, what a consumer returns does not
    /// count towards the delivery limit of a quorum queue, and what comes back with a channel does.
    async fn give_back(&self, channel: &Channel, consumer: &Consumer) {
        let give_back = async {
            // The consumer ends first: it would get them again.
            channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
            // Zero stands for all messages of the channel.
            channel.basic_nack(0, BasicNackOptions { multiple: true, requeue: true }).await?;
            channel.close(200, "closed".into()).await
        };
        // A broker that does not answer takes them back with the connection.
        drop(tokio::time::timeout(CLOSE, give_back).await);
    }

    /// Begins to consume.
    async fn begin(&self, channel: &Channel, count: u16) -> Result<Consumer, Failure> {
        let begin = async {
            let queue = short(&self.spec.queue);
            channel.basic_qos(count, BasicQosOptions::default()).await?;
            channel.basic_consume(queue, "".into(), BasicConsumeOptions::default(), FieldTable::default()).await
        };
        self.spec.in_time(begin).await
    }

    /// Asks where rejected messages go.
    async fn place(&self, session: &AmqpSession) -> Result<String, String> {
        let declared = Declared::ask(session, &self.spec.queue, self.spec.time()).await;
        dead_lettering::place(session, &self.spec.queue, &declared, self.spec.time()).await
    }

    /// The message that came, and what settles it.
    fn delivered(&self, next: Option<lapin::Result<lapin::message::Delivery>>) -> Result<Taken, Failure> {
        match next {
            Some(Ok(delivery)) => Ok(Taken::of(delivery, &self.spec.queue)),
            Some(Err(error)) => Err(self.spec.explain(&error)),
            None => {
                Err(self.spec.lost("the broker has cancelled the consumer: the queue was deleted, or its node is gone"))
            }
        }
    }

    /// Acknowledges a message, or rejects it.
    async fn settle(&self, acker: &Acker, taken: bool) -> Result<(), Failure> {
        let settled = match taken {
            true => acker.ack(BasicAckOptions::default()).await,
            false => acker.reject(BasicRejectOptions { requeue: false }).await,
        };
        match settled {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.spec.lost("the channel was closed before a message was acknowledged")),
            Err(error) => Err(self.spec.explain(&error)),
        }
    }
}

/// Whether a channel has ended, with or without its connection.
fn is_gone(session: &AmqpSession, channel: &Channel) -> bool {
    !session.is_up() || !channel.status().connected()
}

impl Input for AmqpInput {
    fn kind(&self) -> &'static str {
        crate::NAME
    }

    fn run<'a>(&'a self, intake: &'a JobIntake, stop: CancellationToken) -> BoxFuture<'a, ()> {
        async move {
            let (sender, state) = watch::channel(ConnectionState::Connecting { failure: None });
            // The connection outlives the consumer, which says goodbye on it.
            let end = CancellationToken::new();
            let guard = end.clone().drop_guard();
            let connection = tokio::spawn(supervisor::run(self.spec.broker.clone(), sender, end));
            self.take(intake, state, &stop).await;
            drop(guard);
            drop(tokio::time::timeout(CLOSE, connection).await);
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<InputCheck, Failure>> {
        async move {
            let (sender, mut state) = watch::channel(ConnectionState::Connecting { failure: None });
            let end = CancellationToken::new();
            let _guard = end.clone().drop_guard();
            tokio::spawn(supervisor::run(self.spec.broker.clone(), sender, end));
            let session = supervisor::session(&mut state).await?;
            let (queue, time) = (&self.spec.queue, self.spec.time());
            let waiting = self.spec.look(&channels::open(&session, time).await?).await?;
            self.spec.may_consume(&session).await?;
            let messages = if waiting == 1 { "message" } else { "messages" };
            let found = vec![format!("queue {queue} with {waiting} {messages}"), "the right to consume it".to_owned()];
            let mut check = InputCheck { found, drawbacks: Vec::new() };
            let declared = Declared::ask(&session, queue, time).await;
            let is_kept = match self.spec.dead_letter_exchange {
                DeadLetterExchange::Policy => {
                    check
                        .found
                        .push("a policy for rejected messages, as configured, which was not asked for".to_owned());
                    true
                }
                DeadLetterExchange::Argument => match dead_lettering::place(&session, queue, &declared, time).await {
                    Ok(place) => {
                        check.found.push(format!("{place} for rejected messages"));
                        true
                    }
                    Err(why) => {
                        check.drawbacks.push(why);
                        false
                    }
                },
            };
            if let Ok(declared) = &declared {
                check.drawbacks.extend(dead_lettering::comes_back(queue, declared));
                let limit = dead_lettering::limit(declared, is_kept);
                let place = if is_kept { &mut check.found } else { &mut check.drawbacks };
                place.extend(limit);
            }
            Ok(check)
        }
        .boxed()
    }
}
