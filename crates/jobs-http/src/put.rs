//! Adding jobs for a caller, within what the caller may make.

use super::Api;
use super::job_call::JobCall;
use super::v1::errors::problem;
use super::weight::{LIGHT, page, weight};
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::room::who;
use delaybridge_http_server::turns::CallerTurn;
use delaybridge_jobs::{Added, JobError, JobState, JobsPage, NewJob, Topic};

impl Api {
    /// Adds jobs: all of them, or none. A topic that is not there yet is made, if the caller's token may add to fewer topics than it
    /// may make. `what` is attempted, as in `add the job`.
    ///
    /// # Errors
    /// The caller has as many topics as it may have; or those of the queue.
    pub async fn add(
        &self,
        what: &str,
        call: &JobCall,
        topic: &Topic,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Added>, Problem> {
        self.may_make(what, call, topic).await?;
        let Some(weight) = weight(&jobs) else {
            return self.queue.add(topic, jobs).await.map_err(|error| problem(what, error));
        };
        let queue = self.queue.clone();
        let topic = topic.clone();
        let who = who(call.peer, &call.caller);
        let added = self.turns.run((&who, weight, what), async move { queue.add(&topic, jobs).await }).await?;
        added.map_err(|error| problem(what, error))
    }

    /// Runs work that keeps Redis busy for a time of this weight, when it is the caller's turn.
    ///
    /// # Errors
    /// The turn does not come for a while; or those of the queue.
    pub async fn in_turn<T: Send + 'static>(
        &self,
        call: &JobCall,
        (weight, what): (usize, &str),
        work: impl Future<Output = Result<T, JobError>> + Send + 'static,
    ) -> Result<T, Problem> {
        if weight <= LIGHT {
            return work.await.map_err(|error| problem(what, error));
        }
        let done = self.turns.run((&who(call.peer, &call.caller), weight, what), work).await?;
        done.map_err(|error| problem(what, error))
    }

    /// Reads jobs of a state, at most so many, when it is the caller's turn. Until the turn is dropped the caller reads no others.
    ///
    /// # Errors
    /// The turn does not come for a while; or those of the queue.
    pub async fn read_jobs(
        &self,
        call: &JobCall,
        (topic, state): (&Topic, JobState),
        (skip, limit): (u64, usize),
        what: &str,
    ) -> Result<(JobsPage, CallerTurn), Problem> {
        let queue = self.queue.clone();
        let topic = topic.clone();
        let who = who(call.peer, &call.caller);
        let work = async move { queue.peek(&topic, state, skip, limit).await };
        let (jobs, turn) = self.turns.run_and_keep((&who, page(limit), what), work).await?;
        Ok((jobs.map_err(|error| problem(what, error))?, turn))
    }

    /// Refuses a new topic to a caller that has as many as it may have.
    ///
    /// # Errors
    /// That, or Redis cannot be asked.
    pub async fn may_make(&self, what: &str, call: &JobCall, topic: &Topic) -> Result<(), Problem> {
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
