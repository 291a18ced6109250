//! The begin of every operation on Redis: one connection, and the queue that is meant.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;

use super::error::{Attempted, Error, explained};
use super::plural;
use delaybridge_core::message::Identity;
use delaybridge_ledger::{DeadLetter, DeadLetters, Ledger, Order, Place};
use delaybridge_link::RedisTarget;
use delaybridge_link::{Conn, ConnectError, LinkOptions, Redis};
use delaybridge_model::{Config, QueueSpec};

/// The name of the command line towards Redis.
const CLIENT: &str = "delaybridge-cli";

/// A configuration with a connection to its Redis.
pub struct Session {
    /// The configuration.
    pub config: Config,
    /// The connections, by the name of the Redis.
    servers: Vec<(Arc<str>, Redis)>,
    /// The person who acts over Redis, where no daemon logs it.
    by: Option<Arc<str>>,
}

/// One queue of a configuration, and the connection that reaches it.
pub struct Queue {
    /// The settings.
    pub spec: Arc<QueueSpec>,
    pub(super) ledger: Ledger,
    pub(super) conn: Conn,
    /// The person who acts over Redis.
    pub(super) by: Option<Arc<str>>,
}

impl Session {
    /// Connects for this person; one attempt, because a person waits for it. Of several Redis one is enough: what the others hold cannot be
    /// seen.
    pub async fn open(config: Config, by: &str) -> Result<Session, Error> {
        let session = Session { by: Some(by.into()), ..Session::start(config, CLIENT) };
        let attempts = join_all(session.servers.iter().map(|(_, redis)| connected(redis))).await;
        let (made, mut failed): (Vec<_>, Vec<_>) = attempts.into_iter().partition(Result::is_ok);
        match (made.is_empty(), failed.pop()) {
            (true, Some(Err(error))) => Err(error),
            _ => Ok(session),
        }
    }

    /// Begins to connect, under this name, and waits for nothing.
    pub fn start(config: Config, client: &str) -> Session {
        let of = |(name, target): (&Arc<str>, &RedisTarget)| (name.clone(), redis_as(client, target));
        Session { servers: config.redis.iter().map(of).collect(), config, by: None }
    }

    /// Returns the same connections for another configuration of the same Redis.
    pub fn with(&self, config: Config) -> Session {
        Session { config, servers: self.servers.clone(), by: self.by.clone() }
    }

    /// Returns the connections to the Redis of this name.
    pub(super) fn redis(&self, name: &str) -> &Redis {
        let found = self.servers.iter().find(|(known, _)| &**known == name);
        &found.unwrap_or(&self.servers[0]).1
    }

    /// Finds the queue and connects, in this order: a misspelt queue is reported without Redis.
    ///
    /// # Errors
    ///
    /// When the configuration has no such queue, and when the connection cannot be made.
    pub async fn on_queue(config: Config, id: &str, by: &str) -> Result<(Session, Queue), Error> {
        let spec = find(&config, id)?;
        let session = Session::open(config, by).await?;
        let queue = session.queue(spec).await?;
        Ok((session, queue))
    }

    /// Returns a queue, over the connection to the server that has it.
    pub async fn queue(&self, spec: Arc<QueueSpec>) -> Result<Queue, Error> {
        let redis = self.redis(&spec.redis).clone();
        let queue = queue(&redis, spec).await.map_err(|error| Error::failed(error.to_string()))?;
        queue.ledger.check_prefix(&queue.conn).await.map_err(|error| Error::failed(explained(&error)))?;
        Ok(Queue { by: self.by.clone(), ..queue })
    }
}

impl Queue {
    /// Returns the queue with these settings, over this connection.
    pub fn new(spec: Arc<QueueSpec>, conn: Conn) -> Queue {
        Queue { ledger: ledger(&spec), spec, conn, by: None }
    }

    /// Returns the queue's id in the configuration.
    pub fn id(&self) -> &str {
        &self.spec.id
    }

    /// Connected daemons that deliver from it; `None` where that cannot be asked.
    pub async fn daemons(&self) -> Option<u64> {
        self.ledger.daemons(&self.conn).await.ok()
    }

    /// Returns the identity of the element that a person means.
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

