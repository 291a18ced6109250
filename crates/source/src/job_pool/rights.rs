//! The rights that the fragments of the scripts, the reads of jobs and the commands need, key by key.

use bytes::Bytes;

use super::JobPool;
use super::layout::{ID, Place};
use delaybridge_ledger::{Activity, Source};
use delaybridge_link::rights::command::*;
use delaybridge_link::rights::{Grant, Pattern};

impl JobPool {
    pub(super) fn to_do(&self, activity: Activity) -> Vec<Grant> {
        let mut grants = vec![self.on_buckets(&[MEMORY_USAGE, TYPE, ZCARD, ZCOUNT, ZRANGE])];
        grants.extend(self.spec.to_see_held());
        if !self.ready.is_empty() {
            grants.push(self.on_lists(&[TYPE, LLEN]));
        }
        match activity {
            Activity::Look | Activity::Rescue => grants.push(self.to_read_jobs()),
            Activity::Deliver => {
                grants.push(self.on_buckets(&[ZADD, ZREMRANGEBYRANK, ZSCORE]));
                grants.extend(self.buckets().map(|bucket| Grant::on([self.of_claims(), bucket], [ZRANGESTORE])));
                if !self.ready.is_empty() {
                    grants.push(self.on_lists(&[LRANGE, LTRIM, MEMORY_USAGE]));
                }
                grants.extend(self.to_read_and_remove_jobs());
                grants.extend(self.to_write_status());
            }
            // What is shown, cancelled, redriven and restored; an import claims as well.
            Activity::Operate => {
                grants.extend(self.to_do(Activity::Deliver));
                grants.push(self.on_buckets(&[ZADD, ZREM, ZSCAN, ZSCORE]));
                if !self.ready.is_empty() {
                    grants.push(self.on_lists(&[LRANGE]));
                }
                grants.push(match self.spec.layout.place {
                    Place::Value(_) => self.on_jobs(&[GET, SET, TYPE, UNLINK]),
                    Place::Shared(_) => self.on_jobs(&[HDEL, HGET, HSET, HSETNX, TYPE]),
                    Place::Own(..) => self.on_jobs(&[HDEL, HGET, HSET, HSETNX, TYPE, UNLINK]),
                });
                // `fsck` looks at every id and job.
                grants.push(match self.spec.layout.place {
                    Place::Value(_) => self.on_jobs(&[EXISTS]),
                    Place::Shared(_) => self.on_jobs(&[HEXISTS, HLEN, HSCAN, MEMORY_USAGE]),
                    Place::Own(..) => self.on_jobs(&[EXISTS, HEXISTS]),
                });
                // An export writes whole jobs.
                grants.extend(self.beside.as_ref().map(|key| Grant::on([exact(key)], [HSETNX])));
                grants.push(self.in_scripts());
            }
        }
        grants
    }

    fn to_read_and_remove_jobs(&self) -> Vec<Grant> {
        let jobs = match self.spec.layout.place {
            Place::Value(_) => self.on_jobs(&[GET, STRLEN, UNLINK]),
            Place::Shared(_) => self.on_jobs(&[HDEL, HGET, HSTRLEN]),
            Place::Own(..) => self.on_jobs(&[HGET, HSTRLEN, UNLINK]),
        };
        let beside = self.beside.as_ref().map(|key| Grant::on([exact(key)], [HDEL]));
        let also = (!self.spec.also.is_empty()).then(|| Grant::on(self.also(), [UNLINK]));
        [jobs, self.in_scripts()].into_iter().chain(beside).chain(also).collect()
    }

    fn to_write_status(&self) -> Option<Grant> {
        self.spec.layout.status.as_ref().map(|_| match self.spec.layout.place {
            Place::Value(_) => self.on_jobs(&[SET]),
            Place::Shared(_) | Place::Own(..) => self.on_jobs(&[HSET]),
        })
    }

    fn to_read_jobs(&self) -> Grant {
        match self.spec.layout.place {
            Place::Value(_) => self.on_jobs(&[GET, STRLEN]),
            Place::Shared(_) | Place::Own(..) => self.on_jobs(&[HGET, HSTRLEN]),
        }
    }

    /// Returns the right to all keys in scripts: these have keys of all kinds at once; what they may do to them their
    /// commands decide.
    fn in_scripts(&self) -> Grant {
        let keys = self.buckets().chain(self.beside.iter().map(exact)).chain([self.of_claims(), self.jobs()]);
        Grant::on(keys.chain(self.also()), [EVALSHA])
    }

    fn of_claims(&self) -> Pattern {
        self.ledger_keys().of_claims()
    }

    fn buckets(&self) -> impl Iterator<Item = Pattern> {
        self.buckets.iter().map(exact)
    }

    fn on_buckets(&self, commands: &[Command]) -> Grant {
        Grant::on(self.buckets(), commands.iter().copied())
    }

    fn on_lists(&self, commands: &[Command]) -> Grant {
        Grant::on(self.ready.iter().map(exact), commands.iter().copied())
    }

    fn on_jobs(&self, commands: &[Command]) -> Grant {
        Grant::on([self.jobs()], commands.iter().copied())
    }

    fn jobs(&self) -> Pattern {
        match &self.spec.layout.place {
            Place::Shared(key) => exact(&self.spec.layout.name(key).unwrap_or_default()),
            Place::Value(pattern) | Place::Own(pattern, _) => with_an_id(pattern),
        }
    }

    fn also(&self) -> impl Iterator<Item = Pattern> {
        self.spec.also.iter().map(|pattern| with_an_id(pattern))
    }
}

fn with_an_id(pattern: &str) -> Pattern {
    let (before, behind) = pattern.split_once(ID).unwrap_or((pattern, ""));
    Pattern::around([Some(before.to_owned()), None, Some(behind.to_owned())])
}

fn exact(name: &Bytes) -> Pattern {
    Pattern::exact(name.clone())
}
