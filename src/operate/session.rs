//! What every operation on Redis begins with: one connection, and the queue that is meant.

use std::sync::Arc;

use bytes::Bytes;

use super::error::{Attempt, Error};
use super::jobs::Jobs;
use super::words;
use crate::config::{Config, QueueSpec, RedisTarget};
use crate::link::{Conn, ConnectError, Link, LinkOptions, LinkState};
use crate::message::Identity;
use crate::source;
use crate::source::ledger::{DeadLetter, Ledger, Order, Place};

/// A configuration with a connection to its Redis.
pub struct Session {
    /// The configuration.
    pub config: Config,
    /// The connection.
    pub conn: Conn,
    /// Keeps the connection.
    link: Link,
}

/// One queue of a configuration, and the connection that reaches it.
pub struct Queue {
    /// Its settings.
    pub spec: Arc<QueueSpec>,
    pub(super) ledger: Ledger,
    pub(super) conn: Conn,
}

impl Session {
    /// Connects; one attempt, because a person waits for it.
    ///
    /// # Errors
    ///
    /// When the connection cannot be made.
    pub async fn open(config: Config) -> Result<Session, Error> {
        let link = link(&config.redis);
        let conn = connected(&link).await?;
        Ok(Session { config, conn, link })
    }

    /// The job queue, if the configuration has one.
    pub(super) fn jobs(&self) -> Option<Jobs> {
        Some(Jobs::over(self.link.clone(), self.config.jobs.clone()?))
    }

    /// Finds the queue and connects, in this order: a misspelt queue is reported without Redis.
    ///
    /// # Errors
    ///
    /// When the configuration has no such queue, and when the connection cannot be made.
    pub async fn on_queue(config: Config, id: &str) -> Result<(Session, Queue), Error> {
        let spec = find(&config, id)?;
        let session = Session::open(config).await?;
        let queue = Queue::new(spec, session.conn.clone());
        Ok((session, queue))
    }
}

impl Queue {
    /// The queue with these settings, over this connection.
    pub fn new(spec: Arc<QueueSpec>, conn: Conn) -> Queue {
        Queue { ledger: ledger(&spec), spec, conn }
    }

    /// Its id in the configuration.
    pub fn id(&self) -> &str {
        &self.spec.id
    }

    /// The identity of the element that a person means.
    ///
    /// # Errors
    ///
    /// When no element of the queue can be called so.
    pub(super) fn identity(&self, text: &str) -> Result<Identity, Error> {
        identity(&self.spec, text)
    }

    /// Reads every member of a place, in its order.
    pub(super) async fn each_member(&self, place: Place, what: &str, mut see: impl FnMut(Bytes)) -> Result<(), Error> {
        let mut first = 0;
        loop {
            let page = self.ledger.members(&self.conn, place, first).await.attempt(what)?.members;
            if page.is_empty() {
                return Ok(());
            }
            first += page.len();
            page.into_iter().for_each(|(_, member)| see(member));
        }
    }

    /// Reads every dead letter, the oldest first, page by page.
    pub(super) async fn each_letter(
        &self,
        what: &str,
        mut see: impl AsyncFnMut(Vec<DeadLetter>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut letters = self.ledger.dead_letters(&self.conn, Order::Oldest).await.attempt(what)?;
        loop {
            let page = letters.next(&self.conn, usize::MAX).await.attempt(what)?;
            if page.is_empty() {
                return Ok(());
            }
            see(page).await?;
        }
    }
}

/// Refuses a text that can be no id of an element of this queue, without Redis.
///
/// # Errors
///
/// When it is none, and when the configuration has no such queue.
pub fn check_id(config: &Config, queue: &str, text: &str) -> Result<(), Error> {
    identity(&*find(config, queue)?, text).map(drop)
}

fn identity(spec: &QueueSpec, text: &str) -> Result<Identity, Error> {
    source::build(&spec.source).identity(text).ok_or_else(|| {
        let ids = match spec.source.redisson() {
            Some(_) => "an element's id is 16 hexadecimal digits",
            None => "an element's id is 16 hexadecimal digits, or the text that `id` of the source makes",
        };
        Error::invalid(format!("read id `{text}`: {ids}, as `delaybridge peek {}` shows it", spec.id))
    })
}

/// The queue in Redis. An operator claims nothing, so it owns nothing: zeros.
pub(super) fn ledger(spec: &QueueSpec) -> Ledger {
    Ledger::new(source::build(&spec.source), [0; 8])
}

fn find(config: &Config, id: &str) -> Result<Arc<QueueSpec>, Error> {
    if let Some(spec) = config.queues.iter().find(|spec| &*spec.id == id) {
        return Ok(spec.clone());
    }
    let attempt = format!("find queue `{id}`: the configuration has no queue with this id");
    if let Some(spec) = config.queues.iter().find(|spec| spec.source.name() == id) {
        return Err(Error::invalid(format!("{attempt}; `{id}` is the name in Redis of the queue `{}`", spec.id)));
    }
    let names = || config.queues.iter().map(|spec| &*spec.id);
    Err(Error::invalid(match words::similar(id, names()).as_slice() {
        [] => format!("{attempt}; it has: {}", names().collect::<Vec<_>>().join(", ")),
        near => format!("{attempt}; did you mean `{}`?", near.join("` or `")),
    }))
}

/// A link under the command line's name.
pub(super) fn link(target: &RedisTarget) -> Link {
    let options = LinkOptions { client_name: "delaybridge-cli".to_owned(), ..LinkOptions::default() };
    Link::start(target, options)
}

/// The link's first connection, or why there is none.
pub(super) async fn connected(link: &Link) -> Result<Conn, Error> {
    first(link).await.map_err(|error| Error::failed(error.to_string()))
}

/// The link's first connection; a failure is reported, not waited for.
pub(super) async fn first(link: &Link) -> Result<Conn, Arc<ConnectError>> {
    let mut state = link.state();
    loop {
        // Marked as seen before the connection is read: a change in between wakes the wait below at once. An attempt
        // ends by itself after `connect_timeout`.
        let failed = match &*state.borrow_and_update() {
            LinkState::Connecting { last_error, .. } => last_error.clone(),
            LinkState::Up { .. } => None,
        };
        if let Some(conn) = link.current() {
            return Ok(conn);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
