//! Whether the codec of a queue reads its first elements.

use bytes::Bytes;
use redisson_codecs::Codec;

use super::{Health, LiveFinding, finding};
use crate::redisson::guess;
use crate::session::Queue;
use delaybridge_core::route::ElementInfo;
use delaybridge_ledger::{Place, Seen, Shape, Show};
use delaybridge_model::{OnDecodeError, QueueSpec};
use delaybridge_source::redisson::RedissonSpec;
use delaybridge_source::zset::ZsetSpec;

/// Elements that are read.
const SAMPLES: usize = 3;
/// The size of an element that is read whole.
const SAMPLE_BYTES: usize = 64 << 10;

/// The findings about the codec and the first scheduled elements: it refuses some, or does not look into JSON that the queue
/// asks for. Elements whose payload is elsewhere are not read.
pub(super) async fn look(queue: &Queue, what: String) -> Vec<LiveFinding> {
    let spec = &queue.spec;
    let has_payloads = spec.source.of_kind::<RedissonSpec>().is_some() || spec.source.of_kind::<ZsetSpec>().is_some();
    if !has_payloads || spec.codec.codec == Codec::Raw {
        return Vec::new();
    }
    // What cannot be asked is said by the line of the queue.
    let page = queue.ledger.peek(&queue.conn, Place::Scheduled, 0, SAMPLES, Show::Start(SAMPLE_BYTES)).await;
    let seen = page.map(|page| page.seen).unwrap_or_default();
    let samples: Vec<Seen> = seen.into_iter().filter(|seen| seen.is_complete() && seen.shape != Shape::Junk).collect();
    refused(spec, what.clone(), &samples).into_iter().chain(overlooked(spec, what, &samples)).collect()
}

/// A finding if the codec refuses some. Codec `auto` finds one for each, or none.
fn refused(spec: &QueueSpec, what: String, samples: &[Seen]) -> Option<LiveFinding> {
    let is_refused = |sample: &Seen| spec.decode(&sample.payload).is_err_and(|error| !error.is_opaque());
    let refused: Vec<Bytes> = samples.iter().filter(|seen| is_refused(seen)).map(|seen| seen.payload.clone()).collect();
    if refused.is_empty() || spec.codec.codec == Codec::Auto {
        return None;
    }
    let (codec, guess) = (spec.codec.as_str(), guess::codec(&refused).coding);
    let found = if guess.codec == Codec::Raw { String::new() } else { format!("{}, ", guess.as_str()) };
    let detail = format!("{} of {} scheduled elements are {found}not {codec}", refused.len(), samples.len());
    let health = if spec.on_decode_error == OnDecodeError::ForwardRaw { Health::Warning } else { Health::Failed };
    Some(finding(what, health, detail))
}

/// A finding if templates, conditions or keys ask for fields of texts that are JSON.
fn overlooked(spec: &QueueSpec, what: String, samples: &[Seen]) -> Option<LiveFinding> {
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
    (count > 0).then(|| finding(what, Health::Failed, detail))
}
