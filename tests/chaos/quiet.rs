//! The check that everything is settled, which looks at the data in Redis.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::Instant;

use crate::evidence::{Arrival, Dead, LeftClaim};
use crate::fates::{Route, second};
use crate::offers::{Book, Kind, QUEUES, now_ms};
use crate::payload::{number, payload};
use crate::receiver::is_confirmed;
use crate::source::Clients;
use crate::strangers::{is_one, newer_entry};
use crate::target::Target;
use harness::redisson::RedissonQueue;

/// Number of equal observations.
const LOOKS: usize = 3;
/// The pause between two observations.
const LOOK: Duration = Duration::from_millis(100);

/// The name of a queue in the daemon's keys.
pub fn tag(queue: usize) -> String {
    // The key of a sorted set with a hash tag is its own name.
    if queue == 2 { "{pool}:due".to_owned() } else { format!("{{{}}}", QUEUES[queue]) }
}

/// The keys of a queue with unsettled elements.
fn pending(queue: usize) -> Vec<String> {
    let tag = tag(queue);
    let mut keys = vec![format!("delaybridge:retry:{tag}"), format!("delaybridge:leases:{tag}")];
    match queue {
        0 => {
            let redisson = RedissonQueue::new(QUEUES[0]);
            keys.extend([redisson.timeouts, redisson.list, QUEUES[0].to_owned()]);
            keys.extend(["ghosts", "ghosts-turn"].map(|part| format!("delaybridge:{part}:{tag}")));
        }
        1 => keys.push(QUEUES[1].to_owned()),
        _ => keys.push("{pool}:due".to_owned()),
    }
    keys
}

