//! What a Redis can do, measured on a queue that exists only for this.

mod claimer;
mod deep;
mod late;
mod limits;
mod times;
mod trial;

use std::time::Duration;

use serde::Serialize;

pub use self::claimer::{Batch, Claimer, Ended, bury, settle};
pub use self::times::Quantiles;
use self::trial::{AT_LATEST, Trial};
pub use self::trial::{Options, Watch};
use super::error::Error;
use super::session::{at, connected, redis};
use delaybridge_link::RedisTarget;
use delaybridge_link::{Conn, Redis};
use delaybridge_source::redisson::{Redisson, memory_left};

/// Bytes of Redis for an element beside its payload, which is stored twice: 210 of 10,000, more while a table grows.
const OVERHEAD: u64 = 300;
/// Time to wait for the server if the connection broke before the queue was removed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The results of a measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// `host:port/database`.
    pub redis: String,
    /// Version of the server.
    pub redis_version: String,
    /// Elements that were pending.
    pub pending: u32,
    /// Bytes of each payload.
    pub payload_bytes: u32,
    /// A round trip.
    pub ping_ms: Quantiles,
    /// Elements a second of `ZADD` alone, 500 a command.
    pub zadd_per_second: f64,
    /// Elements that were claimed and settled.
    pub claimed_and_settled: usize,
    /// The number of them in a second.
    pub claim_and_settle_per_second: f64,
    /// A claim, the way to Redis and back included.
    pub claim_ms: Quantiles,
    /// A settling, the way to Redis and back included.
    pub settle_ms: Quantiles,
    /// Elements of the run that measures lateness.
    pub late: usize,
    /// The number of them that fell due in a second.
    pub late_per_second: u32,
    /// From the due time to the settling.
    pub late_ms: Quantiles,
}

/// Measures, and removes the queue again, whatever happened. The second value says what could not be removed.
///
/// # Errors
///
/// When the connection cannot be made, when there is something under the name or no room, when it was ended, and when Redis
/// cannot be asked. The message says whether anything is left in Redis.
pub async fn measure(
    target: &RedisTarget,
    options: &Options,
    watch: Watch<'_>,
) -> Result<(Figures, Result<(), Error>), Error> {
    let what = format!("measure Redis {}", target.address());
    let redis = redis(target);
    connected(&redis).await?;
    let mut owner = [0; 8];
    getrandom::fill(&mut owner).map_err(|error| Error::failed(format!("draw a random number: {error}")))?;
    let queue = Redisson::within(&target.space(), &options.name, owner);
    let conn = at(&redis, &queue.keys.leases).await.map_err(|error| Error::failed(error.to_string()))?;
    let ended = |why: Ended| Error::failed(format!("{what}: {why}"));
    refuse_what_is_not_ours(&conn, &queue, options).await.map_err(ended)?;

    let trial = Trial { options, conn, queue, watch };
    let measured = figures(&trial).await;
    let removed = remove(&redis, &trial.queue).await;
    match measured {
        Ok(figures) => Ok((figures, removed.map_err(|why| Error::failed(format!("{what}: measured, but {why}"))))),
        Err(why) => {
            let left = removed.err().unwrap_or_else(|| "nothing is left in Redis".to_owned());
            Err(Error::failed(format!("{what}: {why}; {left}")))
        }
    }
}

async fn figures(trial: &Trial<'_>) -> Result<Figures, Ended> {
    let round_trip = limits::round_trip(trial).await?;
    let zadd_per_second = limits::fill(trial).await?;
    let deep = deep::drain(trial).await?;
    let late = late::run(trial).await?;
    Ok(Figures {
        redis: trial.conn.address().to_owned(),
        redis_version: trial.conn.info().version.to_string(),
        pending: trial.options.depth,
        payload_bytes: trial.options.payload_bytes,
        ping_ms: round_trip.quantiles(),
        zadd_per_second,
        claimed_and_settled: deep.count,
        claim_and_settle_per_second: deep.per_second,
        claim_ms: deep.claims.quantiles(),
        settle_ms: deep.settlings.quantiles(),
        late: late.count(),
        late_per_second: trial.options.rate,
        late_ms: late.quantiles(),
    })
}

async fn refuse_what_is_not_ours(conn: &Conn, queue: &Redisson, options: &Options) -> Result<(), Ended> {
    let there = queue.keys_there(conn).await?;
    if !there.is_empty() {
        return Err(Ended::Failed(format!(
            "keys with the name `{}` already exist: {}; they were not changed. If an earlier run of this command was \
             killed, they expire within an hour; else choose another --name",
            options.name,
            there.join(", ")
        )));
    }
    let needed = u64::from(options.depth) * (2 * u64::from(options.payload_bytes) + OVERHEAD);
    match memory_left(conn).await? {
        Some(left) if needed > left / 2 => Err(Ended::Failed(format!(
            "{} elements need about {} MB, which is more than half of the {} MB that are left below its maxmemory; choose a \
             smaller --depth",
            options.depth,
            needed / 1_000_000,
            left / 1_000_000
        ))),
        _ => Ok(()),
    }
}

/// Removes the queue; the error says what is left and what to do.
async fn remove(redis: &Redis, queue: &Redisson) -> Result<(), String> {
    // A connection that broke in the middle of it is replaced meanwhile.
    let removed = async {
        let conn = redis.at(&queue.keys.leases).ready().await;
        queue.unlink(&conn).await?;
        queue.keys_there(&conn).await
    };
    let why = match tokio::time::timeout(PATIENCE, removed).await {
        Ok(Ok(left)) if left.is_empty() => return Ok(()),
        Ok(Ok(left)) => format!("another client wrote to {}", left.join(", ")),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("Redis did not answer for {} s", PATIENCE.as_secs()),
    };
    let keys = queue.stored_names().join("' '");
    Err(format!(
        "its keys could not be removed: {why}. Most of them expire within {} minutes; to remove them now: \
         redis-cli UNLINK '{keys}'",
        AT_LATEST.as_secs() / 60
    ))
}
