//! The events of one input.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use delaybridge_core::log::{info, warn};

use super::Events;
pub use crate::labels::{InputReset, InputResult};
use crate::metrics::Metrics;
use crate::status::{InputState, Status};
use crate::throttle::{QUIET, Throttle};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Failure;

/// The events of one input. Cheap to clone.
#[derive(Clone)]
pub struct InputEvents {
    input: Arc<str>,
    metrics: Metrics,
    status: Status,
    /// The rate limit of lines about single messages.
    quiet: Arc<Throttle>,
    /// The partitions with series of their own.
    partitions: Arc<Mutex<BTreeSet<(String, i32)>>>,
}

/// The records of a partition that wait at the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLag {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The records.
    pub records: u64,
}

/// Partitions of one input that have series of their own. The sum is of all.
const PARTITIONS: usize = 1_000;

impl Events {
    /// Returns the events of one input, which the board shows as unknown until it takes messages. Call it once and keep
    /// the result, which rate-limits the log lines.
    pub fn input(&self, input: &Arc<str>) -> InputEvents {
        self.status.input(input, InputState::Unknown);
        let metrics = self.metrics.clone();
        let status = self.status.clone();
        for result in InputResult::ALL {
            metrics.families().input_messages.with_label_values(&[input, result.as_str()]).inc_by(0);
        }
        for reason in InputReset::ALL {
            metrics.families().input_resets.with_label_values(&[input, reason.as_str()]).inc_by(0);
        }
        metrics.families().input_up.with_label_values(&[&**input]).set(0);
        InputEvents {
            input: input.clone(),
            metrics,
            status,
            quiet: Arc::new(Throttle::new(QUIET)),
            partitions: Arc::default(),
        }
    }
}

/// The messages of one input that this process has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// Messages that became jobs.
    pub scheduled: u64,
    /// Messages that had arrived before.
    pub duplicates: u64,
    /// Messages that can never be scheduled.
    pub refused: u64,
    /// Records that the broker removed before they were read.
    pub missed: u64,
    /// Partitions that begin at another place than the one behind the last record.
    pub resets: u64,
    /// Messages that waited at the broker when it was last asked.
    pub lag: u64,
}

impl Metrics {
    /// Returns the counts of the input with this name.
    pub fn input(&self, input: &str) -> InputCounts {
        let families = self.families();
        let of = |result: InputResult| families.input_messages.with_label_values(&[input, result.as_str()]).get();
        let resets = |why: InputReset| families.input_resets.with_label_values(&[input, why.as_str()]).get();
        InputCounts {
            scheduled: of(InputResult::Scheduled),
            duplicates: of(InputResult::Duplicate),
            refused: of(InputResult::Refused),
            missed: of(InputResult::Missed),
            resets: InputReset::ALL.into_iter().map(resets).sum(),
            lag: u64::try_from(families.input_lag.with_label_values(&[input]).get()).unwrap_or(0),
        }
    }
}

impl InputEvents {
    fn set(&self, state: InputState) -> bool {
        let up = matches!(state, InputState::Up | InputState::Holding(_));
        self.metrics.families().input_up.with_label_values(&[&*self.input]).set(i64::from(up));
        self.status.input(&self.input, state)
    }

    /// Reports that the input takes messages. Logged only if that is new.
    pub fn up(&self, address: &str) {
        if self.set(InputState::Up) {
            info!(input = &*self.input, from = address, "input takes messages");
        }
    }

    /// Reports that the broker answers: the input takes messages, if it did not.
    pub fn connected(&self, address: &str) {
        if self.status.input_is_down(&self.input) {
            self.up(address);
        }
    }

    /// Reports that the input cannot take messages. Logged only if that is new.
    pub fn down(&self, failure: &Failure) {
        self.metrics.not_connected(&self.input, &failure.message);
        if self.set(InputState::Down(failure.to_string())) {
            warn!(input = &*self.input, %failure, "input down; it tries again");
        }
    }

    /// Reports that Redis does not take the jobs, so that no more messages are taken. Logged only if that is new.
    pub fn waits(&self, problem: &str) {
        if self.set(InputState::Waiting(problem.to_owned())) {
            warn!(
                input = &*self.input,
                problem, "input waits: messages stay at the broker until Redis takes their jobs"
            );
        }
    }

