//! The numbers of every queue.

use serde::Serialize;

use super::error::{Error, QueueError};
use super::operation::Place;
use super::operations::{ListQueues, ListSinks, ListTopics, TopicPage};
use super::overview::{ClockSkew, Overview, QueueRow, SinkList, SinkRow, TopicInput};
use super::progress::Unwatched;

/// Every queue of a configuration, in its order.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Queues {
    /// Queues that could be read.
    pub queues: Vec<QueueRow>,
    /// Topics of the job queue, where the configuration has one.
    #[serde(flatten)]
    pub topics: Option<TopicPage>,
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

/// Reads queues and sinks as far as they are known: of a daemon the page that is asked for; of Redis all queues, and what the daemon of
/// the configuration knows of them.
pub async fn overview(place: &Place, which: &ListQueues) -> Result<(Overview, Option<SinkList>), Error> {
    let Place::Here(scene) = place else {
        return of_daemon(place, which).await.map(|(found, sinks)| (found, Some(sinks)));
    };
    let all = ListQueues::all();
    let mut found = place.call_whole(&all, &mut Unwatched).await?;
    let sinks = match scene.named_daemon() {
        Some(named) => named.add(&mut found, async |daemon| of_daemon(&Place::Daemon(daemon), &all).await).await,
        None => None,
    };
    Ok((found, sinks))
}

async fn of_daemon(place: &Place, which: &ListQueues) -> Result<(Overview, SinkList), Error> {
    let mut unwatched = Unwatched;
    let (found, sinks) = tokio::join!(place.call_whole(which, &mut unwatched), place.call(&ListSinks {}));
    Ok((found?, sinks?))
}

/// Reads every queue; one that cannot be read does not keep the others from being read.
pub async fn queues(place: &Place) -> Result<Queues, Error> {
    let (Overview { queues, errors, clocks, inputs, .. }, sinks) = overview(place, &ListQueues::all()).await?;
    let mut found = Queues { queues, topics: None, sinks: sinks.map(|list| list.sinks), errors, clocks, inputs };
    let Place::Here(scene) = place else { return Ok(found) };
    if scene.config().jobs.is_some() {
        match place.call_whole(&ListTopics::first(usize::MAX), &mut Unwatched).await {
            Ok(topics) => found.topics = Some(topics),
            Err(error) => found.errors.push(QueueError { queue: "jobs".to_owned(), message: error.to_string() }),
        }
    }
    Ok(found)
}
