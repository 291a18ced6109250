//! The rights on the set that the fragments of the scripts and the commands need.

use super::ZsetSource;
use delaybridge_ledger::{Activity, Source};
use delaybridge_link::rights::command::*;
use delaybridge_link::rights::{Grant, Pattern};

impl ZsetSource {
    pub(super) fn to_do(&self, activity: Activity) -> Vec<Grant> {
        let mut grants = vec![self.on([MEMORY_USAGE, TYPE, ZCARD, ZCOUNT, ZRANGE])];
        match activity {
            Activity::Look | Activity::Rescue => {}
            Activity::Deliver => {
                let of_claims = self.ledger_keys().of_claims();
                grants.extend([
                    Grant::channels([Pattern::exact(self.keys.channel.as_bytes().to_vec())], [SUBSCRIBE]),
                    self.on([ZREMRANGEBYRANK]),
                    Grant::on([of_claims, self.key()], [ZRANGESTORE]),
                ]);
            }
            // What is shown, cancelled and restored.
            Activity::Operate => grants.push(self.on([ZADD, ZREM, ZSCAN, ZSCORE])),
        }
        grants
    }

    fn on<const N: usize>(&self, commands: [Command; N]) -> Grant {
        Grant::on([self.key()], commands)
    }

    fn key(&self) -> Pattern {
        Pattern::exact(self.keys.zset.clone())
    }
}
