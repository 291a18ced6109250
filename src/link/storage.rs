//! Where a server keeps what it is given: its memory, and its disk.

use super::Conn;
use super::error::LinkError;
use super::info::{Memory, field};

/// What a server says of its memory and its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Its memory.
    pub memory: Memory,
    /// Whether every write goes to the append-only file.
    pub append_only: bool,
    /// When snapshots are made, as the server's `save` says it; empty for never, `None` where it may not be asked.
    pub snapshots: Option<String>,
}

/// Asks a server about its memory and its disk.
///
/// # Errors
///
/// Those of the connection, and a missing right to `INFO`.
pub async fn storage(conn: &Conn) -> Result<Storage, LinkError> {
    let memory: String = conn.query(redis::cmd("INFO").arg("memory")).await?;
    let persistence: String = conn.query(redis::cmd("INFO").arg("persistence")).await?;
    // Managed services and most users refuse it.
    let save: Option<Vec<String>> = conn.query(redis::cmd("CONFIG").arg("GET").arg("save")).await.ok();
    Ok(Storage {
        memory: Memory::parse(&memory),
        append_only: field(&persistence, "aof_enabled") == Some("1"),
        snapshots: save.and_then(|pair| pair.into_iter().nth(1)),
    })
}
