//! What was found, as YAML with comments. Pure.

use std::fmt::Write as _;

use serde_json::Value;

use delaybridge_core::clock::utc;
use delaybridge_link::RedisTarget;
use delaybridge_ops::plural;
use delaybridge_ops::redisson::discover::{DiscoveredQueue, Layouts, Watch};

/// Returns a configuration that `check` accepts.
pub(super) fn yaml(target: &RedisTarget, password_file: Option<&str>, queues: &[DiscoveredQueue]) -> String {
    let mut text = String::from(
        "# Found by `delaybridge discover`. In `mode: shadow` nothing is claimed and nothing is written: name your sinks,\n\
         # check its reports, and change the mode queue by queue.\n",
    );
    text.push_str("redis:\n");
    place(&mut text, target);
    let endpoint = target.servers();
    if let Some(prefix) = key_prefix(target, queues) {
        let _ = writeln!(text, "  key_prefix: {}", quoted(prefix));
    }
    if let Some(user) = &endpoint.username {
        let _ = writeln!(text, "  username: {}", quoted(user));
    }
    match (password_file, &endpoint.password) {
        (Some(file), _) => {
            let _ = writeln!(text, "  password_file: {}", quoted(file));
        }
        (None, Some(_)) => {
            text.push_str("  # password: ${REDIS_PASSWORD}   # or password_file; it is not printed here\n")
        }
        (None, None) => {}
    }
    text.push_str(
        "sinks:\n  out:\n    stdout: {}   # replace it with your sink: kafka, amqp, amqp1, nats, rocketmq, sqs, sns, http, redis\nqueues:\n",
    );
    queues.iter().for_each(|queue| one(&mut text, queue));
    text
}

/// Returns the prefix of the daemons that deliver from these queues, else that of the Redis; `None` for the default
/// one.
fn key_prefix<'a>(target: &'a RedisTarget, queues: &'a [DiscoveredQueue]) -> Option<&'a str> {
    let mut found: Vec<&str> = queues.iter().filter_map(|queue| queue.key_prefix.as_deref()).collect();
    found.dedup();
    let own = &target.servers().key_prefix;
    match found[..] {
        [only] => Some(only),
        _ => (!own.is_default()).then_some(&**own),
    }
}

/// Writes the address of the Redis. Writing to a String cannot fail.
fn place(text: &mut String, target: &RedisTarget) {
    match target {
        RedisTarget::Fixed(endpoint) => {
            let scheme = if endpoint.tls.is_some() { "rediss" } else { "redis" };
            let _ = writeln!(text, "  url: {}", quoted(&format!("{scheme}://{}", endpoint.address())));
        }
        RedisTarget::Cluster(cluster) => {
            let nodes: Vec<_> = cluster.seeds.iter().map(|at| quoted(&at.to_string())).collect();
            let _ = writeln!(text, "  # Certificates are not printed here.\n  cluster: [{}]", nodes.join(", "));
            if cluster.servers.tls.is_some() {
                text.push_str("  tls: {}\n");
            }
        }
        RedisTarget::Sentinel(sentinel) => {
            let nodes: Vec<_> = sentinel.nodes.iter().map(|node| quoted(&node.host_and_port())).collect();
            let _ = writeln!(
                text,
                "  # The logins of servers and sentinels, and their certificates, are not printed here."
            );
            let _ =
                writeln!(text, "  sentinel: {{ master: {}, nodes: [{}] }}", quoted(&sentinel.master), nodes.join(", "));
            if sentinel.servers.database != 0 {
                let _ = writeln!(text, "  database: {}", sentinel.servers.database);
            }
        }
    }
}

