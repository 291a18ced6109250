//! The records of all daemons: a hash with a field for each, in the first Redis of a configuration. What is in a record the writer knows.

use std::collections::BTreeMap;

use super::error::StoreError;
use delaybridge_link::Conn;
use delaybridge_link::rights::command::{HDEL, HGETALL, HSET};
use delaybridge_link::rights::{Grant, Pattern};

/// The records of all daemons at a server.
pub struct FleetRecords<'a>(pub &'a Conn);

impl FleetRecords<'_> {
    /// The key.
    pub const KEY: &'static str = "delaybridge:fleet";

    /// The rights of a daemon, which writes its own.
    pub fn rights() -> Grant {
        Grant::on([Pattern::exact(Self::KEY)], [HDEL, HGETALL, HSET])
    }

    /// The rights to read them.
    pub fn rights_to_read() -> Grant {
        Grant::on([Pattern::exact(Self::KEY)], [HGETALL])
    }

    /// Writes the record of a daemon. A second call writes it again.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn put(&self, daemon: &str, record: &str) -> Result<(), StoreError> {
        self.0.query::<i64>(redis::cmd("HSET").arg(Self::KEY).arg(daemon).arg(record)).await?;
        Ok(())
    }

    /// Removes the record of a daemon.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn remove(&self, daemon: &[u8]) -> Result<(), StoreError> {
        self.0.query::<i64>(redis::cmd("HDEL").arg(Self::KEY).arg(daemon)).await?;
        Ok(())
    }

    /// Reads every record by its field. Neither has to be text: whoever may write there can write anything.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn all(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
        Ok(self.0.query(redis::cmd("HGETALL").arg(Self::KEY)).await?)
    }
}
