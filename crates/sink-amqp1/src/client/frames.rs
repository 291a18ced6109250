//! Frames: those of the broker taken out of a buffer, ours put at the end of one. Pure.
//!
//! A sender of messages needs few of the protocol's performatives, and few of their fields. What it does not know of a frame
//! is passed over; a frame that it does not know ends the connection.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::types::{NotAmqp, WireFields, WireValue, WireWriter, list};
use crate::errors::PeerError;

/// Largest frame that the broker may send: ours have answers, no messages.
pub(super) const MAX_FRAME: u32 = 64 * 1024;
/// Longest text of an error that is kept, in characters.
const MAX_WORDS: usize = 300;
/// Smallest limit of frames that a peer may have.
const MIN_MAX_FRAME: u32 = 512;
/// Bytes of a frame before its body.
const HEAD: usize = 8;

#[derive(Debug)]
pub(super) enum PeerFrame {
    /// Nothing but a sign of life.
    Empty,
    /// A performative on a channel.
    Of(u16, Performative),
    /// The mechanisms that the broker takes.
    Mechanisms(Vec<String>),
    /// The outcome of the login; 0 is success.
    LoginOutcome(u64),
    /// The broker asks for more than one answer.
    Challenge,
}

#[derive(Debug)]
pub(super) enum Performative {
    Open(PeerOpen),
    Begin { of: Option<u16>, window: u32 },
    Attach { has_target: bool, max_message: u64 },
    Flow(PeerFlow),
    Disposition(PeerDisposition),
    Detach(PeerError),
    End(PeerError),
    Close(PeerError),
}

/// The broker's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PeerOpen {
    /// Largest frame that it takes.
    pub(super) max_frame: u32,
    pub(super) channel_max: u16,
    /// Time within which it wants to hear from us.
    pub(super) idle: Option<Duration>,
    /// Whether it delivers messages that name their address themselves.
    pub(super) relays: bool,
    /// Whether it is known to accept messages that no queue takes.
    pub(super) accepts_unroutable: bool,
}

/// Windows and credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerFlow {
    pub(super) next_incoming: Option<u32>,
    pub(super) incoming_window: u32,
    /// The link's count of deliveries, and the credit from there on; absent if the flow is of the session alone.
    pub(super) credit: Option<(u32, u32)>,
    pub(super) drain: bool,
    pub(super) echo: bool,
}

/// The outcome of a range of deliveries.
#[derive(Debug)]
pub(super) struct PeerDisposition {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) settled: bool,
    pub(super) outcome: DeliveryOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    Accepted,
    Rejected(PeerError),
    Released,
    Modified {
        undeliverable_here: bool,
    },
    /// Nothing final.
    None,
    /// An outcome that the protocol does not have.
    Other,
}

/// Takes the first frame out of the buffer; `None` if it is not complete.
pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<PeerFrame>, NotAmqp> {
    let Some((size, rest)) = buffer.split_first_chunk::<4>() else { return Ok(None) };
    let size = u32::from_be_bytes(*size);
    if !(HEAD as u32..=MAX_FRAME).contains(&size) {
        return Err(NotAmqp("a frame of an impossible size"));
    }
    if rest.len() + 4 < size as usize {
        return Ok(None);
    }
    let mut frame = buffer.split_to(size as usize).freeze();
    let offset = usize::from(frame[4]) * 4;
    let kind = frame[5];
    let channel = u16::from_be_bytes([frame[6], frame[7]]);
    if offset < HEAD || offset > frame.len() {
        return Err(NotAmqp("a frame with an impossible head"));
    }
    frame.advance(offset);
    match kind {
        0 if frame.is_empty() => Ok(Some(PeerFrame::Empty)),
        0 => performative(&mut frame).map(|read| Some(PeerFrame::Of(channel, read))),
        1 => login(&mut frame).map(Some),
        _ => Err(NotAmqp("a frame of no known type")),
    }
}

fn login(frame: &mut Bytes) -> Result<PeerFrame, NotAmqp> {
    let value = WireValue::take(frame)?;
    let fields = value.fields()?;
    match value.descriptor {
        Some(0x40) => Ok(PeerFrame::Mechanisms(fields.get(0).map(WireValue::symbols).unwrap_or_default())),
        Some(0x42) => Ok(PeerFrame::Challenge),
        Some(0x44) => {
            let outcome = fields.get(0).and_then(WireValue::number).ok_or(NotAmqp("a login without an outcome"))?;
            Ok(PeerFrame::LoginOutcome(outcome))
        }
        _ => Err(NotAmqp("a frame that does not belong to a login")),
    }
}

