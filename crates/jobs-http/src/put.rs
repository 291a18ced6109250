//! Adding jobs for a caller, within what the caller may make.

use super::Api;
use super::call::Call;
use super::problem::{Problem, ProblemKind};
use super::room::who;
use super::turns::weight;
use super::v1::errors::problem;
use delaybridge_jobs::{Added, NewJob, Topic};

impl Api {
    /// Adds jobs: all of them, or none. A topic that is not there yet is made, if the caller's token may add to fewer topics than it
    /// may make. `what` is attempted, as in `add the job`.
    ///
    /// # Errors
    /// The caller has as many topics as it may have; or those of the queue.
    pub async fn add(&self, what: &str, call: &Call, topic: &Topic, jobs: Vec<NewJob>) -> Result<Vec<Added>, Problem> {
        self.may_make(what, call, topic).await?;
        let Some(weight) = weight(&jobs) else {
            return self.queue.add(topic, jobs).await.map_err(|error| problem(what, error));
        };
        let (queue, topic, who) = (self.queue.clone(), topic.clone(), who(call.peer, &call.caller));
        let added = self.turns.run(&who, weight, async move { queue.add(&topic, jobs).await }).await?;
        added.map_err(|error| problem(what, error))
    }

    /// Refuses a new topic to a caller that has as many as it may have.
    ///
    /// # Errors
    /// That, or Redis cannot be asked.
    pub async fn may_make(&self, what: &str, call: &Call, topic: &Topic) -> Result<(), Problem> {
        let failed = |error| problem(what, error);
        let (Some(most), Some(prefixes)) = (self.max_topics_per_token, call.caller.prefixes()) else { return Ok(()) };
        if self.queue.has_topic(topic).await.map_err(failed)? {
            return Ok(());
        }
        let mut count = 0;
        for prefix in prefixes {
            count += self.queue.count_topics(prefix).await.map_err(failed)?;
        }
        if count < most {
            return Ok(());
        }
        let detail = format!(
            "{what}: topic {topic} would be a new one, and there are {most} topics that this token may add to, which is as many as \
             a token may have; nothing was added; use topics that are there, or raise max_topics_per_token"
        );
        Err(Problem::new(ProblemKind::TooMany, detail))
    }
}
