//! Tests of cases: each kind of source and of expectation, and every mistake in a file.

use std::ffi::OsString;
use std::path::Path;

use super::*;
use delaybridge_model::Config;
use delaybridge_settings::problem::ConfigErrors;

const CONFIG: &str = "\
redis: { url: 'redis://h' }
sinks:
  out: { redis: { list: 'l:${payload.a}' } }
  late: { stdout: }
queues:
  r: { source: { redisson: { name: r } }, codec: kryo5, to: [{ sink: out, list: 'l:${payload}' }] }
  z: { source: { zset: { key: z, score: s, id: '${payload.id}' } }, codec: json, to: [{ sink: out }, { sink: late, envelope: json }] }
  p: { source: { job_pool: { preset: yii2 } }, codec: string, to: [{ sink: out, list: done }] }
  w: { source: { redisson: { name: w } }, codec: json, on_skipped: drop, to: [{ sink: out, when: 'payload.a > 1' }, { sink: late, when: payload.vip }] }
  h: { source: { redisson: { name: h } }, codec: json, on_decode_error: hold, to: [{ sink: out }] }
";

fn load(path: &Path, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Config, ConfigErrors> {
    Ok(delaybridge_config::load(path, env)?.config)
}

fn suite(cases: &str) -> Result<Suite, String> {
    let directory = tempfile::tempdir().expect("make a directory");
    std::fs::write(directory.path().join("c.yaml"), CONFIG).expect("write a configuration");
    let file = directory.path().join("t.yaml");
    std::fs::write(&file, cases).expect("write cases");
    let base = format!("{}/", directory.path().display());
    read(&file, &directory.path().join("c.yaml"), &|_| None, &load)
        .map_err(|errors| errors.to_string().replace(&base, ""))
}

/// What differs in the only case.
#[track_caller]
fn run(queue: &str, rest: &str) -> Vec<String> {
    let suite = suite(&format!("cases:\n- name: a case\n  queue: {queue}\n{rest}"));
    let outcomes = suite.unwrap_or_else(|problems| panic!("{problems}")).run();
    assert_eq!((outcomes.len(), outcomes[0].line), (1, 2));
    outcomes[0].differences.iter().map(|d| format!("{}: {} | {}", d.path, d.expected, d.got)).collect()
}

#[track_caller]
fn check(queue: &str, rest: &str, expected: &[&str]) {
    assert_eq!(run(queue, rest), expected, "{rest}");
}

#[test]
fn an_element_is_given_in_every_way() {
    let delivered = |list: &str| format!("  expect: {{ deliver: [{{ sink: out, list: '{list}' }}] }}\n");
    let ways = [
        "{ redisson: { payload: abc } }",
        "{ redisson: { payload: abc, layout: old, codec: kryo5 } }",
        "{ redisson: { payload_hex: '036162e3', layout: bare } }",
        "{ text: abc }",
        "{ hex: '08 52414e444f4d3842 0400000000000000 036162e3' }",
    ];
    for way in ways {
        check("r", &format!("  element: {way}\n{}", delivered("l:abc")), &[]);
        let differs = ["deliver[out].list: l:x | l:abc"];
        check("r", &format!("  element: {way}\n{}", delivered("l:x")), &differs);
    }
    let z = "  element: { text: '{\"a\": 1, \"id\": \"o-7\"}' }\n  expect:\n    deliver:\n    - { sink: out, list: l:1 }\n    - sink: late\n";
    check(
        "z",
        &format!(
            "{z}      body_json: '{{\"id\":\"o-7\",\"queue\":\"z\",\"due_ms\":1800000000000,\"attempt\":1,\"payload\":{{\"id\":\"o-7\",\"a\":1}}}}'\n"
        ),
        &[],
    );
}

#[test]
fn an_element_goes_to_the_destinations_whose_conditions_hold() {
    let given = |payload: &str, expect: &str| format!("  element: {{ text: '{payload}' }}\n  expect: {expect}\n");
    let one = "{ deliver: [{ sink: out, list: l:2 }] }";
    check("w", &given("{\"a\": 2}", one), &[]);
    check("w", &given("{\"a\": 2, \"vip\": true}", one), &["deliver[late]: nothing | a message"]);
    check("w", &given("{\"a\": 1}", "{ skipped: }"), &[]);
    let skipped = "skipped: no destination is meant for it, and it is removed";
    check(
        "w",
        &given("{\"a\": 1}", one),
        &["deliver[out]: a message | nothing", &format!("expect: delivered | {skipped}")],
    );
    check("w", &given("{\"a\": 2}", "{ skipped: }"), &["expect: skipped | delivered"]);
    // A sink that is not meant for the element has no part in its end.
    check("w", &format!("{}  fails: [{{ sink: late, class: transient }}]\n", given("{\"a\": 2}", one)), &[]);
}

#[test]
fn a_job_of_a_pool_has_a_member_and_a_record() {
    let given = "  element: { member: '7', text: '300;hello' }\n";
    let expected = |body| format!("{given}  expect: {{ deliver: [{{ sink: out, list: done, body: {body} }}] }}\n");
    check("p", &expected("hello"), &[]);
    check("p", &expected("x"), &["deliver[out].body: x | hello"]);
    let problems = suite("cases: [{ name: n, queue: p, element: { text: x }, expect: { wait: } }]").unwrap_err();
    assert!(problems.contains("`member` is missing"), "{problems}");
}

#[test]
fn what_differs_is_shown_with_both_sides() {
    let given = "  element: { text: '{\"a\": 1}' }\n";
    check(
        "z",
        &format!(
            "{given}  expect: {{ deliver: [{{ sink: out, list: l:2, topic: t, headers: {{ h: v }}, body: x }}] }}\n"
        ),
        &[
            "deliver[out].list: l:2 | l:1",
            "deliver[out].topic: t | nothing",
            "deliver[out].headers.h: v | nothing",
            "deliver[out].body: x | {\"a\": 1}",
            "deliver[late]: nothing | a message",
        ],
    );
    check("z", &format!("{given}  expect: {{ wait: }}\n"), &["expect: wait | delivered"]);
    let found = run("h", "  element: { text: '{oops' }\n  expect: { dead: { reason: junk } }\n");
    assert!(found[0].starts_with("expect: dead | hold: ") && found[0].ends_with("(not_json)"), "{found:?}");
    check("h", "  element: { hex: 'ff' }\n  expect: { dead: { reason: expired } }\n", &["dead.reason: expired | junk"]);
}

#[test]
fn a_failure_has_the_daemon_s_verdict() {
    let case = |fails: &str, expect: &str| {
        format!(
            "  element: {{ text: '{{\"a\": 1}}' }}\n  attempts: 2\n  fails: [{{ {fails} }}]\n  expect: {{ {expect} }}\n"
        )
    };
    let check = |fails: &str, expect: &str, differs: &[&str]| check("z", &case(fails, expect), differs);
    check("sink: late, class: transient", "retry: { earliest: 0s, latest: 2s, counted: true }", &[]);
    check("sink: late, class: transient, sent: false", "retry: { latest: 1s, counted: false }", &[]);
    check(
        "sink: late, class: transient, outage: true",
        "retry: { latest: 2s, counted: true }",
        &["retry.latest: 2s | 1s", "retry.counted: true | false"],
    );
    check("sink: late, class: backpressure", "wait:", &[]);
    check("sink: late, class: message_permanent", "dead: { reason: message_permanent, sink: late }", &[]);
    check("sink: late, class: target_permanent", "hold: { sink: out }", &["hold.sink: out | late"]);
    // The payload chose the list: others of the queue do not wait for it.
    check("sink: out, class: target_permanent, about: target, lasted: 9m", "wait:", &[]);
    check("sink: out, class: target_permanent, about: target, lasted: 10m", "dead: { reason: unroutable }", &[]);
    check("sink: out, class: target_permanent, about: target, lasted: 10m, worked: true", "wait:", &[]);
}

#[test]
fn every_mistake_has_its_place_and_a_suggestion() {
    let problems = suite(
        "cases:\n\
         - { name: a, queue: zz, element: { text: x }, expect: { wait: } }\n\
         - { name: b, queue: z, element: { text: x, hex: '00' }, expect: { wait: } }\n\
         - { name: c, queue: z, element: { hex: '0' }, expect: { deliver: [{ sink: outt }] } }\n\
         - { name: d, queue: r, element: { text: x, codec: cbor }, expect: { wait: , dead: } }\n\
         - { name: e, queue: z, element: { redisson: { payload: x } }, expects: {}, expect: { wait: } }\n\
         - { name: f, queue: r, element: { text: x }, expect: { } }\n\
         - { name: g, queue: r, element: { text: x }, fails: [{ sink: out, class: permanent }], expect: { wait: } }\n\
         - { name: h, queue: r, element: { text: x }, expect: { deliver: [{ sink: out, body: x, body_json: '{' }] } }\n",
    )
    .unwrap_err();
    for line in [
        "t.yaml:2:21: cases[0].queue\n  there is no queue `zz`\n  did you mean `z`?",
        "t.yaml:3:24: cases[1].element\n  an element has exactly one of",
        "t.yaml:4:40: cases[2].element.hex\n  these are no hexadecimal digits",
        "cases[2].expect.deliver[0].sink\n  there is no destination of queue `z` in sink `outt`\n  did you mean `out`?",
        "cases[3].element.text\n  a text cannot be written with codec `cbor` here",
        "cases[3].expect\n  an element has one end",
        "cases[4].element.redisson\n  queue `z` is none of Redisson",
        "cases[4].expects\n  unknown key\n  did you mean `expect`?",
        "cases[5].expect\n  nothing is expected",
        "cases[6].fails[0].class\n  `permanent` is not known here",
        "cases[7].expect.deliver[0].body_json\n  this is not JSON",
    ] {
        assert!(problems.contains(line), "{line}\n\nin\n\n{problems}");
    }
}

#[test]
fn a_file_without_a_configuration_or_cases_says_so() {
    let check = |text: &str, expected: &str| {
        let problems = suite(text).unwrap_err();
        assert!(problems.contains(expected), "{expected} in {problems}");
    };
    check("cases: []\n", "cases\n  the list is empty");
    check("config: c.yaml\n", "`cases` is missing");
    check("", "`cases` is missing");
    let good = "cases: [{ name: n, queue: z, element: { text: x }, expect: { wait: } }]\n";
    check(&format!("config: other.yaml\n{good}"), "other.yaml\n  read configuration: ");
    let missing = read(Path::new("/nowhere/t.yaml"), Path::new("c.yaml"), &|_| None, &load).unwrap_err().to_string();
    assert!(missing.contains("/nowhere/t.yaml") && missing.contains("read cases: "), "{missing}");
    // What never ends is not read.
    let endless = read(Path::new("/dev/zero"), Path::new("c.yaml"), &|_| None, &load).unwrap_err().to_string();
    assert!(endless.contains("not a regular file"), "{endless}");
}

#[test]
fn the_example_is_as_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let suite = read(&root.join("config.example.test.yaml"), Path::new("/nowhere"), &|_| None, &load);
    let outcomes = suite.unwrap_or_else(|problems| panic!("{problems}")).run();
    let wrong: Vec<_> = outcomes.iter().filter(|outcome| !outcome.ok).collect();
    assert!(wrong.is_empty() && outcomes.len() >= 15, "{wrong:#?}");
}
