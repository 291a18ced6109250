//! From a claimed element to what its sinks get: the payload is decoded once, and routed for each sink.

use bytes::Bytes;
use redisson_codecs::Payload;

use crate::clock::Instant;
use crate::config::{OnDecodeError, OnExpired};
use crate::message::{Class, Failure};
use crate::pipeline::claim::Parts;
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::verdict::{Death, Release, Verdict};
use crate::route::ElementInfo;
use crate::sink::Outbound;
use crate::source::ledger::ClaimedFrom;
use crate::telemetry::labels::DeadReason;

/// The payload, or why the element needs no sink.
pub fn readable(parts: &Parts) -> Result<Payload, Verdict> {
    let queue = &parts.queue;
    if parts.from == ClaimedFrom::Exhausted {
        let failure = Failure::new(
            Class::Unknown,
            "lease_expired",
            "ten leases in a row expired: the process died or stalled each time it worked on this element",
        );
        return Err(dead(DeadReason::LeaseExpired, failure));
    }
    let payload = match &parts.payload {
        Ok(payload) => payload,
        Err(junk) => {
            let failure = Failure::new(Class::MessagePermanent, "junk", junk.to_string());
            return Err(dead(DeadReason::Junk, failure));
        }
    };
    if let (Some(limit), Some(late)) = (queue.spec.max_lateness, parts.lateness())
        && late > limit
    {
        if queue.spec.on_expired == OnExpired::Deliver {
            queue.events.metrics().expired_delivery();
            return decoded(queue, payload);
        }
        let text = format!("{} ms late, max_lateness is {} ms", late.as_millis(), limit.as_millis());
        let failure = Failure::new(Class::MessagePermanent, "expired", text);
        return Err(dead(DeadReason::Expired, failure));
    }
    decoded(queue, payload)
}

fn decoded(queue: &Queue, payload: &Bytes) -> Result<Payload, Verdict> {
    redisson_codecs::decode(queue.spec.codec, payload).or_else(|error| {
        queue.events.metrics().decode_error(queue.spec.codec.as_str());
        if error.is_opaque() {
            queue.events.opaque(&error.to_string());
            return Ok(Payload::opaque(payload.clone()));
        }
        let failure = Failure::new(Class::MessagePermanent, error.code(), error.to_string());
        match queue.spec.on_decode_error {
            OnDecodeError::ForwardRaw => Ok(Payload::opaque(payload.clone())),
            OnDecodeError::DeadLetter => Err(dead(DeadReason::Undecodable, failure)),
            OnDecodeError::Hold => {
                let failure = Failure { class: Class::TargetPermanent, ..failure };
                Err(Verdict::Release { why: Release::Hold { sink: None, failure } })
            }
        }
    })
}

fn dead(reason: DeadReason, failure: Failure) -> Verdict {
    Verdict::Dead(Death::without_sink(reason, failure))
}

/// The element on its way to the sink of this place among the queue's destinations; a failure if a template has no value.
pub fn message(
    parts: &Parts,
    payload: &Payload,
    place: usize,
    now_ms: i64,
    send_before: Instant,
) -> Result<Outbound, Failure> {
    let queue = &parts.queue;
    let (spec, header) = (&queue.routes[place].spec, &parts.entry.header);
    let attempt = header.attempts.saturating_add(1);
    let element = ElementInfo { id: parts.id, queue: &queue.spec.id, due_ms: header.due_ms(), attempt };
    let routed = spec
        .fill(&element, payload)
        .map_err(|error| Failure::new(Class::MessagePermanent, error.code(), error.to_string()))?;
    Ok(Outbound {
        id: parts.id,
        queue: queue.spec.id.clone(),
        due_ms: header.due_ms(),
        attempt,
        now_ms,
        send_before,
        destination: routed.destination,
        body: routed.message.body,
        headers: routed.message.headers,
    })
}
