//! The rights that the fragments of the scripts, the reads of records and the commands need, key by key.

use bytes::Bytes;

use super::JobsSource;
use delaybridge_jobs::wake;
use delaybridge_ledger::{Activity, Source};
use delaybridge_link::rights::command::*;
use delaybridge_link::rights::{Grant, Pattern};

impl JobsSource {
    pub(super) fn to_do(&self, activity: Activity) -> Vec<Grant> {
        let keys = &self.keys;
        let of_claims = self.ledger_keys().of_claims();
        let with_a_job = [keys.records(), keys.state(), keys.expiry(), keys.gone()].map(exact);
        let mut grants = vec![on(keys.due(), &[MEMORY_USAGE, TYPE, ZCARD, ZCOUNT, ZRANGE])];
        match activity {
            Activity::Look | Activity::Rescue => grants.push(on(keys.records(), &[HGET, HSTRLEN])),
            Activity::Deliver => {
                grants.extend([
                    Grant::channels([Pattern::exact(wake(&self.spec.space.prefix))], [SUBSCRIBE]),
                    on(keys.due(), &[ZADD, ZREMRANGEBYRANK, ZSCORE]),
                    Grant::on([of_claims, exact(keys.due())], [ZRANGESTORE]),
                    on(keys.topic(), &[HMGET]),
                    on(keys.urgent(), &[ZCARD, ZREM]),
                    Grant::on(with_a_job, [EVALSHA]),
                    on(keys.records(), &[HDEL, HGET, HSTRLEN]),
                    on(keys.state(), &[HDEL]),
                    on(keys.expiry(), &[ZREM]),
                    on(keys.gone(), &[ZADD]),
                ]);
            }
            // What is shown, cancelled, redriven and restored.
            Activity::Operate => grants.extend([
                on(keys.gone(), &[ZADD]),
                on(keys.due(), &[ZADD, ZREM, ZSCAN, ZSCORE]),
                // With a key of the ledger: grants on the same keys are one, and this one is for scripts alone.
                Grant::on([of_claims].into_iter().chain(with_a_job), [EVALSHA]),
                on(keys.records(), &[HDEL, HGET, HSETNX, HSTRLEN, TYPE]),
                on(keys.state(), &[HDEL]),
                on(keys.expiry(), &[ZREM]),
                // `fsck` looks at every id and record.
                on(keys.due(), &[ZMSCORE]),
                on(keys.records(), &[HEXISTS, HLEN, HSCAN, MEMORY_USAGE]),
                Grant::on(keys.all().iter().map(exact), [EVALSHA, TYPE]),
                on(keys.reserved(), &[ZCARD, ZRANGE, ZREM, ZSCORE]),
                on(keys.dead(), &[ZCARD, ZRANGE, ZREM, ZSCORE]),
            ]),
        }
        grants
    }
}

fn on(key: &Bytes, commands: &[Command]) -> Grant {
    Grant::on([exact(key)], commands.iter().copied())
}

fn exact(name: &Bytes) -> Pattern {
    Pattern::exact(name.clone())
}
