//! Where the Redis is, and what its claims have to reach.

use super::*;
use delaybridge_link::RedisTarget;

const URL: &str = "  url: redis://127.0.0.1:6379/0\n";

/// A file whose `redis:` has these lines.
#[track_caller]
fn redis(lines: &str, expected: &[&str]) {
    check(URL, lines, expected);
}

#[test]
fn sentinels_and_servers_have_logins_of_their_own() {
    let lines = "  sentinel:
    master: orders
    nodes: [s1, 's2:1', '[::1]:2']
    username: watcher
    password: ${SECRET}
  username: bridge
  password: ${SECRET}
  tls: {}
  database: 3
  command_timeout: 7s
";
    let config = load(&GOOD.replacen(URL, lines, 1)).unwrap_or_else(|errors| panic!("{errors}")).config;
    let redis = config.redis.only().expect("one");
    let RedisTarget::Sentinel(target) = redis else { panic!("{redis:?}") };
    let nodes: Vec<_> = target.nodes.iter().map(|node| (node.address(), node.tls.is_some())).collect();
    let expected = [("s1:26379/0", false), ("s2:1/0", false), ("[::1]:2/0", false)];
    assert_eq!(nodes, expected.map(|(address, tls)| (address.to_owned(), tls)));
    assert!(target.nodes.iter().all(|node| node.username.as_deref() == Some("watcher") && node.password.is_some()));
    let servers = redis.servers();
    assert_eq!((servers.username.as_deref(), servers.database), (Some("bridge"), 3));
    assert!(servers.tls.is_some() && servers.command_timeout == std::time::Duration::from_secs(7));
    assert_eq!(redis.address(), "sentinel:orders/3");
    let shown = describe(&config);
    for part in
        ["    master: orders\n", "    nodes: [s1:26379, s2:1, [::1]:2]\n", "    username: watcher\n", "  database: 3\n"]
    {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
}

#[test]
fn a_unix_socket_is_a_place_of_a_server() {
    let config = load(&GOOD.replacen(URL, "  url: unix:///run/redis/redis.sock?db=3\n", 1)).unwrap().config;
    assert_eq!(config.redis.only().unwrap().address(), "unix:/run/redis/redis.sock?db=3");
    let shown = describe(&config);
    assert!(shown.contains("  url: unix:///run/redis/redis.sock?db=3\n"), "{shown}");
    redis(
        "  url: unix:///run/redis.sock\n  tls: {}\n",
        &["3:8 redis.tls: `tls` has no effect on a Unix socket | remove `tls`"],
    );
    redis(
        "  url: unix:///run/redis.sock\n  database: 3\n",
        &["3:13 redis.database: the database is a part of the URL | write it behind the path"],
    );
    redis(
        "  url: unix://run/redis.sock\n",
        &[
            "2:8 redis.url: the path of a socket begins with `/`, after `unix://` | write `unix:///run/redis/redis.sock`",
        ],
    );
}

#[test]
fn a_certificate_may_have_another_name_than_the_host() {
    let of = |tls: &str| load(&GOOD.replacen(URL, &format!("  url: rediss://10.0.0.1\n  tls: {{ {tls} }}\n"), 1));
    let named = of("server_name: redis.example.com").unwrap();
    assert_eq!(lines(&named.warnings), [""; 0]);
    let shown = describe(&named.config);
    assert!(shown.contains("    server_name: redis.example.com\n") && !shown.contains("verify_hostname"), "{shown}");
    let any = of("verify_hostname: false").unwrap();
    let warnings = lines(&any.warnings);
    assert!(
        warnings.len() == 1 && warnings[0].contains("redis.tls.verify_hostname: the name in the server's certificate"),
        "{warnings:?}"
    );
    assert!(describe(&any.config).contains("    verify_hostname: false\n"), "{}", describe(&any.config));
    let both = of("verify_hostname: false, server_name: a").unwrap_err().to_string();
    assert!(both.contains("`server_name` has no effect with `verify_hostname: false`"), "{both}");
    let wrong = of("server_name: 'https://a'").unwrap_err().to_string();
    assert!(wrong.contains("redis.tls.server_name") && wrong.contains("this is no host name"), "{wrong}");
}

#[test]
fn a_certificate_may_be_known_by_its_fingerprint() {
    let of = |tls: &str| load(&GOOD.replacen(URL, &format!("  url: rediss://10.0.0.1\n  tls: {{ {tls} }}\n"), 1));
    let pin = "0A".repeat(32);
    let colons = vec!["0A"; 32].join(":");
    for written in [&pin, &pin.to_lowercase(), &colons] {
        let pinned = of(&format!("fingerprints: ['{written}']")).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(lines(&pinned.warnings), [""; 0]);
        let shown = describe(&pinned.config);
        assert!(shown.contains(&colons) && !shown.contains("the system's"), "{shown}");
    }
    for wrong in ["0A", &pin[1..], &format!("{pin}0A"), &pin.replace('A', "G"), &colons.replacen("0A:", "0A0", 1)] {
        let errors = of(&format!("fingerprints: ['{wrong}']")).unwrap_err().to_string();
        assert!(errors.contains("redis.tls.fingerprints") && errors.contains("no SHA-256"), "{wrong}: {errors}");
    }
    let both = of(&format!("fingerprints: ['{pin}'], server_name: a")).unwrap_err().to_string();
    assert!(both.contains("`server_name` has no effect with `fingerprints`"), "{both}");
}

#[test]
fn a_prefix_is_that_of_the_keys_of_every_source() {
    let config = load(&GOOD.replacen(URL, &format!("{URL}  key_prefix: 'team-a:'\n"), 1)).unwrap().config;
    for spec in &config.queues {
        let keys = spec.source.build().ledger_keys();
        assert!(keys.leases.starts_with(b"team-a:leases:"), "{keys:?}");
        assert_eq!(keys.marker(), format!("delaybridge:prefix:{}", keys.tag));
    }
    assert!(describe(&config).contains("  key_prefix: team-a:\n"), "{}", describe(&config));
    assert!(!describe(&load(GOOD).unwrap().config).contains("key_prefix"), "the default is not shown");
    for (prefix, expected) in [
        ("team-a", "3:15 redis.key_prefix: `team-a` is no prefix of keys | a prefix ends with `:`"),
        ("'a{b}:'", "3:15 redis.key_prefix: `a{b}:` is no prefix of keys | a prefix has visible ASCII characters only"),
        ("'redisson_x:'", "3:15 redis.key_prefix: `redisson_x:` is no prefix of keys | keys that begin with"),
        ("'delaybridge:jobs:'", "3:15 redis.key_prefix: `delaybridge:jobs:` is no prefix of keys | keys that begin so"),
        ("''", "3:15 redis.key_prefix: the text is empty"),
    ] {
        redis(&format!("{URL}  key_prefix: {prefix}\n"), &[expected]);
    }
}

/// Two entries of the same queue.
fn two(one: &str, other: &str, sources: [&str; 2]) -> Vec<String> {
    let yaml = format!(
        "redis:\n  one: {{ url: 'redis://h/1'{one} }}\n  other: {{ url: 'redis://h/1'{other} }}\n\
         sinks: {{ out: {{ redis: {{ url: 'redis://o', list: out }} }} }}\nqueues:\n  \
         a: {{ source: {{ redis: one, {} }}, to: [{{ sink: out }}] }}\n  b: {{ source: {{ redis: other, {} }}, to: [{{ sink: out }}] }}\n",
        sources[0], sources[1]
    );
    match load(&yaml) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.problems.iter().map(|problem| problem.message.clone()).collect(),
    }
}

