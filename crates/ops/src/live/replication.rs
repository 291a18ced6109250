//! The replicas and the sentinels: what a failover would find.

use std::sync::Arc;

use super::finding::{Health, LiveFinding, finding};
use crate::error::explained;
use delaybridge_link::{Conn, Version, replication, storage};
use delaybridge_link::{Durability, RedisTarget};
use delaybridge_model::QueueSpec;

/// The first version with `WAITAOF`.
const WAITS_FOR_DISKS: Version = Version { major: 7, minor: 2, patch: 0 };

/// Asks each sentinel where the master is.
pub(super) async fn sentinels(target: &RedisTarget) -> Vec<LiveFinding> {
    let RedisTarget::Sentinel(target) = target else { return Vec::new() };
    let found = target.answers().await.into_iter().map(|(address, answer)| {
        let what = format!("sentinel {address}");
        match answer {
            Ok(Some(master)) => {
                finding(what, Health::Well, format!("names {master} as the master `{}`", target.master))
            }
            Ok(None) => finding(what, Health::Failed, format!("knows no master `{}`: check `master`", target.master)),
            // The others may be enough.
            Err(error) => finding(what, Health::Warning, error.message),
        }
    });
    found.collect()
}

/// Looks at the replicas, where they matter.
pub(super) async fn look(conn: &Conn, target: &RedisTarget, queues: &[Arc<QueueSpec>]) -> Vec<LiveFinding> {
    let needs: Vec<_> = queues.iter().filter_map(|spec| Some((spec, spec.durability.as_deref()?))).collect();
    let has_sentinels = matches!(target, RedisTarget::Sentinel(_));
    if needs.is_empty() && !has_sentinels {
        return Vec::new();
    }
    let (found, disk) = match (replication(conn).await, storage(conn).await) {
        (Ok(found), Ok(storage)) => (found, storage.append_only),
        (Err(error), _) | (_, Err(error)) => {
            return vec![finding("redis replicas", Health::Failed, explained(&error.into()))];
        }
    };
    let mut findings = Vec::new();
    if has_sentinels {
        findings.push(if found.needs_replicas {
            finding("redis min-replicas-to-write", Health::Well, "set")
        } else {
            finding(
                "redis min-replicas-to-write",
                Health::Warning,
                "0: a master that is cut off from its replicas goes on taking writes, and a failover loses them; set \
                 min-replicas-to-write 1 and min-replicas-max-lag 10",
            )
        });
    }
    let check = |(spec, need): (&Arc<QueueSpec>, &Durability)| {
        let what = format!("queue {}: durability", spec.id);
        let missing = lack(*need, found.replicas, disk, conn.info().version);
        match missing {
            Some(missing) => finding(what, Health::Failed, format!("{missing}: nothing is delivered")),
            None => {
                finding(what, Health::Well, format!("{} replicas follow, {} are needed", found.replicas, need.replicas))
            }
        }
    };
    findings.extend(needs.into_iter().map(check));
    findings
}

/// The reason why claims cannot be durable.
fn lack(need: Durability, replicas: u32, append_only: bool, version: Version) -> Option<String> {
    if need.aof && version < WAITS_FOR_DISKS {
        return Some(format!("`aof: true` takes Redis 7.2 or newer, and the server is {version}"));
    }
    if need.aof && !append_only {
        return Some("`aof: true` takes an append-only file, and the server has none; set appendonly yes".to_owned());
    }
    (replicas < need.replicas).then(|| format!("{replicas} replicas follow, {} are needed", need.replicas))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_claims_wait_for_must_be_there() {
        let check = |replicas, aof, there, append_only, version, expected: &str| {
            let need = Durability { replicas, aof, timeout: Duration::from_secs(1) };
            let got = lack(need, there, append_only, Version::parse(version).unwrap()).unwrap_or_default();
            assert!(got.starts_with(expected) && got.is_empty() == expected.is_empty(), "{got}");
        };
        check(1, false, 1, false, "6.2.0", "");
        check(2, false, 1, false, "6.2.0", "1 replicas follow, 2 are needed");
        check(0, true, 0, true, "7.2.4", "");
        check(0, true, 0, true, "7.0.15", "`aof: true` takes Redis 7.2");
        check(0, true, 0, false, "8.2.3", "`aof: true` takes an append-only file");
        check(1, true, 0, true, "8.2.3", "0 replicas follow");
    }
}
