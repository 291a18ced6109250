//! Faults that a look suspects, each with the script that checks and repairs it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;

use crate::args::truth;
use crate::claims::ClaimName;
use crate::error::StoreError;
use crate::scripts::whole;
use delaybridge_link::{Clock, Conn, Script};

/// Suspects of one kind that one look keeps; the rest is counted.
pub const MOST: usize = 2_000;
/// Elements that are compared with each other; each takes 16 bytes.
pub const COMPARED: usize = 4_000_000;

/// A kind of inconsistency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A key of the queue holds another type.
    ForeignType,
    /// A key of the source with a time to live.
    Expiring,
    /// Keys of a claim without its lease.
    ClaimWithoutLease,
    /// A lease that is over, of a claim without keys.
    LeaseWithoutClaim,
    /// A lease that ends so late that no daemon wrote it.
    LeaseTooLong,
    /// A claim with a name of another version.
    UnknownClaim,
    /// The same element in two places.
    TwoPlaces,
    /// An entry with a header of another version.
    UnknownEntry,
    /// A member of the retry zset without a header.
    EntryWithoutHeader,
    /// A scheduled member in no format of the source.
    UnreadableMember,
    /// An entry of Redisson's list that is nowhere else.
    Orphan,
    /// An entry of Redisson's list that was claimed, and that is no recorded ghost.
    UnrecordedGhost,
    /// A scheduled element that is not in Redisson's list.
    NotListed,
    /// A turn of the sweep that its daemon left.
    SweepAbandoned,
    /// A state of the sweep that cannot be read.
    SweepUnreadable,
    /// A pause that cannot be read.
    PauseUnreadable,
    /// An id without a job.
    IdWithoutBody,
    /// A job without an id.
    BodyWithoutId,
    /// A job of a topic with an id, a record or a state that cannot be read.
    UnreadableJob,
    /// A member of a topic's order of priorities without a waiting job.
    StrayPriority,
    /// A waiting job that has another place in the order of priorities than its own priority says.
    MisplacedPriority,
    /// A limit of a topic that is no number.
    UnreadableLimit,
    /// A member of the index of topics that is no name.
    UnreadableTopic,
}

/// A script's call that checks a suspect: with `1` as the first argument it repairs it too. It answers 1 if the fault was
/// there, and sent twice it answers 0.
#[derive(Debug, Clone)]
pub struct Check {
    script: &'static LazyLock<Script>,
    keys: Vec<Bytes>,
    args: Vec<Bytes>,
}

/// The way in which a suspect is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// By the script that checks it.
    Script,
    /// By a turn of the sweep.
    Turn,
    /// Not: in these words, because.
    Kept(&'static str),
}

/// Something that looks wrong.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The kind of fault.
    pub fault: Fault,
    /// The thing that is wrong: ids and names, no payload.
    pub subject: String,
    /// The way in which it is repaired.
    pub repair: Repair,
    check: Check,
}

impl Check {
    /// Creates the call of this script. Its own arguments come behind the one that says whether it repairs.
    pub fn new(script: &'static LazyLock<Script>, keys: Vec<Bytes>, args: Vec<Bytes>) -> Self {
        Check { script, keys, args }
    }

    async fn run(&self, conn: &Conn, repair: &'static [u8]) -> Result<bool, StoreError> {
        let args: Vec<_> = std::iter::once(Bytes::from_static(repair)).chain(self.args.iter().cloned()).collect();
        Ok(truth("fsck", conn.script(self.script, &self.keys, &args).await?)?)
    }
}

impl Suspect {
    /// Creates a suspect.
    pub fn new(fault: Fault, subject: impl Into<String>, repair: Repair, check: Check) -> Self {
        Suspect { fault, subject: subject.into(), repair, check }
    }

    /// Returns whether the fault is there now.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn is_there(&self, conn: &Conn) -> Result<bool, StoreError> {
        self.check.run(conn, b"0").await
    }

    /// Repairs it, if it is repaired by its script; `false` when the fault was not there any more.
    ///
    /// # Errors
    ///
    /// Those of the connection. After any error it may be sent again.
    pub async fn mend(&self, conn: &Conn) -> Result<bool, StoreError> {
        self.check.run(conn, b"1").await
    }
}

/// The suspects that a look has found so far.
pub struct Found<'a> {
    /// The suspects.
    pub suspects: Vec<Suspect>,
    /// The number of suspects of each kind, those that are not kept among them.
    pub seen: BTreeMap<Fault, usize>,
    /// Elements, entries and jobs that were looked at.
    pub looked_at: u64,
    /// The faults that were not looked for, and why.
    pub unchecked: Vec<String>,
    /// Claims that have no lease: what they hold is held all the same.
    pub(super) unleased: Vec<ClaimName>,
    progress: &'a mut (dyn FnMut(u64) + Send),
}

impl<'a> Found<'a> {
    /// Creates an empty result. `progress` hears how many elements were looked at.
    pub fn new(progress: &'a mut (dyn FnMut(u64) + Send)) -> Self {
        Found {
            suspects: Vec::new(),
            seen: BTreeMap::new(),
            looked_at: 0,
            unchecked: Vec::new(),
            unleased: Vec::new(),
            progress,
        }
    }

    /// Adds one suspect.
    pub fn add(&mut self, suspect: Suspect) {
        let seen = self.seen.entry(suspect.fault).or_default();
        *seen += 1;
        if *seen <= MOST {
            self.suspects.push(suspect);
        }
    }

    /// Adds to the number of elements looked at, and reports it.
    pub fn looked(&mut self, elements: usize) {
        self.looked_at += elements as u64;
        (self.progress)(self.looked_at);
    }

    /// Notes something that was not looked for.
    pub fn not_checked(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.unchecked.contains(&what) {
            self.unchecked.push(what);
        }
    }
}

/// The settings that a look has to know.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The lease of the queue's claims.
    pub lease: Duration,
    /// Time after the end of a lease in which its claim may still run.
    pub grace: Duration,
    /// Names of sinks that may be paused.
    pub sinks: Vec<Arc<str>>,
}

/// Returns a script of this kind.
pub fn script(name: &str, body: &str) -> Script {
    Script::new(name, whole(body, Clock::Redis))
}
