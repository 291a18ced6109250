//! The use cases of the command line that Redis and a running daemon both answer, with results of the same shapes.
//!
//! [`OverRedis`](super::OverRedis) carries them out itself, [`Daemon`](super::remote::Daemon) asks a daemon's admin API. A command asks
//! for an operator once, and does not know which of the two it has.

use std::io::Write;

use futures_util::future::BoxFuture;

use super::dead::{Exported, Filter, LetterList, Letters, LineBatch, LineReport, Pace, Purged, Redriven, ShownLetters};
use super::error::Error;
use super::progress::ProgressWatch;

/// A call of an operator.
pub type Asked<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// The person who waits for a call.
pub type Watcher<'a> = &'a mut dyn ProgressWatch;

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

    /// Lists at most `limit` dead letters that fit the filter, the latest first.
    fn letters<'a>(
        &'a self,
        queue: &'a str,
        filter: &'a Filter,
        limit: usize,
        watch: Watcher<'a>,
    ) -> Asked<'a, LetterList>;

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
