//! What the scripts and looks of a queue need to be allowed, key by key.

use bytes::Bytes;

use super::Redisson;
use crate::config::{ListCleanup, Mode, QueueSpec, TargetSpec};
use crate::link::rights::command::*;
use crate::link::rights::{Grant, Pattern};
use crate::message::Side;

impl Redisson {
    /// What a daemon needs for this queue.
    pub fn to_run(&self, spec: &QueueSpec) -> Vec<Grant> {
        let mut grants = self.to_look();
        grants.push(Grant::plain([TIME, INFO]));
        match spec.mode {
            // What falls due is read as the gauges are.
            Mode::Shadow => {}
            Mode::Rescue { .. } => {
                grants.extend(self.to_unlist(spec));
                grants.extend(self.to_sweep());
                grants.push(self.on(&self.keys.delayed, [ZADD, ZREM, ZSCORE]));
                grants.push(self.on(&self.keys.ready, [RPUSH]));
            }
            Mode::Deliver => {
                grants.extend(self.to_settle(spec));
                grants.extend(self.to_claim(spec));
                grants.extend(self.to_sweep());
                if spec.dead_letter_to.is_some() {
                    grants.push(self.on(&self.keys.dead, [XRANGE, XREVRANGE, XDEL]));
                    grants.push(self.on(&self.keys.state, [HDEL, HMGET, HGET, HSET]));
                }
            }
        }
        grants
    }

    /// What the command line needs to look at this queue, to offer, cancel, redrive and purge, to migrate and to restore.
    pub fn to_operate(&self) -> Vec<Grant> {
        let k = &self.keys;
        let mut grants = self.to_look();
        grants.extend(self.to_sweep());
        grants.extend([
            Grant::plain([TIME, PUBSUB_NUMSUB]),
            Grant::channels([exact(k.channel.as_bytes())], [PUBLISH]),
            self.on(&k.delayed, [ZADD, ZREM, ZSCORE, ZSCAN]),
            self.on(&k.list, [RPUSH, LREM, LRANGE, LINDEX, LPOS, LSET]),
            self.on(&k.ready, [LRANGE, LPUSH]),
            self.on(&k.in_flight, [ZADD, ZREM, ZSCORE, ZRANGE, ZCOUNT, ZSCAN]),
            self.on(&k.retry, [ZADD, ZREM, ZSCORE, ZRANGE, ZSCAN]),
            self.on(&k.dead, [XRANGE, XREVRANGE, XDEL]),
        ]);
        grants
    }

    /// `stats.lua` and `peek.lua`, and that any script is run on the queue's keys: what it may do to them its commands
    /// decide.
    fn to_look(&self) -> Vec<Grant> {
        let k = &self.keys;
        vec![
            Grant::on(self.all().map(|key| exact(key)), [EVALSHA]),
            self.on(&k.delayed, [TYPE, ZCARD, ZCOUNT, ZRANGE]),
            self.on(&k.in_flight, [TYPE, ZCARD]),
            self.on(&k.retry, [TYPE, ZCARD]),
            self.on(&k.list, [TYPE, LLEN]),
            self.on(&k.ready, [TYPE, LLEN]),
            self.on(&k.ghosts, [TYPE, SCARD]),
            self.on(&k.ghosts_turn, [TYPE, SCARD]),
            self.on(&k.state, [TYPE, HMGET]),
            self.on(&k.dead, [TYPE, XLEN]),
        ]
    }

