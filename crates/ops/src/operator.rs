//! The use cases of the command line that Redis and a running daemon both answer, with results of the same shapes.
//!
//! [`OverRedis`](super::OverRedis) carries them out itself, [`Daemon`](super::remote::Daemon) asks a daemon's admin API. A command asks
//! for an operator once, and does not know which of the two it has.

use std::io::Write;

use futures_util::future::BoxFuture;

use super::audit::AuditTrail;
use super::dead::{
    Counted, Exported, Filter, LetterList, Letters, LineBatch, LineReport, Pace, Purged, Redriven, ShownLetters,
};
use super::element::{ActOutcome, Action, ElementWhy, FoundElement};
use super::error::Error;
use super::fleet::Fleet;
use super::forecast::{Forecast, ForecastAsk};
use super::jobs::FoundJobs;
use super::overview::{Overview, QueuePage, SinkList};
use super::pause::{PauseChanges, PauseReason, PauseTarget};
use super::peek::{Elements, Peek};
use super::progress::ProgressWatch;
use super::queues::Queues;
use super::search::{Hits, Search};

/// A call of an operator.
pub type Asked<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// The person who waits for a call.
pub type Watcher<'a> = &'a mut dyn ProgressWatch;

/// The contents of a queue, or of a topic of the job queue.
pub enum Peeked {
    /// Elements of a queue.
    Elements(Elements),
    /// Jobs of a topic.
    Jobs(FoundJobs),
}

/// Redis, or a daemon.
///
/// Every call fails when Redis, or the daemon, does not answer, and when the configuration has no such queue.
pub trait Operator: Send + Sync {
    /// The name of the server that is asked, for a person.
    fn address(&self) -> String;

    /// Why the daemon that the configuration names added nothing to the last answer; none where it did, and where none is named.
    fn without_daemon(&self) -> Option<String> {
        None
    }

    /// Connects, where one connection serves many calls, so that a failure is reported first.
    fn connect(&self) -> Asked<'_, ()>;

    /// Reads the numbers of every queue, the topics and the sinks, as far as they are known.
    fn queues(&self) -> Asked<'_, Queues>;

    /// Reads what `top` shows: a page of the queues, and the sinks of a daemon. Redis knows no order and no filter: it answers all queues.
    fn overview<'a>(&'a self, which: &'a QueuePage) -> Asked<'a, (Overview, Option<SinkList>)>;

    /// Reads the first elements in a state. A daemon answers the first 4 KiB of each payload.
    fn peek<'a>(&'a self, queue: &'a str, ask: &'a Peek) -> Asked<'a, Peeked>;

    /// Finds an element by its id.
    fn find<'a>(&'a self, queue: &'a str, id: &'a str) -> Asked<'a, FoundElement>;

    /// Explains where an element is and what it waits for.
    fn why<'a>(&'a self, queue: &'a str, id: &'a str) -> Asked<'a, ElementWhy>;

    /// Searches elements by fields of their payload. A daemon answers the first 4 KiB of each payload.
    fn search<'a>(&'a self, queue: &'a str, ask: &'a Search, watch: Watcher<'a>) -> Asked<'a, Hits>;

    /// Makes a forecast of a queue.
    fn forecast<'a>(&'a self, queue: &'a str, ask: &'a ForecastAsk) -> Asked<'a, Forecast>;

    /// Reads every daemon of the fleet.
    fn fleet(&self) -> Asked<'_, Fleet>;

    /// Reads the latest changes of operators, of a queue or of all.
    fn audit<'a>(&'a self, queue: Option<&'a str>, most: usize) -> Asked<'a, AuditTrail>;

    /// Reschedules, cancels or kills an element.
    fn act<'a>(&'a self, queue: &'a str, id: &'a str, action: Action<'a>) -> Asked<'a, ActOutcome>;

    /// Pauses a queue or a sink.
    fn pause<'a>(&'a self, target: PauseTarget<'a>, reason: &'a PauseReason<'a>) -> Asked<'a, PauseChanges>;

    /// Ends a pause.
    fn resume<'a>(&'a self, target: PauseTarget<'a>) -> Asked<'a, PauseChanges>;

    /// Lists at most `limit` dead letters that fit the filter, the latest first.
    fn letters<'a>(
        &'a self,
        queue: &'a str,
        filter: &'a Filter,
        limit: usize,
        watch: Watcher<'a>,
    ) -> Asked<'a, LetterList>;

    /// Counts dead letters by what they died of.
    fn count_letters<'a>(&'a self, queue: &'a str, filter: &'a Filter, watch: Watcher<'a>) -> Asked<'a, Counted>;

    /// Shows everything that letters keep. A daemon shows one, by its id.
    fn show_letters<'a>(&'a self, queue: &'a str, which: &'a Letters, limit: usize) -> Asked<'a, ShownLetters>;

    /// Refuses names that no letter can have, as far as that is known, and connects.
    fn check_letters<'a>(&'a self, queue: &'a str, names: &'a [String]) -> Asked<'a, ()>;

    /// Redrives dead letters. Repeated, it goes on with the rest.
    fn redrive<'a>(&'a self, queue: &'a str, which: &'a Letters, pace: Pace, watch: Watcher<'a>)
    -> Asked<'a, Redriven>;

    /// Removes dead letters for good. Repeated, it goes on with the rest.
    fn purge<'a>(&'a self, queue: &'a str, which: &'a Letters, pace: Pace, watch: Watcher<'a>) -> Asked<'a, Purged>;

    /// Writes the letters that are meant, the oldest first, one object a line. They stay where they are.
    fn export<'a>(
        &'a self,
        queue: &'a str,
        which: &'a Letters,
        watch: Watcher<'a>,
        out: &'a mut (dyn Write + Send),
    ) -> Asked<'a, Exported>;

    /// Makes dead letters of lines of an export.
    fn import_lines<'a>(&'a self, queue: &'a str, batch: &'a LineBatch) -> Asked<'a, LineReport>;
}
