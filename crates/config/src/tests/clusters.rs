//! Nodes of a cluster, and names whose keys it would keep apart.

use super::*;

const URL: &str = "  url: redis://127.0.0.1:6379/0\n";

/// A file whose `redis:` has these lines.
#[track_caller]
fn redis(lines: &str, expected: &[&str]) {
    check(URL, lines, expected);
}

#[test]
fn nodes_have_one_login_and_no_database() {
    let lines = "  cluster: [a, 'b:1', '[::1]:2']\n  username: bridge\n  password: ${SECRET}\n  tls: {}\n";
    let config = load(&GOOD.replacen(URL, lines, 1)).unwrap_or_else(|errors| panic!("{errors}")).config;
    let target = config.redis.only().expect("one");
    assert_eq!((target.address().as_str(), target.is_cluster()), ("cluster:a:6379,b:1,[::1]:2", true));
    let servers = target.servers();
    assert!(servers.tls.is_some() && servers.username.as_deref() == Some("bridge") && servers.password.is_some());
    let shown = describe(&config);
    assert!(shown.contains("  cluster: [a:6379, b:1, [::1]:2]\n"), "{shown}");
}

#[test]
fn what_is_wrong_about_nodes_is_named() {
    redis("  cluster: [a]\n", &[]);
    redis("  cluster: []\n", &["2:12 redis.cluster: expected a list, found an empty list"]);
    redis(
        "  cluster: ['redis://a']\n",
        &["2:13 redis.cluster[0]: a node is written without a scheme | write `host:6379`"],
    );
    redis("  cluster: [':1']\n", &["2:13 redis.cluster[0]: no host is named"]);
    redis("  cluster: [a, 'a:6379']\n", &["2:16 redis.cluster[1]: this node is named twice"]);
    redis("  cluster: [a]\n  database: 3\n", &["3:13 redis.database: a cluster has no other databases"]);
    redis("  cluster: [a]\n  url: redis://b\n", &["2:12 redis.cluster: there is both `url` and `cluster`"]);
}

#[test]
fn keys_that_a_cluster_keeps_apart_are_refused() {
    let with = |source: &str| {
        let queue = format!("  orders:\n    source: {source}\n    to: [{{ sink: out }}]\n");
        format!("redis: {{ cluster: [a] }}\nsinks: {{ out: {{ stdout: {{}} }} }}\nqueues:\n{queue}")
    };
    for fine in [
        "{ redisson: { name: orders } }",
        "{ redisson: { name: 'app:{orders}' } }",
        "{ zset: { key: orders, score: ms } }",
        "{ zset: { key: '{a}:orders', score: ms } }",
    ] {
        check_words(&with(fine), &[]);
    }
    check_words(
        &with("{ redisson: { name: 'orders{a' } }"),
        &[
            "queues.orders.source.redisson.name: a cluster may keep the keys of queue `orders` on different nodes: `redisson_delay_queue_timeout:orders{a`",
        ],
    );
    // The same name is good enough for one server.
    check_words(&with("{ redisson: { name: 'orders{a' } }").replace("cluster: [a]", "url: 'redis://a'"), &[]);
}
