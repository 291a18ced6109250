//! Claims without leases, and leases without claims.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use super::{Check, Fault, Found, Repair, Suspect, Terms, script};
use crate::args::{millis, text};
use crate::claims::ClaimName;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::page::redis_now_ms;
use delaybridge_link::{BadReply, Conn, Script};

static GIVE: LazyLock<Script> = LazyLock::new(|| script("fsck_give_lease", include_str!("scripts/give_lease.lua")));
static END: LazyLock<Script> = LazyLock::new(|| script("fsck_end_lease", include_str!("scripts/end_lease.lua")));
static SHORTEN: LazyLock<Script> =
    LazyLock::new(|| script("fsck_shorten_lease", include_str!("scripts/shorten_lease.lua")));
pub(super) static MEMBER: LazyLock<Script> =
    LazyLock::new(|| script("fsck_member", include_str!("scripts/member.lua")));

/// Leases that one read asks for.
const PAGE: usize = 1_000;
/// A lease that ends later than in a day, and than in four leases of this configuration, was written by no daemon.
const LONGEST: Duration = Duration::from_secs(86_400);

fn longest_ms(terms: &Terms) -> i64 {
    millis(LONGEST.max(terms.lease.saturating_mul(4)))
}

impl Ledger {
    pub(super) async fn look_at_leases(
        &self,
        conn: &Conn,
        terms: &Terms,
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        for name in self.unleased(conn).await? {
            found.unleased.push(name);
            let [d, h] = self.keys.of_claim(name);
            let keys = vec![self.keys.leases.clone(), d, h];
            let check = Check::new(&GIVE, keys, vec![text(name)]);
            found.add(Suspect::new(Fault::ClaimWithoutLease, format!("claim {name}"), Repair::Script, check));
        }
        for first in (0..).step_by(PAGE) {
            let mut command = redis::cmd("ZRANGE");
            command.arg(&self.keys.leases[..]).arg(first).arg(first + PAGE - 1).arg("WITHSCORES");
            let leases: Vec<(Vec<u8>, f64)> = conn.query(&command).await?;
            let read = leases.len();
            let now_ms = redis_now_ms(conn).await?;
            let mut doubtful = Vec::new();
            for (name, until_ms) in leases {
                match std::str::from_utf8(&name).ok().and_then(|name| name.parse::<ClaimName>().ok()) {
                    None => found.add(self.unknown_claim(name.into())),
                    Some(name) if until_ms - now_ms as f64 > longest_ms(terms) as f64 => {
                        found.add(self.too_long(name, until_ms, terms));
                    }
                    Some(name) if until_ms + (millis(terms.grace) as f64) < now_ms as f64 => doubtful.push(name),
                    Some(_) => {}
                }
            }
            self.without_keys(conn, &doubtful, terms, found).await?;
            if read < PAGE {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn without_keys(
        &self,
        conn: &Conn,
        names: &[ClaimName],
        terms: &Terms,
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        if names.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        for name in names {
            let [d, h] = self.keys.of_claim(*name);
            pipe.cmd("EXISTS").arg(&d[..]).arg(&h[..]);
        }
        for (name, answer) in names.iter().zip(conn.pipeline(&pipe).await?) {
            match answer? {
                Value::Int(0) => {
                    let [d, h] = self.keys.of_claim(*name);
                    let args = vec![text(name), text(millis(terms.grace))];
                    let check = Check::new(&END, vec![self.keys.leases.clone(), d, h], args);
                    found.add(Suspect::new(Fault::LeaseWithoutClaim, format!("lease {name}"), Repair::Script, check));
                }
                Value::Int(_) => {}
                _ => return Err(BadReply { script: "EXISTS", expected: "a number" }.into()),
            }
        }
        Ok(())
    }

    fn unknown_claim(&self, name: Bytes) -> Suspect {
        let subject = format!("lease {}", String::from_utf8_lossy(&name).escape_default());
        let check = Check::new(&MEMBER, vec![self.keys.leases.clone()], vec![name]);
        Suspect::new(Fault::UnknownClaim, subject, Repair::Kept("a newer version may use it"), check)
    }

    fn too_long(&self, name: ClaimName, until_ms: f64, terms: &Terms) -> Suspect {
        let args = vec![text(name), text(longest_ms(terms)), text(millis(terms.lease))];
        let subject = format!("lease {name} ends at {until_ms:.0} ms since 1970");
        let check = Check::new(&SHORTEN, vec![self.keys.leases.clone()], args);
        Suspect::new(Fault::LeaseTooLong, subject, Repair::Script, check)
    }
}
