//! The state of the topics in Redis.

use std::time::Duration;

use tokio::time::Instant;

use crate::evidence::Dead;
use crate::offers::QUEUES;
use crate::source::Clients;

/// The poll interval.
const LOOK: Duration = Duration::from_millis(100);

fn key(word: &str, topic: usize) -> String {
    format!("delaybridge:jobs:{word}:{{{}}}", QUEUES[topic])
}

/// Waits until no job waits or is reserved; the error lists the remaining ones.
pub async fn settled(redis: &mut Clients, until: Instant) -> Result<(), String> {
    loop {
        let left = left(redis).await;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(left.join(", "));
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn left(redis: &mut Clients) -> Vec<String> {
    let mut found = Vec::new();
    for topic in 0..QUEUES.len() {
        for word in ["due", "reserved"] {
            let key = key(word, topic);
            let count: usize =
                redis::cmd("ZCARD").arg(&key).query_async(&mut redis.0[topic]).await.expect("look at a topic");
            if count > 0 {
                found.push(format!("{key}: {count}"));
            }
        }
    }
    found
}

/// The remains of finished jobs, and keys with unknown names.
pub async fn residue(redis: &mut Clients) -> Vec<String> {
    let redis = &mut redis.0[0];
    let mut found = Vec::new();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(redis).await.expect("read the keys");
    let kept = ["dead", "gone", "topic", "records", "state", "expiry", "topics"];
    let kept = |key: &String| key.split(':').nth(2).is_some_and(|word| kept.contains(&word));
    found.extend(keys.into_iter().filter(|key| !kept(key) && key != "delaybridge:lookers"));
    for topic in 0..QUEUES.len() {
        // Only dead jobs have a record and a state.
        let dead: usize = redis::cmd("ZCARD").arg(key("dead", topic)).query_async(redis).await.expect("count the dead");
        for word in ["records", "state"] {
            let key = key(word, topic);
            let count: usize = redis::cmd("HLEN").arg(&key).query_async(redis).await.expect("count what is kept");
            if count != dead {
                found.push(format!("{key}: {count} of {dead} dead"));
            }
        }
        let key = key("expiry", topic);
        let count: usize = redis::cmd("ZCARD").arg(&key).query_async(redis).await.expect("count ends of lives");
        if count > 0 {
            found.push(format!("{key}: {count}"));
        }
    }
    found
}

/// All dead jobs, each with its reason, its attempts, and its tries instead of the expiries.
pub async fn dead(port: u16) -> Vec<Dead> {
    let mut all = Vec::new();
    for (topic, name) in QUEUES.iter().enumerate() {
        let mut skip = 0;
        loop {
            let path = format!("/v1/topics/{name}/dead?skip={skip}&limit=100");
            let outcome = super::client::ask(port, "GET", &path, b"", Duration::from_secs(20)).await;
            let super::client::Outcome::Reply(reply) = outcome else { panic!("read dead jobs: {outcome:?}") };
            let page = reply.json();
            let jobs = page["jobs"].as_array().unwrap_or_else(|| panic!("read dead jobs: {page}"));
            if jobs.is_empty() {
                break;
            }
            skip += jobs.len();
            all.extend(jobs.iter().map(|job| of(topic, job)));
        }
    }
    all
}

fn of(queue: usize, job: &serde_json::Value) -> Dead {
    let id = job["id"].as_str().unwrap_or_default();
    let number = |name: &str| job[name].as_u64().and_then(|number| number.try_into().ok()).unwrap_or(0);
    Dead {
        queue,
        n: id.rsplit("~j").next().and_then(|n| n.parse().ok()),
        reason: job["reason"].as_str().unwrap_or_default().to_owned(),
        attempts: number("attempts"),
        expiries: number("tries"),
    }
}
