//! `--output json`: the shapes of all commands agree with each other.

use redis::AsyncCommands;
use serde_json::Value;

use super::{ask, config};
use harness::{RedisServer, RedissonQueue};

/// Collects all nested objects, each with its path.
fn objects<'a>(path: &str, value: &'a Value, found: &mut Vec<(String, &'a serde_json::Map<String, Value>)>) {
    match value {
        Value::Object(fields) => {
            found.push((path.to_owned(), fields));
            fields.iter().for_each(|(name, value)| objects(&format!("{path}.{name}"), value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| objects(&format!("{path}[]"), item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_result_is_an_object_with_a_named_list_and_one_name_for_a_thing() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    RedissonQueue::new("app:texts").offer(&mut redis, 1, "one").await;
    let dead = RedissonQueue::new("app:texts").bridge_key("dead");
    let letter =
        [("id", "52414e444f4d3842"), ("origin", "ready"), ("died_ms", "5"), ("attempts", "3"), ("element", "x")];
    let _: String = redis.xadd(&dead, "1-0", &letter).await.unwrap();
    let offered = ask(&config, "offer texts --delay 1h --payload two --output json").json();
    let id = offered["elements"][0]["id"].as_str().unwrap().to_owned();

    for (line, lists) in [
        ("queues", &["queues", "errors"][..]),
        ("peek texts", &["elements"]),
        ("search two", &["queues", "errors"]),
        ("forecast texts --rate 10", &["steps"]),
        (&format!("why texts {id}"), &["waits_for", "attempts_seen", "remedies", "notes"]),
        ("forecast", &["queues", "errors"]),
        ("decode --queue texts", &["elements"]),
        (&format!("cancel texts {id}"), &["elements"]),
        ("audit", &["changes", "errors"]),
        ("fleet", &["daemons", "orders", "errors"]),
        ("dead ls texts", &["dead_letters"]),
        ("dead show texts 1-0", &["dead_letters"]),
        ("dead redrive texts --all", &["errors", "not_found"]),
        ("dead purge texts --all --yes", &["not_found"]),
        ("migrate texts --to new", &["transferred"]),
        ("restore texts", &["kept", "confirmed"]),
        ("recover texts", &[]),
        ("check --live", &["problems", "warnings", "live"]),
        ("acl", &["users"]),
        (&format!("discover --url {}", server.url()), &["queues", "errors"]),
    ] {
        let result = ask(&config, &format!("{line} --output json")).json();
        for list in lists {
            assert!(result[list].is_array(), "{line}: {list} in {result}");
        }
        let mut all = Vec::new();
        objects("", &result, &mut all);
        for (path, fields) in all.into_iter().filter(|(path, _)| !path.starts_with(".settings")) {
            for (name, value) in fields {
                let at = format!("{line}: {path}.{name} is {value}");
                match name.as_str() {
                    "queue" | "id" | "stream_id" | "state" | "layout" | "code" | "codec" | "sure" | "message" => {
                        assert!(value.is_string() || value.is_null(), "{at}");
                    }
                    "attempts" | "size" | "scheduled" | "due" | "in_flight" | "retry" | "dead" | "ready" => {
                        assert!(value.is_u64(), "{at}");
                    }
                    name if name.ends_with("_ms") => assert!(value.is_i64() || value.is_null(), "{at}"),
                    _ => {}
                }
            }
        }
    }
}
