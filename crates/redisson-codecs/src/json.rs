//! Codec `json`: one plain JSON value, and nothing after it.
//!
//! The parser stops at 128 levels, which also bounds the stack of walking or dropping the value.

use bytes::Bytes;
use serde_json::Value;
use serde_json::error::Category;

use super::error::{DecodeProblem, Refusal};
use super::payload::{Answer, Decoded};
use super::reader::VALUE_COST;

pub(super) fn decode(payload: &Bytes, budget: usize) -> Answer {
    parse(payload, budget).map(|value| Decoded::Json(payload.clone(), value))
}

impl Decoded {
    /// Reads a text that is a JSON object or list as that, in at most `budget` bytes of memory with the text itself. Any other
    /// value stays as it is.
    pub(super) fn json_in_text(self, budget: usize) -> Result<Decoded, Refusal> {
        let value = match &self {
            Decoded::Text(text) => structure(text, budget)?,
            Decoded::Value(Value::String(text)) | Decoded::Json(_, Value::String(text)) => {
                structure(text.as_bytes(), budget.saturating_sub(text.len()))?
            }
            Decoded::Opaque(_) | Decoded::Value(_) | Decoded::Json(..) => None,
        };
        Ok(match (value, self) {
            (Some(value), Decoded::Text(text)) => Decoded::Json(text, value),
            (Some(value), Decoded::Value(Value::String(text)) | Decoded::Json(_, Value::String(text))) => {
                Decoded::Json(text.into(), value)
            }
            (_, decoded) => decoded,
        })
    }
}

/// Parses a text that is an object or a list; `None` for any other text.
fn structure(text: &[u8], budget: usize) -> Result<Option<Value>, Refusal> {
    if !matches!(text.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Ok(None);
    }
    match parse(text, budget) {
        Ok(value) => Ok(Some(value)),
        Err(Refusal { problem: problem @ (DecodeProblem::TooLarge | DecodeProblem::JsonTooDeep), .. }) => {
            Err(Refusal::at(0, problem))
        }
        Err(_) => Ok(None),
    }
}

/// Parses a text whose value may take `budget` bytes of memory.
pub(super) fn parse(text: &[u8], budget: usize) -> Result<Value, Refusal> {
    afford(text, budget)?;
    serde_json::from_slice(text).map_err(|error| Refusal::at(offset(text, &error), problem(&error)))
}

/// Checks the memory that the parser would need, before it allocates: at most one value or name starts at each
/// separator.
fn afford(text: &[u8], budget: usize) -> Result<(), Refusal> {
    // Small texts are always affordable.
    if text.len() < budget / VALUE_COST {
        return Ok(());
    }
    let mut left = budget.checked_sub(VALUE_COST);
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, &byte) in text.iter().enumerate() {
        let cost = match byte {
            _ if is_escaped => {
                is_escaped = false;
                1
            }
            b'\\' if is_quoted => {
                is_escaped = true;
                1
            }
            b'"' => {
                is_quoted = !is_quoted;
                1
            }
            b',' | b':' | b'[' | b'{' if !is_quoted => VALUE_COST,
            _ => 1,
        };
        left = left.and_then(|left| left.checked_sub(cost));
        if left.is_none() {
            return Err(Refusal::at(at, DecodeProblem::TooLarge));
        }
    }
    Ok(())
}

fn problem(error: &serde_json::Error) -> DecodeProblem {
    if error.classify() == Category::Eof {
        return DecodeProblem::JsonTruncated;
    }
    // The parser reports no finer kinds than these texts; if a text changes, only the precision of the message suffers.
    let text = error.to_string();
    if text.starts_with("recursion limit exceeded") {
        DecodeProblem::JsonTooDeep
    } else if text.starts_with("trailing characters") {
        DecodeProblem::JsonTrailing
    } else {
        DecodeProblem::NotJson
    }
}

/// Converts the parser's line and column (in bytes, both from 1) to an offset.
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

    /// With its feature `raw_value` the parser would parse the text of such an object as another document, with a depth
    /// limit of its own, at every level of such objects.
    #[test]
    fn no_key_starts_another_parser() {
        let mut text = "[".repeat(100) + &"]".repeat(100);
        for _ in 0..3 {
            let inside = serde_json::to_string(&text).unwrap();
            let object = format!("{{\"$serde_json::private::RawValue\":{inside}}}");
            text = "[".repeat(100) + &object + &"]".repeat(100);
        }
        let value = parse(text.as_bytes(), 1 << 20).unwrap();
        let inner = (0..100).fold(&value, |value, _| &value[0]);
        assert!(inner["$serde_json::private::RawValue"].is_string(), "{inner}");
    }
}