    /// `claim.lua`, `recover.lua`, `extend.lua`, and the announcements that say when to claim.
    fn to_claim(&self, spec: &QueueSpec) -> Vec<Grant> {
        let k = &self.keys;
        let mut grants = vec![
            Grant::channels([exact(k.channel.as_bytes()), exact(k.presence.as_bytes())], [SUBSCRIBE]),
            self.on(&k.in_flight, [ZADD, ZREM, ZSCORE, ZCOUNT, ZRANGEBYSCORE]),
            self.on(&k.retry, [ZADD, ZREM, ZCOUNT, ZRANGE, ZRANGEBYSCORE]),
            self.on(&k.state, [HGET, HMGET]),
        ];
        if spec.consume_ready {
            grants.push(Grant::plain([PUBSUB_NUMSUB]));
            grants.push(self.on(&k.ready, [LRANGE, LTRIM]));
        }
        if spec.consume_delayed {
            grants.push(self.on(&k.delayed, [ZCOUNT, ZRANGE, ZRANGEBYSCORE, ZREM]));
            grants.extend(self.to_unlist(spec));
        }
        grants
    }

    /// `settle.lua`.
    fn to_settle(&self, spec: &QueueSpec) -> Vec<Grant> {
        let k = &self.keys;
        let mut grants = vec![
            self.on(&k.in_flight, [ZADD, ZREM, ZSCORE]),
            self.on(&k.retry, [ZADD, ZSCORE]),
            self.on(&k.dead, [XADD]),
        ];
        if spec.dead_letter_max_len.is_some() {
            grants.push(self.on(&k.dead, [XTRIM]));
        }
        for route in &spec.to {
            if let TargetSpec::RedisList { key, push, exactly_once: true } = &route.target
                && let Some(list) = key.static_bytes()
            {
                let keys = [&k.in_flight, &k.retry, &k.dead, list];
                grants.push(Grant::on(keys.map(|key| exact(key)), [EVALSHA]));
                grants.push(self.on(list, [TYPE, if *push == Side::Left { LPUSH } else { RPUSH }]));
            }
        }
        grants
    }

    /// `list.lua`: elements that were taken leave Redisson's list, or are recorded as ghosts.
    fn to_unlist(&self, spec: &QueueSpec) -> Vec<Grant> {
        let k = &self.keys;
        let mut grants = vec![
            self.on(&k.delayed, [ZSCORE]),
            self.on(&k.list, [LREM, LINDEX, LPOP, RPOP]),
            self.on(&k.ghosts, [SREM]),
            self.on(&k.ghosts_turn, [SREM]),
        ];
        // Else there is no ghost but those of a daemon with another configuration: they go, and none is made.
        if spec.list_cleanup == ListCleanup::Auto {
            grants.extend([
                self.on(&k.list, [LPOS, LTRIM]),
                self.on(&k.ghosts, [SADD, SMISMEMBER]),
                self.on(&k.state, [HMGET, HSET, HSETNX]),
            ]);
        }
        grants
    }

    /// `sweep.lua`.
    fn to_sweep(&self) -> [Grant; 6] {
        let k = &self.keys;
        [
            self.on(&k.delayed, [ZMSCORE]),
            self.on(&k.list, [LRANGE, RPUSH, LTRIM]),
            self.on(&k.ghosts, [SREM, EXISTS, DEL]),
            self.on(&k.ghosts_turn, [SREM, EXISTS, DEL]),
            Grant::on([exact(&k.ghosts), exact(&k.ghosts_turn)], [RENAME, SUNIONSTORE]),
            self.on(&k.state, [HDEL, HMGET, HSET]),
        ]
    }

    fn all(&self) -> [&Bytes; 9] {
        let k = &self.keys;
        [&k.delayed, &k.list, &k.ready, &k.in_flight, &k.retry, &k.ghosts, &k.ghosts_turn, &k.state, &k.dead]
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

    /// That each is granted on the right keys only a server can tell; that none was forgotten can be read.
    #[test]
    fn every_command_of_a_script_is_one_that_can_be_granted() {
        for script in SCRIPTS.all() {
            for call in script.text().split("redis.call('").skip(1) {
                let command = call.split('\'').next().unwrap().to_lowercase();
                assert!(ALL.iter().any(|known| known.name == command), "{command}, of script {}", script.name());
            }
        }
    }
}
