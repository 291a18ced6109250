//! Takes messages of a queue and settles them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Acker, Channel, Consumer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::arrival::arrival;
use super::window::Window;
use super::{AmqpInputSpec, DeadLetterExchange, dead_lettering};
use crate::client::{AmqpSession, ConnectionState, channels, supervisor};
use crate::errors;
use delaybridge_core::message::{Class, Failure};
use delaybridge_input::{Arrival, Input, InputCheck, JobIntake, Verdict};
use delaybridge_sink::Connector;

/// Messages that are added to Redis in one call.
const BATCH: usize = 500;
/// Bytes of messages in one batch, beside a larger one.
const BATCH_BYTES: usize = 4 << 20;
/// The interval at which a silent consumer looks whether its connection is still there, and at the length of the queue.
const LOOK: Duration = Duration::from_secs(1);
/// The wait before a queue is tried again that cannot be consumed.
const AGAIN: Duration = Duration::from_secs(1);
/// Time allowed for closing.
const CLOSE: Duration = Duration::from_secs(2);

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
        loop {
            // Both can be dropped at any time.
            let session = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                session = supervisor::session(&mut state) => session,
            };
            let failure = match session {
                Ok(session) => match self.consume(&session, intake, stop).await {
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
        stop: &CancellationToken,
    ) -> Result<std::convert::Infallible, End> {
        let channel = channels::open(session, self.time()).await?;
        self.look(&channel).await?;
        let rejects = match self.spec.dead_letter_exchange {
            DeadLetterExchange::Policy => Ok(()),
            DeadLetterExchange::Argument => dead_lettering::ask(session, &self.spec.queue, self.time()).await.map(drop),
        };
        let mut held = Vec::new();
        let mut window = Window::new(self.spec.prefetch, self.spec.prefetch_bytes, intake.max_body());
        let mut consumer = self.begin(&channel, window.open()).await?;
        intake.events().up(&self.address());
        let mut look = tokio::time::interval(LOOK);
        // The messages of a consumer that was ended, and the window of the next one.
        let (mut ahead, mut next_window) = (VecDeque::new(), None);
        loop {
            // A broker applies a window only to new consumers.
            if ahead.is_empty()
                && let Some(count) = next_window.take()
            {
                consumer = self.begin(&channel, count).await?;
            }
            // All of them can be dropped at any time: the consumer keeps what has come.
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    // What was taken and not acknowledged goes back to the queue.
                    drop(tokio::time::timeout(CLOSE, channel.close(200, "closed".into())).await);
                    return Err(End::Stopped);
                }
                Some(next) = std::future::ready(ahead.pop_front()) => next,
                next = consumer.next() => self.delivered(next)?,
                _ = look.tick() => {
                    if !session.is_up() || !channel.status().connected() {
                        return Err(self.lost("the connection is gone").into());
                    }
                    intake.events().lag(self.look(&channel).await?.into());
                    continue;
                }
            };
            let (mut arrivals, mut ackers, mut bytes) = (Vec::new(), Vec::new(), 0);
            let mut next = Some(first);
            while let Some((acker, arrival)) = next {
                bytes += arrival.size();
                window.note(arrival.size());
                ackers.push(acker);
                arrivals.push(arrival);
                next = match arrivals.len() < BATCH && bytes < BATCH_BYTES {
                    true if next_window.is_some() => ahead.pop_front(),
                    true => consumer.next().now_or_never().map(|next| self.delivered(next)).transpose()?,
                    false => None,
                };
            }
            let Some(verdicts) = intake.take(arrivals, stop).await else {
                return Err(End::Stopped);
            };
            for (acker, verdict) in ackers.into_iter().zip(verdicts) {
                match (verdict, &rejects) {
                    (Verdict::Scheduled | Verdict::Duplicate, _) => self.settle(&acker, true).await?,
                    (Verdict::Refused(_), Ok(())) => self.settle(&acker, false).await?,
                    // It stays unacknowledged, and goes back to the queue with the channel.
                    (Verdict::Refused(_), Err(why)) => {
                        held.push(acker);
                        intake.events().holds(held.len(), why);
                    }
                }
            }
            if let (Some(count), None) = (window.changed(), next_window) {
                ahead = self.end(&channel, &mut consumer).await?;
                next_window = Some(count);
            }
        }
    }

    /// Ends a consumer; returns the messages that it had been given, which are settled before another one begins.
    async fn end(&self, channel: &Channel, consumer: &mut Consumer) -> Result<VecDeque<(Acker, Arrival)>, Failure> {
        self.in_time(channel.basic_cancel(consumer.tag(), BasicCancelOptions::default())).await?;
        let mut ahead = VecDeque::new();
        loop {
            match tokio::time::timeout(self.time(), consumer.next()).await {
                Ok(None) => return Ok(ahead),
                Ok(next) => ahead.push_back(self.delivered(next)?),
                Err(_) => return Err(self.lost("the consumer did not end")),
            }
        }
    }

    /// Begins to consume.
    async fn begin(&self, channel: &Channel, count: u16) -> Result<Consumer, Failure> {
        let begin = async {
            let queue = short(&self.spec.queue);
            channel.basic_qos(count, BasicQosOptions::default()).await?;
            channel.basic_consume(queue, "".into(), BasicConsumeOptions::default(), FieldTable::default()).await
        };
        self.in_time(begin).await
    }

    /// Looks for the queue; returns the number of its messages that wait.
    async fn look(&self, channel: &Channel) -> Result<u32, Failure> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue =
            self.in_time(channel.queue_declare(short(&self.spec.queue), passive, FieldTable::default())).await?;
        Ok(queue.message_count())
    }

    /// Asks whether the queue may be consumed, without a message of it: a broker looks at the rights before it refuses the
    /// priority of a consumer that is no number.
    async fn may_consume(&self, session: &Arc<AmqpSession>) -> Result<(), Failure> {
        let channel = channels::open(session, self.time()).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-priority".into(), AMQPValue::LongString("none".into()));
        let consume = async {
            channel.basic_qos(1, BasicQosOptions::default()).await?;
            let (queue, options) = (short(&self.spec.queue), BasicConsumeOptions::default());
            channel.basic_consume(queue, "".into(), options, arguments).await
        };
        match tokio::time::timeout(self.time(), consume).await {
            Err(_) => Err(self.lost(&format!("no answer within {:?}", self.time()))),
            Ok(Err(error)) => match error.kind() {
                lapin::ErrorKind::ProtocolError(refusal) if refusal.get_id() == errors::PRECONDITION_FAILED => Ok(()),
                _ => Err(self.explain(&error)),
            },
            // Another broker may take it: a message that comes goes back with the channel.
            Ok(Ok(consumer)) => {
                drop(consumer);
                drop(tokio::time::timeout(CLOSE, channel.close(200, "asked".into())).await);
                Ok(())
            }
        }
    }

    async fn in_time<T>(&self, asking: impl Future<Output = lapin::Result<T>>) -> Result<T, Failure> {
        match tokio::time::timeout(self.time(), asking).await {
            Ok(answer) => answer.map_err(|error| self.explain(&error)),
            Err(_) => Err(self.lost(&format!("no answer within {:?}", self.time()))),
        }
    }

    /// The message that came, and what settles it.
    fn delivered(&self, next: Option<lapin::Result<lapin::message::Delivery>>) -> Result<(Acker, Arrival), Failure> {
        match next {
            Some(Ok(delivery)) => Ok((delivery.acker.clone(), arrival(delivery))),
            Some(Err(error)) => Err(self.explain(&error)),
            None => Err(self.lost("the broker has cancelled the consumer: the queue was deleted, or its node is gone")),
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
            Ok(false) => Err(self.lost("the channel was closed before a message was acknowledged")),
            Err(error) => Err(self.explain(&error)),
        }
    }

    fn time(&self) -> Duration {
        self.spec.broker.connect_timeout
    }

    fn address(&self) -> String {
        format!("queue {} at {}", self.spec.queue, self.spec.broker.address())
    }

    fn lost(&self, why: &str) -> Failure {
        Failure::new(Class::Transient, "connection_lost", format!("consume queue {}: {why}", self.spec.queue))
    }

    fn explain(&self, error: &lapin::Error) -> Failure {
        let lapin::ErrorKind::ProtocolError(error) = error.kind() else { return self.lost(&error.to_string()) };
        let code = error.get_id();
        let (class, advice) = match code {
            errors::NOT_FOUND => (Class::TargetPermanent, "declare the queue, with its dead-letter exchange"),
            errors::ACCESS_REFUSED => (Class::TargetPermanent, "give the user the right to read it"),
            errors::RESOURCE_LOCKED => (Class::TargetPermanent, "it is exclusive to another connection"),
            _ => (Class::Transient, "the broker refused it"),
        };
        let text =
            format!("consume queue {}: the broker answered {code} {}: {advice}", self.spec.queue, error.get_message());
        Failure::new(class, errors::name(code), text)
    }
}

/// A name that was checked with the configuration.
fn short(text: &str) -> ShortString {
    ShortString::try_new(text).unwrap_or_default()
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
            let waiting = self.look(&channels::open(&session, self.time()).await?).await?;
            self.may_consume(&session).await?;
            let (messages, queue) = (if waiting == 1 { "message" } else { "messages" }, &self.spec.queue);
            let found = vec![format!("queue {queue} with {waiting} {messages}"), "the right to consume it".to_owned()];
            let mut check = InputCheck { found, drawbacks: Vec::new() };
            match self.spec.dead_letter_exchange {
                DeadLetterExchange::Policy => {
                    check
                        .found
                        .push("a policy for rejected messages, as configured, which was not asked for".to_owned());
                }
                DeadLetterExchange::Argument => match dead_lettering::ask(&session, queue, self.time()).await {
                    Ok(place) => check.found.push(format!("{place} for rejected messages")),
                    Err(why) => check.drawbacks.push(why),
                },
            }
            Ok(check)
        }
        .boxed()
    }
}
