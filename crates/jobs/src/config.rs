//! The configuration keys under `jobs:`.

use std::time::Duration;

use serde_json::{Map, Value};

use super::name::Topic;
use super::settings::{JobSettings, MAX_TTR, TopicSettings};
use delaybridge_settings::keys::{Group, Key, Kind, count_or, key, tables};
use delaybridge_settings::reader::Section;
use delaybridge_settings::shown;

tables! {
    mod topic at "jobs.topics.NAME", "One topic; `jobs.defaults` has the same keys. A job may have its own `ttr`, `tries` and `ttl`." {
        TTR = key("ttr", duration(1), "Time to run: time after which an unfinished job returns from its consumer, at most 7 days.").default("1m");
        TRIES = key("tries", count(1, 1_000_000), "Maximum number of deliveries of a job. A job whose last try fails is dead.").default("10");
        TTL = key("ttl", Kind::DurationOrNone, "Time to live: time after which an unfinished job is dropped and counted.").default("none");
        MAX_JOBS = key("max_jobs", count_or("none", 1, u64::MAX), "Maximum number of jobs that wait, are reserved, or are being delivered by a queue. Further jobs are refused.").default("none");
        MAX_BODY = key("max_body", Kind::Size, "Maximum size of a body. Larger bodies are refused.").default("1MiB");
        DEAD_MAX_LEN = key("dead_max_len", count_or("none", 1, u64::MAX), "Maximum number of dead jobs. The oldest are removed and counted.").default("none");
        DEAD_TTL = key("dead_ttl", Kind::DurationOrNone, "Retention of a dead job.").default("none");
        REMEMBER = key("remember", Kind::DurationOrNone, "Time for which an id that the client chose is remembered after its job has finished. Adding a job with this id has no effect.").default("10m");
    }
}

/// The keys under `jobs:` about topics.
pub const KEYS: &[Group] = &[Group { of: None, keys: &[DEFAULTS, TOPICS, MAX_TOPICS] }];
/// The name under `topics` that means the defaults.
const DEFAULT: &str = "default";
const DEFAULTS: Key = key("defaults", Kind::Section(&topic::TABLE), "Default settings of topics.");
const TOPICS: Key = key(
    "topics",
    Kind::Named(&topic::TABLE),
    "Topics with settings of their own. Omitted settings are taken from `defaults`. The name `default` stands for `defaults`; it is not a topic. Names have 1 to 255 letters, digits, `_`, `.`, `:` or `-`.",
);

const MAX_TOPICS: Key = key(
    "max_topics",
    count_or("none", 1, 10_000_000),
    "Maximum number of topics that are not listed under `topics`. A job for a further topic is refused. A topic without jobs is removed after ten minutes.",
)
.default("10000");

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
    JobSettings { defaults, topics, max_topics: section.count(&MAX_TOPICS) }
}

fn topic(section: &Section<'_>, base: &TopicSettings) -> TopicSettings {
    let ttr = if section.has(&topic::TTR) { section.duration(&topic::TTR) } else { base.ttr };
    if ttr > MAX_TTR {
        let help = "a consumer that needs longer says so from time to time, with `touch`";
        section.cx.report.problem(&section.spot(&topic::TTR), "the time to run is above 7 days", help);
    }
    let settings = TopicSettings {
        ttr,
        tries: match section.has(&topic::TRIES) {
            true => section.count(&topic::TRIES).and_then(|tries| u32::try_from(tries).ok()).unwrap_or(1),
            false => base.tries,
        },
        ttl: or_base(section, &topic::TTL, base.ttl),
        max_jobs: if section.has(&topic::MAX_JOBS) { section.count(&topic::MAX_JOBS) } else { base.max_jobs },
        max_body: if section.has(&topic::MAX_BODY) { section.size(&topic::MAX_BODY) } else { base.max_body },
        dead_max_len: match section.has(&topic::DEAD_MAX_LEN) {
            true => section.count(&topic::DEAD_MAX_LEN),
            false => base.dead_max_len,
        },
        dead_ttl: or_base(section, &topic::DEAD_TTL, base.dead_ttl),
        remember: or_base(section, &topic::REMEMBER, base.remember),
    };
    if settings.max_body > LARGEST_BODY {
        let help = "Redis answers no other client while it moves a large value; keep large bodies elsewhere, and their place in the job";
        section.cx.report.problem(&section.spot(&topic::MAX_BODY), "bodies may have 64MiB at most", help);
    }
    settings
}

/// The largest value of `max_body`, in bytes.
pub(super) const LARGEST_BODY: u64 = 64 << 20;

fn or_base(section: &Section<'_>, key: &Key, base: Option<Duration>) -> Option<Duration> {
    if section.has(key) { section.duration_or_none(key) } else { base }
}

impl JobSettings {
    /// The effective settings, in the shape and the units of the YAML.
    pub fn shown(&self) -> Map<String, Value> {
        let topics = self.topics.iter().map(|(name, settings)| (name.to_string(), shown::fields(settings).into()));
        Map::from_iter([
            ("defaults".to_owned(), shown::fields(&self.defaults).into()),
            ("topics".to_owned(), topics.collect::<Map<_, Value>>().into()),
            ("max_topics".to_owned(), self.max_topics.map_or("none".into(), Value::from)),
        ])
    }
}
