//! The numbers of every queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::error::QueueError;
use super::jobs::TopicStates;
use super::overview::{ClockSkew, QueueRow, SinkRow, TopicInput, row};
use super::session::Session;
use delaybridge_core::clock::{Asked, Skew, is_great_skew};

/// Every queue of a configuration, in its order.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Queues {
    /// Queues that could be read.
    pub queues: Vec<QueueRow>,
    /// Topics of the job queue, where the configuration has one.
    #[serde(flatten)]
    pub topics: Option<TopicStates>,
    /// The sinks, as the daemon that answered sees them; none where Redis was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sinks: Option<Vec<SinkRow>>,
    /// Queues that could not.
    pub errors: Vec<QueueError>,
    /// Clocks that are far from Redis's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<ClockSkew>,
    /// Inputs whose jobs no queue delivers, as the daemon that answered sees them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<TopicInput>,
}

/// Reads every queue; one that cannot be read does not keep the others from being read.
pub async fn queues(session: &Session) -> Queues {
    let mut answer = Queues::default();
    let mut skews: BTreeMap<Arc<str>, Skew> = BTreeMap::new();
    for spec in &session.config.queues {
        let asked = Asked::now();
        match row(session, spec).await {
            Ok(row) => {
                skews.entry(spec.redis.clone()).or_default().observe(&asked, row.state.now_ms);
                answer.queues.push(row);
            }
            Err(error) => answer.errors.push(error),
        }
    }
    let great = |(redis, skew): (Arc<str>, Skew)| {
        let ahead = skew.seconds().filter(|ahead| is_great_skew(*ahead, false))?;
        Some(ClockSkew { redis: redis.to_string(), ahead_seconds: ahead.round() })
    };
    answer.clocks = skews.into_iter().filter_map(great).collect();
    if let Some(jobs) = session.jobs() {
        match jobs.topics(&[]).await {
            Ok(found) => answer.topics = Some(found),
            Err(error) => answer.errors.push(QueueError { queue: "jobs".to_owned(), message: error.to_string() }),
        }
    }
    answer
}
