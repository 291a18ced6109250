//! What a run has left behind for the oracle.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::jobs::Handed;
use crate::offers::Offer;
use crate::plan::{Fault, Plan};

/// A message at its destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// The queue that it was found at.
    pub queue: usize,
    /// The number in its payload.
    pub n: Option<u64>,
    /// Its id.
    pub id: String,
    /// Its attempt.
    pub attempt: u32,
    /// When it arrived.
    pub at_ms: i64,
    /// The life of a daemon that sent it.
    pub life: usize,
    /// Whether every byte is as it was offered.
    pub whole: bool,
    /// Whether the destination has confirmed it.
    pub confirmed: bool,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq)]
pub struct Dead {
    /// Its queue.
    pub queue: usize,
    /// The number in its element.
    pub n: Option<u64>,
    /// Why.
    pub reason: String,
    /// Counted attempts.
    pub attempts: u32,
    /// Leases in a row that ran out.
    pub expiries: u32,
}

/// A fault as it happened.
#[derive(Debug, Clone)]
pub struct Struck {
    /// As planned.
    pub fault: Fault,
    /// When it began, in ms.
    pub from_ms: i64,
    /// When all was well again.
    pub till_ms: i64,
    /// How often it struck: replies lost, processes killed.
    pub times: u64,
}

/// One process of a daemon.
#[derive(Debug, Clone, Default)]
pub struct Lived {
    /// Its number among all of the run.
    pub number: usize,
    /// Exit code; `None`: killed, or it did not end.
    pub code: Option<i32>,
    /// It ended without being asked, or did not end when it was asked.
    pub odd_end: Option<String>,
    /// The last scrape: metrics by their names, summed.
    pub metrics: BTreeMap<String, f64>,
    /// Lines of its log about a panic.
    pub panics: Vec<String>,
    /// The most resident memory that was seen, in bytes.
    pub resident: u64,
    /// The number in the names of its claims.
    pub owner: Option<String>,
    /// Claims under its lease after it had ended with code 0, with the number of their elements.
    pub left: Vec<(String, usize)>,
    /// Its log.
    pub log: Vec<String>,
}

/// Everything.
#[derive(Debug)]
pub struct Evidence {
    /// As planned.
    pub plan: Plan,
    /// What was offered.
    pub offers: Vec<Offer>,
    /// What arrived, in the order of its arrival for each queue.
    pub arrivals: Vec<Arrival>,
    /// Jobs as consumers got them.
    pub handed: Vec<Handed>,
    /// Dead letters.
    pub dead: Vec<Dead>,
    /// Faults that happened.
    pub struck: Vec<Struck>,
    /// Processes.
    pub lives: Vec<Lived>,
    /// By how much the clock of the Redis with the queues was ahead from when on, in ms.
    pub clock: Vec<(i64, i64)>,
    /// When the processes of this test did not get their turn: from, till in ms.
    pub stalls: Vec<(i64, i64)>,
    /// What was not finished within the bound.
    pub stuck: Option<String>,
    /// Keys that should not be there after everything was settled.
    pub residue: Vec<String>,
    /// How long it took until all was settled.
    pub settled_after: Duration,
    /// Commands that Redis ran in a second without anything to do.
    pub idle_commands: f64,
}
