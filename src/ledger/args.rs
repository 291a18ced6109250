//! Values as arguments of scripts.

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;

/// A value as the text that a script reads.
pub(crate) fn text(value: impl Display) -> Bytes {
    value.to_string().into()
}

/// A duration in whole milliseconds.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
