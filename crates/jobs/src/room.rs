//! Whether a job could be added, asked without adding one.

use bytes::Bytes;

use super::error::JobError;
use super::name::Topic;
use super::queue::{JobQueue, millis, number, text};

impl JobQueue {
    /// Asks whether a job could be added to the topic now. It writes what is there already, on the same connections as
    /// [`add`](JobQueue::add), because a server that is full, or a replica, answers reads. It may be repeated. Another client may
    /// take the room before a job comes.
    ///
    /// # Errors
    ///
    /// Returns the error that `add` would return.
    pub async fn can_add(&self, topic: &Topic) -> Result<(), JobError> {
        self.enter(topic, false).await?;
        let settings = self.allowed(topic).await?;
        let mut args = vec![Bytes::new(), text(topic.as_str()), number(settings.max_body), millis(settings.ttr)];
        // The last argument makes the script write although there are no jobs.
        args.extend([number(settings.tries), millis(settings.ttl.unwrap_or_default()), text("1")]);
        self.add_script(topic, self.keys(topic).of_jobs(), &args).await?;
        let Some(limit) = settings.max_jobs else { return Ok(()) };
        let records = self.keys(topic).records().clone();
        let mut held = redis::cmd("HLEN");
        held.arg(&records[..]);
        let held: u64 = self.conn(&records).await?.query(&held).await?;
        let dead = self.sizes(topic).await?.dead;
        if held.saturating_sub(dead) < limit { Ok(()) } else { Err(JobError::Full { topic: topic.clone(), limit }) }
    }
}
