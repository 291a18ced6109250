//! An element and a destination, for tests of sinks.

use std::fmt;

use bytes::Bytes;

use crate::{Destination, Outbound, SinkAddress};
use delaybridge_core::message::MessageId;

/// A destination of no kind: every sink but the fake one refuses it.
#[derive(Debug, PartialEq)]
struct Anywhere;

impl SinkAddress for Anywhere {
    fn lane(&self) -> [&str; 2] {
        [""; 2]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        Vec::new()
    }
}

impl fmt::Display for Anywhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anywhere")
    }
}

/// Returns a destination for a sink that does not look at it, or does not have it.
pub fn anywhere() -> Destination {
    Anywhere.into()
}

/// Returns an element as the pipeline would hand it over.
pub fn outbound(id: u64, destination: Destination, body: impl AsRef<[u8]>) -> Outbound {
    Outbound {
        id: MessageId(id.to_be_bytes()).into(),
        queue: "q".into(),
        due_ms: Some(1000),
        attempt: 1,
        now_ms: 1005,
        send_before: delaybridge_core::clock::Instant::now().after(std::time::Duration::from_secs(3600)),
        destination,
        body: Bytes::copy_from_slice(body.as_ref()),
        headers: Vec::new(),
        carried: None,
        mark: None,
    }
}
