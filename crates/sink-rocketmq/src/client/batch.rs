//! The way of one request to a broker: sent, answered, its elements told.

use std::sync::Arc;
use std::time::Duration;

use super::call::{MessageBatch, ReadyItem, SendEnd, Unanswered};
use super::peer::PeerSender;
use crate::wire::frame::RemotingAnswer;
use crate::wire::route::RouteQueue;
use crate::{RocketMqSpec, errors};
use delaybridge_core::message::{Class, Failure};

/// Time for which a broker in trouble gets only what must go there.
const SHUNNED: Duration = Duration::from_secs(2);

pub(super) struct RequestEnd {
    pub(super) topic: Arc<str>,
    pub(super) queue: RouteQueue,
    /// Elements that have their answers.
    pub(super) finished: usize,
    /// Elements of which nothing was sent, and why.
    pub(super) unsent: Vec<ReadyItem>,
    pub(super) why_unsent: Option<Failure>,
    pub(super) note: BrokerNote,
}

/// A note about the broker and the route, from the end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrokerNote {
    Well,
    /// The broker is in trouble, for this long; the route may know another.
    Shun(Duration),
    /// The task of its connection has ended by a defect.
    Defect,
}

/// Sends a batch, and tells its elements how it ended. A batch that is refused because of one of its messages is sent again, each
/// message by itself.
pub(super) async fn deliver(spec: Arc<RocketMqSpec>, to: PeerSender, batch: MessageBatch) -> RequestEnd {
    let topic = batch.topic.clone();
    let queue = batch.queue.clone();
    let count = batch.items.len();
    let mut end =
        RequestEnd { topic, queue, finished: count, unsent: Vec::new(), why_unsent: None, note: BrokerNote::Defect };
    let Some(SendEnd { mut batch, answer }) = to.send(batch).await else { return end };
    end.note = note(&answer);
    match answer {
        Ok(answer) if batch.items.len() > 1 && errors::is_of_one(&answer) => {
            for ready in std::mem::take(&mut batch.items) {
                let topic = batch.topic.clone();
                let queue = batch.queue.clone();
                end.note = alone(&spec, &to, MessageBatch { topic, queue, items: vec![ready], again: true }).await;
            }
        }
        Ok(answer) => finish(&spec, batch, &answer),
        Err(Unanswered::Failed(failure)) => fail(batch, &failure),
        Err(Unanswered::NotSent(failure)) => {
            end.finished = count - batch.items.len();
            (end.unsent, end.why_unsent) = (batch.items, Some(failure));
        }
    }
    end
}

/// Sends one message of a refused batch in a request of its own.
async fn alone(spec: &RocketMqSpec, to: &PeerSender, batch: MessageBatch) -> BrokerNote {
    let Some(SendEnd { batch, answer }) = to.send(batch).await else { return BrokerNote::Defect };
    let note = note(&answer);
    match answer {
        Ok(answer) => finish(spec, batch, &answer),
        // The broker has refused it with the batch, and nothing of it was sent since.
        Err(Unanswered::NotSent(failure)) => {
            let failure = Failure::new(Class::Transient, Failure::NOT_SENT, failure.message);
            fail(batch, &failure);
        }
        Err(Unanswered::Failed(failure)) => fail(batch, &failure),
    }
    note
}

fn finish(spec: &RocketMqSpec, batch: MessageBatch, answer: &RemotingAnswer) {
    let attempt = batch.attempt();
    let outcome = errors::of_send(&attempt, answer, spec.slave_not_available);
    batch.items.into_iter().for_each(|ready| ready.item.finish(outcome.clone()));
}

fn fail(batch: MessageBatch, failure: &Failure) {
    batch.items.into_iter().for_each(|ready| ready.item.finish(Err(failure.clone())));
}

fn note(answer: &Result<RemotingAnswer, Unanswered>) -> BrokerNote {
    match answer {
        Ok(answer) if errors::is_of_broker(answer) => BrokerNote::Shun(SHUNNED),
        Ok(_) => BrokerNote::Well,
        Err(_) => BrokerNote::Shun(SHUNNED),
    }
}
