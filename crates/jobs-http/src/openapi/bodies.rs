//! The bodies of requests, for the document. Handlers read them field by field, each mistake with its place.

use schemars::JsonSchema;
use serde_json::Value;

use crate::v1::add::BATCH;
use delaybridge_jobs::{MAX_POP, MAX_PRIORITY};

/// A job to add.
#[derive(JsonSchema)]
#[schemars(rename = "NewJob", extend("required" = []))]
pub struct NewJobBody {
    /// The client's own id: letters, digits, `_`, `.`, `:`, `~`, `-`.
    pub id: Option<String>,
    /// The body: a text, or any other JSON value, whose JSON is the body.
    pub body: Option<Value>,
    /// The body in base64, for bytes that are no text.
    pub body_base64: Option<String>,
    /// The content type of the body; handed out with it.
    pub content_type: Option<String>,
    /// The delay, as a duration with its unit: `500ms`, `30s`, `1h30m`, `7d`.
    pub delay: Option<String>,
    /// The delay in milliseconds.
    pub delay_ms: Option<i64>,
    /// The time at which the job becomes ready, instead of a delay.
    #[schemars(extend("format" = "date-time"))]
    pub due: Option<String>,
    /// The same in milliseconds since 1970.
    pub due_ms: Option<i64>,
    /// A consumer's time to run, as a duration with its unit.
    pub ttr: Option<String>,
    /// The time to run in milliseconds.
    pub ttr_ms: Option<i64>,
    /// Attempts before the job is dead.
    pub tries: Option<i64>,
    /// The time after which the job is dropped if it is not finished, as a duration with its unit.
    pub ttl: Option<String>,
    /// The same in milliseconds; 0 is never.
    pub ttl_ms: Option<i64>,
    /// The priority, 0 if left out: of the ready jobs of the topic, one with a higher priority is handed out first.
    #[schemars(range(min = 0, max = MAX_PRIORITY))]
    pub priority: Option<i64>,
    /// A key of the client's, 1 to 255 bytes: while another job of the topic holds it, this one is not added.
    pub unique: Option<String>,
    /// The time for which it holds the key, as a duration with its unit; needed with `unique`.
    pub unique_for: Option<String>,
    /// The same in milliseconds.
    pub unique_for_ms: Option<i64>,
    /// `finished`: the key is free as soon as the job is gone; so if left out. `expired`: it is held for all of its time.
    #[schemars(extend("enum" = ["finished", "expired"]))]
    pub unique_until: Option<String>,
}

/// A change of a job that waits. What is left out stays as it is.
#[derive(JsonSchema)]
#[schemars(rename = "JobChange", extend("required" = []))]
pub struct ChangeBody {
    /// The delay from now on, as a duration with its unit.
    pub delay: Option<String>,
    /// The delay in milliseconds.
    pub delay_ms: Option<i64>,
    /// The time at which the job becomes ready, instead of a delay.
    #[schemars(extend("format" = "date-time"))]
    pub due: Option<String>,
    /// The same in milliseconds since 1970.
    pub due_ms: Option<i64>,
    /// The priority.
    #[schemars(range(min = 0, max = MAX_PRIORITY))]
    pub priority: Option<i64>,
    /// The body: a text, or any other JSON value, whose JSON is the body.
    pub body: Option<Value>,
    /// The body in base64, for bytes that are no text.
    pub body_base64: Option<String>,
    /// The content type of the body.
    pub content_type: Option<String>,
    /// The due time that the client has seen, in milliseconds since 1970: if the job has another one, nothing is changed.
    pub if_due_ms: Option<i64>,
}

/// Jobs to add.
#[derive(JsonSchema)]
#[schemars(rename = "NewJobs")]
pub struct NewJobsBody {
    /// The jobs.
    #[schemars(length(min = 1, max = BATCH))]
    pub jobs: Vec<NewJobBody>,
}

/// A job that the consumer has.
#[derive(JsonSchema)]
#[schemars(rename = "HeldJob")]
pub struct HeldJobBody {
    /// The job's id.
    pub id: String,
    /// The token that `pop` answered with the job.
    pub token: String,
}

/// Jobs to finish.
#[derive(JsonSchema)]
#[schemars(rename = "FinishJobs")]
pub struct FinishBody {
    /// The jobs, of any topics.
    #[schemars(length(min = 1, max = MAX_POP))]
    pub jobs: Vec<HeldJobBody>,
}

