//! The metrics and log lines of the job queue. Clients create topics, so only some topics have series of their own.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use delaybridge_core::log;
use parking_lot::Mutex;

use super::labels::{FiringEnd, JobAction, JobEnd, JobPlace};
use super::metrics::Metrics;
use super::throttle::Throttle;
use delaybridge_core::clock::Instant;

/// Maximum number of topics with series of their own. Those of the configuration come first, however many they are.
const TOPICS: usize = 200;
/// The label of all other topics.
const OTHERS: &str = "other topics";

/// The sizes of a topic.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobSizes {
    /// The numbers of jobs, in the order of [`JobPlace::ALL`].
    pub jobs: [u64; 4],
    /// Time since the oldest ready job became ready.
    pub oldest_ready: Duration,
}

/// The events of the job queue. Clones share everything.
#[derive(Clone)]
pub struct JobEvents(Arc<Inner>);

struct Inner {
    metrics: Metrics,
    /// Topics with series: those of the configuration, and the first others.
    shown: Mutex<HashSet<Box<str>>>,
    failures: Throttle,
    unreadable: Throttle,
    missed: Throttle,
    /// Number of invalid names in the index at its last successful read; `None` if the last read failed.
    index: Mutex<Option<u64>>,
}

impl JobEvents {
    pub(super) fn new(metrics: Metrics) -> Self {
        let throttle = || Throttle::new(Duration::from_secs(10));
        let failures = throttle();
        let unreadable = throttle();
        let missed = throttle();
        let index = Mutex::new(Some(0));
        JobEvents(Arc::new(Inner { metrics, shown: Mutex::default(), failures, unreadable, missed, index }))
    }

    /// Gives series to the topics of the configuration, however many others there are.
    pub fn configured<'a>(&self, topics: impl IntoIterator<Item = &'a str>) {
        self.0.shown.lock().extend(topics.into_iter().map(Box::from));
    }

    /// Returns the label of the topic.
    fn label<'a>(&self, topic: &'a str) -> &'a str {
        let mut shown = self.0.shown.lock();
        if shown.contains(topic) {
            return topic;
        }
        if shown.len() >= TOPICS {
            return OTHERS;
        }
        shown.insert(topic.into());
        topic
    }

    /// Shows the sizes of a topic. Topics without series of their own are skipped, because their sizes would not add
    /// up.
    pub fn sizes(&self, topic: &str, sizes: &JobSizes) {
        if self.label(topic) == OTHERS {
            return;
        }
        let families = self.0.metrics.families();
        for (place, count) in JobPlace::ALL.iter().zip(sizes.jobs) {
            let gauge = families.jobs.with_label_values(&[topic, place.as_str()]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        families.oldest_ready_age.with_label_values(&[topic]).set(sizes.oldest_ready.as_secs_f64());
    }

    /// Removes the gauges of all topics except those in `keep`.
    pub fn keep(&self, keep: &HashSet<Box<str>>) {
        let families = self.0.metrics.families();
        self.0.shown.lock().retain(|topic| {
            let there = keep.contains(topic);
            if !there {
                for place in JobPlace::ALL {
                    // Ignore the error: the gauge was never set.
                    let _ = families.jobs.remove_label_values(&[topic, place.as_str()]);
                }
                let _ = families.oldest_ready_age.remove_label_values(&[topic]);
            }
            there
        });
    }

    /// Counts `n` jobs whose time has ended in this way.
    pub fn ended(&self, topic: &str, how: JobEnd, n: u64) {
        if n > 0 {
            let counter = &self.0.metrics.families().jobs_ended;
            counter.with_label_values(&[self.label(topic), how.as_str()]).inc_by(n);
        }
    }

    /// Counts `n` jobs that this daemon did something with.
    pub fn did(&self, topic: &str, action: JobAction, n: u64) {
        let counter = &self.0.metrics.families().job_operations;
        counter.with_label_values(&[self.label(topic), action.as_str()]).inc_by(n);
    }

    /// Counts firings of a recurring job, and logs those that were missed without a job.
    pub fn fired(&self, topic: &str, name: &str, added: u64, skipped: u64) {
        let counter = &self.0.metrics.families().firings;
        for (outcome, n) in [(FiringEnd::Fired, added), (FiringEnd::Skipped, skipped)] {
            if n > 0 {
                counter.with_label_values(&[self.label(topic), outcome.as_str()]).inc_by(n);
            }
        }
        if skipped > 0
            && let Some(left_out) = self.0.missed.admit(Instant::now(), skipped)
        {
            log::warn!(
                topic,
                recurring = name,
                skipped,
                left_out,
                "firings of a recurring job were missed, and no jobs are added for them"
            );
        }
    }

    /// Counts and logs `n` jobs that could not be read and were made dead.
    pub fn set_aside(&self, topic: &str, n: u64) {
        self.ended(topic, JobEnd::Unreadable, n);
        if n > 0
            && let Some(left_out) = self.0.unreadable.admit(Instant::now(), n)
        {
            log::warn!(
                topic,
                jobs = n,
                left_out,
                "jobs of another version, or of another program, are set aside: they are among the dead ones, with their bytes"
            );
        }
    }

    /// Reports that the index of topics could not be read, or its number of invalid names. Logged when that changes.
    pub fn index_read(&self, found: Result<u64, &str>) {
        let unreadable = found.as_ref().ok().copied();
        if let Some(unreadable) = unreadable {
            self.0
                .metrics
                .families()
                .unreadable_topics
                .with_label_values(&[] as &[&str])
                .set(i64::try_from(unreadable).unwrap_or(i64::MAX));
        }
        if std::mem::replace(&mut *self.0.index.lock(), unreadable) == unreadable {
            return;
        }
        match found {
            Err(problem) => log::warn!(
                "read the index of topics: {problem}; the clock goes on with the topics that were there before"
            ),
            Ok(0) => log::info!("the index of topics is in order again"),
            Ok(members) => log::warn!(
                members,
                "delaybridge:jobs:topics has members that are no names of topics: another program wrote them; they are passed over"
            ),
        }
    }

    /// Reports that a topic could not be looked at.
    pub fn look_failed(&self, topic: &str, problem: &str) {
        if let Some(left_out) = self.0.failures.admit(Instant::now(), 1) {
            log::warn!(topic, left_out, "look at topic: {problem}");
        }
    }
}
