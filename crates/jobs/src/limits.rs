//! The limits of a topic that were set at run time and override the configuration. They are fields of the topic's hash,
//! where the scripts read them, so they apply to all daemons at once.

use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::LARGEST_BODY;
use super::error::JobError;
use super::name::Topic;
use super::queue::{JobQueue, millis, number, text};
use super::settings::{MAX_DELAY, MAX_TRIES, TopicSettings, check_ttr};

/// The fields of the hash, in the order of [`Limits::values`].
const FIELDS: [&str; 9] =
    ["ttr", "tries", "ttl", "max_jobs", "max_body", "dead_max_len", "dead_ttl", "backoff", "backoff_max"];
/// The value of a field that removes a limit.
const NONE: &str = "none";

/// The limits set at run time. `None` means the configuration applies; `Some(None)` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The time to run of jobs without one.
    pub ttr: Option<Duration>,
    /// The tries of jobs without a number.
    pub tries: Option<u32>,
    /// The time to live of jobs without one.
    pub ttl: Option<Option<Duration>>,
    /// Maximum number of jobs that are not dead.
    pub max_jobs: Option<Option<u64>>,
    /// Maximum size of a body, in bytes.
    pub max_body: Option<u64>,
    /// Maximum number of dead jobs.
    pub dead_max_len: Option<Option<u64>>,
    /// The time for which a dead job is kept.
    pub dead_ttl: Option<Option<Duration>>,
    /// The wait after a first attempt that ran out, or was released without a delay.
    pub backoff: Option<Duration>,
    /// The longest such wait.
    pub backoff_max: Option<Duration>,
}

/// The effective limits of a topic, for display. Absent values are unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Limits")]
pub struct Allowed {
    /// The time to run of jobs without one, in ms.
    pub ttr_ms: u64,
    /// The tries of jobs without a number.
    pub tries: u32,
    /// The time to live of jobs without one, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Maximum number of jobs that are not dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_jobs: Option<u64>,
    /// Maximum size of a body, in bytes.
    pub max_body: u64,
    /// Maximum number of dead jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_max_len: Option<u64>,
    /// The time for which a dead job is kept, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_ttl_ms: Option<u64>,
    /// The wait after a first attempt that ran out, or was released without a delay, in ms; it doubles with each further
    /// one.
    pub backoff_ms: u64,
    /// The longest such wait, in ms.
    pub backoff_max_ms: u64,
    /// The names of limits that were set at run time; the others come from the configuration.
    pub set: Vec<String>,
}

impl Limits {
    /// Returns the effective limits of a topic with this configuration.
    pub fn shown(&self, base: &TopicSettings) -> Allowed {
        let settings = self.over(base);
        let TopicSettings { ttr, tries, ttl, max_jobs, max_body, dead_max_len, dead_ttl, .. } = settings;
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let ttr_ms = ms(ttr);
        let ttl_ms = ttl.map(ms);
        let dead_ttl_ms = dead_ttl.map(ms);
        let backoff_ms = ms(settings.backoff);
        let backoff_max_ms = ms(settings.backoff_max);
        let set = self.names();
        Allowed {
            ttr_ms,
            tries,
            ttl_ms,
            max_jobs,
            max_body,
            dead_max_len,
            dead_ttl_ms,
            backoff_ms,
            backoff_max_ms,
            set,
        }
    }

