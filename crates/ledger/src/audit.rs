//! What operators did to a queue: a stream beside it that keeps the latest of their changes. Only operators write and read it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::error::StoreError;
use super::handle::Ledger;
use delaybridge_link::{Conn, Fields};

/// Changes that are kept, and a few more: Redis cuts where that is cheap.
const KEPT: usize = 1_000;

/// One change, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRecord {
    /// Redis time of the change, in ms.
    pub at_ms: i64,
    /// The fields by name.
    pub fields: BTreeMap<String, String>,
}

impl Ledger {
    /// Keeps a change. A second call keeps it twice.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn keep_change(&self, conn: &Conn, fields: &[(&str, &str)]) -> Result<(), StoreError> {
        let mut command = redis::cmd("XADD");
        command.arg(&self.keys.audit()[..]).arg("MAXLEN").arg("~").arg(KEPT).arg("*");
        for (name, value) in fields {
            command.arg(*name).arg(*value);
        }
        conn.query::<String>(&command).await?;
        Ok(())
    }

    /// The latest changes, the latest first.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn changes(&self, conn: &Conn, most: usize) -> Result<Vec<ChangeRecord>, StoreError> {
        let mut command = redis::cmd("XREVRANGE");
        command.arg(&self.keys.audit()[..]).arg("+").arg("-").arg("COUNT").arg(most);
        let mut rows = Fields::of("XREVRANGE", conn.query(&command).await?)?;
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let mut records = Vec::new();
        while !rows.is_empty() {
            let mut row = rows.array()?;
            let id = row.text()?;
            let values = row.all_bytes()?;
            records.push(ChangeRecord {
                at_ms: id.split('-').next().and_then(|ms| ms.parse().ok()).unwrap_or(0),
                fields: values.as_chunks().0.iter().map(|[name, value]| (text(name), text(value))).collect(),
            });
        }
        Ok(records)
    }
}
