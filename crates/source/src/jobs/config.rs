//! The keys of `queues.NAME.source.jobs`, and the topic that they name.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::JobsSource;
use crate::config::{SourceConfig, SourceKind, SourceSettings};
use crate::zset;
use delaybridge_jobs::{JobSettings, Keys, Topic};
use delaybridge_ledger::Source;
use delaybridge_link::KeySpace;
use delaybridge_settings::Settings;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_settings::reader::Section;

/// The kind.
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
}

/// Returns the key of the sorted set of what waits.
fn due(space: &KeySpace, topic: &str) -> String {
    String::from_utf8_lossy(Keys::named(&space.prefix, topic).due()).into_owned()
}

/// Reads the source.
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
    SourceSettings { config: Arc::new(spec), name_spot, rescue_only: Vec::new() }
}

impl SourceConfig for JobsSpec {
    fn kind(&self) -> &'static SourceKind {
        &KIND
    }

    fn build(&self) -> Arc<dyn Source> {
        Arc::new(JobsSource::of(self))
    }

    fn fields(&self, _rescue: bool) -> Map<String, Value> {
        self.shown()
    }

    fn name(&self) -> &str {
        &self.key
    }

    fn tag(&self) -> String {
        zset::tag(&self.key)
    }

    fn in_redis(&self, space: &KeySpace) -> Arc<dyn SourceConfig> {
        let key = if self.key.is_empty() { String::new() } else { due(space, &self.topic) };
        Arc::new(JobsSpec { key, space: space.clone(), ..self.clone() })
    }

    fn announces(&self) -> bool {
        true
    }

    /// Takes over the settings of the topic in the section `jobs`.
    fn with_jobs(&self, settings: &JobSettings) -> Option<Arc<dyn SourceConfig>> {
        let topic = self.topic.parse::<Topic>().ok()?;
        Some(Arc::new(JobsSpec { remember: settings.of(&topic).remember, ..self.clone() }))
    }

    fn has_payload_in_member(&self) -> bool {
        false
    }
}