    fn names(&self) -> Vec<String> {
        let names = FIELDS.map(|name| match name {
            "ttr" => "ttr_ms",
            "ttl" => "ttl_ms",
            "dead_ttl" => "dead_ttl_ms",
            "backoff" => "backoff_ms",
            "backoff_max" => "backoff_max_ms",
            name => name,
        });
        names
            .into_iter()
            .zip(self.values())
            .filter(|(_, value)| value.is_some())
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// Returns the settings of a topic after applying these limits.
    pub fn over(&self, base: &TopicSettings) -> TopicSettings {
        TopicSettings {
            ttr: self.ttr.unwrap_or(base.ttr),
            tries: self.tries.unwrap_or(base.tries),
            ttl: self.ttl.unwrap_or(base.ttl),
            max_jobs: self.max_jobs.unwrap_or(base.max_jobs),
            max_body: self.max_body.unwrap_or(base.max_body),
            dead_max_len: self.dead_max_len.unwrap_or(base.dead_max_len),
            dead_ttl: self.dead_ttl.unwrap_or(base.dead_ttl),
            backoff: self.backoff.unwrap_or(base.backoff),
            backoff_max: self.backoff_max.unwrap_or(base.backoff_max),
            remember: base.remember,
        }
    }

    fn values(&self) -> [Option<Bytes>; 9] {
        let or_none = |value: Option<Bytes>| value.unwrap_or_else(|| text(NONE));
        [
            self.ttr.map(millis),
            self.tries.map(number),
            self.ttl.map(|ttl| or_none(ttl.map(millis))),
            self.max_jobs.map(|most| or_none(most.map(number))),
            self.max_body.map(number),
            self.dead_max_len.map(|most| or_none(most.map(number))),
            self.dead_ttl.map(|ttl| or_none(ttl.map(millis))),
            self.backoff.map(millis),
            self.backoff_max.map(millis),
        ]
    }

    /// Parses the values of the hash; an unreadable value counts as not set.
    fn of(values: [Option<Vec<u8>>; 9]) -> Limits {
        let [ttr, tries, ttl, max_jobs, max_body, dead_max_len, dead_ttl, backoff, backoff_max] = values;
        // The same rules as in limit.lua.
        let digits = |value: &Vec<u8>| value.len() < 17 && value.iter().all(u8::is_ascii_digit);
        let number = |value: Option<Vec<u8>>| {
            String::from_utf8(value.filter(digits)?).ok()?.parse::<u64>().ok().filter(|n| *n < 1 << 53)
        };
        let short = |value: Option<Vec<u8>>| number(value).and_then(|n| u32::try_from(n).ok());
        let or_none = |value: Option<Vec<u8>>| match value.as_deref() {
            Some(text) if text == NONE.as_bytes() => Some(None),
            _ => number(value).map(Some),
        };
        let time = |value: Option<Vec<u8>>| or_none(value).map(|ms| ms.map(Duration::from_millis));
        Limits {
            ttr: short(ttr).map(|ms| Duration::from_millis(ms.into())),
            tries: short(tries),
            ttl: time(ttl),
            max_jobs: or_none(max_jobs),
            max_body: number(max_body),
            dead_max_len: or_none(dead_max_len),
            dead_ttl: time(dead_ttl),
            backoff: number(backoff).map(Duration::from_millis),
            backoff_max: number(backoff_max).map(Duration::from_millis),
        }
    }

    fn check(&self) -> Result<(), JobError> {
        let invalid = |problem: &str| Err(JobError::Invalid(problem.to_owned()));
        self.ttr.map_or(Ok(()), check_ttr)?;
        if self.tries.is_some_and(|tries| !(1..=MAX_TRIES).contains(&tries)) {
            return invalid("tries must be 1 to 1000000");
        }
        if [self.ttl, self.dead_ttl].into_iter().flatten().flatten().any(|time| time > MAX_DELAY) {
            return invalid("a time to live is above ten years");
        }
        if [self.backoff, self.backoff_max].into_iter().flatten().any(|wait| wait > MAX_DELAY) {
            return invalid("a wait between attempts is above ten years");
        }
        if self.max_body.is_some_and(|most| !(1..=LARGEST_BODY).contains(&most)) {
            return invalid("bodies may have 1 byte to 64 MiB");
        }
        Ok(())
    }
}

impl JobQueue {
    /// Replaces all run-time limits of a topic; those that are not set come from the configuration again. It may be
    /// repeated.
    ///
    /// # Errors
    ///
    /// Returns [`JobError::Invalid`], or an error of the connection.
    pub async fn set_limits(&self, topic: &Topic, limits: &Limits) -> Result<(), JobError> {
        limits.check()?;
        self.enter(topic, false).await?;
        let pairs = FIELDS.into_iter().zip(limits.values());
        let args: Vec<_> = pairs.flat_map(|(name, value)| [text(name), value.unwrap_or_default()]).collect();
        self.run(&self.shared.scripts.limits, topic, &args).await.map(drop)
    }

    /// Reads the run-time limits of a topic.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn limits(&self, topic: &Topic) -> Result<Limits, JobError> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys(topic).topic()[..]).arg(&FIELDS);
        let values: Vec<Option<Vec<u8>>> = self.conn(self.keys(topic).topic()).await?.query(&command).await?;
        Ok(values.try_into().map(Limits::of).unwrap_or_default())
    }

    /// Reads the names of a topic's unreadable run-time limits, which count as not set.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn unreadable_limits(&self, topic: &Topic) -> Result<Vec<&'static str>, JobError> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys(topic).topic()[..]).arg(&FIELDS);
        let values: Vec<Option<Vec<u8>>> = self.conn(self.keys(topic).topic()).await?.query(&command).await?;
        let Ok(values) = <[Option<Vec<u8>>; 9]>::try_from(values) else { return Ok(Vec::new()) };
        let set = values.each_ref().map(Option::is_some);
        let read = Limits::of(values).values().map(|value| value.is_some());
        let lost = FIELDS.into_iter().zip(set).zip(read).filter(|((_, set), read)| *set && !read);
        Ok(lost.map(|((name, _), _)| name).collect())
    }

    /// Reads the effective settings of a topic: the configuration with the run-time limits.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn allowed(&self, topic: &Topic) -> Result<TopicSettings, JobError> {
        Ok(self.limits(topic).await?.over(self.settings().of(topic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_back_as_they_were_written() {
        let some = Limits {
            ttr: Some(Duration::from_secs(3)),
            max_jobs: Some(None),
            ttl: Some(Some(Duration::from_secs(60))),
            ..Limits::default()
        };
        for limits in [Limits::default(), some] {
            assert_eq!(Limits::of(limits.values().map(|value| value.map(Into::into))), limits);
        }
        let strange = ["abc", "-5", "1e9", "nan", "0x10", "99999999999999999999", "\u{ff}"];
        for text in strange {
            let all = std::array::from_fn(|_| Some(text.as_bytes().to_vec()));
            assert_eq!(Limits::of(all), Limits::default(), "{text}");
        }
        assert_eq!(some.names(), ["ttr_ms", "ttl_ms", "max_jobs"]);
        let allowed = some.over(&TopicSettings { max_jobs: Some(7), ..TopicSettings::default() });
        assert_eq!((allowed.ttr, allowed.max_jobs, allowed.tries), (Duration::from_secs(3), None, 10));
    }
}