fn performative(frame: &mut Bytes) -> Result<Performative, NotAmqp> {
    let value = WireValue::take(frame)?;
    let fields = value.fields()?;
    let number = |place, missing| fields.get(place).and_then(WireValue::number).unwrap_or(missing);
    Ok(match value.descriptor {
        Some(0x10) => Performative::Open(PeerOpen {
            max_frame: fields.uint(2).unwrap_or(u32::MAX).max(MIN_MAX_FRAME),
            channel_max: u16::try_from(number(3, u64::from(u16::MAX))).unwrap_or(u16::MAX),
            idle: fields.uint(4).filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms.into())),
            relays: fields.get(7).is_some_and(|offered| offered.symbols().iter().any(|word| word == "ANONYMOUS-RELAY")),
            accepts_unroutable: fields.get(9).is_some_and(accepts_unroutable),
        }),
        Some(0x11) => Performative::Begin {
            of: fields.get(0).and_then(WireValue::number).and_then(|channel| u16::try_from(channel).ok()),
            window: fields.uint(2).unwrap_or(0),
        },
        Some(0x12) => Performative::Attach { has_target: fields.get(6).is_some(), max_message: number(10, 0) },
        Some(0x13) => {
            // A link without a count has not been given one: it is where it began.
            let credit = fields.uint(6).map(|credit| (fields.uint(5).unwrap_or(0), credit));
            Performative::Flow(PeerFlow {
                next_incoming: fields.uint(0),
                incoming_window: fields.uint(1).unwrap_or(0),
                credit: credit.filter(|_| fields.get(4).is_some()),
                drain: fields.flag(8),
                echo: fields.flag(9),
            })
        }
        Some(0x15) => {
            let first = fields.uint(1).ok_or(NotAmqp("an outcome of no delivery"))?;
            let outcome = fields.get(4).map_or(Ok(DeliveryOutcome::None), outcome)?;
            let settled = fields.flag(3);
            Performative::Disposition(PeerDisposition {
                first,
                last: fields.uint(2).unwrap_or(first),
                settled,
                outcome,
            })
        }
        Some(0x16) => Performative::Detach(error(&fields, 2)),
        Some(0x17) => Performative::End(error(&fields, 0)),
        Some(0x18) => Performative::Close(error(&fields, 0)),
        _ => return Err(NotAmqp("a frame that no sender expects")),
    })
}

/// Returns whether the properties of a broker are those of RabbitMQ before version 4, whose plugin knows no *released*.
fn accepts_unroutable(properties: &WireValue) -> bool {
    let version = properties.entry("version").unwrap_or_default();
    properties.entry("product").as_deref() == Some("RabbitMQ") && version.starts_with("3.")
}

fn outcome(value: &WireValue) -> Result<DeliveryOutcome, NotAmqp> {
    let fields = value.fields()?;
    Ok(match value.descriptor {
        Some(0x23) => DeliveryOutcome::None,
        Some(0x24) => DeliveryOutcome::Accepted,
        Some(0x25) => DeliveryOutcome::Rejected(error(&fields, 0)),
        Some(0x26) => DeliveryOutcome::Released,
        Some(0x27) => DeliveryOutcome::Modified { undeliverable_here: fields.flag(1) },
        _ => DeliveryOutcome::Other,
    })
}

/// Reads the error at this place. One that cannot be read is as good as none: the link or the connection ends either
/// way.
fn error(fields: &WireFields, place: usize) -> PeerError {
    let Some(Ok(fields)) = fields.get(place).map(WireValue::fields) else { return PeerError::default() };
    // A range of deliveries has one error, of which each of them gets a copy.
    let text = |place: usize| {
        let text = fields.get(place).and_then(WireValue::text).unwrap_or_default();
        text.chars().take(MAX_WORDS).collect()
    };
    PeerError { condition: text(0), description: text(1) }
}

