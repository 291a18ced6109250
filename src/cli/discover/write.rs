//! What was found, as YAML with comments and as JSON. Pure.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::show;
use super::Queue;
use super::guess::Guess;
use crate::config::RedisEndpoint;

/// A configuration that `check` accepts.
pub(super) fn yaml(endpoint: &RedisEndpoint, password_file: Option<&str>, queues: &[Queue]) -> String {
    let mut text = String::from(
        "# Found by `delaybridge discover`. In `mode: shadow` nothing is claimed and nothing is written: name your sinks,\n\
         # watch what it says, and change the mode queue by queue.\n",
    );
    let scheme = if endpoint.tls.is_some() { "rediss" } else { "redis" };
    let url = quoted(&format!("{scheme}://{}", endpoint.address()));
    // Writing to a String cannot fail.
    let _ = write!(text, "redis:\n  url: {url}\n");
    if let Some(user) = &endpoint.username {
        let _ = writeln!(text, "  username: {}", quoted(user));
    }
    match (password_file, &endpoint.password) {
        (Some(file), _) => drop(writeln!(text, "  password_file: {}", quoted(file))),
        (None, Some(_)) => {
            text.push_str("  # password: ${REDIS_PASSWORD}   # or password_file; it is not printed here\n")
        }
        (None, None) => {}
    }
    text.push_str("sinks:\n  out:\n    stdout: {}   # put your sink here: kafka, amqp, redis\nqueues:\n");
    for (id, queue) in ids(queues).into_iter().zip(queues) {
        one(&mut text, &id, queue);
    }
    text
}

fn one(text: &mut String, id: &str, queue: &Queue) {
    let s = &queue.stats;
    let _ = writeln!(text, "  {id}:");
    let overdue = s.source.head_ms.filter(|head| *head <= s.now_ms).map(|head| show::duration(head.abs_diff(s.now_ms)));
    let overdue = overdue.map(|age| format!(", the oldest for {age}")).unwrap_or_default();
    let _ = writeln!(
        text,
        "    # {} scheduled, {} due{overdue}, {} on the ready list",
        s.source.scheduled - s.source.due,
        s.source.due,
        s.source.ready
    );
    let _ = writeln!(text, "    # {}", layouts(queue));
    let _ = writeln!(text, "    # {}", clients(queue));
    if let Some(other) = &queue.found.or {
        let _ = writeln!(text, "    # the keys fit the name {} as well: is the ready list called so?", quoted(other));
    }
    let _ = writeln!(text, "    source: {{ redisson: {{ name: {} }} }}", quoted(&queue.found.name));
    let _ = writeln!(text, "    codec: {}   # {}", queue.codec.coding.as_str(), sure(queue));
    text.push_str("    mode: shadow\n    to:\n      - sink: out\n");
}

fn layouts(queue: &Queue) -> String {
    let [old, new, none] = queue.layouts;
    let sampled = old + new + none;
    match (old, new) {
        (0, 0) => format!("layout unknown: none of {sampled} sampled elements is of Redisson's"),
        (_, 0) if none == 0 => format!("layout old (Redisson up to 3.21.0), all {sampled} sampled elements"),
        (0, _) if none == 0 => format!("layout new (Redisson from 3.21.1 on), all {sampled} sampled elements"),
        _ => format!(
            "MIXED: {old} old, {new} new and {none} of no layout among {sampled} sampled elements; Redisson clients stop at \
             the first that they cannot read: see `delaybridge migrate`"
        ),
    }
}

fn clients(queue: &Queue) -> String {
    match queue.clients {
        None => "who listens cannot be told: that takes the right to PUBSUB NUMSUB".to_owned(),
        Some(0) => "no Redisson client listens: nobody transfers what falls due".to_owned(),
        Some(1) => "1 Redisson client listens".to_owned(),
        Some(count) => format!("{count} Redisson clients listen"),
    }
}

fn sure(queue: &Queue) -> String {
    match queue.codec {
        Guess { of: 0, .. } => "nothing could be sampled".to_owned(),
        Guess { coding, of, .. } if coding.is_raw() => format!("no codec reads all {of} sampled payloads"),
        Guess { sure, of, .. } => format!("{}: it reads all {of} sampled payloads", sure.as_str()),
    }
}

/// Everything for a program.
pub(super) fn json(queues: &[Queue]) -> Value {
    let row = |(id, queue): (String, &Queue)| {
        let [old, new, junk] = queue.layouts;
        json!({
            "id": id,
            "name": queue.found.name,
            "or_name": queue.found.or,
            "scheduled": queue.stats.source.scheduled - queue.stats.source.due,
            "due": queue.stats.source.due,
            "ready": queue.stats.source.ready,
            "oldest_due_ms": queue.stats.source.head_ms.filter(|head| *head <= queue.stats.now_ms),
            "layouts": { "old": old, "new": new, "junk": junk },
            "codec": { "name": queue.codec.coding.as_str(), "sure": queue.codec.sure.as_str(), "sampled": queue.codec.of },
            "redisson_clients": queue.clients,
        })
    };
    ids(queues).into_iter().zip(queues).map(row).collect()
}

/// Ids for the configuration: what a name may not have becomes `_`, and no two are the same.
fn ids(queues: &[Queue]) -> Vec<String> {
    let mut taken = HashSet::new();
    queues.iter().map(|queue| id(&queue.found.name, &mut taken)).collect()
}

fn id(name: &str, taken: &mut HashSet<String>) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let plain: String = name.chars().map(|c| if allowed(c) { c } else { '_' }).take(56).collect();
    let plain = plain.trim_matches('_');
    let plain = if plain.is_empty() { "queue" } else { plain };
    // YAML reads `1`, `no` or `1e3` as something else than a name.
    let plain = match plain.starts_with(|c: char| c.is_ascii_alphabetic()) && !WORDS.contains(&plain) {
        true => plain.to_owned(),
        false => format!("q_{plain}"),
    };
    let mut id = plain.clone();
    let mut number = 2;
    while !taken.insert(id.clone()) {
        id = format!("{plain}_{number}");
        number += 1;
    }
    id
}

/// Words that YAML does not read as text.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "True", "False", "Null"];

/// A text as YAML and the configuration read it back.
fn quoted(text: &str) -> String {
    Value::from(text.replace("${", "$${")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gets_an_id_of_its_own() {
        let mut taken = HashSet::new();
        let mut check = |name: &str, expected: &str| assert_eq!(id(name, &mut taken), expected, "{name}");
        check("app:orders", "app_orders");
        check("app orders", "app_orders_2");
        check("{app}:orders", "app__orders");
        check("7", "q_7");
        check("no", "q_no");
        check("::", "queue");
        check("\u{fc}", "queue_2");
        check(&"x".repeat(300), &"x".repeat(56));
        check(&"x".repeat(301), &format!("{}_2", "x".repeat(56)));
    }

    #[test]
    fn names_survive_yaml_and_variables() {
        assert_eq!(quoted("a\"b\n${X}"), "\"a\\\"b\\n$${X}\"");
    }
}
