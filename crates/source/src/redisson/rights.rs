//! The rights that Redisson's fragments of the scripts and its own scripts need, key by key.

use bytes::Bytes;

use super::{Keys, ListCleanup, RedissonSource};
use delaybridge_ledger::Activity;
use delaybridge_link::rights::command::*;
use delaybridge_link::rights::{Grant, Pattern};

/// Returns the right to wake producers of an `RBoundedBlockingQueue` in a cluster, where they listen to the channel of
/// a shard.
pub fn to_wake_in_cluster(keys: &Keys) -> Grant {
    Grant::channels([Pattern::exact(keys.permits_channel())], [SPUBLISH])
}

impl RedissonSource {
    pub(super) fn to_do(&self, activity: Activity) -> Vec<Grant> {
        let mut grants = self.to_look();
        match activity {
            // What falls due is read as the gauges are.
            Activity::Look => {}
            Activity::Rescue => {
                grants.extend(self.to_unlist());
                grants.extend(self.to_sweep());
                grants.push(self.on(&self.keys.delayed, [ZADD, ZREM, ZSCORE]));
                grants.push(self.on(&self.keys.ready, [EVALSHA, TYPE, LLEN, RPUSH]));
            }
            Activity::Deliver => {
                grants.extend(self.to_claim());
                grants.extend(self.to_sweep());
            }
            Activity::Operate => grants.extend(self.to_operate()),
        }
        grants
    }

    /// Returns the rights for `stats.lua`.
    fn to_look(&self) -> Vec<Grant> {
        let k = &self.keys;
        let mut grants = vec![
            self.on(&k.delayed, [MEMORY_USAGE, TYPE, ZCARD, ZCOUNT, ZRANGE]),
            self.on(&k.list, [TYPE, LLEN]),
            self.on(&k.ghosts, [TYPE, SCARD]),
            self.on(&k.ghosts_turn, [TYPE, SCARD]),
            self.on(&k.sweep, [TYPE, HMGET]),
        ];
        if self.ready {
            grants.push(self.on(&k.ready, [TYPE, LLEN]));
        }
        grants
    }

    /// Returns the parts of `claim.lua`, and the announcements that say when to claim.
    fn to_claim(&self) -> Vec<Grant> {
        let k = &self.keys;
        let mut grants = vec![Grant::channels([exact(k.channel.as_bytes())], [SUBSCRIBE, UNSUBSCRIBE])];
        if self.ready {
            grants.push(self.on(&k.ready, [LLEN, LRANGE, LTRIM, MEMORY_USAGE]));
            grants.extend(self.to_return_permits());
        }
        if !self.delayed {
            return grants;
        }
        grants.extend([
            self.on(&k.delayed, [ZREMRANGEBYRANK]),
            Grant::on([k.of_claims(), exact(&k.delayed)], [ZRANGESTORE]),
        ]);
        grants.extend(self.to_unlist());
        grants
    }

    /// Returns the rights for `claims/move.lua`: an element of an `RBoundedBlockingQueue` leaves its place to another.
    fn to_return_permits(&self) -> [Grant; 2] {
        let channel = Pattern::exact(self.keys.permits_channel());
        [self.on(&self.keys.permits, [GET, INCRBY]), Grant::channels([channel], [PUBLISH])]
    }

    /// Returns the rights for `claims/list.lua`: elements that were taken leave Redisson's list, or are recorded as
    /// ghosts.
    fn to_unlist(&self) -> Vec<Grant> {
        let k = &self.keys;
        let mut grants = vec![
            self.on(&k.list, [LLEN, LREM]),
            self.on(&k.ghosts, [SCARD]),
            self.on(&k.ghosts_turn, [SCARD]),
            self.on(&k.sweep, [HMGET]),
        ];
        if self.cleanup == ListCleanup::Auto {
            grants.extend([
                self.on(&k.delayed, [ZSCORE]),
                self.on(&k.list, [LINDEX, LPOS, LRANGE, LTRIM, MEMORY_USAGE]),
                self.on(&k.ghosts, [SADD, SMISMEMBER, SREM]),
                self.on(&k.ghosts_turn, [SREM]),
                self.on(&k.sweep, [HSET, HSETNX]),
            ]);
        }
        grants
    }

