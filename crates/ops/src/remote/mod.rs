//! The operator that asks a running daemon over its admin API.

mod client;
mod dead;
mod elements;

use std::io::Write;

use serde_json::{Value, json};

pub use self::client::Daemon;
use self::client::part;
use super::audit::AuditTrail;
use super::dead::{
    Counted, Exported, Filter, LetterList, Letters, LineBatch, LineReport, Pace, Purged, Redriven, ShownLetters,
};
use super::element::{ActOutcome, Action, ElementWhy, FoundElement};
use super::error::Error;
use super::fleet::Fleet;
use super::forecast::{Forecast, ForecastAsk};
use super::operator::{Asked, Operator, Peeked, Watcher};
use super::overview::{Hold, MOST, Overview, QueuePage, QueueRow, SinkList};
use super::pause::{PauseBody, PauseChanges, PauseEnd, PauseReason, PauseTarget};
use super::peek::Peek;
use super::queues::Queues;
use super::search::{Hits, Search};

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

fn path_of(target: PauseTarget<'_>, verb: &str) -> String {
    match target {
        PauseTarget::Queue(name) => format!("/v1/queues/{}/{verb}", part(name)),
        PauseTarget::Sink(name) => format!("/v1/sinks/{}/{verb}", part(name)),
    }
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

    fn peek<'a>(&'a self, queue: &'a str, ask: &'a Peek) -> Asked<'a, Peeked> {
        Box::pin(async move { Ok(Peeked::Elements(elements::peek(self, queue, ask.state, ask.limit).await?)) })
    }

    fn find<'a>(&'a self, queue: &'a str, id: &'a str) -> Asked<'a, FoundElement> {
        Box::pin(async move {
            let found = elements::find(self, queue, id).await?;
            Ok(FoundElement { held: self.hold(queue).await?, ..found })
        })
    }

    fn why<'a>(&'a self, queue: &'a str, id: &'a str) -> Asked<'a, ElementWhy> {
        Box::pin(async move { self.get(&format!("/v1/queues/{}/elements/{}/why", part(queue), part(id))).await })
    }

    fn search<'a>(&'a self, queue: &'a str, ask: &'a Search, watch: Watcher<'a>) -> Asked<'a, Hits> {
        Box::pin(elements::search(self, queue, ask, watch))
    }

    fn forecast<'a>(&'a self, queue: &'a str, ask: &'a ForecastAsk) -> Asked<'a, Forecast> {
        Box::pin(async move { self.get(&format!("/v1/queues/{}/forecast?{}", part(queue), ask.query())).await })
    }

    fn fleet(&self) -> Asked<'_, Fleet> {
        Box::pin(self.get("/v1/fleet"))
    }

    fn audit<'a>(&'a self, queue: Option<&'a str>, most: usize) -> Asked<'a, AuditTrail> {
        let queue = queue.map(|queue| format!("&queue={}", part(queue))).unwrap_or_default();
        Box::pin(async move { self.get(&format!("/v1/audit?limit={most}{queue}")).await })
    }

    fn act<'a>(&'a self, queue: &'a str, id: &'a str, action: Action<'a>) -> Asked<'a, ActOutcome> {
        Box::pin(elements::act(self, queue, id, action))
    }

    fn pause<'a>(&'a self, target: PauseTarget<'a>, reason: &'a PauseReason<'a>) -> Asked<'a, PauseChanges> {
        let (length, until_ms) = match reason.end {
            PauseEnd::Never => (None, None),
            PauseEnd::After(time) => (Some(humantime::format_duration(time).to_string()), None),
            PauseEnd::At(ms) => (None, Some(ms)),
        };
        let body = PauseBody { why: Some(reason.why.to_owned()), by: Some(reason.by.to_owned()), length, until_ms };
        Box::pin(async move { self.post(&path_of(target, "pause"), &body).await })
    }

    fn resume<'a>(&'a self, target: PauseTarget<'a>) -> Asked<'a, PauseChanges> {
        Box::pin(async move { self.post(&path_of(target, "resume"), &json!({})).await })
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

    fn count_letters<'a>(&'a self, queue: &'a str, filter: &'a Filter, _watch: Watcher<'a>) -> Asked<'a, Counted> {
        Box::pin(dead::count(self, queue, filter))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_place_in_the_path() {
        assert_eq!(path_of(PauseTarget::Queue("a/../b?x"), "pause"), "/v1/queues/a%2F%2E%2E%2Fb%3Fx/pause");
    }
}
