//! The storage of a server: its memory and its disk.

use super::Conn;
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
