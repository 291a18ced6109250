//! Tables of good and bad configurations, with the words that the user sees.

use super::*;

/// A file that can be run; rows of the tables below replace parts of it.
const GOOD: &str = "\
redis:
  url: redis://127.0.0.1:6379/0
sinks:
  out:
    stdout: {}
  ready:
    redis: { list: done }
queues:
  orders:
    source: { redisson: { name: 'order:timeout' } }
    to:
      - sink: ready
  mails:
    source: { redisson: { name: mails } }
    codec: json
    to:
      - sink: out
";

fn env(name: &str) -> Option<String> {
    match name {
        "HOST" => Some("redis-0".to_owned()),
        "SECRET" => Some("geheim".to_owned()),
        "TEN" => Some("10".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn load(text: &str) -> Result<Loaded, ConfigErrors> {
    let result = load_str(text, "c.yaml", &env);
    let shown = match &result {
        Ok(loaded) => format!("{:?}", loaded) + &describe(&loaded.config),
        Err(errors) => format!("{errors:?}{errors}"),
    };
    assert!(!shown.contains("geheim"), "a secret is shown: {shown}");
    result
}

fn lines(problems: &[Problem]) -> Vec<String> {
    let line = |problem: &Problem| {
        let place = problem.position.map_or("-".to_owned(), |at| format!("{}:{}", at.line, at.column));
        let help = problem.help.as_ref().map(|help| format!(" | {help}")).unwrap_or_default();
        format!("{place} {}: {}{help}", problem.path, problem.message)
    };
    problems.iter().map(line).collect()
}

/// Replaces `from` in the good file and expects these problems, each as the beginning of its line.
#[track_caller]
fn check(from: &str, to: &str, expected: &[&str]) {
    assert!(GOOD.contains(from), "the good file has no {from:?}");
    check_text(&GOOD.replacen(from, to, 1), expected);
}

#[track_caller]
fn check_text(text: &str, expected: &[&str]) {
    let got = match load(text) {
        Ok(_) => Vec::new(),
        Err(errors) => lines(&errors.problems),
    };
    let same = got.len() == expected.len() && got.iter().zip(expected).all(|(got, expected)| got.starts_with(expected));
    assert!(same, "for\n{text}\ngot {got:#?}\nnot {expected:#?}");
}

#[track_caller]
fn check_warnings(text: &str, expected: &[&str]) {
    let got = lines(&load(text).unwrap_or_else(|errors| panic!("{errors}")).warnings);
    let same = got.len() == expected.len() && got.iter().zip(expected).all(|(got, expected)| got.starts_with(expected));
    assert!(same, "for\n{text}\ngot {got:#?}\nnot {expected:#?}");
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let Loaded { config, warnings } = load(GOOD).unwrap();
    assert_eq!(warnings, []);
    let text = describe(&config);
    println!("{text}");
    for line in [
        "http:\n  listen: 0.0.0.0:9464\nshutdown_timeout: 25s\n",
        "limits:\n  in_flight: 20000\n  in_flight_bytes: 64MiB\n",
        "  connect_timeout: 5s\n  command_timeout: 5s\n",
        "      timeout: 10s\n      max_rate: none\n",
        "        consume: [delayed, ready]\n",
        "    codec: raw\n    on_decode_error: dead_letter\n    lease: 30s\n    max_in_flight: auto\n",
        "    max_in_flight_bytes: 16MiB\n    max_rate: none\n    max_lateness: none\n",
        "    list_cleanup: auto\n    ghost_max_age: 30s\n    sweep_bandwidth: 16MiB\n",
        "      max_attempts: 10\n      initial_interval: 500ms\n      max_interval: 1m\n      multiplier: 2.0\n      jitter: full\n",
        "      - sink: ready\n        list: done\n        push: right\n        exactly_once: false\n        envelope: raw\n",
    ] {
        assert!(text.contains(line), "{line}");
    }
}

#[test]
fn a_key_that_is_not_known_is_an_error_with_a_suggestion() {
    check("    codec: json", "    codek: json", &["15:5 queues.mails.codek: unknown key | did you mean `codec`?"]);
    check(
        "    codec: json",
        "    maxInFlight: 5",
        &["15:5 queues.mails.maxInFlight: unknown key | did you mean `max_in_flight`?"],
    );
    check(
        "      - sink: out",
        "      - zink: out",
        &[
            "17:9 queues.mails.to[0].zink: unknown key | did you mean `sink`?",
            "17:9 queues.mails.to[0]: `sink` is missing | Name of a sink.",
        ],
    );
    check(
        "{ redisson: { name: mails } }",
        "{ name: mails }",
        &["14:15 queues.mails.source.name: unknown key | `name` belongs under `redisson`"],
    );
    check("redis:\n", "zzz: 1\nredis:\n", &["1:1 zzz: unknown key | keys here are: http, shutdown_timeout, limits"]);
    check(
        "  url: redis",
        "  passwort: geheim\n  url: redis",
        &["2:3 redis.passwort: unknown key | did you mean `password`?"],
    );
    check(
        "      - sink: ready",
        "      - sink: redy",
        &["12:15 queues.orders.to[0].sink: there is no sink `redy` | did you mean `ready`?"],
    );
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_file() {
    let text = "\
http: { listen: everywhere }
shutdown_timeout: 25
redis: { url: 'redis://h:99999' }
retry:
  default: { max_attempts: 0, multiplier: 0.5 }
sinks:
  out: { stdout: {}, timeout: 3s }
queues:
  'a b':
    source: { redisson: { name: x, consume: [] } }
    lease: 30
    to: []
";
    check_text(
        text,
        &[
            "1:17 http.listen: `everywhere` is not an address with a port",
            "2:19 shutdown_timeout: `25` has no unit | write `25s` for seconds or `25ms` for milliseconds",
            "3:15 redis.url: the port is not a number from 1 to 65535",
            "5:28 retry.default.max_attempts: 0 is out of range | write a number from 1 to 1000000",
            "5:43 retry.default.multiplier: 0.5 is out of range | write a number from 1 to 100",
            "7:22 sinks.out.timeout: unknown key | `timeout` belongs under `redis`",
            "9:3 queues.a b: the name has characters that it cannot have",
            "10:45 queues.a b.source.redisson.consume: expected a list, found an empty list",
            "11:12 queues.a b.lease: `30` has no unit",
            "12:9 queues.a b.to: the list is empty",
        ],
    );
    let shown = load(text).unwrap_err().to_string();
    assert!(shown.starts_with("c.yaml:1:17: http.listen\n  `everywhere` is not"), "{shown}");
    assert!(shown.ends_with("\n\n10 problems in the configuration"), "{shown}");
}

#[test]
fn yaml_that_cannot_be_read_is_an_error_with_its_place() {
    check_text("", &["1:1 : the file is empty"]);
    check_text("# nothing\n", &["2:1 : the file is empty"]);
    check_text("a: [1, 2\n", &["1:4 : read YAML: unclosed bracket"]);
    check_text("redis:\n  url: x\n\ttls: 1\n", &["2:8 : read YAML: while scanning a plain scalar, found a tab"]);
    check(
        "{ list: done }",
        "{ list: a${id} }",
        &[
            "7:22 : read YAML: while parsing a flow mapping, did not find expected ',' or '}' | between `{ }` and `[ ]`, a value with `${...}` stands in quotes",
        ],
    );
    check_text("- a\n", &["1:1 : expected keys with values, found a list"]);
    check_text("redis: {}\n---\nredis: {}\n", &["3:1 : a second YAML document begins here"]);
    check_text("a: *nobody\n", &["1:4 : read YAML: "]);
    check_text("password: 'geheim\n", &["2:1 : read YAML: "]);
    check(
        "    codec: json\n",
        "    codec: json\n    codec: raw\n",
        &["16:5 : read YAML: duplicate mapping key: codec"],
    );
    // What stands behind a double key is read all the same.
    check(
        "    codec: json\n",
        "    codec: json\n    codec: raw\n    lease: 7\n",
        &["16:5 : read YAML: duplicate mapping key: codec", "17:12 queues.mails.lease: `7` has no unit"],
    );
}

#[test]
fn a_file_made_to_hurt_is_refused_quickly() {
    let started = std::time::Instant::now();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let item = format!("*a{}, ", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{item}]\n"));
    }
    for text in [bomb, "[".repeat(100_000), "{a: ".repeat(1000), "- ".repeat(5000), "x".repeat(5 << 20)] {
        let errors = load(&text).unwrap_err();
        let [problem] = &errors.problems[..] else { panic!("{errors}") };
        let says = ["aliases (`*name`) repeat", "the file is nested deeper", "the file is larger than"];
        assert!(says.iter().any(|says| problem.message.starts_with(says)), "{errors}");
    }
    let anchors: String = (0..300_000).map(|_| "- x\n").collect();
    assert!(load(&anchors).unwrap_err().to_string().contains("the file is larger than any configuration"));
    assert!(started.elapsed().as_secs() < 20, "took {:?}", started.elapsed());
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let text = GOOD
        .replace("    codec: json\n", "    <<: *common\n")
        .replace("  orders:\n", "  orders:\n    <<: &common { codec: json, lease: 1m }\n");
    let config = load(&text).unwrap().config;
    assert!(config.queues.iter().all(|queue| queue.lease.as_secs() == 60 && queue.codec == Codec::Json));
}

#[test]
fn variables_are_replaced_inside_values_only() {
    let text = GOOD
        .replace("127.0.0.1:6379/0", ":${SECRET}@${HOST}:${PORT:-6380}/0")
        .replace("codec: json", "codec: json\n    max_in_flight: ${TEN}\n    lease: ${TEN}${EMPTY:-0}s")
        .replace("list: done", "list: 'x$${HOST}${HOST}'");
    let config = load(&text).unwrap().config;
    assert_eq!(config.redis.address(), "redis-0:6380/0");
    assert_eq!(config.queues[1].max_in_flight, MaxInFlight::Fixed(10));
    assert_eq!(config.queues[1].lease.as_secs(), 100);
    assert!(describe(&config).contains("list: x$${HOST}redis-0\n"), "{}", describe(&config));

    check("127.0.0.1", "${GONE}", &["2:8 redis.url: the environment variable GONE is not set | set it, or"]);
    check("127.0.0.1", "${host}", &["2:8 redis.url: `${host}` is a template, and this key takes none"]);
    check("127.0.0.1", "${Host}", &["2:8 redis.url: `${Host}` is neither a variable nor a template"]);
    check("127.0.0.1", "${HOST", &["2:8 redis.url: `${` has no closing `}`"]);
    check("list: done", "list: 'a${ident}'", &["7:20 sinks.ready.redis.list: `${ident}` is no field of an element"]);
    // A secret in the wrong place is not shown.
    check(
        "codec: json",
        "lease: ${SECRET}",
        &["15:12 queues.mails.lease: `${SECRET}`: the variable's value does not fit here | durations are written"],
    );
    check("codec: json", "codec: ${SECRET}", &["15:12 queues.mails.codec: `${SECRET}` is not known here"]);
    check("sink: out", "sink: ${SECRET}", &["17:15 queues.mails.to[0].sink: there is no sink `${SECRET}`"]);
    check("codec: json", "retry: ${SECRET}", &["15:12 queues.mails.retry: there is no retry policy `${SECRET}`"]);
    check(
        "codec: json",
        "max_in_flight: ${SECRET}",
        &["15:20 queues.mails.max_in_flight: `${SECRET}`: the variable's"],
    );
    check("redis://127.0.0.1:6379/0", "redis//:geheim@h", &["2:8 redis.url: the URL does not begin with redis://"]);
    check(
        "redis:\n  url: redis://127.0.0.1:6379/0",
        "redis: redis://:geheim@h",
        &["1:8 redis: expected keys with values, found text | keys are: url, username"],
    );
}

#[test]
fn a_value_of_the_wrong_kind_says_what_to_write() {
    let mails = |line: &str, expected: &[&str]| check("codec: json", line, expected);
    mails("lease: 30", &["15:12 queues.mails.lease: `30` has no unit | write `30s` for seconds or `30ms`"]);
    mails("lease: 5 minutes", &["15:12 queues.mails.lease: `5 minutes` is not a duration | durations are written"]);
    mails("lease: 100ms", &["15:12 queues.mails.lease: `100ms` is too short | the shortest is 1s"]);
    mails("lease:", &["15:5 queues.mails.lease: the key has no value | write one, or remove the key"]);
    mails("lease: [30s]", &["15:12 queues.mails.lease: expected one value, found a list"]);
    mails(
        "max_in_flight_bytes: 1024",
        &["15:26 queues.mails.max_in_flight_bytes: `1024` has no unit | write `1024MiB`"],
    );
    mails("max_in_flight_bytes: 0B", &["15:26 queues.mails.max_in_flight_bytes: 0 would stop everything"]);
    mails("max_rate: 5000", &["15:15 queues.mails.max_rate: `5000` has no unit | write `5000/s` for elements"]);
    mails(
        "max_rate: 0/s",
        &["15:15 queues.mails.max_rate: 0 would stop everything | write a value above 0, or `none`"],
    );
    mails("max_lateness: 0s", &["15:19 queues.mails.max_lateness: 0 would stop everything"]);
    mails(
        "max_in_flight: many",
        &[
            "15:20 queues.mails.max_in_flight: `many` is not a whole number | write a number from 1 to 1000000, or `auto`",
        ],
    );
    mails("max_in_flight: 0", &["15:20 queues.mails.max_in_flight: 0 is out of range"]);
    mails("max_in_flight: 1.5", &["15:20 queues.mails.max_in_flight: `1.5` is not a whole number"]);
    mails(
        "list_cleanup: exakt",
        &["15:19 queues.mails.list_cleanup: `exakt` is not known here | did you mean `exact`?"],
    );
    mails(
        "on_decode_error: drop",
        &[
            "15:22 queues.mails.on_decode_error: `drop` is not known here | possible here: dead_letter, forward_raw, hold",
        ],
    );
    mails("codec: 5", &["15:12 queues.mails.codec: `5` is not known here"]);
    check(
        "name: mails",
        "name: 5",
        &[
            "14:33 queues.mails.source.redisson.name: expected text, found a number | if it is meant as text, write it in quotes",
        ],
    );
    check(
        "name: mails",
        "name: true",
        &["14:33 queues.mails.source.redisson.name: expected text, found true or false"],
    );
    check("name: mails", "name: ''", &["14:33 queues.mails.source.redisson.name: the text is empty"]);
    check(
        "name: mails",
        "name: mails, consume: ready",
        &[
            "14:49 queues.mails.source.redisson.consume: expected a list, found text | write one or more of: [delayed, ready]",
        ],
    );
    check(
        "name: mails",
        "name: mails, consume: [redy]",
        &["14:50 queues.mails.source.redisson.consume[0]: `redy` is not known here | did you mean `ready`?"],
    );
    check(
        "sink: out",
        "sink: out\n        headers: [a]",
        &["18:18 queues.mails.to[0].headers: expected names with values, found a list"],
    );
    check(
        "sink: out",
        "sink: out\n        headers: { v: 2 }",
        &["18:23 queues.mails.to[0].headers.v: expected text, found a number"],
    );
    check(
        "    to:\n      - sink: out",
        "    to: out",
        &["16:9 queues.mails.to: expected a list, found text | each item starts with `- `"],
    );
    check(
        "list: done",
        "list: done, exactly_once: maybe",
        &["7:40 sinks.ready.redis.exactly_once: `maybe` is neither true nor false"],
    );
    check("redis:\n", "limits: { in_flight: 0 }\nredis:\n", &["1:22 limits.in_flight: 0 is out of range"]);
    check(
        "redis:\n",
        "http: 9464\nredis:\n",
        &["1:7 http: expected keys with values, found a number | keys are: listen"],
    );
    check("redis:\n", "http: none\nredis:\n", &[]);
}

#[test]
fn a_key_without_function_is_refused_and_not_ignored() {
    const NOT: &str = "is not available in this version";
    let row = |from: &str, to: &str, place: &str, what: &str| check(from, to, &[&format!("{place}: `{what}` {NOT}")]);
    row("stdout: {}", "kafka: { brokers: [k:9092] }", "5:5 sinks.out.kafka", "kafka");
    row("stdout: {}", "amqp: { url: 'amqp://r' }", "5:5 sinks.out.amqp", "amqp");
    row("redis:\n", "http: { admin: { listen: '127.0.0.1:1' } }\nredis:\n", "1:9 http.admin", "admin");
    row("redis:\n", "redis:\n  cluster: [a:1]\n", "2:3 redis.cluster", "cluster");
    row("redis:\n", "redis:\n  sentinel: { master: m }\n", "2:3 redis.sentinel", "sentinel");
    for codec in [
        "kryo5",
        "jackson",
        "number",
        "java",
        "auto",
        "marshalling",
        "cbor",
        "msgpack",
        "smile",
        "lz4+kryo5",
        "zstd+json",
    ] {
        row("codec: json", &format!("codec: {codec}"), "15:12 queues.mails.codec", codec);
    }
    row("codec: json", "mode: shadow", "15:11 queues.mails.mode", "shadow");
    row("codec: json", "mode: rescue", "15:11 queues.mails.mode", "rescue");
    check(
        "codec: json",
        "claim_ahead: 2s",
        &["15:18 queues.mails.claim_ahead: `2s` is not known here | possible here: 0s"],
    );
    check("codec: json", "claim_ahead: 0s\n    mode: deliver", &[]);
    row("codec: json", "dead_letter: { sink: out }", "15:20 queues.mails.dead_letter.sink", "sink");
    row("redisson: { name: mails }", "zset: { key: k }", "14:15 queues.mails.source.zset", "zset");
    row("redisson: { name: mails }", "job_pool: { key: k }", "14:15 queues.mails.source.job_pool", "job_pool");
    row("sink: out", "sink: out\n        envelope: cloudevents", "18:19 queues.mails.to[0].envelope", "cloudevents");
    for key in ["topic", "key", "exchange", "routing_key"] {
        row("sink: out", &format!("sink: out\n        {key}: x"), &format!("18:9 queues.mails.to[0].{key}"), key);
    }
}

#[test]
fn what_is_missing_is_named() {
    check_text("http: none\n", &["1:1 : `redis` is missing", "1:1 : `sinks` is missing", "1:1 : `queues` is missing"]);
    check("  url: redis://127.0.0.1:6379/0\n", "", &["1:1 redis: `url` is missing"]);
    check("    to:\n      - sink: out\n", "", &["13:3 queues.mails: `to` is missing"]);
    check("{ redisson: { name: mails } }", "{}", &["14:5 queues.mails.source: the source has no kind"]);
    check("{ name: mails }", "{}", &["14:15 queues.mails.source.redisson: `name` is missing"]);
    check("stdout: {}", "{}", &["4:3 sinks.out: the sink has no kind"]);
    check_text("redis: { url: 'redis://h' }\nsinks: {}\nqueues: {}\n", &["3:9 queues: there is no queue"]);
}

#[test]
fn contradictions_between_parts_are_refused() {
    check(
        "codec: json",
        "lease: 12s",
        &[
            "15:12 queues.mails.lease: the lease (12s) less its margin of a fifth is not longer than the time-out of sink `out` (10s) | write `lease: 16s`",
        ],
    );
    check("codec: json", "lease: 13s", &[]);
    check("stdout: {}", "stdout: { timeout: 24s }", &["13:3 queues.mails.lease: the lease (30s) less its margin"]);
    check(
        "      - sink: out",
        "      - sink: out\n      - sink: out",
        &["18:15 queues.mails.to[1].sink: the queue delivers to `out` twice"],
    );
    check(
        "name: mails",
        "name: 'order:timeout'",
        &["14:33 queues.mails.source.redisson.name: queue `orders` has the same name"],
    );
    check(
        "name: mails",
        "name: '{order:timeout}'",
        &["14:33 queues.mails.source.redisson.name: queue `orders` has the same keys in Redis"],
    );
    check(
        "stdout: {}",
        "stdout: {}\n    redis: { list: x }",
        &["4:3 sinks.out: a sink has one kind, and this one has 2 | keep one of: stdout, redis"],
    );
    check(
        "codec: json",
        "retry: defualt",
        &["15:12 queues.mails.retry: there is no retry policy `defualt` | did you mean `default`?"],
    );
    check(
        "redis:\n",
        "retry: { default: { initial_interval: 2m } }\nredis:\n",
        &["1:39 retry.default.initial_interval: initial_interval (2m) is longer than max_interval (1m)"],
    );
    check(
        "codec: json",
        "dead_letter: { stream: { max_len: 5 } }",
        &["15:39 queues.mails.dead_letter.stream.max_len: `max_len` trims dead letters"],
    );
    check("codec: json", "dead_letter: { stream: { max_len: 5, allow_loss: true } }", &[]);
    check("codec: json", "dead_letter: { stream: { max_len: none } }", &[]);
    check(
        "codec: json",
        "on_expired: deliver",
        &["15:17 queues.mails.on_expired: `on_expired` has no effect without `max_lateness`"],
    );
    check("codec: json", "on_expired: deliver\n    max_lateness: 1h", &[]);
}

#[test]
fn a_redis_destination_does_not_meet_the_queues_own_keys() {
    let ready = |to: &str, expected: &[&str]| check("redis: { list: done }", to, expected);
    ready(
        "redis: { list: 'order:timeout' }",
        &[
            "7:20 sinks.ready.redis.list: queue `orders` consumes the list `order:timeout`: elements would go in circles",
        ],
    );
    ready("redis: { list: mails }", &["7:20 sinks.ready.redis.list: queue `mails` consumes the list `mails`"]);
    ready("redis: { stream: mails }", &["7:22 sinks.ready.redis.stream: queue `mails` consumes the list `mails`"]);
    ready(
        "redis: { url: 'redis://localhost', list: mails }",
        &["7:46 sinks.ready.redis.list: queue `mails` consumes the list `mails`"],
    );
    ready("redis: { url: 'redis://localhost/1', list: mails }", &[]);
    ready("redis: { url: 'redis://other', list: mails }", &[]);
    ready(
        "redis: { list: 'delaybridge:dead:{mails}' }",
        &["7:20 sinks.ready.redis.list: `delaybridge:dead:{mails}` is among the keys"],
    );
    ready(
        "redis: { list: 'redisson_delay_queue:{mails}' }",
        &["7:20 sinks.ready.redis.list: `redisson_delay_queue:{mails}` is among the keys"],
    );
    ready("redis: { list: a, stream: b }", &["7:31 sinks.ready.redis.stream: there is both `list` and `stream`"]);
    ready("redis: {}", &["12:9 queues.orders.to[0]: no destination: sink `ready` names no list or stream"]);
    ready("redis:", &["12:9 queues.orders.to[0]: no destination: sink `ready` names no list or stream"]);
    ready("redis: { stream: a, push: left }", &["7:31 sinks.ready.redis.push: `push` means nothing to a stream"]);
    ready("redis: { list: a, max_len: 5 }", &["7:32 sinks.ready.redis.max_len: `max_len` means nothing to a list"]);
    ready("redis: { list: '' }", &["7:20 sinks.ready.redis.list: the text is empty"]);
    ready(
        "redis: { list: a, username: u }",
        &["7:33 sinks.ready.redis.username: `username` has no effect without `url`"],
    );
    // The ready list may be a destination where Java consumers read it.
    let tee = GOOD.replace("name: mails", "name: mails, consume: [delayed]").replace("list: done", "list: mails");
    check_text(&tee, &[]);
    check_text(
        &tee.replace("list: mails", "stream: mails"),
        &["7:22 sinks.ready.redis.stream: `mails` is the ready list of queue `mails`"],
    );
    let to = |lines: &str, expected: &[&str]| check("sink: ready", &format!("sink: ready\n{lines}"), expected);
    to("        list: mails", &["13:15 queues.orders.to[0].list: queue `mails` consumes the list `mails`"]);
    to("        stream: s\n        max_len: 7", &[]);
    to("        list: a\n        stream: b", &["14:17 queues.orders.to[0].stream: there is both `list` and `stream`"]);
    to("        max_len: 7", &["13:18 queues.orders.to[0].max_len: `max_len` means nothing to a list"]);
    to(
        "        headers: { a: b }",
        &["13:18 queues.orders.to[0].headers: a list holds bare payloads, without headers"],
    );
    to(
        "        stream: s\n        headers: { id: b }",
        &["14:20 queues.orders.to[0].headers.id: every stream entry has a field `id` already"],
    );
    check(
        "sink: out",
        "sink: out\n        list: x",
        &["18:15 queues.mails.to[0].list: `list` means nothing to a sink of kind stdout"],
    );
}

#[test]
fn what_stands_under_to_wins_over_the_sink() {
    let text = GOOD
        .replace("{ list: done }", "{ stream: s, max_len: 9 }")
        .replace("sink: ready", "sink: ready\n        list: l\n        push: left");
    let config = load(&text).unwrap().config;
    let TargetSpec::RedisList { key, push, .. } = &config.queues[0].to[0].target else { panic!("{config:?}") };
    assert_eq!((key.source(), *push), ("l", crate::message::Side::Left));
    let config = load(&text.replace("list: l\n        push: left", "max_len: none")).unwrap().config;
    let TargetSpec::RedisStream { max_len, .. } = &config.queues[0].to[0].target else { panic!("{config:?}") };
    assert_eq!(*max_len, None);
}

#[test]
fn exactly_once_is_refused_where_it_cannot_hold() {
    let ready = |to: &str, expected: &[&str]| check("{ list: done }", to, expected);
    ready("{ list: '{order:timeout}:done', exactly_once: true }", &[]);
    ready("{ list: done, exactly_once: false }", &[]);
    ready(
        "{ list: done, exactly_once: true }",
        &[
            "7:40 sinks.ready.redis.exactly_once: exactly_once needs a list in the queue's hash slot | write the queue's hash tag into the key, as in `{order:timeout}:ready`",
        ],
    );
    ready(
        "{ list: '{order:timeout}:${id}', exactly_once: true }",
        &["7:59 sinks.ready.redis.exactly_once: exactly_once needs a fixed key"],
    );
    ready(
        "{ stream: '{order:timeout}', exactly_once: true }",
        &["7:55 sinks.ready.redis.exactly_once: `exactly_once` means nothing to a stream"],
    );
    ready(
        "{ url: 'redis://127.0.0.1', list: '{order:timeout}:d', exactly_once: true }",
        &["7:81 sinks.ready.redis.exactly_once: exactly_once needs the Redis that holds the queues"],
    );
    let two = GOOD
        .replace("{ list: done }", "{ list: '{order:timeout}:d', exactly_once: true }")
        .replace("- sink: ready", "- sink: ready\n      - sink: out");
    check_text(&two, &["7:55 sinks.ready.redis.exactly_once: exactly_once needs a queue with this destination only"]);
}

#[test]
fn a_template_needs_a_codec_that_can_answer_it() {
    let orders = |codec: &str, key: &str, expected: &[&str]| {
        let text = GOOD
            .replace("list: done", &format!("list: '{key}'"))
            .replace("name: 'order:timeout' } }", &format!("name: 'order:timeout' }} }}\n    codec: {codec}"));
        check_text(&text, expected);
    };
    orders("raw", "x${id}${queue}${due_ms:-0}${attempt}", &[]);
    orders(
        "raw",
        "x${payload}",
        &[
            "7:20 sinks.ready.redis.list: the template asks for the payload, and codec raw does not look into it | write `codec: string` or `codec: json`",
        ],
    );
    orders("raw", "x${payload.a:-none}", &["7:20 sinks.ready.redis.list: the template asks for the payload"]);
    orders("string", "x${payload}", &[]);
    orders(
        "string",
        "x${payload.a}",
        &[
            "7:20 sinks.ready.redis.list: the template asks for a field of the payload, and codec string reads plain text | write `codec: json`",
        ],
    );
    orders("json", "x${payload.a}${payload}", &[]);
    check("codec: json", "codec: raw", &[]);
    check("sink: out", "sink: out\n        headers: { t: '${payload.t}' }", &[]);
    check(
        "sink: ready",
        "sink: ready\n        envelope: decoded",
        &["13:19 queues.orders.to[0].envelope: codec raw decodes nothing"],
    );
}

#[test]
fn secrets_and_certificates_are_looked_for() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("password", "geheim\nsecond line");
    write("empty", "\n");
    write("ca.pem", "-----BEGIN CERTIFICATE-----\n");
    write("key.pem", "-----BEGIN EC PRIVATE KEY-----\n");
    let file = directory.path().join("c.yaml").display().to_string();
    let check = |line: &str, expected: &[&str]| {
        let text = GOOD.replace("  url: redis://127.0.0.1:6379/0", &format!("  url: {line}"));
        let got = match load_str(&text, &file, &env) {
            Ok(loaded) => {
                assert!(!format!("{loaded:?}").contains("geheim"));
                lines(&loaded.warnings)
            }
            Err(errors) => {
                assert!(!format!("{errors:?}").contains("geheim"));
                lines(&errors.problems)
            }
        };
        let same = got.len() == expected.len() && got.iter().zip(expected).all(|(got, row)| got.starts_with(row));
        assert!(same, "{line}: {got:#?}");
    };
    check("redis://h\n  password_file: password", &[]);
    check("redis://h\n  username: u\n  password: '${SECRET}'", &[]);
    check("redis://u:${SECRET}@h", &[]);
    check("redis://u:geheim@h", &["2:8 redis.url: the URL holds a password in plain text | put it into a file"]);
    check("redis://h\n  password: geheim", &["3:13 redis.password: the password stands in the file in plain text"]);
    check("redis://u@h", &["2:8 redis.url: there is a user, but no password"]);
    check("redis://:geheim@h\n  password: geheim", &["2:8 redis.url: the password stands in the URL and in a key"]);
    check("redis://u:geheim@h\n  username: v", &["2:8 redis.url: the user stands in the URL and in `username`"]);
    check(
        "redis://h\n  password: geheim\n  password_file: password",
        &["3:13 redis.password: there is both `password` and `password_file`"],
    );
    check("redis://h\n  password: 5", &["3:13 redis.password: expected text, found a number"]);
    check("redis://h\n  password_file: gone", &["3:18 redis.password_file: read `gone`: No such file"]);
    check("redis://h\n  password_file: .", &["3:18 redis.password_file: read `.`: not a regular file"]);
    check("redis://h\n  password_file: empty", &["3:18 redis.password_file: the first line of the file is empty"]);
    check("rediss://h\n  tls: { ca_file: ca.pem, cert_file: ca.pem, key_file: key.pem }", &[]);
    check(
        "rediss://h\n  tls: { ca_file: key.pem }",
        &["3:19 redis.tls.ca_file: the file is PEM, but no certificate is in it"],
    );
    check(
        "rediss://h\n  tls: { ca_file: password }",
        &["3:19 redis.tls.ca_file: the file is no PEM, so no certificate is in it"],
    );
    check(
        "rediss://h\n  tls: { cert_file: ca.pem }",
        &["3:21 redis.tls.cert_file: there is `cert_file`, but no `key_file`"],
    );
    check(
        "rediss://h\n  tls: { key_file: key.pem }",
        &["3:20 redis.tls.key_file: there is `key_file`, but no `cert_file`"],
    );
    check(
        "redis://h\n  tls: { ca_file: ca.pem }",
        &["3:8 redis.tls: `tls` has no effect, because the URL is redis://"],
    );
}

#[test]
fn what_is_doubtful_is_a_warning() {
    check_warnings(GOOD, &[]);
    check_warnings(&GOOD.replace("sink: out", "sink: ready"), &["4:3 sinks.out: no queue delivers to this sink"]);
    check_warnings(
        &GOOD.replace("name: mails", "name: 'a{b'"),
        &["14:33 queues.mails.source.redisson.name: the braces"],
    );
    check_warnings(
        &GOOD.replace("name: mails", "name: 'a}b'"),
        &["14:33 queues.mails.source.redisson.name: the braces"],
    );
    check_warnings(&GOOD.replace("name: mails", "name: 'x:{b}'"), &[]);
    check_warnings(&format!("retry: {{ slow: {{}} }}\n{GOOD}"), &["1:10 retry.slow: no queue uses this retry policy"]);
    check_warnings(&format!("retry: {{ default: {{ max_attempts: 3 }} }}\n{GOOD}"), &[]);
    let limits = format!("limits: {{ in_flight: 5, in_flight_bytes: 1MiB }}\n{GOOD}");
    check_warnings(&limits, &[]);
    check_warnings(
        &limits.replace("codec: json", "max_in_flight: 6\n    max_in_flight_bytes: 2MiB"),
        &[
            "16:20 queues.mails.max_in_flight: max_in_flight (6) is more than limits.in_flight (5)",
            "17:26 queues.mails.max_in_flight_bytes: max_in_flight_bytes (2MiB) is more than limits.in_flight_bytes (1MiB)",
        ],
    );
    let short = GOOD.replace("stdout: {}", "stdout: { timeout: 1s }").replace("codec: json", "lease: 4s");
    check_warnings(
        &short,
        &["15:12 queues.mails.lease: the lease (4s) is not longer than twice redis.command_timeout (5s)"],
    );
}

#[test]
fn a_sink_that_nobody_uses_is_not_built() {
    let config = load(&GOOD.replace("sink: out", "sink: ready")).unwrap().config;
    assert_eq!(config.sinks.iter().map(|sink| &*sink.name).collect::<Vec<_>>(), ["ready"]);
}

#[test]
fn a_file_that_cannot_be_read_is_one_problem() {
    let directory = tempfile::tempdir().unwrap();
    let error = super::load(&directory.path().join("gone.yaml"), &env).unwrap_err().to_string();
    assert!(error.contains("gone.yaml\n  read configuration: No such file"), "{error}");
    let path = directory.path().join("latin1.yaml");
    std::fs::write(&path, b"a: \xff").unwrap();
    let error = super::load(&path, &env).unwrap_err().to_string();
    assert!(error.contains("not UTF-8 text"), "{error}");
}

#[test]
fn no_text_makes_the_reader_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let junk = [
        "{", "}", "[", "]", ":", "- ", "\n", "  ", "0", "none", "${", "}", "${id}", "*a", "&a", "!!int", "'", "\"",
        "ü", "|", ">", "<<: ",
    ];
    for _ in 0..2_000 {
        let mut text = GOOD.to_owned();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..text.len());
            let Some(at) = (at..=text.len()).find(|&at| text.is_char_boundary(at)) else { continue };
            let end = (at + random.usize(..6)).min(text.len());
            let end = (end..=text.len()).find(|&end| text.is_char_boundary(end)).unwrap_or(at);
            text.replace_range(at..end, junk[random.usize(..junk.len())]);
        }
        let _ = load(&text);
    }
}

