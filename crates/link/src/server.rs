//! Questions to a server about itself: its storage, its replicas, and who listens.

use super::conn::Conn;
use super::error::LinkError;
use super::info::{Memory, field};

/// The storage of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The memory.
    pub memory: Memory,
    /// Whether every write goes to the append-only file.
    pub append_only: bool,
    /// The schedule of snapshots (`save`); empty for none, `None` if `CONFIG GET` is refused.
    pub snapshots: Option<String>,
}

/// Asks a server about its memory and its disk.
///
/// # Errors
///
/// Returns an error of the connection, or a missing right to `INFO`.
pub async fn storage(conn: &Conn) -> Result<Storage, LinkError> {
    let memory: String = conn.query(redis::cmd("INFO").arg("memory")).await?;
    let persistence: String = conn.query(redis::cmd("INFO").arg("persistence")).await?;
    // Managed services and most users' ACLs refuse CONFIG.
    let save: Option<Vec<String>> = conn.query(redis::cmd("CONFIG").arg("GET").arg("save")).await.ok();
    Ok(Storage {
        memory: Memory::parse(&memory),
        append_only: field(&persistence, "aof_enabled") == Some("1"),
        snapshots: save.and_then(|pair| pair.into_iter().nth(1)),
    })
}

/// Returns whether Redis uses more than 90 % of the memory it may use.
///
/// # Errors
///
/// Returns an error of the connection, or a missing right to `INFO`.
pub async fn nearly_full(conn: &Conn) -> Result<bool, LinkError> {
    let info: String = conn.query(redis::cmd("INFO").arg("memory")).await?;
    Ok(Memory::parse(&info).is_nearly_full())
}

/// The replicas of a master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replication {
    /// Number of connected replicas.
    pub replicas: u32,
    /// Whether it refuses writes while it has too few replicas (`min-replicas-to-write`).
    pub needs_replicas: bool,
}

impl Replication {
    /// Parses the reply to `INFO replication`. It has the number of sufficiently recent replicas only if some are
    /// required.
    pub(crate) fn parse(text: &str) -> Replication {
        let online = |line: &&str| line.starts_with("slave") && line.contains("state=online");
        Replication {
            replicas: text.lines().filter(online).count() as u32,
            needs_replicas: text.lines().any(|line| line.starts_with("min_slaves_good_slaves:")),
        }
    }
}

/// Asks a master about its replicas.
///
/// # Errors
///
/// Returns an error of the connection, or a missing right to `INFO`.
pub async fn replication(conn: &Conn) -> Result<Replication, LinkError> {
    Ok(Replication::parse(&conn.query::<String>(redis::cmd("INFO").arg("replication")).await?))
}

/// Counts the subscribers of each of these channels. A server counts its own clients; in a cluster a client may
/// subscribe at any node.
///
/// Connections for `PUBSUB NUMSUB` are kept for the next question.
///
/// # Errors
///
/// Returns an error of the connection, or a missing right to `PUBSUB`. In a cluster every node has to answer, because
/// any of them may have the subscribers.
pub async fn listeners(conn: &Conn, channels: &[&str]) -> Result<Vec<i64>, LinkError> {
    let mut command = redis::cmd("PUBSUB");
    command.arg("NUMSUB").arg(channels);
    let mut sums = vec![0; channels.len()];
    for answer in conn.everywhere("PUBSUB NUMSUB", &command).await? {
        let counts: Vec<(String, i64)> =
            redis::from_redis_value(answer).map_err(|error| LinkError::Malformed(error.to_string()))?;
        sums.iter_mut().zip(counts).for_each(|(sum, (_, listeners))| *sum += listeners);
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_are_online_are_counted() {
        let text = "role:master\r\nconnected_slaves:2\r\nmin_slaves_good_slaves:1\r\n\
                    slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0\r\n\
                    slave1:ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0\r\n";
        assert_eq!(Replication::parse(text), Replication { replicas: 1, needs_replicas: true });
        let alone = "role:master\r\nconnected_slaves:0\r\n";
        assert_eq!(Replication::parse(alone), Replication { replicas: 0, needs_replicas: false });
    }
}
