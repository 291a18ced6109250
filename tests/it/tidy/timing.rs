//! Forms that make a test wrong about time, and what to write instead. `CONTRIBUTING.md` has the table.

use super::{Source, crates, line_of, sources_under};

/// A form that is refused.
struct Wrong {
    what: &'static str,
    /// Whether a line has the form, of its code and its text; the code is without the contents of strings.
    has: fn(&str, &str) -> bool,
    /// The files and folders whose business it is.
    allowed: &'static [&'static str],
    instead: &'static str,
}

const WRONG: &[Wrong] = &[
    Wrong {
        what: "a fixed wait",
        has: |line, _| line.contains("time::sleep(") || line.contains("thread::sleep("),
        allowed: &[
            "tests/harness/",
            // Where `pass` is.
            "tests/it/faults/rig.rs",
            // A wait for a condition of its own, in a browser.
            "tests/it/admin/browser.rs",
            // The pace of producers and consumers.
            "tests/it/api/crowd.rs",
            "tests/it/cluster/redisson.rs",
            "tests/it/job_pool/port.rs",
            "tests/it/jobs/crowd.rs",
            "tests/it/zset/proof.rs",
            // Unit tests of crates wait in their own ways: for a mock, on paused time.
            "crates/",
        ],
        instead: "wait for a condition with `eventually`; if time itself is the rule, use `pass` and say why",
    },
    Wrong {
        what: "a limit by the clock",
        has: |line, _| {
            let limit = line.contains(".elapsed() <") || line.contains("contains(&") && line.contains(".elapsed())");
            limit && line.contains("assert") && !line.contains("PATIEN")
        },
        allowed: &["tests/harness/", "tests/it/jobs/crowd.rs"],
        instead: "use `Stopwatch`, which does not count waits for a processor, or paused time",
    },
    Wrong {
        what: "a choice of ports",
        has: |line, _| line.contains("fn free_port"),
        // The kit is a program for others; it depends on nothing of the tests.
        allowed: &["crates/link/src/test_ports.rs", "crates/conformance/"],
        instead: "`free_port` of the crate `brokers` or of `delaybridge_link` reserves a port on the whole machine",
    },
    Wrong {
        what: "a connect as a sign that a server serves",
        has: |line, _| line.contains("TcpStream::connect(") && line.contains(".is_ok()"),
        // The start of Sentinels, which goes on with questions to them.
        allowed: &["tests/harness/src/sentinels.rs"],
        instead: "`start` and `restart` of the types in `tests/brokers` return when the server serves",
    },
    Wrong {
        what: "one look at a broker that may not show it yet",
        has: |line, _| line.contains("assert") && READS.iter().any(|read| line.contains(read)),
        // The first asserts that nothing was written; crates have no broker.
        allowed: &["tests/it/inputs/check.rs", "crates/"],
        instead: "look again with `eventually`; `Rabbits::emptied` waits for an empty queue",
    },
    Wrong {
        what: "a sum of several reads",
        has: |line, _| line.split(" + ").filter(|term| term.contains(".await")).count() > 1,
        // Clauses of contracts: nothing moves there but by the test.
        allowed: &["crates/testing/"],
        instead: "an element that moves between the reads is missed or counted twice: use `settled`, or one `MULTI`",
    },
    Wrong {
        what: "a disk limit of a broker",
        has: |_, text| text.contains("disk_free_limit"),
        allowed: &[],
        instead: "the types of `tests/brokers` set it low enough for a full disk; `set_disk_alarm` raises the alarm",
    },
];

/// Reads of brokers that lag behind what they have confirmed.
const READS: &[&str] = &[".count(\"", ".queue_depth(", ".queues(", ".end_offsets("];

/// The lines of a file that have a refused form.
fn wrong_in(source: &Source) -> Vec<String> {
    // On paused time the clock advances only when every task is idle.
    let paused = source.code.contains("start_paused") || source.file.starts_with("crates/pipeline/src/tests/");
    let refused = |wrong: &Wrong, line: &str, text: &str| {
        (wrong.has)(line, text)
            && !(paused && wrong.what == "a limit by the clock")
            && !wrong.allowed.iter().any(|place| source.file.starts_with(place))
    };
    let mut found = Vec::new();
    for wrong in WRONG {
        for (number, (line, text)) in (1..).zip(source.code.lines().zip(source.text.lines())) {
            if refused(wrong, line, text) {
                found.push(format!("{}:{number}: {}: {}", source.file, wrong.what, wrong.instead));
            }
        }
    }
    found
}

#[test]
fn no_test_is_wrong_about_time() {
    let mut all = sources_under("tests/it", "it/");
    all.extend(sources_under("tests/harness/src", "harness/"));
    for name in crates() {
        all.extend(sources_under(&format!("crates/{name}/src"), ""));
    }
    let wrong: Vec<_> =
        all.iter().filter(|source| !source.file.starts_with("tests/it/tidy/")).flat_map(wrong_in).collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn each_wrong_form_is_refused_where_it_is_planted() {
    let check = |file: &str, code: &str, expected: usize| {
        let file = file.to_owned();
        let code = code.to_owned();
        let source = Source { path: file.clone(), text: code.clone(), file, code };
        let found = wrong_in(&source);
        assert_eq!(found.len(), expected, "{found:?}");
        assert!(found.iter().all(|line| line.contains(&format!(":{}:", line_of("\n", 1)))), "{found:?}");
    };
    let limit = "\nassert!(began.elapsed() < Duration::from_secs(2));";
    check("tests/it/http/held.rs", limit, 1);
    check("crates/link/src/tests/failures.rs", limit, 1);
    check("crates/pipeline/src/tests/claims.rs", limit, 0);
    check("tests/it/http/held.rs", "\nassert!(began.elapsed() < PATIENCE);", 0);
    check("crates/sink/src/task.rs", &format!("{limit} // start_paused"), 0);
    check("tests/it/jobs/mod.rs", "\nassert!((one..two).contains(&start.elapsed()));", 1);
    check("tests/it/http/held.rs", "\ntokio::time::sleep(SECOND).await;", 1);
    check("tests/it/zset/proof.rs", "\ntokio::time::sleep(SECOND).await;", 0);
    check("tests/it/http/held.rs", "\nfn free_port() -> u16 { 4096 }", 1);
    check("tests/it/amqp/boots.rs", "\nwhile !TcpStream::connect(address).await.is_ok() {}", 1);
    check("tests/it/amqp/boots.rs", "\nassert!(TcpStream::connect(address).await.is_err());", 0);
    check("tests/it/amqp/boots.rs", "\nassert_eq!(rabbits.count(\"orders\").await, 5);", 1);
    check("tests/it/amqp/boots.rs", "\nlet ready = rabbits.count(\"orders\").await;", 0);
    check("tests/it/zset/held.rs", "\nlet all = queue.ready(redis).await? + queue.dead(redis).await?;", 1);
    check("tests/it/zset/held.rs", "\nlet due = now_ms(redis).await + 2_000;", 0);
    check("tests/it/amqp/boots.rs", "\nrabbit.ctl(&[\"set_disk_free_limit\", \"1GB\"]);", 1);
}
