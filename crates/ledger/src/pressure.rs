//! The memory that the server has left.

use crate::error::StoreError;
use delaybridge_link::{Conn, Memory};

/// Returns whether Redis uses more than 90 % of the memory it may use.
///
/// # Errors
///
/// Those of the connection, and a missing right to `INFO`.
pub async fn nearly_full(conn: &Conn) -> Result<bool, StoreError> {
    let info: String = conn.query(redis::cmd("INFO").arg("memory")).await?;
    Ok(Memory::parse(&info).is_nearly_full())
}