/// Waits until everything is settled; the error lists the rest.
pub async fn settled(redis: &mut Clients, until: Instant) -> Result<(), String> {
    let mut quiet = 0;
    loop {
        let left = left(redis).await;
        match &left {
            Ok(left) if left.is_empty() => quiet += 1,
            _ => quiet = 0,
        }
        if quiet == LOOKS {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(left.map_or_else(|e| e, |left| left.join(", ")));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The keys with unsettled elements, and their numbers.
async fn left(redis: &mut Clients) -> Result<Vec<String>, String> {
    let keys = (0..QUEUES.len()).flat_map(|queue| pending(queue).into_iter().map(move |key| (queue, key)));
    let mut found = Vec::new();
    for (queue, key) in keys {
        let redis = &mut redis.0[queue];
        let kind: String = redis::cmd("TYPE").arg(&key).query_async(redis).await.map_err(|e| e.to_string())?;
        let count = match &kind[..] {
            "none" => continue,
            "zset" => "ZCARD",
            "list" => "LLEN",
            "set" => "SCARD",
            _ => "STRLEN",
        };
        let mut count: usize = redis::cmd(count).arg(&key).query_async(redis).await.map_err(|e| e.to_string())?;
        if ["delaybridge:leases:", "delaybridge:retry:"].iter().any(|ours| key.starts_with(ours)) && kind == "zset" {
            // Strangers stay there, and are not waited for.
            let mut read = redis::cmd("ZRANGE");
            let members: Vec<Vec<u8>> =
                read.arg(&key).arg(0).arg(-1).query_async(redis).await.map_err(|e| e.to_string())?;
            count = 0;
            for member in members.iter().filter(|member| !is_one(member)) {
                count += usize::from(!is_strangers_claim(redis, queue, member).await.map_err(|e| e.to_string())?);
            }
            if count == 0 {
                continue;
            }
        }
        found.push(format!("{key}: {count}"));
    }
    Ok(found)
}

/// Whether a member of the leases is a claim that contains only entries of strangers.
async fn is_strangers_claim(
    redis: &mut MultiplexedConnection,
    queue: usize,
    member: &[u8],
) -> redis::RedisResult<bool> {
    let Ok(name) = std::str::from_utf8(member) else { return Ok(false) };
    let mut held = Vec::new();
    for part in ["d", "h"] {
        let mut read = redis::cmd("ZRANGE");
        read.arg(format!("delaybridge:claim:{name}:{part}:{}", tag(queue))).arg(0).arg(-1);
        held.extend(read.query_async::<Vec<Vec<u8>>>(redis).await?);
    }
    Ok(!held.is_empty() && held.iter().all(|member| *member == newer_entry()))
}

/// The keys that should not exist after everything is settled.
pub async fn residue(redis: &mut Clients) -> Vec<String> {
    let mut keys = BTreeSet::new();
    for redis in &mut redis.0 {
        let here: Vec<String> = redis::cmd("KEYS").arg("*").query_async(redis).await.expect("read the keys");
        keys.extend(here);
    }
    let kept = |key: &String| {
        let words = ["dead:", "state:", "sweep:", "audit:", "fleet", "lookers"];
        words.iter().any(|word| key.strip_prefix("delaybridge:").is_some_and(|rest| rest.starts_with(word)))
    };
    keys.into_iter().filter(|key| !kept(key)).collect()
}

/// The claims of this owner with elements whose lease lasts for at least `least` ms. Elements that a daemon dropped because too
/// little of the lease was left stay until its end.
pub async fn claims_of(redis: &mut Clients, owner: &str, least: i64) -> redis::RedisResult<Vec<LeftClaim>> {
    let mut found = Vec::new();
    for (queue, name_of_queue) in QUEUES.iter().enumerate() {
        let tag = tag(queue);
        let redis = &mut redis.0[queue];
        let mut read = redis::cmd("ZRANGE");
        read.arg(format!("delaybridge:leases:{tag}")).arg(0).arg(-1).arg("WITHSCORES");
        for (name, till_ms) in read.query_async::<Vec<(String, i64)>>(redis).await? {
            let seen_ms = now_ms();
            if name.split('.').nth(1) != Some(owner) || till_ms - seen_ms <= least {
                continue;
            }
            let mut count = 0;
            for part in ["d", "h"] {
                let key = format!("delaybridge:claim:{name}:{part}:{tag}");
                let mut read = redis::cmd("ZRANGE");
                let members: Vec<Vec<u8>> = read.arg(key).arg(0).arg(-1).query_async(redis).await?;
                count += members.into_iter().filter(|member| *member != newer_entry()).count();
            }
            if count > 0 {
                let claim = format!("{name} of {name_of_queue}");
                found.push(LeftClaim { claim, elements: count, till_ms, seen_ms });
            }
        }
    }
    Ok(found)
}

/// The arrivals, compared with the offers. `has_routes`: each queue has two destinations.
pub async fn arrivals(target: &Target, seed: u64, book: &Book, has_routes: bool) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for (queue, name) in QUEUES.iter().enumerate() {
        let first = target.deliveries(queue).await.into_iter().map(|delivery| (delivery, Route::First));
        let second = if has_routes { target.stream(&second(name)).await } else { Vec::new() };
        for (delivery, route) in first.chain(second.into_iter().map(|delivery| (delivery, Route::Second))) {
            let n = number(&delivery.payload);
            let offer = n.and_then(|n| book.get(n));
            let made = offer.filter(|offer| matches!(offer.kind, Kind::Good | Kind::Large)).zip(n);
            let whole = made.is_some_and(|(offer, n)| {
                payload(seed, n, offer.size) == delivery.payload && delivery.due_ms == Some(offer.due_ms)
            });
            let life = delivery.headers.get("life").and_then(|life| std::str::from_utf8(life).ok()?.parse().ok());
            arrivals.push(Arrival {
                queue,
                n,
                confirmed: is_confirmed(&delivery),
                id: delivery.id.unwrap_or_default(),
                attempt: delivery.attempt.unwrap_or(0),
                at_ms: delivery.arrived_ms.unwrap_or(0),
                life: life.unwrap_or(0),
                whole,
                route,
            });
        }
    }
    arrivals
}

pub async fn dead_letters(redis: &mut Clients) -> Vec<Dead> {
    let mut letters = Vec::new();
    for queue in 0..QUEUES.len() {
        let redis = &mut redis.0[queue];
        let key = format!("delaybridge:dead:{}", tag(queue));
        let all: redis::streams::StreamRangeReply =
            redis::cmd("XRANGE").arg(key).arg("-").arg("+").query_async(redis).await.expect("read dead letters");
        for letter in all.ids {
            let text = |name: &str| letter.get::<String>(name).unwrap_or_default();
            let bytes = |name: &str| letter.get::<Vec<u8>>(name).unwrap_or_default();
            let n = number(&bytes("element")).or_else(|| number(&bytes("body"))).or_else(|| text("id").parse().ok());
            letters.push(Dead {
                queue,
                n,
                reason: text("reason"),
                attempts: text("attempts").parse().unwrap_or(0),
                expiries: text("expiries").parse().unwrap_or(0),
            });
        }
    }
    letters
}
