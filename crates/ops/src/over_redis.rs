//! The operator that works on Redis itself.

use std::io::Write;

use tokio::sync::OnceCell;

use super::dead::{
    self, Exported, Filter, LetterList, Letters, LineBatch, LineReport, Pace, Purged, Redriven, ShownLetters, is_place,
};
use super::error::Error;
use super::named_daemon::NamedDaemon;
use super::operator::{Asked, Operator, Watcher};
use super::session::{Queue, Session, check_id, find};
use delaybridge_model::Config;

/// A configuration, and the connections to its Redis once they are needed: a mistake in an argument is reported without Redis.
pub struct OverRedis {
    config: Config,
    /// The person who asks.
    by: String,
    /// The daemon that is asked beside Redis by what only reads.
    daemon: NamedDaemon,
    session: OnceCell<Session>,
}

impl OverRedis {
    /// An operator with this configuration, for this person, and with this daemon.
    pub fn new(config: Config, by: String, daemon: NamedDaemon) -> OverRedis {
        OverRedis { config, by, daemon, session: OnceCell::new() }
    }

    async fn session(&self) -> Result<&Session, Error> {
        self.session.get_or_try_init(|| Session::open(self.config.clone(), &self.by)).await
    }

    async fn queue(&self, id: &str) -> Result<Queue, Error> {
        let spec = find(&self.config, id)?;
        self.session().await?.queue(spec).await
    }
}

impl Operator for OverRedis {
    fn address(&self) -> String {
        "Redis".to_owned()
    }

    fn without_daemon(&self) -> Option<String> {
        self.daemon.problem()
    }

    fn connect(&self) -> Asked<'_, ()> {
        Box::pin(async { self.session().await.map(drop) })
    }

    fn letters<'a>(
        &'a self,
        queue: &'a str,
        filter: &'a Filter,
        limit: usize,
        watch: Watcher<'a>,
    ) -> Asked<'a, LetterList> {
        Box::pin(async move { dead::list(&self.queue(queue).await?, filter, limit, watch).await })
    }

    fn show_letters<'a>(&'a self, queue: &'a str, which: &'a Letters, limit: usize) -> Asked<'a, ShownLetters> {
        Box::pin(async move {
            self.check_letters(queue, &which.ids).await?;
            dead::show(&self.queue(queue).await?, which, limit).await
        })
    }

    fn check_letters<'a>(&'a self, queue: &'a str, names: &'a [String]) -> Asked<'a, ()> {
        Box::pin(async move {
            for name in names.iter().filter(|name| !is_place(name)) {
                check_id(&self.config, queue, name).map_err(|error| {
                    Error::invalid(format!("{}; a letter's own name is its stream id (1795251632252-0)", error.message))
                })?;
            }
            self.queue(queue).await.map(drop)
        })
    }

    fn redrive<'a>(
        &'a self,
        queue: &'a str,
        which: &'a Letters,
        pace: Pace,
        watch: Watcher<'a>,
    ) -> Asked<'a, Redriven> {
        Box::pin(async move {
            let queue = self.queue(queue).await?;
            let done = dead::redrive(&queue, which, pace, watch).await;
            if pace.dry_run {
                return done;
            }
            queue
                .tell("redrive", &which.words(), done, |done| {
                    format!("{} matched, {} redriven", done.matched, done.redriven)
                })
                .await
        })
    }

    fn purge<'a>(&'a self, queue: &'a str, which: &'a Letters, pace: Pace, watch: Watcher<'a>) -> Asked<'a, Purged> {
        Box::pin(async move {
            let queue = self.queue(queue).await?;
            let done = dead::purge(&queue, which, pace, watch).await;
            if pace.dry_run {
                return done;
            }
            queue
                .tell("purge", &which.words(), done, |done| format!("{} matched, {} purged", done.matched, done.purged))
                .await
        })
    }

    fn export<'a>(
        &'a self,
        queue: &'a str,
        which: &'a Letters,
        watch: Watcher<'a>,
        out: &'a mut (dyn Write + Send),
    ) -> Asked<'a, Exported> {
        Box::pin(async move { dead::export(&self.queue(queue).await?, which, watch, out).await })
    }

    fn import_lines<'a>(&'a self, queue: &'a str, batch: &'a LineBatch) -> Asked<'a, LineReport> {
        Box::pin(async move {
            let queue = self.queue(queue).await?;
            let report = Ok(dead::import_lines(&queue, batch).await);
            if batch.dry_run {
                return report;
            }
            queue.tell("import", &batch.words(), report, LineReport::words).await
        })
    }
}
