//! What operators did to a queue: a stream beside it that keeps the latest of their changes. Only operators write and read it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::error::StoreError;
use super::handle::Ledger;
use delaybridge_link::{Conn, Fields};

/// Changes that are kept, and a few more: Redis cuts where that is cheap.
const KEPT: usize = 1_000;

/// Bytes of entries that are read: the usual 1,000 have a third of that. An entry is read as a whole.
const LARGEST: usize = 1 << 20;
/// Fields of an entry that are kept of what is read.
const FIELDS: usize = 16;
/// Bytes of a field that are kept of what is read.
const FIELD: usize = 4 << 10;

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

    /// Reads the latest changes, the latest first. Whoever may write to the stream can make entries of any size: they
    /// are read one by one at first, and no more behind the one that is too much.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn changes(&self, conn: &Conn, most: usize) -> Result<Vec<ChangeRecord>, StoreError> {
        let text = |bytes: &Bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(FIELD)]).into_owned();
        let mut records = Vec::new();
        let mut last = "+".to_owned();
        let mut page = 1;
        let mut bytes = 0;
        while records.len() < most && bytes < LARGEST {
            let mut command = redis::cmd("XREVRANGE");
            let page_of = page.min(most - records.len());
            command.arg(&self.keys.audit()[..]).arg(&last).arg("-").arg("COUNT").arg(page_of);
            let mut rows = Fields::of("XREVRANGE", conn.query(&command).await?)?;
            let before = (records.len(), bytes);
            while !rows.is_empty() {
                let mut row = rows.array()?;
                let id = row.text()?;
                let values = row.all_bytes()?;
                bytes += values.iter().map(Bytes::len).sum::<usize>();
                records.push(ChangeRecord {
                    at_ms: id.split('-').next().and_then(|ms| ms.parse().ok()).unwrap_or(0),
                    fields: values
                        .as_chunks()
                        .0
                        .iter()
                        .take(FIELDS)
                        .map(|[name, value]| (text(name), text(value)))
                        .collect(),
                });
                last = format!("({id}");
            }
            let read = records.len() - before.0;
            if read < page_of {
                break;
            }
            // As many as fit into the rest if they are like these.
            let each = (bytes - before.1).div_ceil(read).max(1);
            page = (LARGEST.saturating_sub(bytes) / each).clamp(1, page.saturating_mul(16));
        }
        Ok(records)
    }
}
