//! Topics by their names, as a person or a request writes them.

use super::Jobs;
use crate::error::Error;
use delaybridge_jobs::Topic;
use delaybridge_model::Config;

/// Returns the job queue and the topic with this name, if it is that of a topic and of no queue.
pub async fn topic_named(config: &Config, name: &str) -> Result<Option<(Jobs, Topic)>, Error> {
    let (Some(settings), Ok(topic)) = (&config.jobs, name.parse::<Topic>()) else { return Ok(None) };
    if config.queues.iter().any(|spec| *spec.id == *name) {
        return Ok(None);
    }
    let jobs = Jobs::open(config).await?;
    let known = settings.topics.contains_key(&topic) || jobs.has(&topic).await?;
    Ok(known.then_some((jobs, topic)))
}

/// Reads the name of a topic.
///
/// # Errors
///
/// When it is none.
pub fn read_topic(name: &str) -> Result<Topic, Error> {
    name.parse().map_err(|error| Error::invalid(format!("read the topic: {error}")))
}
