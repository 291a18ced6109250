//! The rights that the ledger's scripts and reads need, key by key.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::handle::Ledger;
use crate::source::Activity;
use delaybridge_link::Side;
use delaybridge_link::rights::command::*;
use delaybridge_link::rights::{Grant, Pattern};

/// The use that a queue makes of its ledger, as far as rights differ.
#[derive(Debug, Clone, Default)]
pub struct Use {
    /// Dead letters are trimmed.
    pub trims_dead: bool,
    /// Dead letters are forwarded.
    pub forwards: bool,
    /// The queue is delivered in order.
    pub in_order: bool,
    /// The list of exactly-once pushes, and the end that they go to.
    pub push: Option<(Bytes, Side)>,
}

impl Ledger {
    /// Returns the rights for this activity, the source's half included.
    pub fn rights(&self, activity: Activity, usage: &Use) -> Vec<Grant> {
        let mut grants = self.to_look();
        match activity {
            Activity::Look => grants.push(Grant::plain([TIME, INFO])),
            Activity::Rescue => {
                grants.push(Grant::plain([TIME, INFO]));
                grants.extend(self.to_take_prefix());
            }
            Activity::Deliver => {
                grants.push(Grant::plain([TIME, INFO, PUBSUB_NUMSUB]));
                let channels = [&self.keys.presence, &self.keys.in_database].map(|channel| exact(channel.as_bytes()));
                grants.push(Grant::channels(channels, [SUBSCRIBE, UNSUBSCRIBE]));
                grants.extend(self.to_take_prefix());
                grants.extend(self.to_use_claims(usage));
                // Whether there is anything of a queue at rest.
                let (_, lists) = self.source.claimed_from();
                let ours = [&self.keys.leases, &self.keys.retry, &self.keys.dead].into_iter();
                grants.push(Grant::on(ours.chain(&lists).map(|key| exact(key)), [EXISTS]));
                if usage.forwards {
                    grants.push(on(&self.keys.dead, [XRANGE, XREVRANGE, XDEL]));
                    grants.push(Grant::on([&self.keys.dead, &self.keys.state].map(|key| exact(key)), [EVALSHA]));
                    grants.push(on(&self.keys.state, [TYPE, HDEL, HMGET, HSET]));
                }
            }
            Activity::Operate => {
                grants.extend(self.to_operate());
                // An import claims: only so are an element and its body moved together.
                if self.source.bodies().is_some() {
                    grants.extend(self.to_use_claims(&Use::default()));
                }
            }
        }
        grants.extend(self.to_see_prefix());
        grants.extend(self.source.rights(activity));
        grants
    }

    /// Returns the rights for looking: `stats.lua`, the sizes of claims, what is paused, and that any script is run on
    /// the queue's keys: what it may do to them its commands decide.
    fn to_look(&self) -> Vec<Grant> {
        let k = &self.keys;
        let ours = [&k.leases, &k.retry, &k.dead];
        let source = self.source.keys();
        // Those that the gauges ask for, and those that `check --live` asks for: the keys of bodies are among them.
        let typed = self.source.repair().typed_keys().into_iter().map(|(key, _)| key);
        let expirable: BTreeSet<Bytes> = source.iter().cloned().chain(typed).collect();
        vec![
            Grant::on(ours.into_iter().chain(&source).map(|key| exact(key)), [EVALSHA]),
            Grant::on(expirable.iter().map(|key| exact(key)), [PTTL]),
            on(&k.leases, [TYPE, ZCARD, ZRANGE]),
            Grant::on([k.of_claims()], [ZCARD]),
            on(&k.retry, [TYPE, ZCARD, ZCOUNT, ZRANGE]),
            on(&k.dead, [TYPE, XLEN]),
            // What is paused.
            on(&k.state, [HMGET]),
        ]
    }

