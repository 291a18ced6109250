//! Who delivers a queue in order, as an operator sees it. The scripts of claims take and give the order.

use super::error::StoreError;
use super::handle::Ledger;
use delaybridge_link::Conn;

impl Ledger {
    /// Reads the owner of the order, in hexadecimal digits, and the end of its lease in ms; `None` while nobody has it.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn order_holder(&self, conn: &Conn) -> Result<Option<(String, i64)>, StoreError> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.state[..]).arg(&["order_owner", "order_until"]);
        let (owner, until): (Option<String>, Option<String>) = conn.query(&command).await?;
        let until_ms = until.and_then(|until| until.parse().ok()).filter(|until| *until > 0);
        Ok(owner.zip(until_ms))
    }
}
