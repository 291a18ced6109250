//! The rights that the scripts and commands of the job queue need.

use super::keys::{KINDS, Keys, topics, wake};
use super::name::Topic;
use bytes::Bytes;
use delaybridge_link::KeyPrefix;
use delaybridge_link::rights::command::*;
use delaybridge_link::rights::{Grant, Pattern};

/// Returns the patterns of these keys over all topics, because clients create topics. An example topic stands for all.
fn keys(prefix: &KeyPrefix, which: &[usize]) -> Vec<Pattern> {
    let example: Option<Keys> = "example".parse::<Topic>().ok().map(|topic| Keys::of(prefix, &topic));
    let pattern = |&place: &usize| {
        let pattern =
            Pattern::around([Some(format!("{prefix}jobs:{}:{{", KINDS[place].0)), None, Some("}".to_owned())]);
        match &example {
            Some(keys) => pattern.with_example(keys.all()[place].clone()),
            None => pattern,
        }
    };
    which.iter().map(pattern).collect()
}

const DUE: usize = 0;
const RESERVED: usize = 1;
const RECORDS: usize = 2;
const STATE: usize = 3;
const DEAD: usize = 4;
const EXPIRY: usize = 5;
const GONE: usize = 6;
const TOPIC: usize = 7;
const URGENT: usize = 8;
const UNIQUE: usize = 9;
const HOLDERS: usize = 10;
const FIRINGS: usize = 11;
const RECURRING: usize = 12;

fn tokens(prefix: &KeyPrefix) -> Vec<Pattern> {
    let pattern = Pattern::around([Some(format!("{prefix}jobs:tokens:{{")), None, Some("}".to_owned())]);
    vec![pattern.with_example(Bytes::from(super::tokens::key(prefix, "example")))]
}

/// Returns the rights of a daemon, and of the command line, for all topics.
pub fn rights(prefix: &KeyPrefix) -> Vec<Grant> {
    let index = || [Pattern::exact(topics(prefix))];
    let keys = |which: &[usize]| keys(prefix, which);
    vec![
        Grant::on(
            keys(&[
                DUE, RESERVED, RECORDS, STATE, DEAD, EXPIRY, GONE, TOPIC, URGENT, UNIQUE, HOLDERS, FIRINGS, RECURRING,
            ]),
            [EVALSHA, TYPE, UNLINK],
        ),
        Grant::on(keys(&[DUE, RESERVED, RECORDS, STATE, DEAD, EXPIRY, GONE]), [EXISTS]),
        Grant::on(keys(&[TOPIC]), [EXISTS]),
        Grant::on(keys(&[URGENT]), [ZADD, ZCARD, ZRANDMEMBER, ZRANGE, ZREM, ZSCORE]),
        Grant::on(keys(&[DUE]), [ZMSCORE]),
        Grant::on(keys(&[UNIQUE]), [ZADD, ZCARD, ZCOUNT, ZRANDMEMBER, ZRANGE, ZREM, ZREMRANGEBYRANK, ZSCORE]),
        Grant::on(keys(&[HOLDERS]), [HDEL, HGET, HMGET, HSET]),
        Grant::on(keys(&[FIRINGS]), [ZADD, ZRANGE, ZRANGEBYSCORE, ZREM, ZSCORE]),
        Grant::on(keys(&[RECURRING]), [HDEL, HEXISTS, HGET, HKEYS, HLEN, HSET, HSTRLEN]),
        Grant::on(keys(&[DUE, RESERVED, DEAD]), [ZADD, ZCARD, ZCOUNT, ZRANGE, ZREM, ZSCORE]),
        Grant::on(keys(&[RESERVED, DEAD]), [ZRANGEBYSCORE]),
        Grant::on(keys(&[RESERVED]), [ZREMRANGEBYRANK]),
        Grant::on(keys(&[RECORDS]), [HDEL, HEXISTS, HGET, HLEN, HMGET, HSET, HSTRLEN]),
        Grant::on(keys(&[STATE]), [HDEL, HGET, HLEN, HMGET, HSET]),
        Grant::on(keys(&[EXPIRY]), [ZADD, ZCARD, ZRANGE, ZRANGEBYSCORE, ZREM, ZREMRANGEBYRANK, ZSCORE]),
        Grant::on(keys(&[GONE]), [ZADD, ZCARD, ZCOUNT, ZRANGE, ZREMRANGEBYRANK, ZSCORE]),
        Grant::on(keys(&[TOPIC]), [HDEL, HEXISTS, HGET, HLEN, HMGET, HSET, HSETNX]),
        Grant::on(index(), [ZADD, ZCARD, ZLEXCOUNT, ZRANGE, ZREM, ZSCORE]),
        // Tokens of namespaces, which the API of lmstfy creates: see `tokens.rs`.
        Grant::on(tokens(prefix), [HDEL, HGET, HGETALL, HLEN, HSET, HSETNX]),
        Grant::channels([Pattern::exact(wake(prefix))], [PUBLISH, SUBSCRIBE]),
        Grant::plain([TIME]),
    ]
}
