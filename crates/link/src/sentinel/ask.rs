//! One question to all sentinels at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{FromRedisValue, Value};
use tokio::time::timeout;

use crate::address::Address;
use crate::connect;
use crate::endpoint::RedisEndpoint;
use crate::error::{ConnectError, ConnectErrorKind};
use crate::target::SentinelTarget;

/// Longest wait for one sentinel: it answers from memory, and the others may suffice.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum length of a host name, in bytes; DNS allows 253.
const LONGEST_HOST: usize = 255;

/// Asks for the addresses that the sentinels name, the quickest first; a sentinel that does not know the master names
/// none. Returns as soon as more than half of all sentinels name the same.
///
/// # Errors
///
/// Returns the first error if no sentinel answers.
pub(super) async fn all(target: &SentinelTarget) -> Result<Vec<Address>, ConnectError> {
    let mut asked: FuturesUnordered<_> = target.nodes.iter().map(|node| one(node, &target.master)).collect();
    let mut found = Vec::new();
    let mut first_error = None;
    let mut answers = 0;
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
            Err(error) => {
                let _ = first_error.get_or_insert(error);
            }
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

/// Asks one sentinel for the address of the master; `None` if it does not know the master.
pub(super) async fn one(node: &Arc<RedisEndpoint>, master: &str) -> Result<Option<Address>, ConnectError> {
    const WORDS: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME";
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let error = |kind, message| ConnectError { kind, address: node.address(), message };
    let answer = timeout(PATIENCE, connect::ask(node, WORDS, &command)).await;
    let answer = answer.unwrap_or_else(|_elapsed| {
        Err(error(ConnectErrorKind::Timeout, format!("no answer within {PATIENCE:?}: check that it is reachable")))
    })?;
    named(answer).map_err(|what| error(ConnectErrorKind::Server, format!("the answer to {WORDS} is {what}")))
}

/// Parses a reply; `None` if the sentinel does not know the master.
fn named(answer: Value) -> Result<Option<Address>, &'static str> {
    if answer == Value::Nil {
        return Ok(None);
    }
    // The library's own error quotes the whole reply.
    let (host, port) = <(String, String)>::from_redis_value(answer).map_err(|_| "no address: is it a sentinel?")?;
    if host.is_empty() || host.len() > LONGEST_HOST {
        return Err("no address of a host");
    }
    match port.parse() {
        Ok(port) if port != 0 => Ok(Some(Address::new(host, port))),
        _ => Err("an address without a port"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::verdict::{Switch, Verdict};
    use super::*;
    use crate::fuzz::fuzz;

    #[test]
    fn an_answer_names_an_address_or_nothing() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let check = |host: &str, port: &str, expected: Result<Option<&str>, &str>| {
            let named = named(Value::Array(vec![bulk(host), bulk(port)]));
            let shown = named.map(|address| address.map(|Address { host, port }| format!("{host} {port}")));
            assert_eq!(shown.as_ref().map(Option::as_deref).map_err(|what| *what), expected, "{host} {port}");
        };
        check("10.0.0.1", "6379", Ok(Some("10.0.0.1 6379")));
        check("::1", "6379", Ok(Some("::1 6379")));
        check("", "6379", Err("no address of a host"));
        check(&"h".repeat(300), "6379", Err("no address of a host"));
        check("h", "0", Err("an address without a port"));
        check("h", "99999", Err("an address without a port"));
        assert!(named(Value::Nil).unwrap().is_none());
        assert_eq!(named(bulk("OK")).unwrap_err(), "no address: is it a sentinel?");
    }

    #[test]
    fn fuzz_answers_of_sentinels() {
        let answers = ["*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n", "*-1\r\n", "*2\r\n+::1\r\n:6379\r\n"];
        fuzz("SENTINEL", &answers, |bytes| {
            let address = named(redis::parse_redis_value(bytes).ok()?).ok()??;
            assert!(address.port != 0 && (1..=LONGEST_HOST).contains(&address.host.len()));
            Some(())
        });
        let announced = ["orders a 6379 b 6380", "slave b:6380 b 6380 @ orders a 6379"];
        fuzz("+switch-master", &announced, |bytes| {
            let switch = Switch::read(bytes, "orders")?;
            let answers = vec![switch.old.clone(), switch.new.clone(), switch.old.clone()];
            // Whatever is announced, replies that name the former master do not decide.
            match Verdict::of(answers, Some(&switch)) {
                None => assert_eq!(switch.old, switch.new),
                Some(verdict) => assert_eq!(verdict, Verdict::Agreed(switch.new)),
            }
            Some(())
        });
    }
}
