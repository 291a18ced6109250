//! Keys of the queue that hold another type than ours or the source's, and those that Redis will delete.

use std::sync::LazyLock;

use bytes::Bytes;
use redis::Value;

use super::{Check, Fault, Found, Repair, Suspect, script};
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::unleased::claims_with_keys;
use delaybridge_link::{BadReply, Conn, Script};

static PERSIST: LazyLock<Script> = LazyLock::new(|| script("fsck_persist", include_str!("scripts/persist.lua")));
static ASIDE: LazyLock<Script> = LazyLock::new(|| script("fsck_aside", include_str!("scripts/aside.lua")));

const FOREIGN: &str = "the key belongs to another program, or the name of the queue is wrong: fsck changes no such key";

impl Ledger {
    /// Looks at the type of every key; whether one was wrong.
    pub(super) async fn look_at_types(&self, conn: &Conn, found: &mut Found<'_>) -> Result<bool, StoreError> {
        let k = &self.keys;
        let own = [(&k.leases, "zset"), (&k.retry, "zset"), (&k.dead, "stream"), (&k.state, "hash")];
        let mut keys: Vec<(Bytes, &'static str)> = own.into_iter().map(|(key, kind)| (key.clone(), kind)).collect();
        keys.extend(self.source.repair().typed_keys());
        let claims = claims_with_keys(conn, &k.space.prefix, Some(&k.tag), None).await?.unwrap_or_default();
        let of_queue = claims.into_iter().filter(|(tag, _)| tag[..] == *k.tag.as_bytes());
        keys.extend(of_queue.flat_map(|(_, name)| k.of_claim(name)).map(|key| (key, "zset")));
        let mut wrong = false;
        for page in keys.chunks(1_000) {
            let mut pipe = redis::pipe();
            for (key, _) in page {
                pipe.cmd("TYPE").arg(&key[..]);
            }
            for ((key, want), answer) in page.iter().zip(conn.pipeline(&pipe).await?) {
                let kind = match answer? {
                    Value::SimpleString(kind) => kind,
                    Value::BulkString(kind) => String::from_utf8_lossy(&kind).into_owned(),
                    _ => return Err(BadReply { script: "TYPE", expected: "the name of a type" }.into()),
                };
                if kind != *want && kind != "none" {
                    wrong = true;
                    found.add(self.wrong(key, &kind, want));
                }
            }
        }
        Ok(wrong)
    }

    /// Looks for keys of the source that Redis will delete with all that is in them.
    pub(super) async fn look_at_times_to_live(&self, conn: &Conn, found: &mut Found<'_>) -> Result<(), StoreError> {
        for (key, left_ms) in self.expiring(conn).await? {
            let subject = format!("{} is deleted in {} s", String::from_utf8_lossy(&key), left_ms / 1_000);
            found.add(Suspect::new(
                Fault::Expiring,
                subject,
                Repair::Script,
                Check::new(&PERSIST, vec![key], Vec::new()),
            ));
        }
        Ok(())
    }

    fn wrong(&self, key: &Bytes, kind: &str, want: &'static str) -> Suspect {
        let name = String::from_utf8_lossy(key).into_owned();
        let subject = format!("{name} holds a {kind}, expected a {want}");
        let aside = self.keys.aside(key);
        let repair = if aside.is_some() { Repair::Script } else { Repair::Kept(FOREIGN) };
        let keys = vec![key.clone(), aside.unwrap_or_else(|| key.clone())];
        Suspect::new(
            Fault::ForeignType,
            subject,
            repair,
            Check::new(&ASIDE, keys, vec![Bytes::from_static(want.as_bytes())]),
        )
    }
}
