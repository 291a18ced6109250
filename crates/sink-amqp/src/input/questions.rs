//! What an input asks the broker about its queue, without a message of it.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ErrorKind};

use super::AmqpInputSpec;
use crate::client::{AmqpSession, channels};
use crate::{codes, errors};
use delaybridge_core::message::{Class, Failure};

/// Time allowed for closing.
pub(super) const CLOSE: Duration = Duration::from_secs(2);

impl AmqpInputSpec {
    /// Looks for the queue; returns the number of its messages that wait.
    pub(super) async fn look(&self, channel: &Channel) -> Result<u32, Failure> {
        self.in_time(self.count(channel)).await
    }

    /// Asks for the number of messages in the queue, however long the answer takes.
    pub(super) async fn count(&self, channel: &Channel) -> lapin::Result<u32> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = channel.queue_declare(short(&self.queue), passive, FieldTable::default()).await?;
        Ok(queue.message_count())
    }

    /// Asks whether the queue may be consumed: a broker looks at the rights, and at the type of the queue, before it refuses the
    /// priority of a consumer that is no number.
    pub(super) async fn may_consume(&self, session: &Arc<AmqpSession>) -> Result<(), Failure> {
        let channel = channels::open(session, self.time()).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-priority".into(), AMQPValue::LongString("none".into()));
        let consume = async {
            channel.basic_qos(1, BasicQosOptions::default()).await?;
            let queue = short(&self.queue);
            let options = BasicConsumeOptions::default();
            channel.basic_consume(queue, "".into(), options, arguments).await
        };
        match tokio::time::timeout(self.time(), consume).await {
            Err(_) => Err(self.lost(&format!("no answer within {:?}", self.time()))),
            Ok(Err(error)) => match error.kind() {
                ErrorKind::ProtocolError(refusal) if refusal.get_id() == errors::PRECONDITION_FAILED => {
                    // A stream knows no priorities at all, and the refusal says so.
                    let of = refusal.get_message().as_str().rsplit_once("of queue type ");
                    if of.is_some_and(|(_, kind)| kind.contains("stream")) { Err(self.is_stream()) } else { Ok(()) }
                }
                _ => Err(self.explain(&error)),
            },
            // Another broker may take it: a message that comes goes back with the channel.
            Ok(Ok(consumer)) => {
                drop(consumer);
                let _ = tokio::time::timeout(CLOSE, channel.close(200, "asked".into())).await;
                Ok(())
            }
        }
    }

    /// Builds the failure for a stream: a consumer begins at its end unless it names an offset, and a stream keeps what
    /// was acknowledged.
    fn is_stream(&self) -> Failure {
        let text = format!(
            "consume queue {}: it is a stream, which an input does not read: it would begin at its end after each restart. Bind a \
             classic or quorum queue to the same exchange",
            self.queue
        );
        codes::STREAM.failure(text)
    }

    /// Waits for an answer of the broker.
    pub(super) async fn in_time<T>(&self, asking: impl Future<Output = lapin::Result<T>>) -> Result<T, Failure> {
        match tokio::time::timeout(self.time(), asking).await {
            Ok(answer) => answer.map_err(|error| self.explain(&error)),
            Err(_) => Err(self.lost(&format!("no answer within {:?}", self.time()))),
        }
    }

    /// Returns the time allowed for an answer.
    pub(super) fn time(&self) -> Duration {
        self.broker.connect_timeout
    }

    /// Builds the failure of a consumer that has to begin again.
    pub(super) fn lost(&self, why: &str) -> Failure {
        Failure::new(Class::Transient, "connection_lost", format!("consume queue {}: {why}", self.queue))
    }

    /// Builds the failure that an error of the library means.
    pub(super) fn explain(&self, error: &lapin::Error) -> Failure {
        let ErrorKind::ProtocolError(error) = error.kind() else { return self.lost(&error.to_string()) };
        let code = error.get_id();
        let (class, advice) = match code {
            errors::NOT_FOUND => (Class::TargetPermanent, "declare the queue, with its dead-letter exchange"),
            errors::ACCESS_REFUSED => (Class::TargetPermanent, "give the user the right to read it"),
            errors::RESOURCE_LOCKED => (Class::TargetPermanent, "it is exclusive to another connection"),
            _ => (Class::Transient, "the broker refused it"),
        };
        let text =
            format!("consume queue {}: the broker answered {code} {}: {advice}", self.queue, error.get_message());
        Failure::new(class, errors::name(code), text)
    }
}

/// Returns a name that was checked with the configuration.
pub(super) fn short(text: &str) -> ShortString {
    ShortString::try_new(text).unwrap_or_default()
}

/// Reads the answer of a broker, or the text of its refusal.
pub(super) fn answer<T>(answer: Result<lapin::Result<T>, tokio::time::error::Elapsed>) -> Result<T, String> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(match error.kind() {
            ErrorKind::ProtocolError(error) => error.get_message().to_string(),
            _ => error.to_string(),
        }),
        Err(_) => Err("no answer in time".to_owned()),
    }
}
