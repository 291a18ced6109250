//! The operator that asks a running daemon over its admin API.

mod client;
mod dead;

use std::io::Write;

use serde_json::Value;

pub use self::client::Daemon;
use self::client::part;
use super::dead::{Exported, Filter, LetterList, Letters, LineBatch, LineReport, Pace, Purged, Redriven, ShownLetters};
use super::error::Error;
use super::operator::{Asked, Operator, Watcher};
use super::overview::{Hold, QueueRow};

impl Daemon {
    /// Reads the settings that run, without secrets.
    ///
    /// # Errors
    ///
    /// When the daemon does not answer, or wants a token.
    pub async fn config(&self) -> Result<Value, Error> {
        self.get("/v1/config").await
    }

    /// Reads one queue.
    pub(super) async fn row(&self, queue: &str) -> Result<QueueRow, Error> {
        self.get(&format!("/v1/queues/{}", part(queue))).await
    }

    /// Reads why the daemon claims nothing from a queue, if it does not.
    pub(super) async fn hold(&self, queue: &str) -> Result<Option<Hold>, Error> {
        Ok(self.row(queue).await?.here.and_then(|here| here.held))
    }
}

impl Operator for Daemon {
    fn address(&self) -> String {
        Daemon::address(self)
    }

    fn connect(&self) -> Asked<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn letters<'a>(
        &'a self,
        queue: &'a str,
        filter: &'a Filter,
        limit: usize,
        watch: Watcher<'a>,
    ) -> Asked<'a, LetterList> {
        Box::pin(dead::letters(self, queue, filter, limit, watch))
    }

    fn show_letters<'a>(&'a self, queue: &'a str, which: &'a Letters, _limit: usize) -> Asked<'a, ShownLetters> {
        Box::pin(async move {
            match &which.ids[..] {
                [id] if which.filter.is_empty() => dead::show(self, queue, id).await,
                _ => Err(Error::invalid(
                    "show dead letters: a daemon shows one by its id; run the command without --daemon for a filter",
                )),
            }
        })
    }

    fn check_letters<'a>(&'a self, _queue: &'a str, _names: &'a [String]) -> Asked<'a, ()> {
        // The daemon checks each request.
        self.connect()
    }

    fn redrive<'a>(
        &'a self,
        queue: &'a str,
        which: &'a Letters,
        pace: Pace,
        watch: Watcher<'a>,
    ) -> Asked<'a, Redriven> {
        Box::pin(dead::redrive(self, queue, which, pace, watch))
    }

    fn purge<'a>(&'a self, queue: &'a str, which: &'a Letters, pace: Pace, watch: Watcher<'a>) -> Asked<'a, Purged> {
        Box::pin(dead::purge(self, queue, which, pace, watch))
    }

    fn export<'a>(
        &'a self,
        queue: &'a str,
        which: &'a Letters,
        watch: Watcher<'a>,
        out: &'a mut (dyn Write + Send),
    ) -> Asked<'a, Exported> {
        Box::pin(dead::export(self, queue, which, watch, out))
    }

    fn import_lines<'a>(&'a self, queue: &'a str, batch: &'a LineBatch) -> Asked<'a, LineReport> {
        Box::pin(dead::import_lines(self, queue, batch))
    }
}
