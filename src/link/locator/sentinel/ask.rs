//! The same question to all sentinels at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{FromRedisValue, Value};
use tokio::time::timeout;

use super::verdict::Address;
use crate::link::connect;
use crate::link::endpoint::RedisEndpoint;
use crate::link::error::{ConnectError, ConnectErrorKind};
use crate::link::target::SentinelTarget;

/// Longest wait for one sentinel: it answers out of its memory, and the others may be enough.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the sentinels name, the quickest first; those that know no such master name nothing. Comes back as soon as more
/// than half of all name the same.
///
/// # Errors
///
/// When none answers: why the first did not.
pub(super) async fn all(target: &SentinelTarget) -> Result<Vec<Address>, ConnectError> {
    let mut asked: FuturesUnordered<_> = target.nodes.iter().map(|node| one(node, &target.master)).collect();
    let (mut found, mut first_error, mut answers) = (Vec::new(), None, 0);
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(address) => {
                answers += 1;
                let Some(address) = address else { continue };
                let same = found.iter().filter(|other| **other == address).count() + 1;
                found.push(address);
                if same * 2 > target.nodes.len() {
                    break;
                }
            }
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    match first_error {
        Some(error) if answers == 0 => Err(ConnectError {
            kind: error.kind,
            address: target.address(),
            message: format!("no sentinel of {} answers; {}: {}", target.nodes.len(), error.address, error.message),
        }),
        _ => Ok(found),
    }
}

/// Where this sentinel says the master is; `None` if it knows no such master.
pub(super) async fn one(node: &Arc<RedisEndpoint>, master: &str) -> Result<Option<Address>, ConnectError> {
    const WORDS: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME";
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let error = |kind, message| ConnectError { kind, address: node.address(), message };
    let answer = timeout(PATIENCE, connect::ask(node, WORDS, &command)).await;
    let answer = answer.unwrap_or_else(|_elapsed| {
        Err(error(ConnectErrorKind::Timeout, format!("no answer within {PATIENCE:?}: check that it is reachable")))
    })?;
    if answer == Value::Nil {
        return Ok(None);
    }
    let malformed = |what: String| error(ConnectErrorKind::Server, format!("the answer to {WORDS} is {what}"));
    let (host, port) = <(String, String)>::from_redis_value(answer)
        .map_err(|error| malformed(format!("no address: is it a sentinel? ({error})")))?;
    let port = port.parse().map_err(|_| malformed("an address without a port".to_owned()))?;
    Ok(Some(Address { host, port }))
}