    fn to_sweep(&self) -> [Grant; 6] {
        let k = &self.keys;
        [
            self.on(&k.delayed, [ZMSCORE]),
            self.on(&k.list, [LLEN, LRANGE, RPUSH, LTRIM, MEMORY_USAGE]),
            self.on(&k.ghosts, [SMISMEMBER, SREM, EXISTS]),
            self.on(&k.ghosts_turn, [SMISMEMBER, SREM, EXISTS, UNLINK]),
            Grant::on([exact(&k.ghosts), exact(&k.ghosts_turn)], [RENAME]),
            self.on(&k.sweep, [HDEL, HMGET, HSET]),
        ]
    }

    /// Returns the rights that commands need: offer, cancel, peek, migrate, restore.
    fn to_operate(&self) -> Vec<Grant> {
        let k = &self.keys;
        let mut grants: Vec<Grant> = self.to_sweep().into();
        grants.extend([
            Grant::channels([exact(k.channel.as_bytes())], [PUBLISH]),
            self.on(&k.delayed, [ZADD, ZREM, ZSCORE, ZSCAN]),
            self.on(&k.list, [RPUSH, LREM, LRANGE, LINDEX, LPOS, LSET]),
            self.on(&k.ready, [EVALSHA, TYPE, LLEN, LRANGE, LPUSH]),
            // What `restore` puts back takes its place again.
            self.on(&k.permits, [TYPE, GET, INCRBY]),
            self.on(&k.ghosts, [SADD]),
            self.on(&k.sweep, [HSETNX]),
            // `fsck` asks what is recorded.
            self.on(&k.ghosts, [SMISMEMBER]),
            self.on(&k.ghosts_turn, [SMISMEMBER]),
        ]);
        grants.extend([&k.ghosts, &k.ghosts_turn, &k.sweep].map(|key| k.to_put_aside(key)));
        grants
    }

    fn on<const N: usize>(&self, key: &[u8], commands: [Command; N]) -> Grant {
        Grant::on([exact(key)], commands)
    }
}

fn exact(name: &[u8]) -> Pattern {
    Pattern::exact(Bytes::copy_from_slice(name))
}

#[cfg(test)]
mod tests {
    use super::super::SCRIPTS;
    use super::*;
    use delaybridge_link::KeySpace;

    /// Returns the commands in a script's text: of `call('ZADD', ...)`, and of `typed(key, 'ZADD', ...)`, which reads.
    fn commands(text: &str) -> Vec<String> {
        let code = text.lines().map(|line| line.split("-- ").next().unwrap_or_default());
        let words = code.flat_map(|line| {
            let read = line.split("typed(").skip(1).filter_map(|rest| Some(rest.split_once('\'')?.1));
            line.split("call('").skip(1).chain(read)
        });
        let command = |words: &str| words.split('\'').next().unwrap().to_lowercase().replace("memory", "memory|usage");
        words.map(command).collect()
    }

    #[test]
    fn a_ready_list_that_is_not_consumed_is_neither_demanded_nor_judged() {
        use delaybridge_ledger::{Repair, Source};

        for (consumed, expected) in [(true, true), (false, false)] {
            let source = RedissonSource::new(&KeySpace::default(), "orders", true, consumed, ListCleanup::Auto);
            let grants = format!("{:?}", source.to_do(Activity::Deliver));
            assert_eq!(grants.contains("\"orders\""), expected, "{grants}");
            assert_eq!(source.keys().contains(&source.keys.ready), expected);
            let typed = source.typed_keys();
            assert_eq!(typed.iter().any(|(key, _)| *key == source.keys.ready), expected, "{typed:?}");
        }
        let source = RedissonSource::new(&KeySpace::default(), "orders", true, false, ListCleanup::Auto);
        assert!(
            format!("{:?}", source.to_do(Activity::Rescue)).contains("\"orders\""),
            "a rescue moves elements there"
        );
    }

    /// Only a server can show that each is granted on the right keys; the source shows that none is missing.
    #[test]
    fn every_command_of_a_script_is_one_that_can_be_granted() {
        for script in SCRIPTS.all() {
            for command in commands(script.text()) {
                assert!(ALL.iter().any(|known| known.name == command), "{command}, of script {}", script.name());
            }
        }
    }
}
