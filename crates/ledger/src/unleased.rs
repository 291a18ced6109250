//! Keys of claims without a lease. The leases were deleted, or evicted: without its name there, a claim is never found again.
//!
//! The keys have the names of their claims. A lease that is over is all that is missing: the next daemon that claims takes
//! over what they hold.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::claims::ClaimName;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::packed::glob_literal;
use crate::page::redis_now_ms;
use delaybridge_core::clock::Instant;
use delaybridge_link::{Conn, Fields, KeyPrefix};

/// Keys that one step of a scan looks at.
const STEP: usize = 1_000;
/// Names that are looked up in one call.
const PAGE: usize = 1_000;

const WORD: &[u8] = b"claim:";

/// Scans for the names of all claims that have keys, each with the tag of its queue; `None` if the scan takes longer
/// than until then. Only keys of `tag`, if there is one.
///
/// # Errors
///
/// Those of the connection, and a missing right to `SCAN`.
pub async fn claims_with_keys(
    conn: &Conn,
    prefix: &KeyPrefix,
    tag: Option<&str>,
    until: Option<Instant>,
) -> Result<Option<BTreeSet<(Bytes, ClaimName)>>, StoreError> {
    let mut pattern = [prefix.as_bytes(), WORD, b"*"].concat();
    if let Some(tag) = tag {
        pattern.push(b':');
        pattern.extend(glob_literal(tag.as_bytes()));
    }
    let mut found = BTreeSet::new();
    let mut cursor = Bytes::from_static(b"0");
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor[..]).arg("MATCH").arg(&pattern[..]).arg("COUNT").arg(STEP);
        let mut fields = Fields::of("SCAN", conn.query(&scan).await?)?;
        cursor = fields.bytes()?;
        found.extend(fields.all_bytes()?.iter().filter_map(|key| claim_of(prefix, key)));
        if &cursor[..] == b"0" {
            return Ok(Some(found));
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(None);
        }
    }
}

/// Returns the tag and the name of the claim with this key: `PREFIXclaim:NAME:d:TAG`, or `h`.
fn claim_of(prefix: &KeyPrefix, key: &Bytes) -> Option<(Bytes, ClaimName)> {
    let rest = key.strip_prefix(prefix.as_bytes())?.strip_prefix(WORD)?;
    let end = rest.iter().position(|byte| *byte == b':')?;
    let tag = rest[end..].strip_prefix(b":d:").or_else(|| rest[end..].strip_prefix(b":h:"))?;
    let name = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((key.slice_ref(tag), name))
}

impl Ledger {
    /// Finds the claims among these that have keys and no lease.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn without_lease(&self, conn: &Conn, names: &[ClaimName]) -> Result<Vec<ClaimName>, StoreError> {
        let mut without = Vec::new();
        for names in names.chunks(PAGE) {
            let mut command = redis::cmd("ZMSCORE");
            command.arg(&self.keys.leases[..]);
            for name in names {
                command.arg(name.to_string());
            }
            let ends: Vec<Option<f64>> = conn.query(&command).await?;
            let candidates = names.iter().zip(ends).filter(|(_, end)| end.is_none()).map(|(name, _)| *name);
            for name in candidates {
                // A claim may have ended since its key was seen. The lease goes last, so one with keys still has lost it.
                if self.claim_size(conn, name).await? > 0 {
                    without.push(name);
                }
            }
        }
        Ok(without)
    }

    /// Finds the claims of the queue that have keys and no lease. Looks at every key of the database.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a missing right to `SCAN`.
    pub async fn unleased(&self, conn: &Conn) -> Result<Vec<ClaimName>, StoreError> {
        let found =
            claims_with_keys(conn, &self.keys.space.prefix, Some(&self.keys.tag), None).await?.unwrap_or_default();
        let names: Vec<_> =
            found.into_iter().filter(|(tag, _)| tag[..] == *self.keys.tag.as_bytes()).map(|(_, name)| name).collect();
        self.without_lease(conn, &names).await
    }

    /// Gives these claims leases that are over, unless they have leases by now: the next claim meets them.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again. A lease without keys, of a claim that has ended meanwhile, does no harm.
    pub async fn give_leases(&self, conn: &Conn, names: &[ClaimName]) -> Result<(), StoreError> {
        let now_ms = redis_now_ms(conn).await?;
        for names in names.chunks(PAGE) {
            let mut command = redis::cmd("ZADD");
            command.arg(&self.keys.leases[..]).arg("NX");
            for name in names {
                command.arg(now_ms).arg(name.to_string());
            }
            conn.query::<i64>(&command).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;
    use delaybridge_link::KeySpace;

    #[test]
    fn a_claim_is_read_from_either_of_its_keys() {
        let name = ClaimName { owner: [0xab; 8], number: 7, expiries: 2 };
        for tag in ["{orders}", "app:{x}:d:orders", "{a:d:b}"] {
            for prefix in ["delaybridge:", "team-a:claim:"] {
                let prefix: KeyPrefix = prefix.parse().expect("a prefix");
                let space = KeySpace { prefix: prefix.clone(), database: 0 };
                for key in Keys::of(&space, tag).of_claim(name) {
                    let tag = Bytes::copy_from_slice(tag.as_bytes());
                    assert_eq!(claim_of(&prefix, &key), Some((tag, name)), "{key:?}");
                }
            }
        }
        for other in ["delaybridge:claim:", "delaybridge:claim:9.x:d:{q}", "delaybridge:claim:1.00.1.0:x:{q}", "other"]
        {
            assert_eq!(claim_of(&KeyPrefix::default(), &Bytes::from_static(other.as_bytes())), None);
        }
    }
}
