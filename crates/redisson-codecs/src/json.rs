//! Codec `json`: one plain JSON value, nothing after it.
//!
//! The parser stops at 128 levels, which also bounds the stack of a walk or a drop of the value.

use bytes::Bytes;
use serde_json::Value;
use serde_json::error::Category;

use super::Answer;
use super::error::{DecodeProblem, Refusal};
use super::payload::Decoded;

/// Parses the payload.
pub(super) fn decode(payload: &Bytes) -> Answer {
    parse(payload).map(|value| Decoded::Json(payload.clone(), value))
}

/// The value that this text is.
pub(super) fn parse(text: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(text).map_err(|error| Refusal::at(offset(text, &error), problem(&error)))
}

fn problem(error: &serde_json::Error) -> DecodeProblem {
    if error.classify() == Category::Eof {
        return DecodeProblem::JsonTruncated;
    }
    // The parser has no finer kinds than these texts; a text that changes only costs precision of the message.
    let text = error.to_string();
    if text.starts_with("recursion limit exceeded") {
        DecodeProblem::JsonTooDeep
    } else if text.starts_with("trailing characters") {
        DecodeProblem::JsonTrailing
    } else {
        DecodeProblem::NotJson
    }
}

/// The parser's line and column (in bytes, both from 1) as an offset.
fn offset(payload: &[u8], error: &serde_json::Error) -> usize {
    let newlines = payload.iter().enumerate().filter(|&(_, &byte)| byte == b'\n').map(|(at, _)| at + 1);
    let line_start = match error.line() {
        0 | 1 => 0,
        line => newlines.take(line - 1).last().unwrap_or(0),
    };
    let past = usize::from(error.classify() != Category::Eof);
    (line_start + error.column().saturating_sub(past)).min(payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its feature `raw_value`, the parser would read the text of such an object as another document, with a limit
    /// on the depth of its own, at every level of such objects.
    #[test]
    fn no_key_starts_another_parser() {
        let mut text = "[".repeat(100) + &"]".repeat(100);
        for _ in 0..3 {
            let inside = serde_json::to_string(&text).unwrap();
            let object = format!("{{\"$serde_json::private::RawValue\":{inside}}}");
            text = "[".repeat(100) + &object + &"]".repeat(100);
        }
        let value = parse(text.as_bytes()).unwrap();
        let inner = (0..100).fold(&value, |value, _| &value[0]);
        assert!(inner["$serde_json::private::RawValue"].is_string(), "{inner}");
    }
}
