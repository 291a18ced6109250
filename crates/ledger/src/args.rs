//! Values as scripts take and answer them.

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;

use delaybridge_link::BadReply;

/// Returns a value as the text that a script reads.
pub fn text(value: impl Display) -> Bytes {
    value.to_string().into()
}

/// Returns a duration in whole milliseconds.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Reads the answer of a script that says whether it did something.
pub fn truth(script: &'static str, reply: redis::Value) -> Result<bool, BadReply> {
    match reply {
        redis::Value::Int(n) => Ok(n == 1),
        _ => Err(BadReply { script, expected: "0 or 1" }),
    }
}
