//! The evidence of a run, for the oracle.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fates::{Record, Route};
use crate::jobs::Handed;
use crate::offers::Offer;
use crate::plan::{Fault, Plan};

/// A message at its destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// The index of the queue.
    pub queue: usize,
    /// The number in its payload.
    pub n: Option<u64>,
    pub id: String,
    pub attempt: u32,
    pub at_ms: i64,
    /// The life of the daemon that sent it.
    pub life: usize,
    /// Whether every byte is as offered.
    pub whole: bool,
    /// Whether the destination confirmed it.
    pub confirmed: bool,
    /// The destination, of those of its queue.
    pub route: Route,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Dead {
    /// The index of the queue.
    pub queue: usize,
    /// The number in the element.
    pub n: Option<u64>,
    pub reason: String,
    /// Number of counted attempts.
    pub attempts: u32,
    /// Number of consecutive expired leases.
    pub expiries: u32,
}

/// A fault as it happened.
#[derive(Debug, Clone)]
pub struct Struck {
    /// The planned fault.
    pub fault: Fault,
    /// The begin, in ms.
    pub from_ms: i64,
    /// The time at which everything worked again, in ms.
    pub till_ms: i64,
    /// Number of times that it struck: lost replies, killed processes.
    pub times: u64,
}

/// A claim of a process that has ended.
#[derive(Debug, Clone)]
pub struct LeftClaim {
    /// The name and the queue.
    pub claim: String,
    /// The number of its elements.
    pub elements: usize,
    /// The end of its lease, in ms.
    pub till_ms: i64,
    pub seen_ms: i64,
}

/// One process of a daemon.
#[derive(Debug, Clone, Default)]
pub struct Lived {
    /// The number among all processes of the run.
    pub number: usize,
    /// The exit code; `None` if it was killed, or did not end.
    pub code: Option<i32>,
    /// The description of an end without a request, or of a request without an end.
    pub odd_end: Option<String>,
    /// The last scrape: the sum of each metric, by name.
    pub metrics: BTreeMap<String, f64>,
    /// Lines of the log about a panic.
    pub panics: Vec<String>,
    /// Maximum resident memory that was seen, in bytes.
    pub resident: u64,
    /// The owner number in the names of its claims.
    pub owner: Option<String>,
    /// Claims under its lease after an exit with code 0.
    pub left: Vec<LeftClaim>,
    pub log: Vec<String>,
}

/// All evidence of a run.
#[derive(Debug)]
pub struct Evidence {
    pub plan: Plan,
    pub offers: Vec<Offer>,
    /// The arrivals, in the order of arrival for each queue.
    pub arrivals: Vec<Arrival>,
    /// The jobs that consumers got.
    pub handed: Vec<Handed>,
    pub dead: Vec<Dead>,
    /// The records of fates.
    pub records: Vec<Record>,
    /// The faults that struck.
    pub struck: Vec<Struck>,
    /// The processes of the daemons.
    pub lives: Vec<Lived>,
    /// The moves of the clock of the Redis with the queues: since when, and by how much it is ahead, in ms.
    pub clock: Vec<(i64, i64)>,
    /// The times at which the processes of this test were not scheduled: begin and end in ms.
    pub stalls: Vec<(i64, i64)>,
    /// The description of work that was not finished within the bound.
    pub stuck: Option<String>,
    /// Keys that should not exist after everything was settled.
    pub residue: Vec<String>,
    /// The time until everything was settled.
    pub settled_after: Duration,
    /// Number of commands that Redis ran in an idle second.
    pub idle_commands: f64,
}
