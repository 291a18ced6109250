//! The sink itself: up to ten messages in a request, and an answer for each.
//!
//! ```text
//! deliver -> queue -> task: takes what is there for one place -> a task for each request
//!                                                               credentials -> connection -> may it be sent? -> answer
//! ```
//!
//! **What is sent, is known.** A connection is ready and the credentials are there before the lease of each element is asked for the
//! last time. A request that was handed to a connection is in doubt until its answer is complete; nothing is sent again behind the
//! pipeline's back but what was refused as a whole.
//!
//! **What a failure of one costs the others.** A request that is refused because of one of its messages is sent again, each message by
//! itself.
//!
//! `errors.rs` has the meaning of each answer.

mod batches;
mod connections;
mod requests;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use self::requests::AwsClient;
use super::{AwsDestination, AwsSpec};
use delaybridge_core::message::Failure;
use delaybridge_sink::task::SinkTask;
use delaybridge_sink::{Destination, TaskSink};

/// A limit of a queue on the bytes of a message, below which it is worth a word.
const SMALL: u64 = 256 << 10;
/// Seconds that a queue keeps a message for, below which it is worth a word.
const SHORT: u64 = 3600;

/// Delivers to the queues or topics of one region.
#[derive(Debug)]
pub struct AwsSink {
    client: Arc<AwsClient>,
    /// The task, which is asked nothing.
    task: SinkTask<Infallible>,
}

impl AwsSink {
    /// Creates a sink that answers within `timeout`. It connects when there is something to send.
    pub fn new(spec: AwsSpec, timeout: Duration) -> AwsSink {
        let kind = spec.service.kind();
        let client = Arc::new(AwsClient::new(spec, timeout));
        let task = SinkTask::start(kind, timeout, |intake, stop| {
            let run = batches::run(client.clone(), intake.items);
            async move { stop.run_until_cancelled(run).await.unwrap_or_default() }
        });
        AwsSink { client, task }
    }
}

impl TaskSink for AwsSink {
    type Question = Infallible;
    type Address = AwsDestination;
    type Found = Vec<(String, String)>;

    fn task(&self) -> &SinkTask<Infallible> {
        &self.task
    }

    /// Opens a connection and sends nothing: a request has a price, and needs rights that deliveries do not need.
    async fn connects(&self) -> Result<(), Failure> {
        self.client.connects().await
    }

    /// Asks for the settings of a queue or a topic.
    async fn look(&self, destination: &AwsDestination) -> Result<Vec<(String, String)>, Failure> {
        self.client.look(&format!("look up {destination}"), &destination.place).await
    }

    async fn drawbacks_of(&self, found: Vec<(&Destination, Vec<(String, String)>)>) -> Vec<String> {
        found.iter().flat_map(|(destination, settings)| drawbacks(&destination.to_string(), settings)).collect()
    }
}

/// Lists the drawbacks of a queue or a topic with these settings, for a person.
fn drawbacks(place: &str, settings: &[(String, String)]) -> Vec<String> {
    let number = |name: &str| {
        let found = settings.iter().find(|(other, _)| other == name);
        found.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let mut found = Vec::new();
    if let Some(size) = number("MaximumMessageSize").filter(|size| *size < SMALL) {
        found.push(format!("{place} takes messages of {size} bytes at most: larger ones become dead letters"));
    }
    if let Some(seconds) = number("MessageRetentionPeriod").filter(|seconds| *seconds < SHORT) {
        found.push(format!("{place} drops messages after {seconds} s: set `MessageRetentionPeriod` to days"));
    }
    found
}
