//! Names in the path and numbers in the query, as lmstfy checks them.

use std::time::Duration;

use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use delaybridge_http_server::problem::Problem;
use delaybridge_jobs::{JobId, Topic};

/// Most queues of one request.
pub const QUEUES: usize = 16;

/// Returns the topic of the namespace and the queue in the path.
pub fn topic(call: &JobCall, right: Right) -> Result<Topic, Problem> {
    let queue = call.part("queue");
    if queue.contains(',') {
        return Err(Problem::bad("queue name contains forbidden characters"));
    }
    topic_of(call, queue, right)
}

/// Reads the topics of the namespace and the queues in the path, which commas separate.
pub fn topics(call: &JobCall, right: Right) -> Result<Vec<Topic>, Problem> {
    let queues = call.part("queue").split(',').filter(|queue| !queue.is_empty()).take(QUEUES + 1);
    let topics = queues.map(|queue| topic_of(call, queue, right)).collect::<Result<Vec<_>, _>>()?;
    match topics.len() {
        1..=QUEUES => Ok(topics),
        _ => Err(Problem::bad("invalid queue name(s)")),
    }
}

/// Reads the job in the path.
pub fn job(call: &JobCall, right: Right) -> Result<Option<JobId>, Problem> {
    let topic = topic(call, right)?;
    // What is no id of ours is no job: lmstfy's own ids are.
    Ok(call.part("id").parse().ok().map(|local| JobId { topic, local }))
}

fn topic_of(call: &JobCall, queue: &str, right: Right) -> Result<Topic, Problem> {
    let namespace = namespace(call)?;
    if queue.starts_with('_') || !allowed(queue) {
        return Err(Problem::bad("queue name contains forbidden characters"));
    }
    let topic = format!("{namespace}.{queue}").parse();
    let topic: Topic = topic.map_err(|_| Problem::bad("namespace or queue name too long"))?;
    call.topic_named(right, topic.as_str())
}

/// Reads the namespace in the path.
pub fn namespace(call: &JobCall) -> Result<&str, Problem> {
    match call.part("namespace") {
        namespace if allowed(namespace) => Ok(namespace),
        _ => Err(Problem::bad("namespace name contains forbidden characters")),
    }
}

fn allowed(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Reads a number of seconds in the query.
pub fn seconds(call: &JobCall, name: &str, default: u32) -> Result<Duration, Problem> {
    number(call, name, default).map(|seconds| Duration::from_secs(seconds.into()))
}

/// Reads a number in the query.
pub fn number(call: &JobCall, name: &str, default: u32) -> Result<u32, Problem> {
    call.query.text(name).map_or(Ok(default), |text| text.parse().map_err(|_| Problem::bad(format!("invalid {name}"))))
}
