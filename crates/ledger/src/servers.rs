//! The servers of one Redis: what concerns many queues at once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;

use super::error::StoreError;
use super::look::{LookAt, look_at, look_in_cluster};
use super::lookers::{self, LookerNote, lookers_key};
use super::redis::current;
use super::store::{Call, CountedKeys, RedisReads, RestingSize};
use delaybridge_link::{Conn, LinkError, Redis, listeners, nearly_full};

/// Longest wait for the reads on one node of a cluster: they must not hold up those on the others.
const READ_PATIENCE: Duration = Duration::from_millis(500);

/// All servers of a Redis.
pub struct RedisServer(Redis);

impl RedisServer {
    /// Creates the servers of this Redis.
    pub fn new(redis: impl Into<Redis>) -> Self {
        RedisServer(redis.into())
    }
}

impl RedisReads for RedisServer {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn is_up(&self) -> bool {
        self.0.nodes().iter().any(|node| node.current().is_some())
    }

    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }

    fn look<'a>(&'a self, looks: &'a [LookAt<'a>]) -> Call<'a, Vec<Option<bool>>> {
        async move {
            if self.0.is_cluster() {
                return Ok(look_in_cluster(&self.0, looks, READ_PATIENCE).await);
            }
            Ok(look_at(&current(&self.0.at(""))?, looks).await)
        }
        .boxed()
    }

    fn sizes<'a>(&'a self, queues: &'a [CountedKeys]) -> Call<'a, (Option<i64>, Vec<Option<RestingSize>>)> {
        async move {
            let mut sizes = vec![None; queues.len()];
            // The keys of a queue are in one slot.
            let parts = by_server(&self.0, queues.iter().map(|queue| &queue.leases));
            let asked = parts.iter().map(async |(conn, places)| {
                let of_part: Vec<_> = places.iter().map(|place| &queues[*place]).collect();
                tokio::time::timeout(READ_PATIENCE, sizes_at(conn, &of_part, self.0.is_cluster())).await
            });
            // Clocks of several servers differ.
            let mut now_ms = None;
            let is_one = parts.len() == 1;
            for ((_, places), answered) in parts.iter().zip(join_all(asked).await) {
                // What has no answer here is read as a whole.
                let Ok(Ok((time, of_part))) = answered else { continue };
                now_ms = is_one.then_some(time);
                places.iter().zip(of_part).for_each(|(place, size)| sizes[*place] = size);
            }
            Ok((now_ms, sizes))
        }
        .boxed()
    }

    fn share_looks<'a>(&'a self, own: &'a LookerNote) -> Call<'a, Vec<LookerNote>> {
        async move {
            let key = lookers_key(&self.0.space().prefix);
            lookers::exchange(&current(&self.0.at(key.as_bytes()))?, &key, own).await
        }
        .boxed()
    }

    fn forget_lookers<'a>(&'a self, daemons: &'a [Bytes]) -> Call<'a, ()> {
        async move {
            let key = lookers_key(&self.0.space().prefix);
            lookers::remove(&current(&self.0.at(key.as_bytes()))?, &key, daemons).await
        }
        .boxed()
    }

    fn lengths<'a>(&'a self, lists: &'a [Bytes]) -> Call<'a, Vec<Result<i64, StoreError>>> {
        async move {
            if lists.is_empty() {
                return Ok(Vec::new());
            }
            if !self.0.is_cluster() {
                return lengths_at(&current(&self.0.at(""))?, lists.iter()).await;
            }
            let mut answers: Vec<Option<Result<i64, StoreError>>> = lists.iter().map(|_| None).collect();
            let parts = by_server(&self.0, lists.iter());
            let asked = parts.iter().map(async |(conn, places)| {
                let of_part = lengths_at(conn, places.iter().map(|place| &lists[*place]));
                tokio::time::timeout(READ_PATIENCE, of_part).await
            });
            for ((_, places), answered) in parts.iter().zip(join_all(asked).await) {
                // What has no answer here is read again by the next round.
                if let Ok(Ok(of_part)) = answered {
                    places.iter().zip(of_part).for_each(|(place, answer)| answers[*place] = Some(answer));
                }
            }
            let address: Arc<str> = self.0.address().into();
            let not_sent = || Err(StoreError::NotSent { address: address.clone() });
            Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(not_sent)).collect())
        }
        .boxed()
    }

    fn listeners<'a>(&'a self, channels: &'a [Arc<str>]) -> Call<'a, Vec<i64>> {
        async move {
            let not_sent = || StoreError::NotSent { address: self.0.address().into() };
            let channels: Vec<_> = channels.iter().map(|channel| &**channel).collect();
            Ok(listeners(&self.0.any().ok_or_else(not_sent)?, &channels).await?)
        }
        .boxed()
    }

    fn look_at_memory(&self) -> Call<'_, ()> {
        async {
            let looks = self.0.nodes().into_iter().filter_map(|node| Some((node.current()?, node)));
            let looks = join_all(
                looks.map(async |(conn, node)| nearly_full(&conn).await.map(|full| node.set_nearly_full(full))),
            );
            Ok(looks.await.into_iter().collect::<Result<(), LinkError>>()?)
        }
        .boxed()
    }
}