/// Puts a frame at the end whose body is written by `body`.
pub(super) fn frame(out: &mut BytesMut, kind: u8, channel: u16, body: impl FnOnce(&mut BytesMut)) {
    let begin = out.len();
    out.put_u32(0);
    out.put_slice(&[2, kind]);
    out.put_u16(channel);
    body(out);
    let size = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&size.to_be_bytes());
}

/// Puts a performative at the end.
fn put(out: &mut BytesMut, channel: u16, descriptor: u8, fields: impl FnOnce(&mut WireWriter<'_>)) {
    frame(out, 0, channel, |out| list(out, descriptor, fields));
}

/// Writes an empty frame, as a sign of life.
pub(super) fn empty(out: &mut BytesMut) {
    frame(out, 0, 0, |_| {});
}

/// Writes the choice of a mechanism, with its first answer.
pub(super) fn sasl_init(out: &mut BytesMut, mechanism: &str, response: &[u8], hostname: &str) {
    frame(out, 1, 0, |out| {
        list(out, 0x41, |list| {
            list.symbol(mechanism).binary(response).text(hostname);
        });
    });
}

/// Writes our description of ourselves.
pub(super) fn open(out: &mut BytesMut, container: &str, hostname: &str, heartbeat: Duration) {
    let idle = u32::try_from(heartbeat.as_millis()).unwrap_or(u32::MAX);
    put(out, 0, 0x10, |list| {
        list.text(container).text(hostname).uint(MAX_FRAME).ushort(u16::MAX).uint(idle);
    });
}

pub(super) fn begin(out: &mut BytesMut, channel: u16) {
    // Nothing comes in; what goes out is bounded by credit.
    put(out, channel, 0x11, |list| {
        list.null().uint(0).uint(2048).uint(i32::MAX as u32);
    });
}

/// Writes the attachment of a link to an address, or to the anonymous terminus. Handle 0: each session has one.
pub(super) fn attach(out: &mut BytesMut, channel: u16, name: &str, address: Option<&str>) {
    put(out, channel, 0x12, |attach| {
        // Role sender, every delivery unsettled, the broker settles with the outcome.
        attach.text(name).uint(0).flag(false).ubyte(0).ubyte(0);
        attach.list(0x28, |source| {
            source.text("delaybridge");
        });
        attach.list(0x29, |target| {
            if let Some(address) = address {
                target.text(address);
            }
        });
        attach.nulls(2).uint(0);
    });
}

/// Writes the state of our end of a session and its link.
pub(super) fn flow(out: &mut BytesMut, channel: u16, (next_outgoing, count, credit): (u32, u32, u32), drain: bool) {
    put(out, channel, 0x13, |flow| {
        flow.uint(0).uint(2048).uint(next_outgoing).uint(i32::MAX as u32).uint(0).uint(count).uint(credit);
        flow.uint(0).flag(drain);
    });
}

/// Writes our own settlement of deliveries whose outcome the broker has not settled.
pub(super) fn settle(out: &mut BytesMut, channel: u16, first: u32, last: u32) {
    put(out, channel, 0x15, |list| {
        list.flag(false).uint(first).uint(last).flag(true);
    });
}

/// Writes the end of a link.
pub(super) fn detach(out: &mut BytesMut, channel: u16) {
    put(out, channel, 0x16, |list| {
        list.uint(0).flag(true);
    });
}

pub(super) fn end(out: &mut BytesMut, channel: u16) {
    put(out, channel, 0x17, |_| {});
}

/// Writes the end of the connection.
pub(super) fn close(out: &mut BytesMut) {
    put(out, 0, 0x18, |_| {});
}

/// Writes the head of a part of a delivery: it names the delivery, and `more` says whether another part follows.
pub(super) fn transfer(out: &mut BytesMut, delivery: u32, more: bool) {
    list(out, 0x14, |list| {
        list.uint(0).uint(delivery).binary(&delivery.to_be_bytes()).uint(0).flag(false).flag(more);
    });
}

/// Returns the most bytes of a message that fit behind [`transfer`] in a frame of this size.
pub(super) fn room(max_frame: u32) -> usize {
    // Head, descriptor, list, and six fields of their largest size.
    (max_frame as usize).saturating_sub(HEAD + 3 + 9 + 2 + 5 + 6 + 2 + 1 + 1)
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