    /// Returns the scripts of claims, and the commands without one: `EXISTS` and `UNLINK` take several keys of claims.
    fn to_use_claims(&self, usage: &Use) -> Vec<Grant> {
        let k = &self.keys;
        let (schedules, lists) = self.source.claimed_from();
        let claims = |commands: &[Command]| Grant::on([k.of_claims()], commands.iter().copied());
        let mut grants = vec![
            Grant::on([k.of_claims(), exact(&k.leases), exact(&k.retry), exact(&k.dead)], [EVALSHA]),
            // A look at many queues at once.
            Grant::on(
                [&k.leases, &k.retry].into_iter().chain(&schedules).chain(&lists).map(|key| exact(key)),
                [EVALSHA, EXISTS],
            ),
            Grant::on(schedules.iter().map(|key| exact(key)), [ZCOUNT]),
            Grant::on(lists.iter().map(|key| exact(key)), [LLEN]),
            on(&k.leases, [ZADD, ZCARD, ZCOUNT, ZMSCORE, ZRANGE, ZREM, ZREMRANGEBYRANK, ZSCORE]),
            claims(&[EXISTS, MEMORY_USAGE, RENAME, UNLINK, ZADD, ZCARD, ZRANGE, ZREM, ZREMRANGEBYRANK, ZSCORE]),
            Grant::on([k.of_claims(), exact(&k.retry)], [ZRANGESTORE]),
            on(&k.retry, [MEMORY_USAGE, ZADD, ZCARD, ZCOUNT, ZRANGE, ZREMRANGEBYRANK, ZSCORE]),
            on(&k.dead, [XADD, XLEN]),
        ];
        if self.source.unannounced().is_some() {
            // Who else listens is noted.
            grants.push(Grant::on([exact(&k.state)], [EVALSHA]));
            grants.push(on(&k.state, [TYPE, HDEL, HMGET, HSET]));
        }
        if self.source.bodies().is_some() {
            grants.push(Grant::on([k.of_claims(), exact(&k.lives())], [EVALSHA]));
            grants.push(on(&k.lives(), [HDEL, HGET, HINCRBY, HLEN, HSET]));
        }
        if usage.trims_dead {
            grants.push(on(&k.dead, [XTRIM]));
        }
        if usage.in_order {
            // In one script with all others.
            grants.push(Grant::on([&k.dead, &k.state].map(|key| exact(key)), [EVALSHA]));
            grants.push(on(&k.state, [TYPE, HDEL, HMGET, HSET]));
        }
        if let Some((list, side)) = &usage.push {
            grants.push(Grant::on([k.of_claims(), exact(&k.retry), exact(&k.dead), exact(list)], [EVALSHA]));
            grants.push(on(list, [TYPE, if *side == Side::Left { LPUSH } else { RPUSH }]));
        }
        grants
    }

    /// Returns the rights that the command line needs to show elements, to move, remove and redrive them.
    fn to_operate(&self) -> Vec<Grant> {
        let k = &self.keys;
        let source = self.source.keys();
        let mut grants = vec![
            Grant::on(
                [&k.leases, &k.retry, &k.dead, &k.state]
                    .into_iter()
                    .chain(&source)
                    .map(|key| exact(key))
                    .chain([k.of_claims(), k.all_aside()]),
                [EVALSHA],
            ),
            // `pause`, `resume`; that an element falls due earlier.
            on(&k.state, [TYPE, HDEL, HGET, HMGET, HSET]),
            Grant::channels([exact(k.presence.as_bytes())], [PUBLISH]),
            // `recover` and `restore` look for claims without a lease.
            Grant::plain([TIME, PUBSUB_NUMSUB, SCAN]),
            on(&k.leases, [ZADD, ZCOUNT, ZMSCORE, ZRANGE, ZREM, ZREMRANGEBYRANK]),
            // What is shown, and what `restore` takes over and releases.
            Grant::on(
                [k.of_claims()],
                [EXISTS, MEMORY_USAGE, RENAME, TYPE, ZCARD, ZRANGE, ZREM, ZREMRANGEBYRANK, ZSCAN, ZSCORE],
            ),
            Grant::on([k.of_claims()], [ZRANGESTORE]),
            on(&k.retry, [ZADD, ZCOUNT, ZREM, ZSCORE, ZRANGE, ZSCAN]),
            on(&k.dead, [XADD, XRANGE, XREVRANGE, XDEL]),
            // What operators did.
            on(&k.audit(), [XADD, XREVRANGE]),
            // `fsck`.
            on(&k.leases, [ZSCORE]),
            Grant::on(self.source.repair().typed_keys().iter().map(|(key, _)| exact(key)), [EVALSHA, PERSIST, PTTL]),
            Grant::on([k.all_aside()], [EXISTS]),
        ];
        if self.source.bodies().is_some() {
            // `redrive` begins a life, removals end one.
            grants.push(on(&k.lives(), [HDEL, HINCRBY, HLEN, TYPE]));
        }
        grants.extend(k.stored().map(|key| k.to_put_aside(key)));
        grants
    }
}

fn on<const N: usize>(key: &[u8], commands: [Command; N]) -> Grant {
    Grant::on([exact(key)], commands)
}

fn exact(name: &[u8]) -> Pattern {
    Pattern::exact(Bytes::copy_from_slice(name))
}
