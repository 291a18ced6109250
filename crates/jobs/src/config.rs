//! The configuration keys under `jobs:`.

use super::name::Topic;
use super::settings::{JobSettings, MAX_DELAY, MAX_TTR, TopicSettings, topic, topics};
use delaybridge_settings::Settings;
use delaybridge_settings::keys::{Key, Table};
use delaybridge_settings::reader::Section;

/// Every table of topics.
pub static TABLES: &[&Table] = &[&topic::TABLE];

/// The keys under `jobs:` about topics.
pub const KEYS: &[Key] = topics::OWN;
/// The name under `topics` that means the defaults.
const DEFAULT: &str = "default";

/// Reads the section `jobs`.
pub fn read(section: &Section<'_>) -> JobSettings {
    let rule = |name: &str| name.parse::<Topic>().map(drop).map_err(|error| error.rule);
    let (of_all, topics): (Vec<_>, Vec<_>) =
        section.named_by(&topics::TOPICS, &rule).into_iter().partition(|(name, _)| name == DEFAULT);
    let defaults = topic(&section.section(&topics::DEFAULTS), &TopicSettings::default());
    let of_all = of_all.first().map(|(_, of_all)| (of_all, topic(of_all, &defaults)));
    let defaults = match of_all {
        Some((written, _)) if section.has(&topics::DEFAULTS) => {
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
    JobSettings { defaults, topics, ..Settings::of(section) }
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
