//! The recurring jobs of a topic.

use redisson_codecs::Codec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Jobs, failed};
use crate::content::Content;
use crate::error::Error;
use delaybridge_jobs::{MAX_PAGE, RecurringName, RecurringState, Topic};

/// A recurring job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecurringDetail {
    /// The name.
    pub name: String,
    /// The cron expression; none if another version wrote the definition.
    pub cron: Option<String>,
    /// The time zone of the expression.
    pub zone: Option<String>,
    /// The treatment of missed firings: `skip`, `once` or `all`.
    pub missed: Option<String>,
    /// Whether it is paused.
    pub paused: bool,
    /// The next firing, in ms since 1970; none while it is paused.
    pub next_ms: Option<i64>,
    /// Size of the body, in bytes.
    pub size: u64,
    /// The body, where one recurring job is asked for.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    #[schemars(skip)]
    pub body: Option<Content>,
}

/// The recurring jobs of a topic.
#[derive(Debug, Clone, Serialize)]
pub struct RecurringDetails {
    /// Redis time.
    pub now_ms: i64,
    /// In alphabetical order.
    pub recurring: Vec<RecurringDetail>,
}

impl From<RecurringState> for RecurringDetail {
    fn from(state: RecurringState) -> Self {
        let RecurringState { name, definition, next_ms, paused, size, body, .. } = state;
        let of = definition.as_ref();
        RecurringDetail {
            name: name.to_string(),
            cron: of.map(|of| of.schedule.expression().to_owned()),
            zone: of.map(|of| of.schedule.zone().to_owned()),
            missed: of.map(|of| of.missed.as_str().to_owned()),
            paused,
            next_ms,
            size,
            body: body.map(|body| Content::new(Codec::Raw, body, true)),
        }
    }
}

impl Jobs {
    /// Returns all recurring jobs of a topic, without their bodies.
    pub async fn all_recurring(&self, topic: &Topic) -> Result<RecurringDetails, Error> {
        let mut recurring = Vec::new();
        let mut after = None::<RecurringName>;
        loop {
            let page = self.queue.recurring_page(topic, after.as_ref(), MAX_PAGE).await;
            let page = page.map_err(|error| failed(&format!("list the recurring jobs of topic {topic}"), &error))?;
            after = page.recurring.last().filter(|_| page.more).map(|last| last.name.clone());
            recurring.extend(page.recurring.into_iter().map(RecurringDetail::from));
            if after.is_none() {
                return Ok(RecurringDetails { now_ms: self.queue.now_ms(), recurring });
            }
        }
    }
}