#[test]
fn two_prefixes_over_one_queue_are_refused() {
    let team = ", key_prefix: 'team-a:'";
    let orders = "redisson: { name: orders }";
    assert_eq!(two(team, "", [orders; 2]), ["queue `a` is the same queue with `key_prefix: 'team-a:'`"]);
    assert_eq!(two("", team, [orders; 2]), ["queue `a` is the same queue with `key_prefix: 'delaybridge:'`"]);
    assert!(two(team, "", [orders, "redisson: { name: other }"]).is_empty());
    let set = "zset: { key: due, score: ms }";
    assert_eq!(two(team, "", [set; 2]), ["queue `a` is the same queue with `key_prefix: 'team-a:'`"]);
    // An application's own keys may have the prefix, ours may not.
    assert!(two(team, team, ["zset: { key: 'team-a:due', score: ms }", orders]).is_empty());
    let ours = two(team, team, ["zset: { key: 'team-a:retry:x', score: ms }", orders]);
    assert_eq!(ours, ["`team-a:retry:x` is among the daemon's own keys, which begin with `team-a:`"]);
}

#[test]
fn what_is_wrong_about_sentinels_is_named() {
    redis("  sentinel: { master: m, nodes: [s:26379] }\n", &[]);
    redis("  sentinel: { nodes: [s] }\n", &["2:3 redis.sentinel: `master` is missing | Name of the master"]);
    redis("  sentinel: { master: m }\n", &["2:3 redis.sentinel: `nodes` is missing | All sentinels as `host:port`"]);
    redis(
        "  sentinel: { master: m, nodes: [] }\n",
        &["2:33 redis.sentinel.nodes: expected a list, found an empty list"],
    );
    redis(
        "  sentinel: { master: m, nodes: ['redis://s:26379'] }\n",
        &["2:34 redis.sentinel.nodes[0]: a sentinel is written without a scheme | write `host:26379`"],
    );
    redis("  sentinel: { master: m, nodes: [':1'] }\n", &["2:34 redis.sentinel.nodes[0]: no host is named"]);
    redis(
        "  sentinel: { master: m, nodes: [s, 's:26379'] }\n",
        &["2:37 redis.sentinel.nodes[1]: this sentinel is named twice | its answer would count twice"],
    );
    redis(
        "  sentinel: { master: m, nodes: [s], username: u }\n",
        &["2:48 redis.sentinel.username: there is a user, but no password"],
    );
    redis(
        "  sentinel: { master: m, nodes: [s] }\n  username: u\n",
        &["3:13 redis.username: there is a user, but no password"],
    );
    redis(
        "  url: redis://h\n  sentinel: { master: m, nodes: [s] }\n",
        &["3:13 redis.sentinel: there is both `url` and `sentinel` | keep one of them"],
    );
    redis("  url: redis://h\n  database: 3\n", &["3:13 redis.database: the database is a part of the URL"]);
    redis("  username: u\n", &["1:1 redis: `url` is missing | write `url: redis://host:6379/0`, `sentinel`"]);
}

#[test]
fn a_sink_may_be_behind_sentinels_too() {
    let sink = |keys: &str, expected: &[&str]| {
        check("redis: { list: done }", &format!("redis: {{ list: done, {keys} }}"), expected)
    };
    sink("sentinel: { master: m, nodes: [s] }, database: 2", &[]);
    sink("database: 2", &["7:36 sinks.ready.redis.database: `database` has no effect without `url`"]);
}

#[test]
fn durability_waits_for_something_and_not_for_too_long() {
    let queue = |keys: &str, expected: &[&str]| check("codec: json", &format!("durability: {keys}"), expected);
    queue("{}", &[]);
    queue("{ replicas: 0, aof: true, timeout: 2499ms }", &[]);
    queue("{ replicas: 0 }", &["15:29 queues.mails.durability.replicas: there is nothing to wait for"]);
    queue(
        "{ timeout: 2500ms }",
        &["15:17 queues.mails.durability: twice the time-out (2500ms) is not shorter than redis.command_timeout (5s)"],
    );
    check(
        "codec: json",
        "mode: shadow\n    durability: {}",
        &["16:17 queues.mails.durability: `durability` has no effect with `mode: shadow`"],
    );
}
