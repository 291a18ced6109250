//! Steps in which Redis loses data: deleted keys, a failover.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use delaybridge_ledger::claims::{ClaimName, Part};
use redis::Script;

use super::snapshot::{Snapshot, identity};
use super::world::World;

/// An earlier state of Redis and of this test.
pub struct Older {
    keys: Vec<(Vec<u8>, Vec<u8>)>,
    orphans: HashSet<Bytes>,
    ran: HashSet<ClaimName>,
    stranded: BTreeSet<Bytes>,
    newer: BTreeSet<Bytes>,
}

/// Returns all keys except the clock, with their contents.
const DUMP: &str = "
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if key ~= ARGV[1] then out[#out + 1] = {key, redis.call('DUMP', key)} end
end
return out";

/// Replaces the contents by these keys. ARGV: the clock, then keys and dumps.
const RESTORE: &str = "
for _, key in ipairs(redis.call('KEYS', '*')) do
  if key ~= ARGV[1] then redis.call('DEL', key) end
end
for i = 2, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end";

impl World<'_> {
    async fn delete(&mut self, key: Bytes) {
        self.note(format!("{} is deleted", String::from_utf8_lossy(&key)));
        self.rig.run(redis::cmd("DEL").arg(&key[..])).await;
    }

    /// Deletes some key, as an eviction, a deletion or an expiry does.
    pub async fn delete_some_key(&mut self) {
        match self.rng.u8(..12) {
            0..3 => self.delete_z().await,
            3..5 => {
                self.delete(self.keys.list.clone()).await;
                self.theirs_only("the end of L").await;
            }
            5 => self.delete_leases().await,
            6 | 7 => self.delete_from_claim().await,
            8 => {
                self.delete(self.keys.retry.clone()).await;
                let expected = Snapshot { retry: Default::default(), ..self.seen.clone() };
                self.deleted(expected).await;
            }
            9 | 10 => self.delete_records().await,
            _ => {
                self.delete(self.keys.sweep.clone()).await;
                let expected = Snapshot { state: Default::default(), ..self.seen.clone() };
                self.deleted(expected).await;
            }
        }
    }

    /// Checks that exactly this is left.
    async fn deleted(&mut self, expected: Snapshot) {
        let after = self.look().await;
        assert_eq!(expected.difference(&after), None, "after a deletion");
        self.seen = after;
    }

    /// Records orphans: entries of L that are neither recorded nor in Z, and so the last copies of elements.
    fn make_orphans(&mut self, orphans: Vec<Bytes>) {
        self.note(format!("{} orphans", orphans.len()));
        self.orphans.extend(orphans);
    }

    /// Whether no set of identities confuses these orphans with a ghost, now or later.
    fn distinct(&self, orphans: &[Bytes]) -> bool {
        let alike = |id: Bytes| {
            let listed = self.seen.l.iter().filter(|e| identity(e) == id).count();
            listed + self.seen.z.keys().filter(|e| identity(e) == id && self.seen.copies(e) == 0).count()
        };
        orphans.iter().all(|e| alike(identity(e)) == 1)
    }

    async fn delete_z(&mut self) {
        let orphans: Vec<_> = self.seen.z.keys().filter(|e| self.seen.copies(e) > 0).cloned().collect();
        if !self.distinct(&orphans) || orphans.iter().any(|e| self.seen.records(&identity(e)) > 0) {
            return;
        }
        self.delete(self.keys.delayed.clone()).await;
        self.make_orphans(orphans);
        self.theirs_only("the end of Z").await;
    }

    /// Deletes the records of ghosts, which look like orphans then.
    async fn delete_records(&mut self) {
        let (key, ids) = if self.rng.bool() {
            (self.keys.ghosts.clone(), self.seen.ghosts.clone())
        } else {
            (self.keys.ghosts_turn.clone(), self.seen.turn.clone())
        };
        let ghosts = self.seen.l.iter().filter(|e| !self.seen.z.contains_key(*e) && ids.contains(&identity(e)));
        let ghosts: Vec<Bytes> = ghosts.cloned().collect();
        // The record of a live twin would be taken for theirs.
        if !self.distinct(&ghosts) || ghosts.iter().any(|e| self.seen.records(&identity(e)) > 1) {
            return;
        }
        self.delete(key.clone()).await;
        let mut expected = self.seen.clone();
        let records = if key == self.keys.ghosts { &mut expected.ghosts } else { &mut expected.turn };
        records.clear();
        self.make_orphans(ghosts);
        self.deleted(expected).await;
    }

    /// Deletes the leases: no call finds these claims any more, but their owners may still settle them.
    async fn delete_leases(&mut self) {
        self.delete(self.names.leases().clone()).await;
        self.stranded.extend(self.seen.claims.keys().cloned());
        // Without a record of a claim, a repeated call within its not_after runs again.
        self.ran.clear();
        let expected = Snapshot { leases: Default::default(), ..self.seen.clone() };
        self.deleted(expected).await;
    }

    /// Deletes a key of a claim: its content is lost, nothing else.
    async fn delete_from_claim(&mut self) {
        let Some(name) = self.rng.choice(self.seen.claims.keys().cloned().collect::<Vec<_>>()) else { return };
        let part = if self.rng.bool() { Part::Bare } else { Part::Entries };
        self.delete(self.names.claim(&name, part)).await;
        let mut expected = self.seen.clone();
        expected.claims.get_mut(&name).expect("it is there").part_mut(part).clear();
        expected.tidy();
        self.deleted(expected).await;
    }

    /// Restores an earlier state of Redis, or remembers the present one for later.
    pub async fn fail_over(&mut self) {
        let clock = delaybridge_link::TEST_CLOCK;
        let Some(older) = self.older.take() else {
            let dump = Script::new(DUMP);
            let keys = dump.arg(clock).invoke_async(&mut self.rig.redis).await.expect("dump all keys");
            self.note("a replica falls behind".to_owned());
            self.older = Some(Older {
                keys,
                orphans: self.orphans.clone(),
                ran: self.ran.clone(),
                stranded: self.stranded.clone(),
                newer: self.newer.clone(),
            });
            return;
        };
        let restore = Script::new(RESTORE);
        let mut call = restore.arg(clock);
        older.keys.iter().for_each(|(key, dump)| {
            call.arg(&key[..]).arg(&dump[..]);
        });
        self.as_others(async |rig| call.invoke_async::<()>(&mut rig.redis).await.expect("restore all keys")).await;
        self.note("Redis falls back to an older state".to_owned());
        // The effects of all calls since then are lost; the daemons do not know that.
        (self.orphans, self.ran, self.stranded, self.newer) = (older.orphans, older.ran, older.stranded, older.newer);
        self.written.clear();
        self.failovers += 1;
        self.seen = self.look().await;
    }
}
