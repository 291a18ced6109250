//! Finds the delayed queues of a Redis, and what can be learned of each.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use redisson_codecs::{Coding, DecodeProblem};
use serde::Serialize;

use super::guess;
use crate::error::{Attempted, Error, QueueError, explained};
use crate::queue_state::QueueState;
use crate::session::{everywhere, redis};
use delaybridge_ledger::{Others, Place, Shape, Show, StoreError};
use delaybridge_link::Conn;
use delaybridge_link::{KeySpace, RedisTarget};
use delaybridge_source::redisson::{self, Found, Redisson};

/// Elements of each queue that are sampled.
const SAMPLES: usize = 50;
/// Bytes of each that are read: a larger payload is no sample for the codec.
const SAMPLE_BYTES: usize = 64 << 10;

/// Every delayed queue that has something scheduled.
#[derive(Debug, Clone, Serialize)]
pub struct Discovered {
    /// Queues that could be read.
    pub queues: Vec<DiscoveredQueue>,
    /// Queues that could not, by their names in Redis.
    pub errors: Vec<QueueError>,
    /// Keys with the prefix of Redisson's delayed queues and a name that it never gives.
    pub unknown_keys: usize,
}

/// A queue that was discovered.
#[derive(Debug, Clone, Serialize)]
pub struct DiscoveredQueue {
    /// The queue's name in Redis.
    pub name: String,
    /// Another name that the keys fit as well.
    pub or_name: Option<String>,
    /// The numbers, with an id that a configuration can give the queue.
    #[serde(flatten)]
    pub state: QueueState,
    /// Layouts of the elements that were sampled.
    pub layouts: Layouts,
    /// The codec that reads all samples.
    pub codec: String,
    /// The confidence of the codec: `certain`, `likely` or `guess`.
    pub sure: &'static str,
    /// Payloads that were sampled for the codec.
    pub sampled: usize,
    /// Classes of the samples that only Java can read, unless they are declared under `classes`.
    pub undeclared: BTreeSet<String>,
    /// Free places of the ready list, if it is an `RBoundedBlockingQueue`.
    pub free_places: Option<String>,
    /// The prefix of our keys that daemons deliver it with, if that is not the default one.
    pub key_prefix: Option<String>,
    /// Redisson clients that listen, in some database; none where the user may not ask.
    pub redisson_clients: Option<u64>,
    /// Observations of such clients by daemons over time; none if no daemon has watched.
    pub watch: Option<Watch>,
}

/// Observations of Redisson clients that listen. Times are in ms by Redis's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Watch {
    /// The time since which none listens; none if one does now.
    pub no_client_since_ms: Option<i64>,
    /// The time at which daemons ceased to watch; none if one does now.
    pub ended_ms: Option<i64>,
}

impl Watch {
    fn of(others: Others, clients: Option<u64>, now_ms: i64) -> Watch {
        Watch {
            no_client_since_ms: (clients == Some(0)).then(|| others.none_since_ms()),
            ended_ms: (others.until_ms < now_ms).then_some(others.until_ms),
        }
    }
}

/// Sampled elements by layout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Layouts {
    /// Of Redisson up to 3.21.0.
    pub old: usize,
    /// Of Redisson from 3.21.1 on.
    pub new: usize,
    /// Of neither.
    pub junk: usize,
}

/// Scans the database in small steps; changes nothing.
///
/// # Errors
///
/// When the connection cannot be made, when Redis cannot be asked, and when there is no queue.
pub async fn discover(target: &RedisTarget) -> Result<Discovered, Error> {
    let redis = redis(target);
    let conns = everywhere(&redis).await.map_err(|error| Error::failed(error.to_string()))?;
    let what = format!("find delayed queues in Redis {}", target.address());
    let mut answer = Discovered { queues: Vec::new(), errors: Vec::new(), unknown_keys: 0 };
    let mut all = Vec::new();
    for conn in conns {
        // Each server has keys of its own.
        let (found, unknown_keys) = redisson::discover(&conn).await.attempt(&what)?;
        answer.unknown_keys += unknown_keys;
        all.extend(found.into_iter().map(|found| (conn.clone(), found)));
    }
    all.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    let mut taken = HashSet::new();
    for (conn, found) in all {
        match look(&conn, &target.space(), &found).await {
            Ok(mut queue) => {
                queue.state.queue = id(&found.name, &mut taken);
                answer.queues.push(queue);
            }
            Err(error) => answer.errors.push(QueueError { queue: found.name, message: explained(&error) }),
        }
    }
    if answer.queues.is_empty() && answer.errors.is_empty() {
        return Err(Error::not_found(format!(
            "{what}: no queue has scheduled elements, and an empty queue has no keys: run it again after an element has been \
             offered, or write the queue's name under `queues:`"
        )));
    }
    Ok(answer)
}

