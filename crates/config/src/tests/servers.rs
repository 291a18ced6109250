//! Several Redis by name, and who is in which.

use super::*;

/// Two Redis, a sink of standard output, and these queues: `name: keys of the source`.
fn two(sink: &str, queues: &[(&str, &str)]) -> String {
    let queue = |(name, redis): &(&str, &str)| {
        format!("  {name}:\n    source: {{ {redis}redisson: {{ name: {name} }} }}\n    to: [{{ sink: s }}]\n")
    };
    let queues: String = queues.iter().map(queue).collect();
    format!(
        "redis: {{ orders: {{ url: 'redis://a' }}, mails: {{ cluster: [b] }} }}\nsinks: {{ s: {sink} }}\nqueues:\n{queues}"
    )
}

const OUT: &str = "{ stdout: {} }";

#[test]
fn each_queue_is_in_the_redis_that_its_source_names() {
    let text = two(OUT, &[("a", "redis: orders, "), ("b", "redis: mails, ")]);
    let config = load(&text).unwrap_or_else(|errors| panic!("{errors}")).config;
    assert_eq!(config.queues.iter().map(|spec| &*spec.redis).collect::<Vec<_>>(), ["orders", "mails"]);
    assert_eq!(config.redis.named("mails").address(), "cluster:b:6379");
    let shown = describe(&config);
    assert!(shown.contains("redis:\n  orders:\n    url: redis://a:6379/0\n"), "{shown}");
    assert!(shown.contains("      redis: mails\n"), "{shown}");
    // The same name in two Redis is two queues.
    let same = text.replace("redisson: { name: b }", "redisson: { name: a }");
    assert_eq!(load(&same).unwrap_or_else(|errors| panic!("{errors}")).config.queues.len(), 2);
}

#[test]
fn one_without_a_name_needs_none() {
    let config = load(GOOD).unwrap_or_else(|errors| panic!("{errors}")).config;
    assert!(config.queues.iter().all(|spec| &*spec.redis == ONLY));
    assert!(!describe(&config).contains("redis: default"));
    let named = GOOD.replacen("redis:\n", "redis:\n orders:\n", 1);
    let config = load(&named).unwrap_or_else(|errors| panic!("{errors}")).config;
    assert!(config.queues.iter().all(|spec| &*spec.redis == "orders"), "the only one that there is");
}

#[test]
fn what_is_not_said_or_wrong_is_named() {
    check_words(
        &two(OUT, &[("a", "")]),
        &[
            "queues.a.source.redisson.name: queue `a` does not say in which Redis it is | write `redis: NAME` under `source`; there are: `orders`, `mails`",
        ],
    );
    check_words(
        &two(OUT, &[("a", "redis: order, ")]),
        &["queues.a.source.redis: there is no Redis `order` | did you mean `orders`?"],
    );
    check_words(
        &two("{ redis: { list: x } }", &[("a", "redis: orders, "), ("b", "redis: mails, ")]),
        &["sinks.s: sink `s` has no server of its own, and its queues are in `mails` and `orders`"],
    );
    check_words(&two("{ redis: { list: x } }", &[("a", "redis: orders, "), ("b", "redis: orders, ")]), &[]);
    let jobs = format!("{}jobs: {{}}\n", two(OUT, &[("a", "redis: orders, ")]));
    check_words(&jobs, &["jobs: the job queue does not say in which Redis it is"]);
    let topic = |redis: &str| {
        let queues = two(OUT, &[("a", redis)]).replace("redisson: { name: a }", "jobs: { topic: a }");
        format!("{queues}jobs: {{ redis: orders }}\n")
    };
    check_words(&topic("redis: orders, "), &[]);
    check_words(
        &topic("redis: mails, "),
        &[
            "queues.a.source.redis: queue `a` reads its topic in Redis `mails`, and the job queue is in `orders` | write `redis: orders`",
        ],
    );
    check_words(&jobs.replace("jobs: {}", "jobs: { redis: mails }"), &[]);
    check_words(&jobs.replace("jobs: {}", "jobs: { redis: x }"), &["jobs.redis: there is no Redis of this name"]);
    check(
        "name: mails }",
        "name: mails }, redis: other",
        &[
            "14:49 queues.mails.source.redis: there is one Redis, and it has no name | remove `redis` here, or name the Redis under `redis:` at the top",
        ],
    );
}
