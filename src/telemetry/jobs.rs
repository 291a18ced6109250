//! What is counted and reported of the job queue. Topics are made by clients, so only some have series of their own.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::labels::{JobEnd, JobPlace};
use super::metrics::Metrics;
use super::throttle::Throttle;
use crate::clock::Instant;

/// Topics with series of their own; those of the configuration come first, however many they are.
const TOPICS: usize = 200;
/// The label of the rest.
const OTHERS: &str = "other topics";

/// How many jobs of a topic are where.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobSizes {
    /// In the order of [`JobPlace::ALL`].
    pub jobs: [u64; 4],
    /// How long the first ready job has been ready.
    pub oldest_ready: Duration,
}

/// The job queue's metrics and log lines. Clones share everything.
#[derive(Clone)]
pub struct JobEvents(Arc<Inner>);

struct Inner {
    metrics: Metrics,
    /// Topics that have series: those of the configuration, and those that came first.
    shown: Mutex<HashSet<Box<str>>>,
    failures: Throttle,
    unreadable: Throttle,
    /// How many members of the index are no names, when it could be read last; nothing if it could not.
    index: Mutex<Option<u64>>,
}

impl JobEvents {
    pub(super) fn new(metrics: Metrics) -> Self {
        let throttle = || Throttle::new(Duration::from_secs(10));
        let (failures, unreadable) = (throttle(), throttle());
        let index = Mutex::new(Some(0));
        JobEvents(Arc::new(Inner { metrics, shown: Mutex::default(), failures, unreadable, index }))
    }

    /// Topics of the configuration, which have series however many others there are.
    pub fn configured<'a>(&self, topics: impl IntoIterator<Item = &'a str>) {
        self.0.shown.lock().extend(topics.into_iter().map(Box::from));
    }

    /// The topic's label.
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

    /// What a look at a topic found. Topics without series of their own are left out: their sizes would not add up.
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

    /// Topics that are no more lose their gauges; `keep` are those that are there.
    pub fn keep(&self, keep: &HashSet<Box<str>>) {
        let families = self.0.metrics.families();
        self.0.shown.lock().retain(|topic| {
            let there = keep.contains(topic);
            if !there {
                for place in JobPlace::ALL {
                    // Nothing to remove where nothing was ever set.
                    let _ = families.jobs.remove_label_values(&[topic, place.as_str()]);
                }
                let _ = families.oldest_ready_age.remove_label_values(&[topic]);
            }
            there
        });
    }

    /// Time ended something of `n` jobs.
    pub fn ended(&self, topic: &str, how: JobEnd, n: u64) {
        if n > 0 {
            let counter = &self.0.metrics.families().jobs_ended;
            counter.with_label_values(&[self.label(topic), how.as_str()]).inc_by(n);
        }
    }

    /// So many jobs could not be read, and are dead.
    pub fn set_aside(&self, topic: &str, n: u64) {
        self.ended(topic, JobEnd::Unreadable, n);
        if n > 0
            && let Some(left_out) = self.0.unreadable.admit(Instant::now(), n)
        {
            tracing::warn!(
                topic,
                jobs = n,
                left_out,
                "jobs of another version, or of another program, are set aside: they are among the dead ones, with their bytes"
            );
        }
    }

    /// The index of topics could not be read, or has members that are no names of topics. Once, until that changes.
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
            Err(problem) => tracing::warn!(
                "read the index of topics: {problem}; the clock goes on with the topics that were there before"
            ),
            Ok(0) => tracing::info!("the index of topics is in order again"),
            Ok(members) => tracing::warn!(
                members,
                "delaybridge:jobs:topics has members that are no names of topics: another program wrote them; they are passed over"
            ),
        }
    }

    /// A topic could not be looked at.
    pub fn look_failed(&self, topic: &str, problem: &str) {
        if let Some(left_out) = self.0.failures.admit(Instant::now(), 1) {
            tracing::warn!(topic, left_out, "look at topic: {problem}");
        }
    }
}
