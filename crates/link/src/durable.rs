//! Waits until the writes of a connection are on replicas, or on disk.
//!
//! `WAIT` counts the replicas that have the last write of its own connection, so it must follow the write there, and it
//! blocks that connection. So durable writes have connections of their own. Many callers share one `WAIT`: one at a
//! time is outstanding on a connection, and it confirms all writes that were answered before it was sent.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::FromRedisValue;
use tokio::sync::{mpsc, oneshot};

use super::LinkOptions;
pub use super::config::durability::Durability;
use super::conn::Conn;
use super::error::{LinkError, NoAnswer};
use super::topology::{Place, Redis};

/// Maximum number of callers that one `WAIT` serves; further ones wait for the next.
const CALLERS: usize = 1024;
/// Time for which a caller waits for a connection.
const CONNECT: Duration = Duration::from_millis(500);

/// The result of a write that did not become durable within the time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    need: Durability,
    /// Number of replicas that have it.
    replicas: u32,
    /// Whether it is in the master's append-only file, if that was required.
    on_disk: bool,
}

impl Shortfall {
    /// Creates a shortfall with this number of replicas and no file.
    pub fn of(need: Durability, replicas: u32) -> Shortfall {
        Shortfall { need, replicas, on_disk: false }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortfall { need, replicas, on_disk } = self;
        if need.aof && !on_disk {
            return write!(f, "the append-only file of the master did not have it within {:?}", need.timeout);
        }
        let where_to = if need.aof { "have it on disk" } else { "have it" };
        write!(f, "{replicas} of {} replicas {where_to} within {:?}", need.replicas, need.timeout)
    }
}

/// Additional connections to a Redis, for durable writes. Clones share them.
#[derive(Debug, Clone)]
pub struct DurableRedis {
    redis: Redis,
    need: Durability,
    /// One for each connection in use; ended ones are removed when the next is added.
    waiters: Arc<Mutex<Vec<Waiter>>>,
}

/// The connection for a key, for durable writes.
#[derive(Debug, Clone)]
pub struct Durable {
    place: Place,
    all: DurableRedis,
}

/// The queue of callers that wait for one connection's `WAIT`.
#[derive(Debug, Clone)]
struct Waiter {
    conn: Conn,
    ask: mpsc::Sender<oneshot::Sender<Answer>>,
    /// Whether the last result was a shortfall.
    short: Arc<AtomicBool>,
}

/// The result of a `WAIT`.
type Answer = Result<Result<(), Shortfall>, LinkError>;

impl DurableRedis {
    /// Opens additional connections to the servers of `redis`.
    pub fn beside(redis: &Redis, options: LinkOptions, need: Durability) -> DurableRedis {
        DurableRedis { redis: redis.beside(options), need, waiters: Arc::default() }
    }

    /// Returns the durable connection for this key, and for all keys with the same hash tag.
    pub fn at(&self, key: impl AsRef<[u8]>) -> Durable {
        Durable { place: self.redis.at(key), all: self.clone() }
    }

    /// Returns the queue of callers for this connection, which is created if necessary.
    fn waiter(&self, conn: &Conn) -> Waiter {
        let mut waiters = self.waiters.lock();
        if let Some(known) = waiters.iter().find(|waiter| waiter.conn.is_same(conn)) {
            return known.clone();
        }
        waiters.retain(|waiter| waiter.conn.is_alive());
        let (ask, asked) = mpsc::channel(CALLERS);
        let waiter = Waiter { conn: conn.clone(), ask, short: Arc::default() };
        // The task ends with the connection.
        tokio::spawn(run(conn.clone(), self.need, asked, waiter.short.clone()));
        waiters.push(waiter.clone());
        waiter
    }
}

impl Durable {
    /// Waits for the connection to write on. While replicas lag, this waits for them first, so that nothing is written
    /// that would have to be undone.
    ///
    /// # Errors
    ///
    /// The outer error is that of the connection.
    pub async fn ready(&self) -> Result<Result<Conn, Shortfall>, LinkError> {
        let not_sent = |_| LinkError::NotSent { address: self.place.address() };
        let conn = tokio::time::timeout(CONNECT, self.place.ready()).await.map_err(not_sent)?;
        if !self.all.waiter(&conn).short.load(Ordering::Relaxed) {
            return Ok(Ok(conn));
        }
        Ok(self.confirm(&conn).await?.map(|()| conn))
    }

    /// Waits until everything that was written and answered on this connection is durable.
    ///
    /// # Errors
    ///
    /// The outer error is that of the connection; the durability is unknown then.
    pub async fn confirm(&self, conn: &Conn) -> Answer {
        let unknown =
            |why: &str| LinkError::Unknown { address: conn.address().into(), reason: NoAnswer::Broken(why.to_owned()) };
        if conn.was_redirected() {
            // While a slot migrates, this may happen repeatedly.
            tokio::time::sleep(CONNECT).await;
            return Err(unknown("another node of the cluster has written, whose replicas were not asked"));
        }
        let (answer, answered) = oneshot::channel();
        // Both fail only when the connection has ended.
        let ended = "it ended before replicas were asked";
        self.all.waiter(conn).ask.send(answer).await.map_err(|_| unknown(ended))?;
        answered.await.unwrap_or_else(|_| Err(unknown(ended)))
    }
}

/// Serves the callers of a connection, with one `WAIT` at a time, until it ends.
async fn run(conn: Conn, need: Durability, mut asked: mpsc::Receiver<oneshot::Sender<Answer>>, short: Arc<AtomicBool>) {
    let mut group = Vec::new();
    loop {
        // Unbiased: callers that ask in vain learn that the connection has ended.
        let callers = tokio::select! {
            callers = asked.recv_many(&mut group, CALLERS) => callers,
            () = conn.gone() => return,
        };
        if callers == 0 {
            return;
        }
        let answer = wait(&conn, need).await;
        short.store(matches!(answer, Ok(Err(_))), Ordering::Relaxed);
        // Ignore the error: the caller no longer waits.
        group.drain(..).for_each(|caller| drop(caller.send(answer.clone())));
    }
}

/// Sends one `WAIT` or `WAITAOF`.
async fn wait(conn: &Conn, need: Durability) -> Answer {
    let Durability { replicas, aof, timeout } = need;
    // Zero would mean no limit.
    let timeout = timeout.as_millis().max(1) as u64;
    let mut command = redis::cmd(if aof { "WAITAOF" } else { "WAIT" });
    if aof {
        command.arg(1);
    }
    command.arg(replicas).arg(timeout);
    let found = match conn.query::<redis::Value>(&command).await {
        // The master became a replica meanwhile.
        Err(LinkError::Server { code: "UNBLOCKED", message }) => {
            conn.report_broken();
            return Err(LinkError::Unknown { address: conn.address().into(), reason: NoAnswer::Broken(message) });
        }
        // The append-only file is off.
        Err(LinkError::Server { message, .. }) if aof && message.contains("appendonly is disabled") => {
            return Ok(Err(Shortfall::of(need, 0)));
        }
        found => found?,
    };
    let malformed = |error: redis::ParsingError| LinkError::Malformed(error.to_string());
    let (local, reached) = if aof {
        <(u32, u32)>::from_redis_value(found).map_err(malformed)?
    } else {
        (1, u32::from_redis_value(found).map_err(malformed)?)
    };
    if local > 0 && reached >= replicas {
        return Ok(Ok(()));
    }
    Ok(Err(Shortfall { need, replicas: reached, on_disk: local > 0 }))
}
