//! Changing jobs that wait.

use bytes::Bytes;

use super::add::{check_content_type, check_priority, due_arguments};
use super::error::JobError;
use super::job::{Due, JobState};
use super::name::JobId;
use super::queue::{JobQueue, number, or_empty, text};
use delaybridge_core::carried;
use delaybridge_link::{BadReply, Fields};

/// A change of a waiting job. What is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobChange {
    /// The due time.
    pub due: Option<Due>,
    /// The priority.
    pub priority: Option<u8>,
    /// The media type of the body, at most 255 bytes.
    pub content_type: Option<String>,
    /// The body.
    pub body: Option<Bytes>,
    /// The due time that the caller has seen, in ms since 1970: if the job has another one, nothing is changed.
    pub if_due_ms: Option<i64>,
}

/// The outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeOutcome {
    /// The due time, in ms since 1970.
    pub due_ms: i64,
    /// The state: delay or ready.
    pub state: JobState,
    /// False if the job was as wanted already.
    pub changed: bool,
}

impl JobQueue {
    /// Changes a job that waits. A second call finds the job as wanted, whatever its condition; only a delay starts again.
    /// The limit of the body's size is that of `add`, and the time to live stays.
    ///
    /// # Errors
    ///
    /// With any of these nothing was changed: [`JobError::NotFound`], [`JobError::NotWaiting`], [`JobError::OtherDue`],
    /// [`JobError::Fixed`], [`JobError::TooLarge`], [`JobError::Invalid`].
    pub async fn change(&self, id: &JobId, change: &JobChange) -> Result<ChangeOutcome, JobError> {
        let JobChange { due, priority, content_type, body, if_due_ms } = change;
        if due.is_none() && priority.is_none() && content_type.is_none() && body.is_none() {
            return Err(JobError::Invalid(
                "nothing is to be changed: give a due time, a priority, a content type or a body".into(),
            ));
        }
        content_type.as_deref().map_or(Ok(()), check_content_type)?;
        let (word, at) = match due {
            Some(due) => due_arguments(*due)?,
            None => ("", Bytes::new()),
        };
        let flag = |given: bool| text(if given { "1" } else { "" });
        let args = [
            text(id.topic.as_str()),
            number(self.settings().of(&id.topic).max_body),
            text(carried::CONTENT_TYPE),
            text(id.local.as_str()),
            or_empty(if_due_ms.map(number)),
            text(word),
            at,
            flag(content_type.is_some()),
            text(content_type.as_deref().unwrap_or_default()),
            flag(body.is_some()),
            body.clone().unwrap_or_default(),
            or_empty(priority.map(check_priority).transpose()?.map(number)),
        ];
        let reply = self.run_on_waiting(&self.shared.scripts.change, &id.topic, &args).await?;
        let mut fields = Fields::of("jobs_change", reply)?;
        let letter = fields.text()?;
        let now = self.observe(&mut fields)?;
        let mut time = || {
            let bad = BadReply { script: "jobs_change", expected: "a due time" };
            fields.time_ms()?.ok_or(bad)
        };
        match letter.as_str() {
            "y" => {
                let due_ms = time()?;
                let changed = fields.int()? == 1;
                if changed {
                    self.tell(&id.topic);
                }
                let state = if due_ms > now { JobState::Delay } else { JobState::Ready };
                Ok(ChangeOutcome { due_ms, state, changed })
            }
            "m" => Err(JobError::OtherDue { due_ms: time()? }),
            "n" => Err(JobError::NotFound),
            "r" => Err(JobError::NotWaiting { state: JobState::Reserved }),
            "d" => Err(JobError::NotWaiting { state: JobState::Dead }),
            "f" => Err(JobError::NotWaiting { state: JobState::Forwarding }),
            "s" => Err(JobError::Invalid("its time to live ends before it would be due".to_owned())),
            "l" => {
                let limit = u64::try_from(fields.int()?).unwrap_or(0);
                let size = usize::try_from(fields.int()?).unwrap_or(0);
                Err(JobError::TooLarge { topic: id.topic.clone(), size, limit })
            }
            "k" => Err(JobError::Fixed("its body is a message of an input: cancel it, and publish another one")),
            "u" => Err(JobError::Fixed("another version wrote it, which alone can change its body")),
            "e" => Err(JobError::Fixed("its topic is being exported: end that export, or resume the topic")),
            _ => Err(BadReply { script: "jobs_change", expected: "y or a letter of change.lua" }.into()),
        }
    }
}
