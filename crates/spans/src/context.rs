//! Trace contexts by the W3C recommendation. Pure, except for random span ids.

use std::fmt;

use delaybridge_core::message::Identity;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceId(pub(super) [u8; 16]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanId(pub(super) [u8; 8]);

/// The producer's span, from a `traceparent` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    /// Whether the producer samples the trace.
    pub(super) sampled: bool,
}

impl TraceId {
    /// Computes the trace of an element without a parent: the same at every attempt and in every daemon.
    pub(super) fn of(queue: &str, id: &Identity) -> TraceId {
        let text = id.text.as_deref().unwrap_or_default();
        let bytes = [queue.as_bytes(), &[0], &id.id.0, text.as_bytes()].concat();
        // An id of only zeros is invalid.
        TraceId(xxhash_rust::xxh3::xxh3_128(&bytes).max(1).to_be_bytes())
    }

    /// Returns the number that decides about sampling.
    pub(super) fn number(self) -> u64 {
        self.0.last_chunk().map_or(0, |last| u64::from_be_bytes(*last))
    }
}

impl SpanId {
    pub(super) fn random() -> SpanId {
        SpanId(fastrand::u64(1..).to_be_bytes())
    }
}

impl Parent {
    /// Parses a `traceparent` header; returns `None` for an invalid one, and the trace then starts without a parent.
    pub(super) fn parse(text: &str) -> Option<Parent> {
        let mut parts = text.trim().split('-');
        let lower = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let mut hex = |length: usize| parts.next().filter(|part| part.len() == length && lower(part));
        let version = hex(2)?;
        let trace = hex(32)?;
        let span = hex(16)?;
        let flags = hex(2)?;
        // A later version may append more fields.
        if version == "ff" || version == "00" && parts.next().is_some() {
            return None;
        }
        let mut trace_id = [0; 16];
        let mut span_id = [0; 8];
        let mut flag = [0];
        hex::decode_to_slice(trace, &mut trace_id).ok()?;
        hex::decode_to_slice(span, &mut span_id).ok()?;
        hex::decode_to_slice(flags, &mut flag).ok()?;
        let valid = trace_id != [0; 16] && span_id != [0; 8];
        valid.then_some(Parent { trace: TraceId(trace_id), span: SpanId(span_id), sampled: flag[0] & 1 == 1 })
    }
}

/// Formats the header of a sampled span.
pub(super) fn traceparent(trace: TraceId, span: SpanId) -> String {
    format!("00-{trace}-{span}-01")
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::MessageId;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_reads_back() {
        let parent = Parent::parse(TEXT).expect("the example of the recommendation");
        assert!(parent.sampled);
        assert_eq!(traceparent(parent.trace, parent.span), TEXT);
        assert!(!Parent::parse(&TEXT.replace("-01", "-00")).expect("not sampled").sampled);
        assert!(Parent::parse(&format!("cc{}-what-comes-later", &TEXT[2..])).is_some());
    }

    #[test]
    fn what_is_no_header_is_none() {
        let zero = "0".repeat(32);
        for text in [
            "",
            "00",
            &TEXT[..54],
            &TEXT.to_uppercase(),
            &format!("{TEXT}-more"),
            &TEXT.replacen("00", "ff", 1),
            &format!("00-{zero}-00f067aa0ba902b7-01"),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Parent::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_trace_of_an_element_is_always_the_same_and_its_own() {
        let id = |n: u8| Identity::from(MessageId([n; 8]));
        assert_eq!(TraceId::of("q", &id(1)), TraceId::of("q", &id(1)));
        assert_ne!(TraceId::of("q", &id(1)), TraceId::of("q", &id(2)));
        assert_ne!(TraceId::of("q", &id(1)), TraceId::of("r", &id(1)));
    }
}