#[test]
fn every_default_of_the_table_reads_back() {
    for key in keys::TABLES.iter().flat_map(|table| table.keys) {
        let (Some(default), kind) = (key.default, key.kind) else { continue };
        let good = match kind {
            keys::Kind::Duration { min_ms } => {
                units::duration(default).is_ok_and(|value| value.as_millis() >= min_ms.into())
            }
            keys::Kind::Size => units::size(default).is_ok_and(|value| value > 0),
            keys::Kind::Count { min, max, word } => {
                word == Some(default) || default.parse::<u64>().is_ok_and(|value| (min..=max).contains(&value))
            }
            keys::Kind::Factor { min, max } => default.parse().is_ok_and(|value: f64| (min..=max).contains(&value)),
            keys::Kind::Word(words) => words.iter().any(|word| word.text == default && word.available),
            keys::Kind::Rate | keys::Kind::DurationOrNone => default == "none",
            keys::Kind::Address => default.parse::<std::net::SocketAddr>().is_ok(),
            keys::Kind::Flag => default == "false",
            keys::Kind::Words(_) => default == "[delayed, ready]",
            keys::Kind::Text => default == "default",
            _ => false,
        };
        assert!(good, "{}: {default}", key.name);
    }
}

fn project(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

#[test]
fn the_example_is_a_good_file() {
    let loaded = super::load(&project("config.example.yaml"), &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(lines(&loaded.warnings), [""; 0]);
    assert_eq!(loaded.config.queues.len(), 2);
}

#[test]
fn the_reference_is_current() {
    let path = project("docs/configuration.md");
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    if current != reference() {
        std::fs::write(&path, reference()).unwrap();
        panic!("docs/configuration.md was out of date and is rewritten: look at it and commit it");
    }
}

#[test]
fn the_schema_has_every_key_that_can_be_written() {
    let schema = schema();
    let queue = &schema["properties"]["queues"]["additionalProperties"];
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["required"], serde_json::json!(["redis", "sinks", "queues"]));
    assert_eq!(queue["properties"]["lease"]["default"], "30s");
    assert_eq!(queue["properties"]["to"]["items"]["additionalProperties"], false);
    assert_eq!(queue["properties"]["codec"]["anyOf"][0]["enum"], serde_json::json!(["raw", "string", "json"]));
    assert_eq!(schema["properties"]["redis"]["properties"]["cluster"], serde_json::Value::Null);
}
