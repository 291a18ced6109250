//! What the ledger's scripts and reads need to be allowed, key by key.

use bytes::Bytes;

use super::Ledger;
use crate::link::Side;
use crate::link::rights::command::*;
use crate::link::rights::{Grant, Pattern};
use crate::source::Activity;

/// What a queue makes of its ledger, as far as rights differ.
#[derive(Debug, Clone, Default)]
pub struct Use {
    /// Dead letters are trimmed.
    pub trims_dead: bool,
    /// Dead letters are forwarded.
    pub forwards: bool,
    /// The list of exactly-once pushes, and the end that they go to.
    pub push: Option<(Bytes, Side)>,
}

impl Ledger {
    /// What is needed for this activity, the source's half included.
    pub fn rights(&self, activity: Activity, usage: &Use) -> Vec<Grant> {
        let mut grants = self.to_look();
        match activity {
            Activity::Look | Activity::Rescue => grants.push(Grant::plain([TIME, INFO])),
            Activity::Deliver => {
                grants.push(Grant::plain([TIME, INFO]));
                grants.extend(self.to_settle(usage));
                grants.extend(self.to_claim());
                if usage.forwards {
                    grants.push(on(&self.keys.dead, [XRANGE, XREVRANGE, XDEL]));
                    grants.push(Grant::on([&self.keys.dead, &self.keys.state].map(|key| exact(key)), [EVALSHA]));
                    grants.push(on(&self.keys.state, [TYPE, HDEL, HMGET, HSET]));
                }
            }
            Activity::Operate => grants.extend(self.to_operate()),
        }
        grants.extend(self.source.rights(activity));
        grants
    }

    /// `stats.lua`, and that any script is run on the queue's keys: what it may do to them its commands decide.
    fn to_look(&self) -> Vec<Grant> {
        let k = &self.keys;
        let keys = [&k.in_flight, &k.retry, &k.dead].map(|key| exact(key));
        let source = self.source.keys();
        vec![
            Grant::on(keys.into_iter().chain(source.iter().map(|key| exact(key))), [EVALSHA]),
            on(&k.in_flight, [TYPE, ZCARD]),
            on(&k.retry, [TYPE, ZCARD]),
            on(&k.dead, [TYPE, XLEN]),
        ]
    }

    /// `claim.lua`, `recover.lua`, `extend.lua`, and the channel that shows that the daemon is there.
    fn to_claim(&self) -> Vec<Grant> {
        let k = &self.keys;
        vec![
            Grant::channels([exact(k.presence.as_bytes())], [SUBSCRIBE]),
            on(&k.in_flight, [ZADD, ZREM, ZSCORE, ZCOUNT, ZRANGEBYSCORE]),
            on(&k.retry, [ZADD, ZREM, ZCOUNT, ZRANGE, ZRANGEBYSCORE]),
        ]
    }

    /// `settle.lua`.
    fn to_settle(&self, usage: &Use) -> Vec<Grant> {
        let k = &self.keys;
        let mut grants =
            vec![on(&k.in_flight, [ZADD, ZREM, ZSCORE]), on(&k.retry, [ZADD, ZSCORE]), on(&k.dead, [XADD])];
        if usage.trims_dead {
            grants.push(on(&k.dead, [XTRIM]));
        }
        if let Some((list, side)) = &usage.push {
            grants.push(Grant::on([&k.in_flight, &k.retry, &k.dead, list].map(|key| exact(key)), [EVALSHA]));
            grants.push(on(list, [TYPE, if *side == Side::Left { LPUSH } else { RPUSH }]));
        }
        grants
    }

    /// What the command line needs to show elements, to cancel, redrive and purge.
    fn to_operate(&self) -> Vec<Grant> {
        let k = &self.keys;
        let source = self.source.keys();
        vec![
            Grant::on(k.stored().into_iter().chain(&source).map(|key| exact(key)), [EVALSHA]),
            on(&k.state, [TYPE, HMGET]),
            Grant::plain([TIME, PUBSUB_NUMSUB]),
            on(&k.in_flight, [ZADD, ZREM, ZSCORE, ZRANGE, ZCOUNT, ZSCAN]),
            on(&k.retry, [ZADD, ZREM, ZSCORE, ZRANGE, ZSCAN]),
            on(&k.dead, [XRANGE, XREVRANGE, XDEL]),
        ]
    }
}

fn on<const N: usize>(key: &[u8], commands: [Command; N]) -> Grant {
    Grant::on([exact(key)], commands)
}

fn exact(name: &[u8]) -> Pattern {
    Pattern::exact(Bytes::copy_from_slice(name))
}
