//! The catalogue is complete: the codes are read out of the source where they are given.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::*;
use delaybridge_telemetry::labels::DeadReason;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_test = matches!(&*name, "tests" | "tests.rs" | "fake" | "contract.rs" | "test_server.rs");
        if path.is_dir() && !is_test {
            sources(&path, found);
        } else if name.ends_with(".rs") && !is_test {
            found.push(path);
        }
    }
}

/// The first text in quotes behind each `mark`, within `reach` bytes.
fn quoted<'a>(text: &'a str, mark: &str, reach: usize) -> impl Iterator<Item = &'a str> {
    text.match_indices(mark).filter_map(move |(at, mark)| {
        let behind = &text[at + mark.len()..];
        let mut end = reach.min(behind.len());
        while !behind.is_char_boundary(end) {
            end -= 1;
        }
        // What is built there is a message, no code.
        let behind = behind[..end].split("format!").next()?;
        behind.split('"').nth(1)
    })
}

/// All texts in quotes of the function that begins with `mark`.
fn body<'a>(text: &'a str, mark: &str) -> impl Iterator<Item = &'a str> {
    let inside = text.split(mark).skip(1).filter_map(|rest| rest.split("\n    }\n").next());
    inside.flat_map(|inside| inside.split('"').skip(1).step_by(2))
}

fn is_code(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[test]
fn every_code_of_the_source_is_explained_and_no_other() {
    let mut files = Vec::new();
    for folder in ["src", "crates"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder), &mut files);
    }
    let mut given: BTreeSet<String> = DeadReason::ALL.iter().map(|reason| reason.as_str().to_owned()).collect();
    for path in files.iter().filter(|path| !path.starts_with(concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/cli")))
    {
        let text = std::fs::read_to_string(path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let behind =
            ["Failure::new(", "failed(Class::", "ChannelError::connection(", "ChannelError::channel(", "(Class::"];
        let mut codes: Vec<&str> = behind.iter().flat_map(|mark| quoted(text, mark, 120)).collect();
        codes.extend(quoted(text, "Row(Code::", 100));
        // The compiler refuses a row that nothing uses.
        let rows = text.split("error_table! {").nth(1).and_then(|rest| rest.split("\n}\n").next()).unwrap_or_default();
        codes.extend(rows.lines().filter(|line| line.contains(" = ")).filter_map(|line| line.split('"').nth(1)));
        if path.ends_with("message.rs") {
            codes.extend(quoted(text, ": FailureCode =", 60));
        }
        codes.extend(quoted(text, "PANIC: &str =", 30));
        codes.extend(quoted(text, "FENCED: &str =", 30));
        codes.extend(quoted(text, "{ code: None, label: ", 30));
        codes.extend(body(text, "pub fn code(&self) -> &'static str {"));
        if path.ends_with("link/src/error.rs") {
            codes.extend(
                body(text, "impl ConnectErrorKind {").chain(body(text, "pub fn as_str(self) -> &'static str {")),
            );
        }
        if path.ends_with("link/src/words.rs") {
            let list = text.split("const CODES").nth(1).unwrap().split("];").next().unwrap();
            codes.extend(list.split('"').skip(1).step_by(2).chain(["OTHER"]));
        }
        if path.ends_with("sink-amqp/src/errors/mod.rs") {
            let names = text.split("fn name(code: u16)").nth(1).unwrap().split("\n}\n").next().unwrap();
            codes.extend(names.split('"').skip(1).step_by(2));
        }
        given.extend(codes.into_iter().filter(|code| is_code(code)).map(str::to_owned));
    }
    let explained: BTreeSet<String> =
        sections().iter().flat_map(|section| section.list.iter()).map(|entry| entry.code.to_owned()).collect();
    let silent: Vec<_> = given.difference(&explained).collect();
    assert!(
        silent.is_empty(),
        "no entry in a list of codes (crates/sink/src/codes.rs, crates/sink-NAME, crates/link/src/codes.rs, cli/errors/table.rs): {silent:?}"
    );
    let unheard: Vec<_> = explained.difference(&given).collect();
    assert!(unheard.is_empty(), "nothing gives these codes, or this test does not see it: {unheard:?}");
}

#[test]
fn a_code_is_listed_once_and_found_by_its_first_bytes() {
    let all: Vec<_> = sections().iter().flat_map(|section| section.list.iter()).map(|entry| entry.code).collect();
    let once: BTreeSet<_> = all.iter().collect();
    let twice: Vec<_> = once.iter().filter(|code| all.iter().filter(|other| *other == **code).count() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(explain("template_field_m").map(|entry| entry.code), Some("template_field_missing"));
    assert!(explain("template_fie").is_none() && explain("nobody_gives_this").is_none());
}

#[cfg(all(
    feature = "kafka",
    feature = "amqp",
    feature = "amqp1",
    feature = "nats",
    feature = "aws",
    feature = "rocketmq"
))]
#[test]
fn the_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let page = reference();
    if std::fs::read_to_string(path).ok().as_deref() != Some(page.as_str()) {
        std::fs::write(path, page).unwrap();
        panic!("docs/errors.md was out of date and has been rewritten: look at it and commit it");
    }
}