    /// Returns the dead letters, the oldest first, to be read page by page; `what` names the read in an error.
    pub(super) async fn letter_pages<'a>(&'a self, what: &'a str) -> Result<LetterPages<'a>, Error> {
        let letters = self.ledger.dead_letters(&self.conn, Order::Oldest).await.attempt(what)?;
        Ok(LetterPages { conn: &self.conn, letters, what })
    }
}

/// The dead letters of a queue, page by page.
pub(super) struct LetterPages<'a> {
    conn: &'a Conn,
    letters: DeadLetters<'a>,
    what: &'a str,
}

impl LetterPages<'_> {
    pub(super) async fn next(&mut self) -> Result<Option<Vec<DeadLetter>>, Error> {
        let page = self.letters.next(self.conn, usize::MAX).await.attempt(self.what)?;
        Ok((!page.is_empty()).then_some(page))
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
    spec.source.build().search().identity(text).ok_or_else(|| {
        let ids = match spec.source.redisson() {
            Some(_) => "an element's id is 16 hexadecimal digits",
            None => "an element's id is 16 hexadecimal digits, or the text that `id` of the source makes",
        };
        Error::unknown(format!("read id `{text}`: {ids}, as `delaybridge peek {}` shows it", spec.id))
    })
}

/// Returns the queue in Redis. An operator claims nothing, so it owns nothing: zeros.
pub(super) fn ledger(spec: &QueueSpec) -> Ledger {
    Ledger::new(spec.source.build(), [0; 8])
}

/// Returns a queue, over the connection to the server that has it.
pub(super) async fn queue(redis: &Redis, spec: Arc<QueueSpec>) -> Result<Queue, Arc<ConnectError>> {
    let ledger = ledger(&spec);
    let conn = at(redis, &ledger.keys.leases).await?;
    Ok(Queue { spec, ledger, conn, by: None })
}

/// Returns the queue with this id.
///
/// # Errors
///
/// When the configuration has none; the one that was probably meant.
pub fn find(config: &Config, id: &str) -> Result<Arc<QueueSpec>, Error> {
    if let Some(spec) = config.queues.iter().find(|spec| &*spec.id == id) {
        return Ok(spec.clone());
    }
    let attempt = format!("find queue `{id}`: the configuration has no queue with this id");
    if let Some(spec) = config.queues.iter().find(|spec| spec.source.name() == id) {
        return Err(Error::unknown(format!("{attempt}; `{id}` is the name in Redis of the queue `{}`", spec.id)));
    }
    let names = || config.queues.iter().map(|spec| &*spec.id);
    Err(Error::unknown(match plural::similar(id, names()).as_slice() {
        [] if config.queues.is_empty() => format!("{attempt}; it has none"),
        [] => format!("{attempt}; it has: {}", names().collect::<Vec<_>>().join(", ")),
        near => format!("{attempt}; did you mean `{}`?", near.join("` or `")),
    }))
}

/// Returns a Redis under the command line's name.
pub(super) fn redis(target: &RedisTarget) -> Redis {
    redis_as(CLIENT, target)
}

/// Returns a Redis under this name of a client.
fn redis_as(client: &str, target: &RedisTarget) -> Redis {
    let options = LinkOptions { client_name: client.to_owned(), ..LinkOptions::default() };
    Redis::start(target, options)
}

/// The first connection to it, or why there is none.
pub(super) async fn connected(redis: &Redis) -> Result<Conn, Error> {
    first(redis).await.map_err(|error| Error::failed(error.to_string()))
}

/// Returns the first connection to it; a failure is reported, not waited for. An attempt ends by itself after
/// `connect_timeout`.
pub(super) async fn first(redis: &Redis) -> Result<Conn, Arc<ConnectError>> {
    or_wait(redis.first().await).await
}

/// Returns the connection to the server that has this key.
pub(super) async fn at(redis: &Redis, key: impl AsRef<[u8]>) -> Result<Conn, Arc<ConnectError>> {
    or_wait(redis.at(key).first().await).await
}

/// Returns the connections to every server that has keys.
pub(super) async fn everywhere(redis: &Redis) -> Result<Vec<Conn>, Arc<ConnectError>> {
    or_wait(redis.first_to_all().await).await
}

/// Nothing closes the connections while a command runs.
async fn or_wait<T>(first: Result<T, Option<Arc<ConnectError>>>) -> Result<T, Arc<ConnectError>> {
    match first {
        Ok(got) => Ok(got),
        Err(Some(error)) => Err(error),
        Err(None) => std::future::pending().await,
    }
}
