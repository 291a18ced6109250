//! The conformance kit against producers that are right, and against one that does a single thing wrong: each fault is named
//! by its statement.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use delaybridge_conformance::statements as s;
use delaybridge_conformance::{Error, Options, Report, Verdict, run};
use delaybridge_link::test_server::TestServer;

const RUST: &str = env!("CARGO_BIN_EXE_rust-producer");
const LYING: &str = env!("CARGO_BIN_EXE_lying-producer");

fn options(server: &TestServer, words: &[&str]) -> Options {
    Options {
        command: ["env"].iter().chain(words).map(OsString::from).collect(),
        redis_url: format!("redis://127.0.0.1:{}", server.port()),
        limit: Duration::from_secs(20),
        seed: Some(7),
        large: 2 << 20,
        only: Vec::new(),
        failover: false,
    }
}

fn report(server: &TestServer, words: &[&str]) -> Report {
    run(&options(server, words)).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// The statements with this result.
fn with(report: &Report, wanted: impl Fn(&Verdict) -> bool) -> BTreeSet<&str> {
    report.statements.iter().filter(|line| wanted(&line.verdict)).map(|line| line.statement).collect()
}

fn keys(server: &TestServer) -> i64 {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).unwrap();
    redis::cmd("DBSIZE").query(&mut client.get_connection().unwrap()).unwrap()
}

#[test]
fn producers_that_are_right_pass_and_leave_nothing_behind() {
    let server = TestServer::start();
    // The last is about the current layout alone.
    for (words, unchecked) in
        [(&[RUST][..], &[s::O12][..]), (&[LYING], &[s::O12]), (&["LAYOUT=old", RUST], &[s::O12, s::E7])]
    {
        let report = report(&server, words);
        let only = with(&report, |verdict| *verdict != Verdict::Pass);
        assert!(report.conforms && only == unchecked.iter().copied().collect(), "{words:?}\n{}", report.text());
        assert_eq!(keys(&server), 0);
    }
}

#[test]
fn the_producer_in_rust_follows_a_failover() {
    let server = TestServer::start();
    let report = run(&Options { failover: true, ..options(&server, &[RUST]) }).unwrap();
    assert_eq!(with(&report, |verdict| *verdict != Verdict::Pass), BTreeSet::new(), "{}", report.text());
}

/// A fault, and the statement that it breaks. Others may follow from it: without an entry in L there is none to cancel.
const FAULTS: &[(&str, &str)] = &[
    ("always-braces", s::K1),
    ("no-braces", s::K1),
    ("prefix", s::K2),
    ("another-key", s::K5),
    ("expires", s::K5),
    ("no-types", s::K7),
    ("big-endian", s::E1),
    ("old-layout", s::E2),
    ("fixed-id", s::E4),
    ("counted-id", s::E4),
    ("any-id", s::E7),
    ("cut-at-1mb", s::E8),
    ("quotes", s::E8),
    ("cut-at-zero", s::E8),
    ("latin-1", s::E8),
    ("json-in-string", s::E11),
    ("no-list", s::O1),
    ("no-set", s::O1),
    ("other-bytes-in-list", s::O1),
    ("two-calls", s::O1),
    ("at-the-front", s::O2),
    ("float-score", s::O3),
    ("negative", s::O4),
    ("not-idempotent", s::O5),
    ("announces-again", s::O5),
    ("moves-again", s::O5),
    ("ids-ignored", s::O5),
    ("ids-reversed", s::O6),
    ("no-mark", s::O6),
    ("mark-for-ever", s::O6),
    ("mark-for-a-day", s::O6),
    ("mark-says-1", s::O6),
    ("batch-reversed", s::O9),
    ("batch-in-parts", s::O9),
    ("no-publish", s::A1),
    ("publishes-exponent", s::A2),
    ("publishes-payload", s::A2),
    ("always-publish", s::A3),
    ("cancels-set-alone", s::C1),
    ("removes-ghosts", s::C2),
    ("cancel-says-1", s::C3),
    ("cancels-any", s::C3),
    ("cancels-prefixes", s::C5),
    ("cancels-current-alone", s::C5),
    ("cancels-none", s::C5),
    ("moves-list", s::M1),
    ("moves-any", s::M1),
    ("moved-says-yes", s::M2),
    ("brings-back", s::M2),
    ("moves-silently", s::M3),
    ("moves-loudly", s::M3),
    ("moves-below-0", s::M3),
    ("old-handle", s::M4),
    ("true-clock", s::T1),
    ("seconds", s::T1),
    ("own-clock", s::T2),
    ("rounded-score", s::T3),
    ("never-past", s::T3),
    ("cancels-junk", s::X3),
];

#[test]
fn each_fault_is_named_by_its_statement() {
    let server = TestServer::start();
    let check = |(fault, breaks): &(&str, &str)| {
        let options = options(&server, &[&format!("FAULT={fault}"), LYING]);
        let report = run(&Options { only: vec![(*breaks).to_owned()], ..options }).unwrap();
        let failed = with(&report, |verdict| matches!(verdict, Verdict::Fail { .. }));
        let right = !report.conforms && failed.contains(breaks);
        (!right).then(|| format!("{fault}: expected {breaks}\n{}", report.text()))
    };
    // They wait for the server most of the time.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = FAULTS
            .chunks(FAULTS.len().div_ceil(4).max(1))
            .map(|part| scope.spawn(|| part.iter().filter_map(check).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_producer_does_not_offer_is_no_failure() {
    let server = TestServer::start();
    let report = report(&server, &["LACKS=cancel,cancel_value,reschedule,ids,batch,clock_redis,clock_offset", LYING]);
    assert!(report.conforms, "{}", report.text());
    let lacks = with(&report, |verdict| *verdict == Verdict::NotOffered);
    assert!(lacks.len() >= 8, "{}", report.text());
}

#[test]
fn a_command_that_breaks_the_protocol_is_told_so() {
    let server = TestServer::start();
    let check = |words: &[&str], limit: u64, part: &str| {
        let options = Options { limit: Duration::from_millis(limit), ..options(&server, words) };
        let error = match run(&options) {
            Err(error @ (Error::Broken(_) | Error::Open(_))) => error.to_string(),
            other => panic!("{words:?}: {other:?}"),
        };
        assert!(error.contains(part), "{words:?}: {error}");
    };
    check(&["FAULT=hangs", LYING], 300, "did not answer `open` (n 1) within 300ms");
    check(&["FAULT=chats", LYING], 10_000, "connecting to Redis");
    check(&["FAULT=ends", LYING], 10_000, "ended with code 3 instead of answering `open`");
    check(&["FAULT=other-number", LYING], 10_000, "its \"n\" is not 1");
    check(&["FAULT=does-not-end", LYING], 10_000, "the end of its input");
    check(&["/nowhere/at-all"], 10_000, "ended with code 127");
    let report = run(&options(&server, &["FAULT=ends-later", LYING])).unwrap();
    assert!(report.text().contains("ended with code 3 instead of answering"), "{}", report.text());
    let closed = Options { redis_url: "redis://127.0.0.1:1".to_owned(), ..options(&server, &[LYING]) };
    assert!(matches!(run(&closed), Err(Error::Redis(_))));
    assert_eq!(keys(&server), 0);
}