async fn look(conn: &Conn, space: &KeySpace, found: &Found) -> Result<DiscoveredQueue, StoreError> {
    let of = |space: &KeySpace| Redisson::within(space, &found.name, [0; 8]);
    // Without the right to ask, the prefix is that of the configuration.
    let key_prefix = of(space).delivered_with(conn).await.ok().flatten();
    let redisson = of(&KeySpace { prefix: key_prefix.as_ref().unwrap_or(&space.prefix).clone(), ..space.clone() });
    let stats = redisson.stats(conn).await?;
    let page = redisson.peek(conn, Place::Scheduled, 0, SAMPLES, Show::Start(SAMPLE_BYTES)).await?;
    let mut layouts = Layouts::default();
    for seen in &page.seen {
        match seen.shape {
            Shape::Packed("old") => layouts.old += 1,
            Shape::Packed(_) => layouts.new += 1,
            Shape::Bare | Shape::Junk | Shape::Unknown => layouts.junk += 1,
        }
    }
    let samples = page.seen.iter().filter(|seen| matches!(seen.shape, Shape::Packed(_)) && seen.is_complete());
    let samples: Vec<Bytes> = samples.map(|seen| seen.payload.clone()).collect();
    let guess = guess::codec(&samples);
    let clients = redisson::redisson_clients(conn, &redisson).await.ok();
    let watch = redisson.others(conn).await.ok().flatten().map(|others| Watch::of(others, clients, stats.now_ms));
    Ok(DiscoveredQueue {
        name: found.name.clone(),
        or_name: found.or.clone(),
        state: QueueState::of(&found.name, &stats),
        layouts,
        codec: guess.coding.as_str().to_owned(),
        sure: guess.sure.as_str(),
        sampled: guess.of,
        undeclared: samples.iter().filter_map(|sample| opaque_class(guess.coding, sample)).collect(),
        free_places: redisson::free_places(conn, &redisson.keys).await.ok().flatten(),
        key_prefix: key_prefix.map(|prefix| prefix.to_string()),
        redisson_clients: clients,
        watch,
    })
}

/// Returns the class of an object that only Java can read; `None` for every other payload.
fn opaque_class(coding: Coding, sample: &Bytes) -> Option<String> {
    match redisson_codecs::decode(coding, sample).err()?.problem {
        DecodeProblem::Opaque(class) => class.as_str().map(str::to_owned),
        _ => None,
    }
}

/// Returns an id for the configuration: what an id may not have becomes `_`, and no two are the same.
fn id(name: &str, taken: &mut HashSet<String>) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let plain: String = name.chars().map(|c| if allowed(c) { c } else { '_' }).take(56).collect();
    let plain = plain.trim_matches('_');
    let plain = if plain.is_empty() { "queue" } else { plain };
    // YAML reads `1`, `no` or `1e3` as something else than a name.
    let plain = if plain.starts_with(|c: char| c.is_ascii_alphabetic()) && !WORDS.contains(&plain) {
        plain.to_owned()
    } else {
        format!("q_{plain}")
    };
    let mut id = plain.clone();
    let mut number = 2;
    while !taken.insert(id.clone()) {
        id = format!("{plain}_{number}");
        number += 1;
    }
    id
}

/// Words that YAML does not read as text.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "True", "False", "Null"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gets_an_id_of_its_own() {
        let mut taken = HashSet::new();
        let mut check = |name: &str, expected: &str| assert_eq!(id(name, &mut taken), expected, "{name}");
        check("app:orders", "app_orders");
        check("app orders", "app_orders_2");
        check("{app}:orders", "app__orders");
        check("7", "q_7");
        check("no", "q_no");
        check("::", "queue");
        check("\u{fc}", "queue_2");
        check(&"x".repeat(300), &"x".repeat(56));
        check(&"x".repeat(301), &format!("{}_2", "x".repeat(56)));
    }
}
