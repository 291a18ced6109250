//! Offers one element, byte for byte as Redisson packs and announces it.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::{Layout, name};
use crate::error::{Attempted, Error, may_have_run};
use crate::peek::PeekState;
use crate::session::Queue;
use delaybridge_core::message::MessageId;
use delaybridge_model::{OnDecodeError, QueueSpec};
use delaybridge_offers::Id;
use delaybridge_source::redisson::layout;

/// The outcome of an offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offered {
    /// The queue.
    pub queue: String,
    /// The element.
    pub elements: [OfferedElement; 1],
}

/// An element that was offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfferedElement {
    /// The element's id.
    pub id: MessageId,
    /// The state.
    pub state: PeekState,
    /// The due time.
    pub due_ms: i64,
    /// The layout.
    pub layout: &'static str,
}

/// Offers a payload. Without a layout, that of the queue is taken, or the new one where the queue is empty.
///
/// # Errors
///
/// When the codec of the queue refuses the payload, and when Redis cannot be asked. A reply that was lost is reported with
/// the element's id, and nothing is sent a second time.
pub async fn offer(queue: &Queue, payload: &Bytes, delay: Duration, layout: Option<Layout>) -> Result<Offered, Error> {
    queue.only_of_redisson("offer", "offer to a sorted set with ZADD")?;
    refuse_what_cannot_be_delivered(&queue.spec, payload)?;
    let layout = match layout {
        Some(layout) => layout,
        None => {
            let what = format!("read the layout in use in `{}`", queue.id());
            queue.redisson().layout_in_use(&queue.conn).await.attempt(&what)?.unwrap_or(Layout::New)
        }
    };
    let id = new_id(layout, payload)?;
    let element = Bytes::from(layout::pack(layout, id, payload));
    let what = format!("offer element {id} to `{}`", queue.id());
    let due_ms = match queue.redisson().offer(&queue.conn, element, delay).await {
        Err(error) if may_have_run(&error) => {
            return Err(Error::failed(format!(
                "{what}: {error}; it may have been offered, so it was not sent again: look for the id with \
                 `delaybridge peek {}`, or in what was delivered, before you repeat it",
                queue.id()
            )));
        }
        other => other.attempt(&what)?,
    };
    let element = OfferedElement { id, state: PeekState::Scheduled, due_ms, layout: name(layout) };
    Ok(Offered { queue: queue.id().to_owned(), elements: [element] })
}

fn refuse_what_cannot_be_delivered(spec: &QueueSpec, payload: &Bytes) -> Result<(), Error> {
    match spec.decode(payload) {
        Err(error) if spec.on_refusal(&error) != OnDecodeError::ForwardRaw => Err(Error::invalid(format!(
            "check the payload: {} at byte {}, and the codec of queue `{}` is {}; nothing was offered",
            error.problem, error.offset, spec.id, spec.codec
        ))),
        _ => Ok(()),
    }
}

/// Returns a random id as clients of that layout make it.
fn new_id(layout: Layout, payload: &[u8]) -> Result<MessageId, Error> {
    let id = Id::random_for(layout, payload);
    let id =
        id.map_err(|error| Error::failed(format!("draw a random id: {error}; does the system provide randomness?")))?;
    Ok(MessageId(id.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_payload_that_the_codec_refuses_is_not_offered() {
        let check = |keys: &str, payload: &'static [u8]| {
            let text = format!(
                "redis: {{ url: 'redis://h' }}\nsinks: {{ out: {{ stdout: }} }}\n\
                 queues: {{ q: {{ source: {{ redisson: {{ name: n }} }}, {keys}, to: [{{ sink: out }}] }} }}\n"
            );
            let spec = delaybridge_config::load_str(&text, "c.yaml", &|_| None).unwrap().config.queues.remove(0);
            refuse_what_cannot_be_delivered(&spec, &Bytes::from_static(payload))
        };
        let failed = check("codec: json", b"{oops").unwrap_err();
        assert_eq!(failed.kind, ErrorKind::Invalid);
        assert!(failed.message.contains("not JSON at byte 1") && !failed.message.contains("oops"), "{failed}");
        assert!(check("codec: raw", b"\xff").is_ok());
        assert!(check("codec: json, on_decode_error: forward_raw", b"{oops").is_ok());
        assert!(check("codec: kryo5", b"\x01\x00com.example.Orde\xf2").is_ok(), "forwarded as bytes");
        assert!(check("codec: kryo5, on_opaque: dead_letter", b"\x01\x00com.example.Orde\xf2").is_err());
    }
}
