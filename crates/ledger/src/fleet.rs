//! The records of all daemons: a hash with a field for each, in the first Redis of a configuration. What is in a record the writer knows.

use std::collections::BTreeMap;

use super::error::StoreError;
use delaybridge_link::rights::command::{HDEL, HGETALL, HSET};
use delaybridge_link::rights::{Grant, Pattern};
use delaybridge_link::{Conn, KeyPrefix};

/// The records of all daemons at a server.
pub struct FleetRecords<'a> {
    conn: &'a Conn,
    key: String,
}

impl FleetRecords<'_> {
    /// Returns the records over this connection.
    pub fn over<'a>(conn: &'a Conn, prefix: &KeyPrefix) -> FleetRecords<'a> {
        FleetRecords { conn, key: FleetRecords::key(prefix) }
    }

    /// Returns the key.
    pub fn key(prefix: &KeyPrefix) -> String {
        prefix.name("fleet")
    }

    /// Returns the rights of a daemon, which writes its own.
    pub fn rights(prefix: &KeyPrefix) -> Grant {
        Grant::on([Pattern::exact(FleetRecords::key(prefix))], [HDEL, HGETALL, HSET])
    }

    /// Returns the rights to read them.
    pub fn rights_to_read(prefix: &KeyPrefix) -> Grant {
        Grant::on([Pattern::exact(FleetRecords::key(prefix))], [HGETALL])
    }

    /// Writes the record of a daemon. A second call writes it again.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn put(&self, daemon: &str, record: &str) -> Result<(), StoreError> {
        self.conn.query::<i64>(redis::cmd("HSET").arg(&self.key).arg(daemon).arg(record)).await?;
        Ok(())
    }

    /// Removes the record of a daemon.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn remove(&self, daemon: &[u8]) -> Result<(), StoreError> {
        self.conn.query::<i64>(redis::cmd("HDEL").arg(&self.key).arg(daemon)).await?;
        Ok(())
    }

    /// Reads every record by its field. Neither has to be text: whoever may write there can write anything.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn all(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
        Ok(self.conn.query(redis::cmd("HGETALL").arg(&self.key)).await?)
    }
}
