//! Takes messages of a queue and settles them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, Fuse, FusedFuture};
use futures_util::{FutureExt, StreamExt};
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions,
};
use lapin::types::FieldTable;
use lapin::{Acker, Channel, Consumer};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::arrival::Taken;
use super::aside::{Aside, KnownRefused, is_to_wait};
use super::declared::Declared;
use super::questions::{CLOSE, short};
use super::window::Window;
use super::{AmqpInputSpec, DeadLetterExchange, dead_lettering};
use crate::client::{AmqpSession, ConnectionState, channels, supervisor};
use delaybridge_core::message::Failure;
use delaybridge_dial::ReadBudget;
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

pub(super) struct AmqpInput {
    spec: AmqpInputSpec,
}

enum End {
    Stopped,
    /// The queue cannot be consumed, or not any more.
    Failed(Failure),
}

/// A consumer that was told to end. It has ended when it gives no message any more.
struct Ending {
    /// The window of the next consumer.
    window: u16,
    cancelled: Fuse<BoxFuture<'static, lapin::Result<()>>>,
    /// The time at which it must have ended, unless it still gives messages.
    due: Instant,
}

/// Waits for the broker's answer to the end of a consumer, once.
async fn cancelled(ending: &mut Option<Ending>) -> lapin::Result<()> {
    match ending {
        Some(ending) => (&mut ending.cancelled).await,
        None => std::future::pending().await,
    }
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
        // The window keeps to `prefetch_bytes` by itself, unless large messages follow small ones at once.
        session.arriving().allow(intake.max_body(), self.spec.prefetch_bytes.saturating_add(intake.max_body()));
        let end = self.take_messages(session, &channel, intake, known, &rejects, stop).await;
        if let Err(End::Failed(_)) = end {
            // What it was given comes back with the connection, and is not counted among what the next one holds.
            session.give_up();
        }
        end
    }

    async fn take_messages(
        &self,
        session: &Arc<AmqpSession>,
        channel: &Channel,
        intake: &JobIntake,
        known: &mut KnownRefused,
        rejects: &Result<(), String>,
        stop: &CancellationToken,
    ) -> Result<std::convert::Infallible, End> {
        let mut aside = Aside::new();
        let mut window = Window::new(self.spec.prefetch, self.spec.prefetch_bytes, intake.max_body());
        let mut consumer = self.begin(channel, window.open()).await?;
        intake.events().up(&self.spec.address());
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ending: Option<Ending> = None;
        // Without a time-out: the answer may be behind messages that are read when others were taken.
        let mut looking = std::pin::pin!(Fuse::terminated());
        loop {
            // All of them can be dropped at any time: the consumer keeps what has come. A tick comes before a message, which may
            // always be there.
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    self.give_back(session, channel, consumer).await;
                    return Err(End::Stopped);
                }
                _ = look.tick() => {
                    if is_gone(session, channel) {
                        return Err(self.spec.lost("the connection is gone").into());
                    }
                    if ending.as_ref().is_some_and(|ending| Instant::now() >= ending.due) {
                        return Err(self.spec.lost("the consumer did not end").into());
                    }
                    if looking.is_terminated() {
                        looking.set(self.spec.count(channel).fuse());
                    }
                    if let Some(acker) = aside.tick() {
                        self.settle(&acker, false).await?;
                    }
                    self.show(&mut aside, rejects, intake);
                    continue;
                }
                count = &mut looking => {
                    intake.events().lag(count.map_err(|error| self.spec.explain(&error))?.into());
                    continue;
                }
                answer = cancelled(&mut ending) => {
                    answer.map_err(|error| self.spec.explain(&error))?;
                    continue;
                }
                next = consumer.next() => next,
            };
            let mut arrivals = Vec::new();
            let mut settling = Vec::new();
            let mut bytes = 0;
            let mut body_bytes = 0;
            let mut next = Some(first);
            let mut is_over = false;
            while let Some(delivery) = next {
                if delivery.is_none() && ending.is_some() {
                    is_over = true;
                    break;
                }
                let Taken { acker, mut arrival, rounds } = self.delivered(delivery)?;
                bytes += arrival.size();
                body_bytes += arrival.body.len() as u64;
                window.note(arrival.size());
                arrival.was_refused = known.has(&arrival);
                settling.push((acker, rounds, arrival.hash()));
                arrivals.push(arrival);
                let has_room = arrivals.len() < BATCH && bytes < BATCH_BYTES;
                next = if has_room { consumer.next().now_or_never() } else { None };
            }
            let verdicts = self.decide(session, channel, intake, arrivals, stop).await;
            session.arriving().taken(body_bytes);
            let Some(verdicts) = verdicts else {
                if stop.is_cancelled() {
                    self.give_back(session, channel, consumer).await;
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
                match rejects {
                    Ok(()) if is_to_wait(rounds) => aside.delay(acker),
                    Ok(()) => self.settle(&acker, false).await?,
                    Err(_) => aside.hold(acker),
                }
                self.show(&mut aside, rejects, intake);
            }
            // A broker applies a window only to new consumers.
            match &mut ending {
                Some(ended) if is_over => {
                    consumer = self.begin(channel, ended.window).await?;
                    aside.begin();
                    ending = None;
                }
                Some(ending) => ending.due = Instant::now() + self.spec.time(),
                None => {
                    let changed = window.changed().or_else(|| aside.fills(window.open()).then(|| window.open()));
                    ending = changed.map(|window| self.end(channel, &consumer, window));
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

    /// Begins to end a consumer, whose messages are taken meanwhile: what is not taken is not read on.
    fn end(&self, channel: &Channel, consumer: &Consumer, window: u16) -> Ending {
        let channel = channel.clone();
        let tag = consumer.tag();
        let cancel = async move { channel.basic_cancel(tag, BasicCancelOptions::default()).await };
        Ending { window, cancelled: cancel.boxed().fuse(), due: Instant::now() + self.spec.time() }
    }

    /// Returns everything that is not settled to the queue, and closes the channel. From RabbitMQ 4.3 on, what a consumer returns does not
    /// count towards the delivery limit of a quorum queue, and what comes back with a channel does.
    async fn give_back(&self, session: &AmqpSession, channel: &Channel, mut consumer: Consumer) {
        let tag = consumer.tag();
        let read_on = async {
            // The answers are behind messages that are not read while too many are held.
            while let Some(Ok(delivery)) = consumer.next().await {
                session.arriving().taken(delivery.data.len() as u64);
            }
            std::future::pending().await
        };
        let give_back = async {
            // The consumer ends first: it would get them again.
            channel.basic_cancel(tag, BasicCancelOptions::default()).await?;
            // Zero stands for all messages of the channel.
            channel.basic_nack(0, BasicNackOptions { multiple: true, requeue: true }).await?;
            channel.close(200, "closed".into()).await
        };
        // A broker that does not answer takes them back with the connection. Both may be dropped at any time.
        let end = async {
            tokio::select! {
                end = give_back => end,
                end = read_on => end,
            }
        };
        let _ = tokio::time::timeout(CLOSE, end).await;
    }

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

    /// Reads the message that came, and what settles it.
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
        let settled = if taken {
            acker.ack(BasicAckOptions::default()).await
        } else {
            acker.reject(BasicRejectOptions { requeue: false }).await
        };
        match settled {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.spec.lost("the channel was closed before a message was acknowledged")),
            Err(error) => Err(self.spec.explain(&error)),
        }
    }
}

/// Returns whether a channel has ended, with or without its connection.
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
            let connection = tokio::spawn(supervisor::run(
                self.spec.broker.clone(),
                ReadBudget::new(ReadBudget::ANSWERS),
                sender,
                end,
            ));
            self.take(intake, state, &stop).await;
            drop(guard);
            let _ = tokio::time::timeout(CLOSE, connection).await;
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<InputCheck, Failure>> {
        async move {
            let (sender, mut state) = watch::channel(ConnectionState::Connecting { failure: None });
            let end = CancellationToken::new();
            let _guard = end.clone().drop_guard();
            tokio::spawn(supervisor::run(self.spec.broker.clone(), ReadBudget::new(ReadBudget::ANSWERS), sender, end));
            let session = supervisor::session(&mut state).await?;
            let queue = &self.spec.queue;
            let time = self.spec.time();
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
