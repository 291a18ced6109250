//! The keys of `queues.NAME.source.jobs`, and the topic that they name.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{SourceConfig, SourceKind, SourceSettings};
use delaybridge_jobs::{JobSettings, Keys, Topic};
use delaybridge_link::KeySpace;
use delaybridge_settings::Settings;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_settings::reader::Section;

pub(crate) static KIND: SourceKind = SourceKind {
    key: key("jobs", Kind::Section(&jobs::TABLE), "A topic of the job queue."),
    tables: &[&jobs::TABLE],
    read,
    metric_names: None,
    recognise: |_| None,
};

/// A topic of the job queue, whose due jobs are delivered. Requires the section `jobs`.
#[derive(Debug, Clone, Settings)]
#[settings(jobs, at = "queues.NAME.source.jobs")]
pub struct JobsSpec {
    /// The topic. Its consumers over HTTP compete with this queue.
    #[key(Kind::Text, required, later = String::new())]
    pub topic: String,
    /// The sorted set of what waits.
    #[settings(later = String::new())]
    pub key: String,
    /// The names of our keys and channels in its Redis.
    #[settings(later = KeySpace::default())]
    pub space: KeySpace,
    /// The time for which the id of a delivered job is known, if its client chose it.
    #[settings(later = None)]
    pub remember: Option<Duration>,
}

impl JobsSpec {
    /// Creates a topic of this name, with the settings of topics that have none of their own.
    pub fn of(topic: &Topic) -> Self {
        let space = KeySpace::default();
        let remember = JobSettings::default().of(topic).remember;
        JobsSpec { topic: topic.to_string(), key: due(&space, topic.as_str()), space, remember }
    }

    /// Gives the keys of the topic the names that they have in its Redis.
    pub(crate) fn set_space(&mut self, space: KeySpace) {
        if !self.key.is_empty() {
            self.key = due(&space, &self.topic);
        }
        self.space = space;
    }

    /// Takes over the settings of the topic in the section `jobs`.
    pub fn take_over(&mut self, settings: &JobSettings) {
        if let Ok(topic) = self.topic.parse::<Topic>() {
            self.remember = settings.of(&topic).remember;
        }
    }
}

/// Returns the key of the sorted set of what waits.
fn due(space: &KeySpace, topic: &str) -> String {
    String::from_utf8_lossy(Keys::named(&space.prefix, topic).due()).into_owned()
}

pub(crate) fn read(section: &Section<'_>) -> SourceSettings {
    let nameless = <JobsSpec as Settings>::of(section);
    let spec = match section.text(&jobs::TOPIC) {
        None => nameless,
        Some(written) => match written.value.parse::<Topic>() {
            Ok(topic) => JobsSpec::of(&topic),
            Err(error) => {
                let message = format!("`{}` is no name of a topic", written.written);
                section.cx.report.problem(&written.spot, message, error.rule);
                nameless
            }
        },
    };
    let name_spot = section.spot(&jobs::TOPIC);
    SourceSettings { config: Arc::new(SourceConfig::Jobs(spec)), name_spot, rescue_only: Vec::new() }
}