    /// Reports that Redis takes jobs. Logged only after it did not.
    pub fn flows(&self) {
        if self.status.input_waits(&self.input) && self.set(InputState::Up) {
            info!(input = &*self.input, "input goes on");
        }
    }

    /// Reports that the input holds messages that it refuses, because it cannot give them away.
    pub fn holds(&self, count: usize, why: &str) {
        if self.set(InputState::Holding(format!("{count} refused messages are held: {why}"))) {
            warn!(input = &*self.input, why, "input holds refused messages: they stay at the broker");
        }
    }

    /// Reports that the input takes messages from a part of its places only. Logged only if that is new.
    pub fn reads_in_part(&self, problem: &str) {
        if self.set(InputState::Holding(problem.to_owned())) {
            warn!(input = &*self.input, problem, "input reads a part of its topics only");
        }
    }

    /// Reports that refused messages come back to the input. Logged only if that is new.
    pub fn comes_back(&self, reason: &str) {
        if self.set(InputState::Holding(reason.to_owned())) {
            warn!(input = &*self.input, reason, "refused messages come back to the input");
        }
    }

    /// Counts a message that was scheduled, or had arrived before.
    pub fn counted(&self, result: InputResult) {
        self.metrics.families().input_messages.with_label_values(&[&*self.input, result.as_str()]).inc();
    }

    /// Counts a refused message, and logs the reason.
    pub fn refused(&self, code: &'static str, reason: &str) {
        self.counted(InputResult::Refused);
        if let Some(left_out) = self.quiet.admit(Instant::now(), 1) {
            warn!(input = &*self.input, code, reason, left_out, "input refused a message");
        }
    }

    /// Counts and logs that the broker removed records of a partition before they were read, from this offset on.
    pub fn missed(&self, topic: &str, partition: i32, from: i64, records: u64) {
        let families = self.metrics.families();
        families.input_messages.with_label_values(&[&*self.input, InputResult::Missed.as_str()]).inc_by(records);
        self.count_reset(InputReset::Gap);
        warn!(
            input = &*self.input,
            topic, partition, from, records, "input missed records: the broker removed them before they were read"
        );
    }

    /// Counts and logs that a partition is read from its beginning, instead of from this offset on, where that is known.
    pub fn begins_again(&self, topic: &str, partition: i32, instead_of: Option<i64>, why: InputReset) {
        self.count_reset(why);
        let why = match why {
            InputReset::OtherTopic => "the topic is another one of the same name",
            InputReset::BeyondEnd => {
                "the topic ends before: it was made again, or a broker without its last records leads it"
            }
            InputReset::Gap => "the records from there on are gone",
        };
        warn!(input = &*self.input, topic, partition, instead_of, why, "input reads a partition from its beginning");
    }

    fn count_reset(&self, why: InputReset) {
        self.metrics.families().input_resets.with_label_values(&[&*self.input, why.as_str()]).inc();
    }

    /// Shows how many records wait at the broker, of each partition of the topics of an input.
    pub fn lags(&self, lags: &[PartitionLag]) {
        let family = &self.metrics.families().input_partition_lag;
        let shown: BTreeSet<_> = lags.iter().take(PARTITIONS).map(|lag| (lag.topic.clone(), lag.partition)).collect();
        for lag in lags.iter().take(PARTITIONS) {
            let gauge = family.with_label_values(&[&*self.input, &lag.topic, &lag.partition.to_string()]);
            gauge.set(i64::try_from(lag.records).unwrap_or(i64::MAX));
        }
        let mut partitions = self.partitions.lock();
        for (topic, partition) in partitions.difference(&shown) {
            // Without the series there is nothing to remove.
            let _gone = family.remove_label_values(&[&*self.input, topic, &partition.to_string()]);
        }
        *partitions = shown;
        self.lag(lags.iter().map(|lag| lag.records).sum());
    }

    /// Shows how many messages wait at the broker.
    pub fn lag(&self, messages: u64) {
        let gauge = self.metrics.families().input_lag.with_label_values(&[&*self.input]);
        gauge.set(i64::try_from(messages).unwrap_or(i64::MAX));
    }
}
