//! A request to the job queue. A topic comes out of it only together with the right to use it, so no handler can forget to ask.

use super::access::{Caller, Right};
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_jobs::{JobId, Topic};

/// Most topics of one `pop`.
const MAX_TOPICS: usize = 16;

/// A request to the job queue.
pub type JobCall = Call<Caller>;

/// The topics and jobs that a request names, for those who may use them.
pub trait NamedInPath {
    /// Finds a topic, if the caller has this right on it.
    fn topic_named(&self, right: Right, name: &str) -> Result<Topic, Problem>;

    /// Returns the topic in the path, if the caller has this right on it.
    fn topic(&self, right: Right) -> Result<Topic, Problem>;

    /// Returns the topics in the path, separated by commas, in the order of their priority. Refuses too many.
    fn topics(&self, right: Right) -> Result<Vec<Topic>, Problem>;

    /// Returns the job in the path, if the caller has this right on its topic. Where the path has the topic too, the id
    /// may be with or without it.
    fn job(&self, right: Right) -> Result<JobId, Problem>;

    /// Returns a job, if the caller has this right on its topic.
    fn job_named(&self, right: Right, id: &str) -> Result<JobId, Problem>;
}

impl NamedInPath for JobCall {
    fn topic_named(&self, right: Right, name: &str) -> Result<Topic, Problem> {
        let topic: Topic = name.parse().map_err(|error| Problem::bad(format!("read the topic: {error}")))?;
        if self.caller.may(right, topic.as_str()) {
            return Ok(topic);
        }
        let token = self.caller.name.as_deref().unwrap_or_default();
        let detail = format!(
            "use topic {topic}: the token `{token}` has not the right `{}` on it; grant it in the tokens file",
            right.as_str()
        );
        Err(Problem::new(ProblemKind::Forbidden, detail))
    }

    fn topic(&self, right: Right) -> Result<Topic, Problem> {
        self.topic_named(right, self.part("topic"))
    }

    fn topics(&self, right: Right) -> Result<Vec<Topic>, Problem> {
        let names = self.part("topic").split(',').filter(|name| !name.is_empty());
        let topics =
            names.take(MAX_TOPICS + 1).map(|name| self.topic_named(right, name)).collect::<Result<Vec<_>, _>>()?;
        match topics.len() {
            0 => Err(Problem::bad("read the topics: there is none")),
            1..=MAX_TOPICS => Ok(topics),
            _ => Err(Problem::bad(format!("read the topics: there are more than {MAX_TOPICS}"))),
        }
    }

    fn job(&self, right: Right) -> Result<JobId, Problem> {
        let topic = self.part("topic");
        let id = self.part("id");
        let whole = id.strip_prefix(topic).is_some_and(|rest| rest.starts_with('~'));
        if topic.is_empty() || whole {
            self.job_named(right, id)
        } else {
            self.job_named(right, &format!("{topic}~{id}"))
        }
    }

    fn job_named(&self, right: Right, id: &str) -> Result<JobId, Problem> {
        let id: JobId = id.parse().map_err(|error| Problem::bad(format!("read the job's id: {error}")))?;
        self.topic_named(right, id.topic.as_str())?;
        Ok(id)
    }
}
