//! Compares the expectations of a case with the daemon's decision. Pure.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::case::{Case, ExpectedBody, ExpectedMessage, ExpectedVerdict};
use super::decide::{CaseEnd, Decided, SinkMessage};
use delaybridge_settings::units::show_duration;

/// One difference between a case and the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// A path below `expect`.
    pub path: String,
    /// The value in the case.
    pub expected: String,
    /// The daemon's value.
    pub got: String,
}

const NOTHING: &str = "nothing";

/// Finds every difference, in the order of the file's reference.
pub fn compare(case: &Case, decided: &Decided) -> Vec<Mismatch> {
    let mut found = Mismatches(Vec::new());
    if let Some(expected) = &case.expected.deliver {
        messages(&mut found, expected, &decided.messages);
    }
    verdict(&mut found, case.expected.verdict.as_ref(), &decided.end);
    found.0
}

struct Mismatches(Vec<Mismatch>);

impl Mismatches {
    fn add(&mut self, path: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) {
        self.0.push(Mismatch { path: path.into(), expected: expected.into(), got: got.into() });
    }

    fn check<T: PartialEq>(&mut self, path: &str, expected: Option<&T>, got: &T, show: impl Fn(&T) -> String) {
        if let Some(expected) = expected
            && expected != got
        {
            self.add(path, show(expected), show(got));
        }
    }
}

fn messages(found: &mut Mismatches, expected: &[ExpectedMessage], got: &[SinkMessage]) {
    for message in expected {
        let path = format!("deliver[{}]", message.sink);
        let Some(got) = got.iter().find(|other| *other.sink == *message.sink) else {
            found.add(path, "a message", NOTHING);
            continue;
        };
        for (key, value) in &message.destination {
            let other = got.destination.iter().find(|(name, _)| name == key).map(|(_, value)| shown(value));
            field(found, &format!("{path}.{key}"), value, other);
        }
        for (name, value) in &message.headers {
            let other = got.headers.iter().find(|(other, _)| **other == *name).map(|(_, value)| value.clone());
            field(found, &format!("{path}.headers.{name}"), value, other);
        }
        body(found, &path, message.body.as_ref(), &got.body);
    }
    for message in got {
        if expected.iter().all(|other| *other.sink != *message.sink) {
            found.add(format!("deliver[{}]", message.sink), NOTHING, "a message");
        }
    }
}

fn field(found: &mut Mismatches, path: &str, expected: &str, got: Option<String>) {
    if got.as_deref() != Some(expected) {
        found.add(path, expected, got.unwrap_or_else(|| NOTHING.to_owned()));
    }
}

fn body(found: &mut Mismatches, path: &str, expected: Option<&ExpectedBody>, got: &Bytes) {
    match expected {
        Some(ExpectedBody::Bytes(bytes)) if bytes != got => found.add(format!("{path}.body"), shown(bytes), shown(got)),
        Some(ExpectedBody::Json(value)) if serde_json::from_slice::<Value>(got).ok().as_ref() != Some(value) => {
            found.add(format!("{path}.body_json"), value.to_string(), shown(got));
        }
        _ => {}
    }
}

/// Shows text as text and other bytes as hexadecimal digits, in a length that a person reads.
fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 2_000;
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("0x{}", hex::encode(bytes)),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], bytes.len()),
        None => text,
    }
}

fn verdict(found: &mut Mismatches, expected: Option<&ExpectedVerdict>, got: &CaseEnd) {
    let optional = |value: &Option<String>| value.clone().unwrap_or_else(|| "no sink".to_owned());
    match (expected, got) {
        (None, CaseEnd::Delivered)
        | (Some(ExpectedVerdict::Wait), CaseEnd::Wait)
        | (Some(ExpectedVerdict::Skipped), CaseEnd::Skipped) => {}
        (Some(ExpectedVerdict::Dead { reason, sink, code }), CaseEnd::Dead { reason: r, sink: s, code: c, .. }) => {
            found.check("dead.reason", reason.as_ref(), r, |text| (*text).to_owned());
            found.check("dead.code", code.as_ref(), c, Clone::clone);
            found.check("dead.sink", sink.as_ref().map(|sink| Some(sink.clone())).as_ref(), s, optional);
        }
        (Some(ExpectedVerdict::Hold { sink, code }), CaseEnd::Hold { sink: s, code: c, .. }) => {
            found.check("hold.code", code.as_ref(), c, Clone::clone);
            found.check("hold.sink", sink.as_ref().map(|sink| Some(sink.clone())).as_ref(), s, optional);
        }
        (
            Some(ExpectedVerdict::Retry { earliest, latest, counted }),
            CaseEnd::Retry { earliest: e, latest: l, counted: c },
        ) => {
            found.check("retry.earliest", earliest.as_ref(), e, |time| show_duration(*time));
            found.check("retry.latest", latest.as_ref(), l, |time| show_duration(*time));
            found.check("retry.counted", counted.as_ref(), c, bool::to_string);
        }
        (expected, got) => {
            let expected = match expected {
                None => "delivered",
                Some(ExpectedVerdict::Dead { .. }) => "dead",
                Some(ExpectedVerdict::Hold { .. }) => "hold",
                Some(ExpectedVerdict::Retry { .. }) => "retry",
                Some(ExpectedVerdict::Wait) => "wait",
                Some(ExpectedVerdict::Skipped) => "skipped",
            };
            found.add("expect", expected, told(got));
        }
    }
}

/// Describes the end of an element for a person.
fn told(end: &CaseEnd) -> String {
    let by = |sink: &Option<String>| sink.as_ref().map(|sink| format!(", by sink {sink}")).unwrap_or_default();
    match end {
        CaseEnd::Delivered => "delivered".to_owned(),
        CaseEnd::Dead { reason, sink, code, message } => format!("dead: {reason}{}: {message} ({code})", by(sink)),
        CaseEnd::Hold { sink, code, message } => format!("hold{}: {message} ({code})", by(sink)),
        CaseEnd::Retry { earliest, latest, counted } => {
            let counts = if *counted { "counted" } else { "not counted" };
            format!("retry in {} to {}, {counts}", show_duration(*earliest), show_duration(*latest))
        }
        CaseEnd::Wait => "wait".to_owned(),
        CaseEnd::Skipped => "skipped: no destination is meant for it, and it is removed".to_owned(),
        CaseEnd::Gone => "removed: there is no record".to_owned(),
        CaseEnd::Later => "back to its source: its record says that it is due later".to_owned(),
    }
}