/// Returns the places of keys, by the server that has them. What is at a server without a connection is left out.
fn by_server<'a>(redis: &Redis, keys: impl Iterator<Item = &'a Bytes>) -> Vec<(Conn, Vec<usize>)> {
    let mut parts: Vec<(Conn, Vec<usize>)> = Vec::new();
    for (number, key) in keys.enumerate() {
        let Some(conn) = redis.at(key).current() else { continue };
        match parts.iter_mut().find(|(of, _)| of.address() == conn.address()) {
            Some((_, places)) => places.push(number),
            None => parts.push((conn, vec![number])),
        }
    }
    parts
}

/// Reads lengths in one round trip.
async fn lengths_at(
    conn: &Conn,
    lists: impl ExactSizeIterator<Item = &Bytes>,
) -> Result<Vec<Result<i64, StoreError>>, StoreError> {
    let mut pipe = redis::Pipeline::with_capacity(lists.len());
    for list in lists {
        pipe.cmd("LLEN").arg(&list[..]);
    }
    let number = |answer: Result<redis::Value, LinkError>| match answer {
        Ok(redis::Value::Int(n)) => Ok(n),
        Ok(_) => Err(StoreError::Malformed("expected a number".to_owned())),
        Err(error) => Err(error.into()),
    };
    Ok(conn.pipeline(&pipe).await?.into_iter().map(number).collect())
}

/// Counts what is in queues. Returns Redis's time in ms as well. One `EXISTS` says of all of them that there is nothing but schedules,
/// except in a cluster.
async fn sizes_at(
    conn: &Conn,
    queues: &[&CountedKeys],
    is_cluster: bool,
) -> Result<(i64, Vec<Option<RestingSize>>), StoreError> {
    let mut pipe = redis::Pipeline::new();
    pipe.cmd("TIME");
    for queue in queues {
        for key in &queue.schedules {
            pipe.cmd("ZCARD").arg(&key[..]);
        }
        for key in &queue.lasting {
            pipe.cmd("PTTL").arg(&key[..]);
        }
    }
    if !is_cluster {
        pipe.add_command(exists(queues));
    }
    let mut replies = conn.pipeline(&pipe).await?;
    let any = if is_cluster { None } else { replies.pop().and_then(number) };
    let others = match any {
        Some(0) => vec![Some(0); queues.len()],
        _ => {
            let mut pipe = redis::Pipeline::with_capacity(queues.len());
            for queue in queues {
                pipe.add_command(exists(&[queue]));
            }
            conn.pipeline(&pipe).await?.into_iter().map(number).collect()
        }
    };
    let mut replies = replies.into_iter();
    let time = replies.next().unwrap_or(Ok(redis::Value::Nil))?;
    let malformed = |error: redis::ParsingError| StoreError::Malformed(error.to_string());
    let (seconds, micros): (i64, i64) = redis::from_redis_value(time).map_err(malformed)?;
    let size = |(queue, others): (&&CountedKeys, Option<i64>)| {
        // All of them, so that the next queue begins with its own.
        let mut answers = |keys: &[Bytes]| replies.by_ref().take(keys.len()).map(number).collect::<Vec<_>>();
        let (scheduled, left) = (answers(&queue.schedules), answers(&queue.lasting));
        let scheduled = scheduled.into_iter().sum::<Option<i64>>()?;
        let left = left.into_iter().collect::<Option<Vec<_>>>()?;
        Some(RestingSize { scheduled, has_others: others? > 0, expires: left.iter().any(|ms| *ms >= 0) })
    };
    let sizes = queues.iter().zip(others).map(size).collect();
    Ok((seconds.saturating_mul(1000).saturating_add(micros / 1000), sizes))
}

/// Returns the command that counts which keys there are of queues, beside their schedules.
fn exists(queues: &[&CountedKeys]) -> redis::Cmd {
    let mut command = redis::cmd("EXISTS");
    for key in queues.iter().flat_map(|queue| std::iter::once(&queue.leases).chain(&queue.others)) {
        command.arg(&key[..]);
    }
    command
}

/// Returns the number that was answered. For a missing right, or a key of another type, there is none: the reading of the gauges
/// reports it.
fn number(reply: Result<redis::Value, LinkError>) -> Option<i64> {
    if let Ok(redis::Value::Int(number)) = reply { Some(number) } else { None }
}
