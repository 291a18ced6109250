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
use super::overview::{Hold, MOST, Overview, QueuePage, QueueRow, SinkList};
use super::queues::Queues;

/// Most queues that are read in a row.
const QUEUES: usize = 100_000;

impl Daemon {
    /// Reads the settings that run, without secrets.
    ///
    /// # Errors
    ///
    /// When the daemon does not answer, or wants a token.
    pub async fn config(&self) -> Result<Value, Error> {
        self.get("/v1/config").await
    }

    /// Reads every queue, page by page.
    async fn all_queues(&self) -> Result<Overview, Error> {
        let mut all = Overview::default();
        let mut after = String::new();
        loop {
            let answer: Value = self.get(&format!("/v1/queues?limit={MOST}&like=&after={after}")).await?;
            let page = Overview::read(&answer).ok_or_else(|| self.strange())?;
            all.queues.extend(page.queues);
            all.errors.extend(page.errors);
            (all.clocks, all.inputs) = (page.clocks, page.inputs);
            match page.next {
                Some(next) if all.queues.len() + all.errors.len() < QUEUES => after = part(&next),
                next => {
                    all.next = next;
                    return Ok(all);
                }
            }
        }
    }

    /// Reads one queue.
    pub(super) async fn row(&self, queue: &str) -> Result<QueueRow, Error> {
        let answer: Value = self.get(&format!("/v1/queues/{}", part(queue))).await?;
        QueueRow::read(&answer).ok_or_else(|| self.strange())
    }

    /// Reads why the daemon claims nothing from a queue, if it does not.
    pub(super) async fn hold(&self, queue: &str) -> Result<Option<Hold>, Error> {
        Ok(self.row(queue).await?.here.and_then(|here| here.held))
    }

    pub(super) async fn queues_and_sinks(&self) -> Result<(Overview, SinkList), Error> {
        let (queues, sinks) = tokio::join!(self.all_queues(), self.get("/v1/sinks"));
        Ok((queues?, sinks?))
    }
}

/// The page of queues as the query of a request.
fn query_of(which: &QueuePage) -> String {
    let QueuePage { after, like, limit, order, only } = which;
    let (after, like) = (part(after.as_deref().unwrap_or_default()), part(like));
    format!("limit={limit}&sort={}&show={}&like={like}&after={after}", order.as_str(), only.as_str())
}

impl Operator for Daemon {
    fn address(&self) -> String {
        Daemon::address(self)
    }

    fn connect(&self) -> Asked<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn queues(&self) -> Asked<'_, Queues> {
        Box::pin(async {
            let (Overview { queues, errors, clocks, inputs, .. }, SinkList { sinks }) = self.queues_and_sinks().await?;
            Ok(Queues { queues, topics: None, sinks: Some(sinks), errors, clocks, inputs })
        })
    }

    fn overview<'a>(&'a self, which: &'a QueuePage) -> Asked<'a, (Overview, Option<SinkList>)> {
        Box::pin(async move {
            let page = async { self.get::<Value>(&format!("/v1/queues?{}", query_of(which))).await };
            let (page, sinks) = tokio::join!(page, self.get("/v1/sinks"));
            Ok((Overview::read(&page?).ok_or_else(|| self.strange())?, Some(sinks?)))
        })
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
