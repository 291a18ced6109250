//! What the first scheduled elements of a queue show about its `codec`: it refuses some, or does not look into JSON that the queue
//! asks for. `check --live` asks for it, and a daemon for each queue that it begins to serve.

use std::sync::Arc;

use bytes::Bytes;
use redisson_codecs::Codec;

use crate::redisson::guess;
use crate::session::{Queue, ledger};
use delaybridge_core::template::ElementInfo;
use delaybridge_ledger::{Place, Seen, Shape, Show};
use delaybridge_link::Redis;
use delaybridge_model::{Mode, OnDecodeError, QueueSpec};

/// Elements that are read.
const SAMPLES: usize = 3;
/// The size of an element that is read whole. Where the mean is beyond it, none is read.
const SAMPLE_BYTES: usize = 64 << 10;

/// A setting of a queue that does not fit its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodecFinding {
    /// Whether elements end otherwise than they were meant to.
    pub is_failure: bool,
    /// The difference and its remedy, without payloads.
    pub detail: String,
}

/// Returns whether the elements of a queue have payloads that its codec reads.
pub fn are_read(spec: &QueueSpec) -> bool {
    spec.source.has_payload_in_member() && spec.codec.codec != Codec::Raw && !matches!(spec.mode, Mode::Rescue { .. })
}

/// Looks at the first elements of a queue, over the connection that there is now; `None` if there is none.
pub async fn look_now(redis: &Redis, spec: &Arc<QueueSpec>) -> Option<Vec<CodecFinding>> {
    let conn = redis.at(&ledger(spec).keys.leases).current()?;
    Some(look(&Queue::new(spec.clone(), conn)).await)
}

/// Returns the findings about the codec and the first scheduled elements. Elements whose payload is elsewhere are not
/// read.
pub(super) async fn look(queue: &Queue) -> Vec<CodecFinding> {
    let spec = &queue.spec;
    if !are_read(spec) {
        return Vec::new();
    }
    // What cannot be asked is said by `check --live` in the line of the queue, and by the daemon's first claim.
    let page = queue.ledger.peek(&queue.conn, Place::Scheduled, 0, SAMPLES, Show::Small(SAMPLE_BYTES)).await;
    let seen = page.map(|page| page.seen).unwrap_or_default();
    let samples: Vec<Seen> = seen.into_iter().filter(|seen| seen.is_complete() && seen.shape != Shape::Junk).collect();
    refused(spec, &samples).into_iter().chain(overlooked(spec, &samples)).collect()
}

/// Returns a finding if the codec refuses some. Codec `auto` finds one for each, or none.
fn refused(spec: &QueueSpec, samples: &[Seen]) -> Option<CodecFinding> {
    let is_refused = |sample: &Seen| spec.decode(&sample.payload).is_err_and(|error| !error.is_opaque());
    let refused: Vec<Bytes> = samples.iter().filter(|seen| is_refused(seen)).map(|seen| seen.payload.clone()).collect();
    if refused.is_empty() || spec.codec.codec == Codec::Auto {
        return None;
    }
    let codec = spec.codec.as_str();
    let guess = guess::codec(&refused).coding;
    let found = Some(guess.as_str()).filter(|_| guess.codec != Codec::Raw);
    let remedy = match found {
        Some(found) if refused.len() == samples.len() => format!("write `codec: {found}`"),
        Some(_) => "for producers with several codecs, write `codec: auto`".to_owned(),
        None => format!("correct `codec`; `delaybridge decode --queue {}` shows the first element", spec.id),
    };
    let found = found.map(|found| format!("{found}, ")).unwrap_or_default();
    let detail = format!("{} of {} scheduled elements are {found}not {codec}: {remedy}", refused.len(), samples.len());
    Some(CodecFinding { is_failure: spec.on_decode_error != OnDecodeError::ForwardRaw, detail })
}

/// Returns a finding if templates, conditions or keys ask for fields of texts that are JSON.
fn overlooked(spec: &QueueSpec, samples: &[Seen]) -> Option<CodecFinding> {
    let overlooks = |seen: &&Seen| {
        let Some(id) = &seen.id else { return false };
        let element = ElementInfo { id, queue: &spec.id, due_ms: seen.due_ms, attempt: 1, topic: None, carried: None };
        spec.overlooks_json(&element, &seen.payload)
    };
    let count = samples.iter().filter(overlooks).count();
    let detail = format!(
        "{count} of {} scheduled elements are texts that are JSON, whose fields the queue asks for: write `json_in_text: true`",
        samples.len()
    );
    (count > 0).then_some(CodecFinding { is_failure: true, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(payload: &[u8]) -> Seen {
        let payload = Bytes::copy_from_slice(payload);
        Seen {
            id: None,
            due_ms: None,
            score_ms: None,
            attempts: 0,
            code: String::new(),
            shape: Shape::Bare,
            member: payload.clone(),
            size: payload.len(),
            payload,
        }
    }

    #[test]
    fn a_codec_that_refuses_the_first_elements_is_told_with_the_remedy() {
        let check = |settings: &str, payloads: &[&[u8]], expected: Option<(bool, &str)>| {
            let queue = format!("source: {{ redisson: {{ name: q }} }}, {settings}, to: [{{ sink: out }}]");
            let yaml = format!(
                "redis: {{ url: 'redis://h' }}\nsinks: {{ out: {{ stdout: }} }}\nqueues: {{ q: {{ {queue} }} }}\n"
            );
            let spec = delaybridge_config::load_str(&yaml, "c.yaml", &|_| None);
            let spec = spec.unwrap_or_else(|errors| panic!("{errors}")).config.queues.remove(0);
            let samples: Vec<_> = payloads.iter().map(|payload| seen(payload)).collect();
            let found = refused(&spec, &samples);
            assert_eq!(found.as_ref().map(|found| (found.is_failure, &*found.detail)), expected, "{settings}");
        };
        let kryo: &[u8] = b"\x03ab\xe3";
        let all = "3 of 3 scheduled elements are kryo5, not json: write `codec: kryo5`";
        check("codec: json", &[kryo, kryo, kryo], Some((true, all)));
        check("codec: json, on_decode_error: forward_raw", &[kryo, kryo, kryo], Some((false, all)));
        let some =
            "1 of 2 scheduled elements are kryo5, not json: for producers with several codecs, write `codec: auto`";
        check("codec: json", &[b"{}", kryo], Some((true, some)));
        let none = "1 of 1 scheduled elements are not json: correct `codec`; `delaybridge decode --queue q` shows the first element";
        check("codec: json", &[b"\xff\xfe"], Some((true, none)));
        check("codec: auto", &[b"\xff\xfe"], None);
        check("codec: kryo5", &[kryo], None);
        check("codec: json", &[], None);
    }
}
