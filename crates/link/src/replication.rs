//! The replicas of a master.

use super::Conn;
use super::error::LinkError;

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
    pub(super) fn parse(text: &str) -> Replication {
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
