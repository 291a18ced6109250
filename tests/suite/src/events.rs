//! What a test program reports while it runs, one JSON object a line.
//!
//! The format is the one of Rust's test library (`library/test/src/formatters/json.rs`). A stable toolchain has it behind
//! `RUSTC_BOOTSTRAP`; editors use it in the same way. It is the only source of the time of each test, and of the name of
//! a test that hangs.

use serde::Deserialize;

/// An event of a test program.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// A test begins.
    Started(String),
    /// A test has ended.
    Ended(Test),
    /// The program has run all tests.
    Complete,
}

/// A test that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    pub name: String,
    pub outcome: Outcome,
    pub seconds: f64,
    /// Its output, if it failed.
    pub output: String,
}

/// The result of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    Ignored,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    event: String,
    name: Option<String>,
    exec_time: Option<f64>,
    stdout: Option<String>,
}

/// Reads one line; `None` for one that is no event, such as the output of a child process.
pub fn read(line: &str) -> Option<Event> {
    let line: Line = serde_json::from_str(line).ok()?;
    if line.kind == "suite" {
        return (line.event == "ok" || line.event == "failed").then_some(Event::Complete);
    }
    let name = line.name.filter(|_| line.kind == "test")?;
    let outcome = match line.event.as_str() {
        "started" => return Some(Event::Started(name)),
        "ok" => Outcome::Passed,
        "ignored" => Outcome::Ignored,
        "failed" => Outcome::Failed,
        // "timeout": it has run for a minute, and goes on.
        _ => return None,
    };
    let output = line.stdout.unwrap_or_default();
    Some(Event::Ended(Test { name, outcome, seconds: line.exec_time.unwrap_or_default(), output }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_test_library_become_events() {
        let check = |line: &str, expected: Option<Event>| assert_eq!(read(line), expected, "{line}");
        let ended = |outcome, seconds, output: &str| {
            Some(Event::Ended(Test { name: "a::b".into(), outcome, seconds, output: output.into() }))
        };
        check(r#"{ "type": "suite", "event": "started", "test_count": 2 }"#, None);
        check(r#"{ "type": "test", "event": "started", "name": "a::b" }"#, Some(Event::Started("a::b".into())));
        check(
            r#"{ "type": "test", "name": "a::b", "event": "ok", "exec_time": 0.5 }"#,
            ended(Outcome::Passed, 0.5, ""),
        );
        check(
            r#"{ "type": "test", "name": "a::b", "event": "failed", "exec_time": 2.5, "stdout": "boom\n" }"#,
            ended(Outcome::Failed, 2.5, "boom\n"),
        );
        check(r#"{ "type": "test", "name": "a::b", "event": "ignored" }"#, ended(Outcome::Ignored, 0.0, ""));
        check(r#"{ "type": "test", "event": "timeout", "name": "a::b" }"#, None);
        check(
            r#"{ "type": "suite", "event": "failed", "passed": 1, "failed": 1, "ignored": 0, "exec_time": 1.0 }"#,
            Some(Event::Complete),
        );
        check("running 3 tests", None);
        check(r#"{"level":"INFO"}"#, None);
    }
}
