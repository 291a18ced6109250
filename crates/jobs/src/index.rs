//! The index of topics, which also limits their number. Topics of the configuration are always allowed.

use bytes::Bytes;

use super::error::JobError;
use super::name::Topic;
use super::queue::JobQueue;
use super::settings::UnknownTopics;
use delaybridge_link::Fields;

impl JobQueue {
    /// Returns whether a topic is in the configuration or in the index.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn has_topic(&self, topic: &Topic) -> Result<bool, JobError> {
        if self.settings().topics.contains_key(topic) || self.has_entered(topic) {
            return Ok(true);
        }
        let mut command = redis::cmd("ZSCORE");
        command.arg(self.index()).arg(topic.as_str());
        Ok(self.conn(self.index()).await?.query::<Option<String>>(&command).await?.is_some())
    }

    /// Counts the topics of the index with this prefix.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn count_topics(&self, prefix: &str) -> Result<u64, JobError> {
        // Names are ASCII, so no byte of a name is above this one.
        let from = format!("[{prefix}");
        let till = format!("({prefix}\u{7f}");
        let mut command = redis::cmd("ZLEXCOUNT");
        command.arg(self.index()).arg(from).arg(till);
        Ok(self.conn(self.index()).await?.query(&command).await?)
    }

    /// Removes an empty topic from the index; returns whether it was empty. It may be repeated.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn forget(&self, topic: &Topic) -> Result<bool, JobError> {
        let reply = self.run(&self.shared.scripts.forget, topic, &[] as &[Bytes]).await?;
        let mut fields = Fields::of("jobs_forget", reply)?;
        self.observe(&mut fields)?;
        if fields.int()? != 1 {
            return Ok(false);
        }
        self.leave(topic).await?;
        Ok(true)
    }

    /// Removes a topic from the index after its hash was removed. A job that was added in between enters the topic
    /// again.
    pub(super) async fn leave(&self, topic: &Topic) -> Result<(), JobError> {
        self.left(topic);
        let conn = self.conn(self.index()).await?;
        let mut command = redis::cmd("ZREM");
        command.arg(self.index()).arg(topic.as_str());
        conn.query::<()>(&command).await?;
        let hash = self.keys(topic).topic().clone();
        let mut command = redis::cmd("EXISTS");
        command.arg(&hash[..]);
        if self.conn(&hash).await?.query::<bool>(&command).await? { self.enter(topic, true).await } else { Ok(()) }
    }

    /// Refuses a topic that is not in the configuration if only those are allowed, and a new topic if the maximum number is
    /// reached.
    pub(super) async fn check_topics(&self, topic: &Topic) -> Result<(), JobError> {
        let settings = self.settings();
        if settings.unknown_topics == UnknownTopics::Refuse && !settings.topics.contains_key(topic) {
            return Err(JobError::UnknownTopic { topic: topic.clone() });
        }
        let Some(limit) = self.settings().max_topics else { return Ok(()) };
        if self.has_topic(topic).await? || self.count_topics("").await? < limit {
            return Ok(());
        }
        Err(JobError::TooManyTopics { limit })
    }
}
