//! Steps in which Redis loses something: deletions of keys, a failover.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use delaybridge::source::ledger::claims::{ClaimName, Part};
use redis::Script;

use super::snapshot::Snapshot;
use super::values::identity;
use super::world::World;

/// What Redis, and this test, held at some earlier time.
pub struct Older {
    keys: Vec<(Vec<u8>, Vec<u8>)>,
    orphans: HashSet<Bytes>,
    ran: HashSet<ClaimName>,
    stranded: BTreeSet<Bytes>,
    newer: BTreeSet<Bytes>,
}

/// Answers all keys but the clock with their contents.
const DUMP: &str = "
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if key ~= ARGV[1] then out[#out + 1] = {key, redis.call('DUMP', key)} end
end
return out";

/// Makes these keys, and no others, the contents. ARGV: the clock, then keys and dumps.
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

    /// Some key is gone: evicted, deleted, expired.
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

    /// Exactly this is left.
    async fn deleted(&mut self, expected: Snapshot) {
        let after = self.look().await;
        assert_eq!(expected.difference(&after), None, "after a deletion");
        self.seen = after;
    }

    /// Entries of L that are neither recorded nor in Z are the last copies of elements.
    fn make_orphans(&mut self, orphans: Vec<Bytes>) {
        self.note(format!("{} orphans", orphans.len()));
        self.orphans.extend(orphans);
    }

    /// No set of identities can distinguish an orphan from a ghost, or a later one, with the same identity.
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

    /// Ghosts that are not recorded any more look like orphans.
    async fn delete_records(&mut self) {
        let (key, ids) = match self.rng.bool() {
            true => (self.keys.ghosts.clone(), self.seen.ghosts.clone()),
            false => (self.keys.ghosts_turn.clone(), self.seen.turn.clone()),
        };
        let ghosts = self.seen.l.iter().filter(|e| !self.seen.z.contains_key(*e) && ids.contains(&identity(e)));
        let ghosts: Vec<Bytes> = ghosts.cloned().collect();
        // A live twin's record would be taken for theirs.
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

    /// No call finds these claims any more, but their owners may settle what they know of them.
    async fn delete_leases(&mut self) {
        self.delete(self.names.leases().clone()).await;
        self.stranded.extend(self.seen.claims.keys().cloned());
        // Nothing says any more that these have run: one that is sent again before its not_after runs again.
        self.ran.clear();
        let expected = Snapshot { leases: Default::default(), ..self.seen.clone() };
        self.deleted(expected).await;
    }

    /// A claim loses a key: what was in it is lost, nothing else is.
    async fn delete_from_claim(&mut self) {
        let Some(name) = self.rng.choice(self.seen.claims.keys().cloned().collect::<Vec<_>>()) else { return };
        let part = if self.rng.bool() { Part::Bare } else { Part::Entries };
        self.delete(self.names.claim(&name, part)).await;
        let mut expected = self.seen.clone();
        expected.claims.get_mut(&name).expect("it is there").part_mut(part).clear();
        expected.tidy();
        self.deleted(expected).await;
    }

    /// Redis falls back to what it held at some earlier time, or remembers the present for a later fall.
    pub async fn fail_over(&mut self) {
        let clock = delaybridge::source::ledger::TEST_CLOCK;
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
        // What happened since then has not happened; the daemons do not know.
        (self.orphans, self.ran, self.stranded, self.newer) = (older.orphans, older.ran, older.stranded, older.newer);
        self.written.clear();
        self.failovers += 1;
        self.seen = self.look().await;
    }
}
