//! Elements as real programs write them (`tests/vectors/zsets.jsonl`), read with the presets: the id, the due time,
//! every byte.

use std::collections::HashMap;

use redis::AsyncCommands;
use serde::Deserialize;
use serde_json::Value;

use super::PATIENCE;
use harness::daemon::{ConfigFile, Daemon, cli};
use harness::{RedisServer, eventually};

#[derive(Deserialize)]
struct Recorded {
    program: String,
    source: String,
    key: String,
    /// The score as Redis shows it.
    score: String,
    due_ms: i64,
    /// The id; `null` if it is the hash.
    id: Option<String>,
    member: String,
}

fn recorded() -> Vec<Recorded> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/zsets.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_real_programs_write_is_delivered_as_it_is() {
    for row in recorded() {
        let what = format!("{}: {}", row.program, row.member);
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        let yaml = format!(
            "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ stream: out }} }} }}\n\
             queues: {{ q: {{ source: {{ zset: {{ {} }} }}, to: [{{ sink: out }}] }} }}\n",
            server.url(),
            row.source
        );
        let mut add = redis::cmd("ZADD");
        add.arg(&row.key).arg(&row.score).arg(&row.member).exec_async(&mut redis).await.expect("the server takes it");
        let config = ConfigFile::new(&format!("http: none\n{yaml}"));
        let output = cli(&config, &["peek", "q", "--output", "json"]);
        let peeked: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let element = &peeked["elements"][0];
        assert_eq!(element["due_ms"], row.due_ms, "{what}");
        match &row.id {
            Some(id) => assert_eq!(element["id"], id.as_str(), "{what}"),
            None => assert_eq!(element["id"].as_str().map(str::len), Some(16), "{what}"),
        }
        // The same element, due now.
        redis.zadd::<_, _, _, ()>(&row.key, &row.member, 1_700_000_000).await.expect("the server takes it");
        let mut daemon = Daemon::start(&yaml).await;
        let fields = eventually("the element", PATIENCE, async || {
            let mut range = redis::cmd("XRANGE");
            range.arg("out").arg("-").arg("+");
            let rows: Vec<(String, HashMap<String, String>)> =
                range.query_async(&mut redis.clone()).await.map_err(|error| error.to_string())?;
            rows.into_iter().next().map(|(_, fields)| fields).ok_or_else(|| "none".to_owned())
        })
        .await;
        assert_eq!(fields["payload"], row.member, "{what}");
        if let Some(id) = &row.id {
            assert_eq!(&fields["id"], id, "{what}");
        }
        daemon.stop().await;
    }
}
