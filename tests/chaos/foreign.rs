//! Data that other programs, or people with a command line, leave in the daemon's keys.

use std::time::Duration;

use tokio::time::sleep;

use crate::offers::{QUEUES, now_ms};
use crate::quiet::tag;
use crate::stage::Stage;

/// Meaningless members.
const MEMBERS: [&str; 3] = ["", "7.other.1", "{\"n\":1}"];

fn keys(queue: usize) -> [String; 2] {
    ["leases", "retry"].map(|word| format!("delaybridge:{word}:{}", tag(queue)))
}

/// Adds members to the leases and the retries of a queue, expired and due. They must be left alone, and must hide
/// nothing.
pub async fn members(stage: &Stage, queue: usize, lasts: Duration) -> u64 {
    let mut redis = stage.guide.clients_when_well().await.0.swap_remove(queue);
    let mut add = redis::pipe();
    for key in keys(queue) {
        for member in MEMBERS {
            add.zadd(&key, member, now_ms()).ignore();
        }
    }
    // Redis may be full, or unavailable again.
    let added = add.exec_async(&mut redis).await.is_ok();
    sleep(lasts).await;
    remove(stage, queue).await;
    u64::from(added)
}

/// Removes those members. A server that comes back with older data has them again, so this is repeated after the last fault.
pub async fn remove(stage: &Stage, queue: usize) {
    loop {
        let mut redis = stage.guide.clients_when_well().await.0.swap_remove(queue);
        let mut remove = redis::pipe();
        for key in keys(queue) {
            remove.zrem(key, &MEMBERS[..]).ignore();
        }
        match remove.exec_async(&mut redis).await {
            // A former master may have removed them, and the next one may still have them.
            Ok(()) if stage.guide.is_sure(&mut redis).await => return,
            // A key with a text contains nothing else, and expires.
            Err(error) if error.code() == Some("WRONGTYPE") => return,
            _ => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Puts a text at the key of a queue's retries. Scripts check the types of their keys first, and refuse.
pub async fn key(stage: &Stage, queue: usize, lasts: Duration) -> u64 {
    let key = format!("delaybridge:retry:{}", tag(queue));
    let text = format!("not of {}", QUEUES[queue]);
    let mut redis = stage.guide.clients_when_well().await.0.swap_remove(queue);
    let mut set = redis::cmd("SET");
    // With an expiry, so that it disappears whatever happens here.
    set.arg(&key).arg(text).arg("NX").arg("PX").arg(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX).max(1));
    let set: redis::RedisResult<Option<String>> = set.query_async(&mut redis).await;
    sleep(lasts).await;
    u64::from(set.is_ok_and(|set| set.is_some()))
}
