//! Whether the codec of a queue reads its first elements.

use bytes::Bytes;
use redisson_codecs::Codec;

use super::{Health, LiveFinding, finding};
use crate::redisson::guess;
use crate::session::Queue;
use delaybridge_ledger::{Place, Shape, Show};
use delaybridge_model::OnDecodeError;
use delaybridge_source::redisson::RedissonSpec;
use delaybridge_source::zset::ZsetSpec;

/// Elements that are read.
const SAMPLES: usize = 3;
/// The size of an element that is read whole.
const SAMPLE_BYTES: usize = 64 << 10;

/// A finding if the codec refuses some of the first scheduled elements. Elements whose payload is elsewhere are not read.
pub(super) async fn look(queue: &Queue, what: String) -> Option<LiveFinding> {
    let spec = &queue.spec;
    let has_payloads = spec.source.of_kind::<RedissonSpec>().is_some() || spec.source.of_kind::<ZsetSpec>().is_some();
    if !has_payloads || matches!(spec.codec.codec, Codec::Raw | Codec::Auto) {
        return None;
    }
    // What cannot be asked is said by the line of the queue.
    let page = queue.ledger.peek(&queue.conn, Place::Scheduled, 0, SAMPLES, Show::Start(SAMPLE_BYTES)).await.ok()?;
    let read = page.seen.into_iter().filter(|seen| seen.is_complete() && seen.shape != Shape::Junk);
    let samples: Vec<Bytes> = read.map(|seen| seen.payload).collect();
    let is_refused = |sample: &&Bytes| spec.decode(sample).is_err_and(|error| !error.is_opaque());
    let refused: Vec<Bytes> = samples.iter().filter(is_refused).cloned().collect();
    if refused.is_empty() {
        return None;
    }
    let (codec, guess) = (spec.codec.as_str(), guess::codec(&refused).coding);
    let found = if guess.codec == Codec::Raw { String::new() } else { format!("{}, ", guess.as_str()) };
    let detail = format!("{} of {} scheduled elements are {found}not {codec}", refused.len(), samples.len());
    let health = if spec.on_decode_error == OnDecodeError::ForwardRaw { Health::Warning } else { Health::Failed };
    Some(finding(what, health, detail))
}
