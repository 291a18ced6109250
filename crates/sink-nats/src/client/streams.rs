//! Streams, as JetStream describes them: which of them takes a subject, and its settings. Pure.

use bytes::Bytes;
use serde_json::json;

use crate::errors;
use delaybridge_core::json::Json;

/// The question for the streams that take a subject.
pub(super) const NAMES: &str = "$JS.API.STREAM.NAMES";

/// Returns the body of that question.
pub(super) fn of_subject(subject: &str) -> Vec<u8> {
    json!({ "subject": subject }).to_string().into_bytes()
}

/// Reads the streams in the answer. The error is that of JetStream; `None` if nobody answers, or the answer is none.
pub(super) fn names(body: Option<Bytes>) -> Result<Vec<String>, Option<(u64, String)>> {
    let members = body.and_then(errors::members).ok_or(None)?;
    if let Some(error) = errors::error_in(&members) {
        return Err(Some(error));
    }
    // Without any, it is absent or null.
    let items = errors::member(&members, "streams").and_then(|streams| streams.items(1000).ok()).unwrap_or_default();
    let name = |item: &Json| item.text().map(|name| String::from_utf8_lossy(&name).into_owned());
    Ok(items.iter().filter_map(name).collect())
}

/// Returns the question for the settings of a stream.
pub(super) fn info(stream: &str) -> String {
    format!("$JS.API.STREAM.INFO.{stream}")
}

/// Returns the drawbacks of a stream, from its description.
pub(super) fn drawbacks(stream: &str, body: Option<Bytes>) -> Vec<String> {
    let Some(members) = body.and_then(errors::members) else {
        return vec![format!("the settings of stream {stream} are unknown: JetStream does not answer")];
    };
    if let Some((number, text)) = errors::error_in(&members) {
        return vec![format!("the settings of stream {stream} are unknown: JetStream answered {number}: {text}")];
    }
    let config = errors::member(&members, "config").and_then(|config| config.members(256).ok()).unwrap_or_default();
    let number = |name: &str| errors::member(&config, name).and_then(Json::number);
    let is = |name: &str| errors::member(&config, name).and_then(Json::flag).unwrap_or(false);
    let old = errors::member(&config, "discard").and_then(Json::text).is_some_and(|discard| *discard == *b"old");
    // Absent, -1 and 0 are no limit.
    let limits = ["max_msgs", "max_bytes", "max_msgs_per_subject"];
    let limits: Vec<_> = limits.into_iter().filter(|name| number(name).is_some_and(|limit| limit > 0)).collect();
    let mut found = Vec::new();
    if old && !limits.is_empty() {
        let limits = limits.join(" and ");
        found.push(format!(
            "stream {stream} drops its oldest messages at {limits} (`discard: old`): set `discard: new`, so that elements wait in Redis"
        ));
    }
    if is("no_ack") {
        found
            .push(format!("stream {stream} confirms nothing (`no_ack`): no delivery can succeed; set `no_ack: false`"));
    }
    if is("sealed") {
        found.push(format!("stream {stream} is sealed: it takes no messages"));
    }
    if number("duplicate_window").unwrap_or(0) == 0 {
        found.push(format!("stream {stream} has no `duplicate_window`: what is sent again is there twice"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawbacks_of_a_stream_are_named() {
        fn check(config: &str, expected: &[&str]) {
            let found = drawbacks("S", Some(format!(r#"{{"type":"x","config":{{{config}}}}}"#).into()));
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.contains(expected), "{found}");
            }
        }
        let good = r#""discard":"new","max_msgs":10,"duplicate_window":120000000000"#;
        check(good, &[]);
        check(r#""discard":"old","max_msgs":-1,"max_bytes":-1,"duplicate_window":1"#, &[]);
        check(&good.replace("new", "old"), &["drops its oldest messages at max_msgs (`discard: old`)"]);
        check(&format!("{good},\"no_ack\":true,\"sealed\":true"), &["confirms nothing", "is sealed"]);
        check(r#""discard":"new""#, &["has no `duplicate_window`"]);
        assert!(drawbacks("S", None)[0].contains("are unknown"));
        let denied = drawbacks("S", Some(r#"{"error":{"err_code":10039,"description":"off"}}"#.into()));
        assert!(denied[0].contains("10039: off"), "{denied:?}");
    }

    #[test]
    fn the_streams_of_a_subject_are_read() {
        let read = |text: &'static str| names(Some(text.into()));
        assert_eq!(read(r#"{"total":2,"streams":["A","B"]}"#), Ok(vec!["A".to_owned(), "B".to_owned()]));
        assert_eq!(read(r#"{"total":0,"streams":null}"#), Ok(Vec::new()));
        assert_eq!(read(r#"{"total":0}"#), Ok(Vec::new()));
        assert_eq!(read(r#"{"error":{"err_code":10008,"description":"x"}}"#), Err(Some((10008, "x".to_owned()))));
        assert_eq!((read("no"), names(None)), (Err(None), Err(None)));
    }
}
