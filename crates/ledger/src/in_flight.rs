//! Elements in flight, for an operator: the members of all claims, one claim after the other.

use bytes::Bytes;
use redis::Value;

use super::claims::{ClaimName, Part};
use crate::batch::BATCH_BYTES;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::page::{Kind, RawPage, page, redis_now_ms};
use delaybridge_link::{BadReply, Conn};

/// Leases that one read asks for.
const PAGE: usize = 1_000;

/// One key of a claim.
#[derive(Debug, Clone)]
pub struct ClaimKey {
    /// The claim.
    pub name: ClaimName,
    /// The part of the claim.
    pub part: Part,
    /// The key.
    pub key: Bytes,
    /// End of the lease in ms.
    pub until_ms: i64,
    /// Members.
    pub size: usize,
}

impl Ledger {
    /// Reads the keys of claims that hold something, those with the earliest end of a lease first; claims of another
    /// version are left out.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn claim_keys(&self, conn: &Conn) -> Result<Vec<ClaimKey>, StoreError> {
        let mut all = Vec::new();
        for first in (0..).step_by(PAGE) {
            let mut command = redis::cmd("ZRANGE");
            command.arg(&self.keys.leases[..]).arg(first).arg(first + PAGE - 1).arg("WITHSCORES");
            let leases: Vec<(Vec<u8>, f64)> = conn.query(&command).await?;
            let read = leases.len();
            let mut found: Vec<ClaimKey> = Vec::with_capacity(2 * read);
            for (name, until) in leases {
                let Some(name) = std::str::from_utf8(&name).ok().and_then(|name| name.parse().ok()) else { continue };
                for (part, key) in [Part::Bare, Part::Entries].into_iter().zip(self.keys.of_claim(name)) {
                    found.push(ClaimKey { name, part, key, until_ms: until as i64, size: 0 });
                }
            }
            let mut sizes = redis::pipe();
            for key in &found {
                sizes.cmd("ZCARD").arg(&key.key[..]);
            }
            let answers = if found.is_empty() { Vec::new() } else { conn.pipeline(&sizes).await? };
            for (key, answer) in found.iter_mut().zip(answers) {
                key.size = match answer? {
                    Value::Int(n) => usize::try_from(n).unwrap_or(0),
                    _ => return Err(BadReply { script: "ZCARD", expected: "a number" }.into()),
                };
            }
            all.extend(found.into_iter().filter(|key| key.size > 0));
            if read < PAGE {
                break;
            }
        }
        Ok(all)
    }

    /// Counts the elements of a claim.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn claim_size(&self, conn: &Conn, name: ClaimName) -> Result<usize, StoreError> {
        let mut sizes = redis::pipe();
        for key in self.keys.of_claim(name) {
            sizes.cmd("ZCARD").arg(&key[..]);
        }
        let mut elements = 0;
        for answer in conn.pipeline(&sizes).await? {
            match answer? {
                Value::Int(n) => elements += usize::try_from(n).unwrap_or(0),
                _ => return Err(BadReply { script: "ZCARD", expected: "a number" }.into()),
            }
        }
        Ok(elements)
    }

    /// Reads the members of all claims from the `first` on, each with its key: at least one unless the end is reached.
    /// Their scores are those in the keys.
    pub(super) async fn in_flight_page(
        &self,
        conn: &Conn,
        first: usize,
        count: usize,
        shown: usize,
    ) -> Result<(RawPage, Vec<ClaimKey>), StoreError> {
        let keys = self.claim_keys(conn).await?;
        let mut all = RawPage {
            now_ms: redis_now_ms(conn).await?,
            total: keys.iter().map(|key| key.size).sum(),
            members: Vec::new(),
        };
        let mut skip = first;
        let mut bytes = 0;
        let mut of = Vec::new();
        for key in keys {
            if skip >= key.size {
                skip -= key.size;
                continue;
            }
            if all.members.len() >= count || bytes >= BATCH_BYTES {
                break;
            }
            let read = page(conn, &key.key, Kind::Zset, skip, count - all.members.len(), shown).await?;
            let complete = skip + read.members.len() >= key.size;
            skip = 0;
            bytes += read.members.iter().map(|(_, _, start)| start.len()).sum::<usize>();
            of.extend(std::iter::repeat_n(key, read.members.len()));
            all.members.extend(read.members);
            if !complete {
                break;
            }
        }
        Ok((all, of))
    }
}
