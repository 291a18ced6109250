//! Plain sorted sets: the daemon is the built binary, Redis a real server, the producers are typical hand-written ones.

mod faults;
mod forwarding;
#[cfg(feature = "http")]
mod proof;
mod recorded;
mod shared_looks;
mod tools;

use std::time::Duration;

use redis::aio::MultiplexedConnection;

const PATIENCE: Duration = Duration::from_secs(60);

/// The time of Redis, in ms.
async fn now_ms(redis: &mut MultiplexedConnection) -> i64 {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(redis).await.expect("a time");
    seconds * 1_000 + micros / 1_000
}

/// Adds members with scores, hundreds per command, as a producer does.
async fn produce(redis: &mut MultiplexedConnection, key: &str, members: &[(i64, String)]) {
    for chunk in members.chunks(500) {
        let mut command = redis::cmd("ZADD");
        command.arg(key);
        for (score, member) in chunk {
            command.arg(score).arg(member);
        }
        command.exec_async(redis).await.expect("the server takes it");
    }
}
