//! Tables of good and bad configurations, with the words that the user sees.

mod admin;
mod amqp;
mod amqp1;
mod audit;
mod aws;
mod classes;
mod clusters;
mod conditions;
mod dead_letters;
mod destinations;
mod generated;
mod http;
mod inputs;
mod job_pool;
mod jobs;
mod kafka;
mod nats;
mod order;
mod redis;
mod rocketmq;
mod servers;
mod values;
mod yaml;
mod zset;

use std::ffi::OsString;

use super::*;
use delaybridge_model::*;
use delaybridge_settings::problem::{ConfigErrors, Problem};

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

fn env(name: &str) -> Option<OsString> {
    match name {
        "HOST" => Some("redis-0".into()),
        "SECRET" => Some("geheim".into()),
        "TEN" => Some("10".into()),
        "EMPTY" => Some(OsString::new()),
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

/// Expects these problems at any place in the file: path, message, help.
#[track_caller]
fn check_words(text: &str, expected: &[&str]) {
    let got = load(text).err().map(|errors| lines(&errors.problems)).unwrap_or_default();
    words(text, &got, expected);
}

/// The same for warnings.
#[track_caller]
fn check_doubts(text: &str, expected: &[&str]) {
    let warnings = lines(&load(text).unwrap_or_else(|errors| panic!("{errors}")).warnings);
    words(text, &warnings, expected);
}

#[track_caller]
fn words(text: &str, got: &[String], expected: &[&str]) {
    let words = |line: &str, row: &str| line.split_once(' ').is_some_and(|(_, line)| line.starts_with(row));
    let same = got.len() == expected.len() && got.iter().zip(expected).all(|(got, row)| words(got, row));
    assert!(same, "for\n{text}\ngot {got:#?}\nnot {expected:#?}");
}

#[track_caller]
fn check_warnings(text: &str, expected: &[&str]) {
    let got = lines(&load(text).unwrap_or_else(|errors| panic!("{errors}")).warnings);
    let same = got.len() == expected.len() && got.iter().zip(expected).all(|(got, expected)| got.starts_with(expected));
    assert!(same, "for\n{text}\ngot {got:#?}\nnot {expected:#?}");
}

/// The destination of a route, by its kind.
#[track_caller]
fn target<T: delaybridge_sink::Target>(route: &RouteSpec) -> &T {
    let any: &dyn std::any::Any = &*route.target;
    any.downcast_ref().unwrap_or_else(|| panic!("another kind: {route:?}"))
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let Loaded { config, warnings, .. } = load(GOOD).unwrap();
    assert_eq!(warnings, []);
    let text = describe(&config);
    println!("{text}");
    for line in [
        "http:\n  listen: [::]:9464\nshutdown_timeout: 25s\n",
        "limits:\n  in_flight: 20000\n  in_flight_bytes: 64MiB\n",
        "  connect_timeout: 5s\n  command_timeout: 5s\n",
        "      timeout: 10s\n      max_rate: none\n",
        "        consume: [delayed, ready]\n        list_cleanup: auto\n        ghost_max_age: 30s\n        sweep_bandwidth: 16MiB\n",
        "    codec: raw\n    on_decode_error: hold_repeated\n    on_opaque: forward_raw\n    on_absurd_due: hold\n    lease: 30s\n    claim_ahead: 0s\n    max_in_flight: auto\n",
        "    max_in_flight_bytes: 16MiB\n    order: none\n    max_rate: none\n    max_lateness: none\n",
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
    check(
        "redis:\n",
        "zzz: 1\nredis:\n",
        &["1:1 zzz: unknown key | keys here are: http, shutdown_timeout, reload, limits"],
    );
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
fn of_a_mistake_in_thousands_of_queues_some_are_shown() {
    let queue = |n| format!("  q{n}: {{ source: {{ zset: {{ key: q{n} }} }}, to: [{{ sink: out }}] }}\n");
    let queues: String = (0..3_000).map(queue).collect();
    let text =
        format!("redis: {{ url: 'redis://h' }}\nsinks: {{ out: {{ redis: {{ stream: s }} }} }}\nqueues:\n{queues}");
    let shown = load(&text).unwrap_err().to_string();
    assert_eq!(shown.matches("`score` is missing").count(), 50);
    assert!(shown.ends_with("\n\n3000 problems in the configuration; the first 50 are shown"), "{shown}");
}

#[test]
fn what_is_missing_is_named() {
    check_text("http: none\n", &["1:1 : `redis` is missing", "1:1 : `queues` is missing", "1:1 : `sinks` is missing"]);
    check("  url: redis://127.0.0.1:6379/0\n", "", &["1:1 redis: `url` is missing"]);
    check("    to:\n      - sink: out\n", "", &["13:3 queues.mails: `to` is missing"]);
    check("{ redisson: { name: mails } }", "{}", &["14:5 queues.mails.source: the source has no kind"]);
    check("{ name: mails }", "{}", &["14:15 queues.mails.source.redisson: `name` is missing"]);
    check("stdout: {}", "{}", &["4:3 sinks.out: the sink has no kind"]);
    check_text("redis: { url: 'redis://h' }\nsinks: {}\nqueues: {}\n", &["3:9 queues: there is no queue"]);
}

#[test]
fn a_key_in_its_old_place_is_refused_and_the_new_place_named() {
    for key in ["list_cleanup: exact", "ghost_max_age: 5s", "sweep_bandwidth: 1MiB", "rescue_after: 5s"] {
        let name = key.split(':').next().unwrap();
        let refused = format!("15:5 queues.mails.{name}: unknown key | `{name}` belongs under `source.redisson`");
        check("codec: json", key, &[&refused]);
        check(
            "name: mails }",
            &format!("name: mails, {key} }}"),
            match name {
                "rescue_after" => &["14:54 queues.mails.source.redisson.rescue_after: `rescue_after` has no effect"],
                _ => &[],
            },
        );
    }
}

#[test]
fn rescue_needs_no_sink_and_says_what_it_does_not_look_at() {
    let file = |queue: &str| {
        format!("redis: {{ url: 'redis://h' }}\nqueues:\n  q:\n    source: {{ redisson: {{ name: n }} }}\n{queue}")
    };
    let three = file("    mode: rescue\n").replace("name: n", "name: n, rescue_after: 3s");
    let spec = load(&three).unwrap().config.queues.remove(0);
    assert_eq!((spec.mode, spec.to.len()), (Mode::Rescue { after: std::time::Duration::from_secs(3) }, 0));
    let spec = load(&file("    mode: rescue\n")).unwrap().config.queues.remove(0);
    assert_eq!(spec.mode, Mode::Rescue { after: std::time::Duration::from_secs(10) });
    check_text(
        &file("    mode: rescue\n    lease: 50s\n    claim_ahead: 1s\n"),
        &[
            "6:12 queues.q.lease: `lease` has no effect with `mode: rescue`, which delivers to no sink",
            "7:18 queues.q.claim_ahead: `claim_ahead` has no effect with `mode: rescue`",
        ],
    );
    check_text(&file(""), &["1:1 : `sinks` is missing", "3:3 queues.q: `to` is missing"]);
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
fn an_unused_sink_is_not_built() {
    let config = load(&GOOD.replace("sink: out", "sink: ready")).unwrap().config;
    assert_eq!(config.sinks.iter().map(|sink| &*sink.name).collect::<Vec<_>>(), ["ready"]);
}

#[test]
fn topics_have_the_settings_that_they_do_not_say_from_the_defaults() {
    let text = "redis: { url: 'redis://h' }\njobs:\n  defaults: { ttr: 30s, tries: 3, ttl: 1h }\n  topics: { 'a:b': { tries: 5, ttl: none } }\n";
    let config = load(text).unwrap_or_else(|errors| panic!("{errors}")).config;
    let jobs = config.jobs.unwrap();
    let topic = |name: &str| jobs.of(&name.parse().unwrap()).clone();
    assert_eq!((topic("a:b").tries, topic("a:b").ttl, topic("a:b").ttr.as_secs()), (5, None, 30));
    assert_eq!((topic("other").tries, topic("other").ttl.unwrap().as_secs()), (3, 3600));
    assert!(config.queues.is_empty() && config.sinks.is_empty());
}

#[test]
fn what_a_topic_cannot_have_is_refused_with_its_place() {
    let problem = |jobs: &str| {
        let errors = load(&format!("redis: {{ url: 'redis://h' }}\njobs: {jobs}\n")).unwrap_err();
        errors.problems.iter().map(|problem| format!("{problem}")).collect::<Vec<_>>().join("\n")
    };
    for (jobs, words) in [
        ("{ topics: { 'a b': {} } }", "use 1 to 255 letters"),
        ("{ defaults: { ttr: 8d } }", "above 7 days"),
        ("{ defaults: { tires: 3 } }", "did you mean `tries`"),
        ("{ defaults: { max_body: 1GiB } }", "64MiB"),
        ("{ topics: { a: { tries: 0 } } }", "out of range"),
    ] {
        assert!(problem(jobs).contains(words), "{jobs}: {}", problem(jobs));
    }
}
