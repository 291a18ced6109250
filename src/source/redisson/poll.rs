//! Reads that take nothing: what the safety poll and the gauges ask.

use std::time::Duration;

use super::{Redisson, millis};
use crate::link::{Conn, LinkError};

/// What a look at a queue found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// Nothing to claim.
    Nothing,
    /// Something to claim.
    Something,
    /// A key answered with an error; a claim will say which.
    Error,
}

/// Looks at several queues in one round trip: is anything due, or due within the time that goes with each?
///
/// # Errors
///
/// Those of the connection.
pub async fn poll(conn: &Conn, queues: &[(&Redisson, Duration)], now_ms: i64) -> Result<Vec<Polled>, LinkError> {
    let mut pipe = redis::pipe();
    for (queue, ahead) in queues {
        let keys = &queue.keys;
        // What is not consumed is not looked at; the answer keeps its place.
        let delayed = match queue.half.delayed {
            true => now_ms.saturating_add(millis(*ahead)).to_string(),
            false => "-inf".to_owned(),
        };
        let now = now_ms.to_string();
        for (zset, last) in [(&keys.delayed, &delayed), (&keys.retry, &now), (&keys.in_flight, &now)] {
            pipe.cmd("ZCOUNT").arg(&zset[..]).arg("-inf").arg(last);
        }
        match queue.half.ready {
            true => pipe.cmd("LLEN").arg(&keys.ready[..]),
            false => pipe.cmd("ZCOUNT").arg(&keys.retry[..]).arg("-inf").arg("-inf"),
        };
    }
    let answers = conn.pipeline(&pipe).await?;
    let found = answers.chunks(4).map(|chunk| {
        chunk.iter().fold(Polled::Nothing, |found, answer| match answer {
            Ok(redis::Value::Int(0)) => found,
            Ok(_) => Polled::Something,
            Err(_) => Polled::Error,
        })
    });
    Ok(found.collect())
}

/// Lengths of the ready lists; 0 where it cannot be told.
///
/// # Errors
///
/// Those of the connection.
pub async fn ready_lengths(conn: &Conn, queues: &[&Redisson]) -> Result<Vec<i64>, LinkError> {
    let mut pipe = redis::pipe();
    for queue in queues {
        pipe.cmd("LLEN").arg(&queue.keys.ready[..]);
    }
    let answers = conn.pipeline(&pipe).await?;
    Ok(answers.into_iter().map(|answer| if let Ok(redis::Value::Int(n)) = answer { n } else { 0 }).collect())
}

/// How many clients beside this process listen to each channel. Other daemons are among them.
///
/// # Errors
///
/// Those of the connection, and a missing right to `PUBSUB`.
pub async fn other_subscribers(conn: &Conn, channels: &[&str]) -> Result<Vec<i64>, LinkError> {
    let mut command = redis::cmd("PUBSUB");
    command.arg("NUMSUB").arg(channels);
    let counts: Vec<(String, i64)> = conn.query(&command).await?;
    Ok(counts.into_iter().map(|(_, subscribers)| subscribers - 1).collect())
}
