//! One input: where messages come from, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use delaybridge_input::{InputConnector, OnBadDelay};
use delaybridge_jobs::Topic;
use delaybridge_settings::Settings;

/// An input: messages of a broker wait in the job queue until they are due, and go on from there. See
/// [delayed-messages.md](delayed-messages.md).
#[derive(Debug, Clone, Settings)]
#[settings(input_rules, at = "inputs.NAME")]
pub struct InputRules {
    /// A message whose `x-delay` or `x-due` is no time, negative, or above `max_delay` goes to the broker's dead
    /// letters, or on at once.
    #[key(word::<OnBadDelay>(), default = "reject")]
    pub on_bad_delay: OnBadDelay,
    /// Longest delay, up to ten years.
    #[key(duration(1_000), default = "3650d")]
    pub max_delay: Duration,
}

/// One input.
#[derive(Debug, Clone)]
pub struct InputSpec {
    /// The key under `inputs:`: the metric label, and the id of its queue.
    pub name: Arc<str>,
    /// The broker, and what is consumed there.
    pub connector: Arc<dyn InputConnector>,
    /// The topic of its jobs.
    pub topic: Topic,
    /// The rules for its messages.
    pub rules: InputRules,
}
