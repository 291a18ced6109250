//! Forms that make a test wrong about time, and what to write instead. `CONTRIBUTING.md` has the table.

use super::{Source, crates, line_of, sources_under};

/// A form that is refused.
struct Wrong {
    what: &'static str,
    /// Whether a line of code has the form.
    has: fn(&str) -> bool,
    /// The files and folders whose business it is.
    allowed: &'static [&'static str],
    instead: &'static str,
}

const WRONG: &[Wrong] = &[
    Wrong {
        what: "a fixed wait",
        has: |line| line.contains("time::sleep(") || line.contains("thread::sleep("),
        allowed: &[
            "tests/it/harness/",
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
        has: |line| {
            let limit = line.contains(".elapsed() <") || line.contains("contains(&") && line.contains(".elapsed())");
            limit && line.contains("assert") && !line.contains("PATIEN")
        },
        allowed: &["tests/it/harness/", "tests/it/jobs/crowd.rs"],
        instead: "use `Stopwatch`, which does not count waits for a processor, or paused time",
    },
    Wrong {
        what: "a choice of ports",
        has: |line| line.contains("fn free_port"),
        // The kit is a program for others; it depends on nothing of the tests.
        allowed: &["crates/link/src/test_ports.rs", "crates/conformance/"],
        instead: "`free_port` of the crate `brokers` or of `delaybridge_link` reserves a port on the whole machine",
    },
];

/// The lines of a file that have a refused form.
fn wrong_in(source: &Source) -> Vec<String> {
    // On paused time the clock advances only when every task is idle.
    let paused = source.code.contains("start_paused") || source.file.starts_with("crates/pipeline/src/tests/");
    let refused = |wrong: &Wrong, line: &str| {
        (wrong.has)(line)
            && !(paused && wrong.what == "a limit by the clock")
            && !wrong.allowed.iter().any(|place| source.file.starts_with(place))
    };
    let mut found = Vec::new();
    for wrong in WRONG {
        for (number, line) in (1..).zip(source.code.lines()) {
            if refused(wrong, line) {
                found.push(format!("{}:{number}: {}: {}", source.file, wrong.what, wrong.instead));
            }
        }
    }
    found
}

#[test]
fn no_test_is_wrong_about_time() {
    let mut all = sources_under("tests/it", "it/");
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
        let (file, code) = (file.to_owned(), code.to_owned());
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
}