fn one(text: &mut String, queue: &DiscoveredQueue) {
    let s = &queue.state;
    let _ = writeln!(text, "  {}:", s.queue);
    let overdue = s.oldest_overdue_ms.map(plural::duration);
    let overdue = overdue.map(|age| format!(", the oldest for {age}")).unwrap_or_default();
    let _ = writeln!(text, "    # {} scheduled, {} due{overdue}, {} on the ready list", s.scheduled, s.due, s.ready);
    let _ = writeln!(text, "    # {}", layouts(queue));
    let _ = writeln!(text, "    # {}", clients(queue));
    if queue.redisson_clients == Some(0) {
        let _ = writeln!(text, "    # {}", since(queue.watch));
    }
    if let Some(prefix) = &queue.key_prefix {
        let _ = writeln!(text, "    # daemons deliver it with `key_prefix: {}`", quoted(prefix));
    }
    if let Some(free) = &queue.free_places {
        let free = quoted(free);
        let _ = writeln!(text, "    # the ready list is an RBoundedBlockingQueue, free places: {free}");
    }
    if let Some(other) = &queue.or_name {
        let _ =
            writeln!(text, "    # the keys fit the name {} as well: is it the name of the ready list?", quoted(other));
    }
    let _ = writeln!(text, "    source: {{ redisson: {{ name: {} }} }}", quoted(&queue.name));
    let _ = writeln!(text, "    codec: {}   # {}", queue.codec, sure(queue));
    if !queue.undeclared.is_empty() {
        let classes: Vec<&str> = queue.undeclared.iter().map(String::as_str).collect();
        let _ = writeln!(
            text,
            "    # only Java reads objects of {}: declare them under `classes` for JSON (docs/codecs.md), else they are\n    \
             # passed on as bytes, or are dead letters with `envelope: decoded`",
            classes.join(", ")
        );
    }
    text.push_str("    mode: shadow\n    to:\n      - sink: out\n");
}

fn layouts(queue: &DiscoveredQueue) -> String {
    let Layouts { old, new, junk: none } = queue.layouts;
    let sampled = old + new + none;
    match (old, new) {
        (0, 0) => format!("layout unknown: none of {sampled} sampled elements has a Redisson layout"),
        (_, 0) if none == 0 => format!("layout old (Redisson up to 3.21.0), all {sampled} sampled elements"),
        (0, _) if none == 0 => format!("layout new (Redisson from 3.21.1 on), all {sampled} sampled elements"),
        _ => format!(
            "MIXED: {old} old, {new} new and {none} of no layout among {sampled} sampled elements; Redisson clients stop at \
             the first that they cannot read: see `delaybridge migrate`"
        ),
    }
}

fn clients(queue: &DiscoveredQueue) -> String {
    match queue.redisson_clients {
        None => "the number of listening clients is unknown: that takes the right to PUBSUB NUMSUB".to_owned(),
        Some(0) => "no Redisson client listens: no client transfers due elements".to_owned(),
        Some(1) => "1 Redisson client listens, in some database".to_owned(),
        Some(count) => format!("{count} Redisson clients listen, in some database"),
    }
}

/// Since when none listens.
fn since(watch: Option<Watch>) -> String {
    let Some(Watch { no_client_since_ms: Some(since_ms), ended_ms }) = watch else {
        return "not known since when: no daemon has watched".to_owned();
    };
    match ended_ms {
        None => format!("no transfer task subscribed since {}", utc(since_ms)),
        Some(until_ms) => format!(
            "no transfer task subscribed from {} to {}, and not known since: no daemon watches",
            utc(since_ms),
            utc(until_ms)
        ),
    }
}

fn sure(queue: &DiscoveredQueue) -> String {
    let DiscoveredQueue { codec, sure, sampled, .. } = queue;
    match (sampled, codec.as_str()) {
        (0, _) => "nothing could be sampled".to_owned(),
        (_, "raw") => format!("no codec reads all {sampled} sampled payloads"),
        _ => format!("{sure}: it reads all {sampled} sampled payloads"),
    }
}

/// Returns a text as YAML and the configuration read it back.
fn quoted(text: &str) -> String {
    Value::from(text.replace("${", "$${")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_yaml_and_variables() {
        assert_eq!(quoted("a\"b\n${X}"), "\"a\\\"b\\n$${X}\"");
    }
}
