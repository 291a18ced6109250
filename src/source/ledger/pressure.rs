//! How much memory the server has left.

use crate::link::Conn;
use crate::source::SourceError;

/// Whether Redis uses more than 90 % of the memory it may use.
///
/// # Errors
///
/// Those of the connection, and a missing right to `INFO`.
pub async fn nearly_full(conn: &Conn) -> Result<bool, SourceError> {
    let info: String = conn.query(redis::cmd("INFO").arg("memory")).await?;
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .and_then(|n| n.trim().parse::<u64>().ok())
    };
    Ok(match (field("used_memory"), field("maxmemory")) {
        (Some(used), Some(limit)) if limit > 0 => used as f64 > limit as f64 * 0.9,
        _ => false,
    })
}
