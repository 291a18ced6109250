//! What a connection is asked for: a question, or messages for a queue; and what comes back.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::wire::frame::{RemotingAnswer, RemotingRequest};
use crate::wire::message::{self, ReadyMessage};
use crate::wire::route::RouteQueue;
use crate::{NAME, RocketMqDestination, errors};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Failure;
use delaybridge_sink::worker_queue::WorkItem;

/// A request to a server, with the place for its answer.
pub(super) enum RemotingCall {
    Ask(RemotingRequest, oneshot::Sender<AskEnd>),
    Send(MessageBatch, oneshot::Sender<SendEnd>),
}

/// The end of a question.
pub(super) type AskEnd = Result<RemotingAnswer, Failure>;

/// The end of a sending. The batch comes back without the messages that had no permission.
pub(super) struct SendEnd {
    pub(super) batch: MessageBatch,
    pub(super) answer: Result<RemotingAnswer, Unanswered>,
}

/// Why there is no answer.
pub(super) enum Unanswered {
    /// None was permitted to leave.
    NotSent(Failure),
    /// The answer of messages that had their permission.
    Failed(Failure),
}

impl RemotingCall {
    pub(super) fn refuse(self, failure: Failure) {
        match self {
            RemotingCall::Ask(_, reply) => {
                let _ = reply.send(Err(failure));
            }
            RemotingCall::Send(batch, reply) => {
                let _ = reply.send(SendEnd { batch, answer: Err(Unanswered::NotSent(failure)) });
            }
        }
    }
}

/// An element that is ready to be sent, but for the permission.
pub(super) struct ReadyItem {
    pub(super) item: WorkItem,
    pub(super) wire: ReadyMessage,
}

impl ReadyItem {
    /// Returns the text that chooses its queue.
    pub(super) fn sharding_key(&self) -> Option<&str> {
        let destination = self.item.message().destination.of_kind::<RocketMqDestination>(NAME);
        destination.ok().and_then(|destination| destination.sharding_key.as_deref())
    }

    /// Returns the attempt, in words for messages.
    pub(super) fn attempt(&self) -> String {
        format!("send to {}", self.item.message().destination)
    }
}

/// Messages for one queue, which go in one request.
pub(super) struct MessageBatch {
    pub(super) topic: Arc<str>,
    pub(super) queue: RouteQueue,
    pub(super) items: Vec<ReadyItem>,
    /// Whether they had their permission before, for a request that was refused because of one of them.
    pub(super) again: bool,
}

impl MessageBatch {
    /// Drops the elements that must not be sent any more. Asked right before the request is put where only the connection
    /// takes it from.
    pub(super) fn admit(&mut self) {
        if !self.again {
            // A dropped element answers by itself that it was not sent.
            return self.items.retain(|ready| ready.item.may_send());
        }
        // One that was refused before has to be told.
        let now = Instant::now();
        for stale in self.items.extract_if(.., |ready| now >= ready.item.message().send_before) {
            stale.item.finish(Err(Failure::stale()));
        }
    }

    pub(super) fn request(&self, group: &str) -> RemotingRequest {
        let messages = self.items.iter().map(|ready| (ready.item.message(), &ready.wire));
        message::send(group, &self.topic, &self.queue, messages)
    }

    pub(super) fn attempt(&self) -> String {
        let RouteQueue { broker, master, .. } = &self.queue;
        format!("send to topic {} at broker {broker} ({})", self.topic, master.as_deref().unwrap_or("away"))
    }

    /// Returns the failure of messages that were under way, or had not left yet, when the connection ended.
    pub(super) fn lost(&self, why: &str, sent: bool) -> Unanswered {
        let failure = errors::lost(&self.attempt(), why, sent);
        // What has had its permission cannot be offered again, even if no byte of it left.
        Unanswered::Failed(failure)
    }
}
