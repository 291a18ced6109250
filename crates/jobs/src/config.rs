//! The configuration keys under `jobs:`.

use serde_json::{Map, Value};

use super::name::Topic;
use super::settings::{JobSettings, MAX_DELAY, MAX_TTR, TopicSettings, UnknownTopics, topic};
use delaybridge_settings::Settings;
use delaybridge_settings::keys::{Group, Key, Kind, Table, count_or, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::word;

/// Every table of topics.
pub static TABLES: &[&Table] = &[&topic::TABLE];

/// The keys under `jobs:` about topics.
pub const KEYS: &[Group] = &[Group { of: None, keys: &[DEFAULTS, TOPICS, MAX_TOPICS, UNKNOWN_TOPICS] }];
/// The name under `topics` that means the defaults.
const DEFAULT: &str = "default";
const DEFAULTS: Key = key("defaults", Kind::Section(&topic::TABLE), "Default settings of topics.");
const TOPICS: Key = key(
    "topics",
    Kind::Named(&topic::TABLE),
    "Topics with settings of their own, else those of `defaults`. Names have 1 to 255 letters, digits, `_`, `.`, `:` or `-`; `default` stands for `defaults`.",
);

const MAX_TOPICS: Key = key(
    "max_topics",
    count_or("none", 1, 10_000_000),
    "Topics that are not listed, at most; a job for a further one is refused. One without jobs is removed after ten minutes.",
)
.default("10000");

const UNKNOWN_TOPICS: Key =
    key("unknown_topics", word::<UnknownTopics>(), "A job for a topic that is not listed creates it, or is refused.")
        .default("create");

/// Reads the section `jobs`.
pub fn read(section: &Section<'_>) -> JobSettings {
    let rule = |name: &str| name.parse::<Topic>().map(drop).map_err(|error| error.rule);
    let (of_all, topics): (Vec<_>, Vec<_>) =
        section.named_by(&TOPICS, &rule).into_iter().partition(|(name, _)| name == DEFAULT);
    let defaults = topic(&section.section(&DEFAULTS), &TopicSettings::default());
    let of_all = of_all.first().map(|(_, of_all)| (of_all, topic(of_all, &defaults)));
    let defaults = match of_all {
        Some((written, _)) if section.has(&DEFAULTS) => {
            let message = "`defaults` and `topics.default` mean the same";
            section.cx.report.problem(&written.spot, message, "write one of them");
            defaults
        }
        Some((_, of_all)) => of_all,
        None => defaults,
    };
    let topics = topics.into_iter();
    // An invalid name was reported, so this configuration will be discarded.
    let topics = topics.filter_map(|(name, section)| {
        let settings = topic(&section, &defaults);
        Some((name.parse().ok()?, settings))
    });
    let topics = topics.collect();
    let unknown_topics = section.one_of::<UnknownTopics>(&UNKNOWN_TOPICS).unwrap_or(UnknownTopics::Create);
    JobSettings { defaults, topics, max_topics: section.count(&MAX_TOPICS), unknown_topics }
}

fn topic(section: &Section<'_>, base: &TopicSettings) -> TopicSettings {
    let settings = TopicSettings::over(section, base);
    if settings.ttr > MAX_TTR {
        let help = "a consumer that needs longer says so from time to time, with `touch`";
        section.cx.report.problem(&section.spot(&topic::TTR), "the time to run is above 7 days", help);
    }
    if settings.max_body > LARGEST_BODY {
        let help = "Redis answers no other client while it moves a large value; keep large bodies elsewhere, and their place in the job";
        section.cx.report.problem(&section.spot(&topic::MAX_BODY), "bodies may have 64MiB at most", help);
    }
    if settings.backoff > settings.backoff_max {
        let help = "set `backoff_max` to the longest wait between two attempts";
        section.cx.report.problem(&section.spot(&topic::BACKOFF), "`backoff` is above `backoff_max`", help);
    }
    for (key, wait) in [(&topic::BACKOFF, settings.backoff), (&topic::BACKOFF_MAX, settings.backoff_max)] {
        if wait > MAX_DELAY {
            section.cx.report.problem(&section.spot(key), "the wait is above ten years", "set a shorter one");
        }
    }
    settings
}

/// The largest value of `max_body`, in bytes.
pub(super) const LARGEST_BODY: u64 = 64 << 20;

impl JobSettings {
    /// Returns the effective settings, in the shape and the units of the YAML.
    pub fn shown(&self) -> Map<String, Value> {
        let topics = self.topics.iter().map(|(name, settings)| (name.to_string(), settings.shown().into()));
        Map::from_iter([
            ("defaults".to_owned(), self.defaults.shown().into()),
            ("topics".to_owned(), topics.collect::<Map<_, Value>>().into()),
            ("max_topics".to_owned(), self.max_topics.map_or("none".into(), Value::from)),
            ("unknown_topics".to_owned(), self.unknown_topics.as_str().into()),
        ])
    }
}