/// Jobs to release.
#[derive(JsonSchema)]
#[schemars(rename = "ReleaseJobs", extend("required" = ["jobs"]))]
pub struct ReleaseBody {
    /// The jobs, of any topics.
    #[schemars(length(min = 1, max = MAX_POP))]
    pub jobs: Vec<HeldJobBody>,
    /// The delay until they are ready again, as a duration with its unit; the topic's back-off if left out.
    pub delay: Option<String>,
    /// The same in milliseconds.
    pub delay_ms: Option<i64>,
    /// Whether this attempt counts; true if left out.
    pub count_attempt: Option<bool>,
    /// The reason; kept with the jobs, 256 bytes at most.
    pub reason: Option<String>,
}

/// Jobs to touch.
#[derive(JsonSchema)]
#[schemars(rename = "TouchJobs", extend("required" = ["jobs"]))]
pub struct TouchBody {
    /// The jobs, of any topics.
    #[schemars(length(min = 1, max = MAX_POP))]
    pub jobs: Vec<HeldJobBody>,
    /// A time to run instead of that of each reservation, as a duration with its unit.
    pub ttr: Option<String>,
    /// The same in milliseconds.
    pub ttr_ms: Option<i64>,
}

/// Limits of a topic.
#[derive(JsonSchema)]
#[schemars(rename = "NewLimits", extend("required" = []))]
pub struct LimitsBody {
    /// Time to run of a job that has none of its own.
    pub ttr_ms: Option<i64>,
    /// Tries of a job that has none of its own.
    pub tries: Option<i64>,
    /// Time to live of a job that has none of its own; 0 is for ever.
    pub ttl_ms: Option<i64>,
    /// Maximum number of jobs that are not dead; 0 is no limit.
    pub max_jobs: Option<i64>,
    /// Maximum size of a body, in bytes.
    pub max_body: Option<i64>,
    /// Maximum number of dead jobs; 0 is no limit.
    pub dead_max_len: Option<i64>,
    /// Time that a dead job is kept; 0 is for ever.
    pub dead_ttl_ms: Option<i64>,
    /// Wait after a first attempt that ran out, or was released without a delay; it doubles with each further one.
    pub backoff_ms: Option<i64>,
    /// The longest such wait.
    pub backoff_max_ms: Option<i64>,
}

/// Waiting jobs to remove.
#[derive(JsonSchema)]
#[schemars(rename = "EmptyTopic", extend("required" = []))]
pub struct EmptyBody {
    /// So many of those that are due first; 10000 if left out.
    #[schemars(range(min = 1, max = 10000))]
    pub limit: Option<i64>,
}

/// A recurring job.
#[derive(JsonSchema)]
#[schemars(rename = "NewRecurringJob", extend("required" = ["cron"]))]
pub struct RecurringBody {
    /// The cron expression: minute, hour, day of the month, month, day of the week, as in `30 4 * * MON-FRI`.
    pub cron: String,
    /// The time zone of the expression, as the IANA database names it; `UTC` if left out.
    pub zone: Option<String>,
    /// The treatment of firings that no daemon was there for: `skip` adds no job, `once` adds one for all of them, `all` adds one
    /// for each, the latest 100 at most; `once` if left out.
    #[schemars(extend("enum" = ["skip", "once", "all"]))]
    pub missed: Option<String>,
    /// The body: a text, or any other JSON value, whose JSON is the body. At most 64 KiB.
    pub body: Option<Value>,
    /// The body in base64, for bytes that are no text.
    pub body_base64: Option<String>,
    /// The content type of the body; handed out with it.
    pub content_type: Option<String>,
    /// A consumer's time to run, as a duration with its unit; that of the topic if left out.
    pub ttr: Option<String>,
    /// The time to run in milliseconds.
    pub ttr_ms: Option<i64>,
    /// Attempts before a job is dead.
    pub tries: Option<i64>,
    /// The time after which a job is dropped if it is not finished, as a duration with its unit.
    pub ttl: Option<String>,
    /// The same in milliseconds; 0 is never.
    pub ttl_ms: Option<i64>,
    /// The priority of the jobs, 0 if left out.
    #[schemars(range(min = 0, max = MAX_PRIORITY))]
    pub priority: Option<i64>,
}

/// Dead jobs to redrive.
#[derive(JsonSchema)]
#[schemars(rename = "Redrive", extend("required" = []))]
pub struct RedriveBody {
    /// Ids of jobs.
    #[schemars(length(min = 1, max = 1000))]
    pub ids: Option<Vec<String>>,
    /// So many of the oldest.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<i64>,
    /// The new time to live; 0 is for ever.
    pub ttl_ms: Option<i64>,
}

/// Dead jobs to remove.
#[derive(JsonSchema)]
#[schemars(rename = "Purge", extend("required" = []))]
pub struct PurgeBody {
    /// Ids of jobs.
    #[schemars(length(min = 1, max = 1000))]
    pub ids: Option<Vec<String>>,
    /// So many of the oldest.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<i64>,
}
