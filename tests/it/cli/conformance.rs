//! `conformance` as people call it; what the kit finds is tested in `tests/producers`.

use super::{ask, config};
use harness::RedisServer;

#[tokio::test]
async fn a_producer_that_says_nothing_is_told_so_and_the_statements_are_a_list() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let listed = ask(&config, "conformance --list --output json").json();
    assert_eq!(listed["statements"][0]["statement"], "K1", "{listed}");
    let line = |rest: &str| format!("conformance --redis-url {} {rest}", server.url());
    ask(&config, &line("-- true")).failed(1, &["ended with code 0 instead of answering `open`", "standard error"]);
    ask(&config, &line("--timeout 200ms -- sleep 60")).failed(1, &["did not answer `open`", "200ms"]);
    ask(&config, &line("-- echo ready")).failed(1, &["ready", "one JSON object a line"]);
    ask(&config, "conformance -- true").failed(2, &["--redis-url"]);
}
