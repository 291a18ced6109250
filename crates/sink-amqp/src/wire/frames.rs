//! Finds frames in a stream of bytes, and replaces what the client library cannot read. Pure.
//!
//! A method keeps its layout: bytes that are no UTF-8 become `?`. Properties become a table with one header, [`UNREADABLE`], in
//! the frame of the same body. Everything else passes byte by byte.

use std::collections::BTreeSet;
use std::str;

use super::table::{Rest, readable};

/// The header of a message of which a part was replaced: the message itself is not what the broker has.
pub(crate) const UNREADABLE: &str = "delaybridge-unreadable";

/// Types of frames.
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
/// Type, channel and size in front of a frame.
const HEAD: usize = 7;
/// The byte behind a frame.
const END: u8 = 0xce;
/// Maximum size of a frame that is examined, in bytes. A larger one passes unchanged: it is above every size that a broker
/// offers by default, and the library refuses it.
const LARGEST: usize = 16 << 20;
/// Bytes of a header frame in front of its properties: class, weight, size of the body.
const BEFORE_PROPERTIES: usize = 12;

/// A part of a method's arguments.
#[derive(Clone, Copy)]
enum Part {
    Short,
    Bytes(usize),
}

/// The methods with texts of strangers in them: class and number, and the arguments up to the last of these texts. A broker
/// cuts its own texts at 255 bytes, in the middle of a character too.
const METHODS: [([u16; 2], &[Part]); 6] = [
    // connection.close, connection.blocked, channel.close
    ([10, 50], &[Part::Bytes(2), Part::Short]),
    ([10, 60], &[Part::Short]),
    ([20, 40], &[Part::Bytes(2), Part::Short]),
    // basic.return, basic.deliver, basic.get-ok
    ([60, 50], &[Part::Bytes(2), Part::Short, Part::Short, Part::Short]),
    ([60, 60], &[Part::Short, Part::Bytes(9), Part::Short, Part::Short]),
    ([60, 71], &[Part::Bytes(9), Part::Short, Part::Short]),
];
/// The class of methods that a message follows.
const BASIC: u16 = 60;

/// The frames of one connection.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The beginning of a frame that has not come whole.
    held: Vec<u8>,
    /// Bytes that pass before the next frame begins.
    passing: usize,
    /// Whether these are no frames: the broker speaks another protocol, and the library says so.
    foreign: bool,
    /// The channels with a message whose address was replaced and whose properties have not come yet.
    replaced: BTreeSet<u16>,
}

impl Frames {
    /// Takes bytes in, and appends to `out` what the library may read of them.
    pub(super) fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if self.foreign {
                return out.extend(bytes);
            }
            if self.passing > 0 {
                let (pass, rest) = bytes.split_at(self.passing.min(bytes.len()));
                out.extend(pass);
                self.passing -= pass.len();
                bytes = rest;
                continue;
            }
            let whole = self.size().map_or(HEAD, |size| HEAD + size + 1);
            let (more, rest) = bytes.split_at((whole - self.held.len()).min(bytes.len()));
            self.held.extend(more);
            bytes = rest;
            match (self.held.first(), self.size()) {
                (Some(&(METHOD | HEADER)), Some(size)) if size <= LARGEST => {
                    if self.held.len() == HEAD + size + 1 {
                        let frame = std::mem::take(&mut self.held);
                        self.replace(&frame, out);
                        // The memory of a frame serves the next one.
                        self.held = frame;
                        self.held.clear();
                    }
                }
                (Some(&(METHOD | HEADER | BODY | HEARTBEAT)), Some(size)) => {
                    self.passing = size + 1;
                    out.append(&mut self.held);
                }
                (Some(&(METHOD | HEADER | BODY | HEARTBEAT)) | None, None) => {}
                _ => {
                    self.foreign = true;
                    out.append(&mut self.held);
                }
            }
        }
    }

    /// The size of the frame that has begun, once its head is there.
    fn size(&self) -> Option<usize> {
        let size = self.held.get(3..HEAD)?;
        usize::try_from(u32::from_be_bytes(size.try_into().ok()?)).ok()
    }

    /// Appends a frame with a method or properties.
    fn replace(&mut self, frame: &[u8], out: &mut Vec<u8>) {
        let (head, rest) = frame.split_at(HEAD);
        let payload = &rest[..rest.len() - 1];
        let channel = u16::from_be_bytes([head[1], head[2]]);
        let replaced = match head[0] {
            METHOD => {
                let method = method(payload);
                if method.is_some() && payload.starts_with(&BASIC.to_be_bytes()) {
                    self.replaced.insert(channel);
                }
                method
            }
            _ => {
                let whole = !self.replaced.remove(&channel);
                properties(payload, whole)
            }
        };
        match replaced {
            None => out.extend(frame),
            Some(payload) => {
                out.extend(&head[..3]);
                out.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
                out.extend(payload);
                out.push(END);
            }
        }
    }
}

/// A method whose texts are none, with texts; `None` if it is readable, or not one of these.
fn method(payload: &[u8]) -> Option<Vec<u8>> {
    let mut rest = Rest(payload);
    let method = [rest.short_int()?, rest.short_int()?];
    let (_, parts) = METHODS.iter().find(|(known, _)| *known == method)?;
    let mut replaced = None;
    for part in *parts {
        match part {
            Part::Bytes(count) => drop(rest.take(*count)?),
            Part::Short => {
                let text = rest.short()?;
                if str::from_utf8(text).is_err() {
                    let end = payload.len() - rest.0.len();
                    let to: &mut Vec<u8> = replaced.get_or_insert_with(|| payload.to_vec());
                    to[end - text.len()..end].copy_from_slice(&with_question_marks(text));
                }
            }
        }
    }
    replaced
}

/// The text with a question mark for each byte that is none: of the same length.
fn with_question_marks(text: &[u8]) -> Vec<u8> {
    let chunks = text.utf8_chunks();
    chunks.flat_map(|chunk| chunk.valid().bytes().chain(chunk.invalid().iter().map(|_| b'?'))).collect()
}

/// The frame of properties that cannot be read, or of a message that is not whole; `None` if it may stay.
fn properties(payload: &[u8], whole: bool) -> Option<Vec<u8>> {
    let (before, properties) = payload.split_at_checked(BEFORE_PROPERTIES)?;
    if whole && readable(properties) {
        return None;
    }
    // One header without a value: its name and the letter of its type.
    let entry = [&[UNREADABLE.len() as u8], UNREADABLE.as_bytes(), b"V"].concat();
    let headers_alone = 0x2000_u16.to_be_bytes();
    Some([before, &headers_alone, &(entry.len() as u32).to_be_bytes(), &entry].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
        [&[kind][..], &channel.to_be_bytes(), &(payload.len() as u32).to_be_bytes(), payload, &[END]].concat()
    }

    fn deliver(channel: u16, exchange: &[u8], key: &[u8]) -> Vec<u8> {
        let short = |text: &[u8]| [&[text.len() as u8], text].concat();
        frame(
            METHOD,
            channel,
            &[&[0, 60, 0, 60][..], &short(b"tag"), &[0, 0, 0, 0, 0, 0, 0, 9, 1], &short(exchange), &short(key)]
                .concat(),
        )
    }

    fn header(channel: u16, properties: &[u8]) -> Vec<u8> {
        frame(HEADER, channel, &[&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4][..], properties].concat())
    }

    fn unreadable(channel: u16) -> Vec<u8> {
        header(channel, b"\x20\0\0\0\0\x18\x16delaybridge-unreadableV")
    }

    /// The frames as they come out when this many bytes come in at a time.
    fn through(frames: &[Vec<u8>], at_once: usize) -> Vec<u8> {
        let (mut reader, mut out) = (Frames::default(), Vec::new());
        frames.concat().chunks(at_once).for_each(|bytes| reader.take(bytes, &mut out));
        out
    }

    fn check(frames: &[Vec<u8>], expected: &[Vec<u8>]) {
        for at_once in [1, 2, 7, 8, 13, 1 << 20] {
            assert_eq!(through(frames, at_once), expected.concat(), "{at_once} bytes at a time");
        }
    }

    #[test]
    fn what_the_library_can_read_passes_byte_by_byte() {
        let all = [
            frame(HEARTBEAT, 0, b""),
            deliver(1, b"delayed", "ü".as_bytes()),
            header(1, &[0x80, 0, 1, b'a']),
            frame(BODY, 1, b"\xff\xce\x01\0"),
            frame(METHOD, 0, &[0, 10, 0, 10, 0xff]),
            frame(BODY, 1, b""),
        ];
        check(&all, &all);
        check(&[b"AMQP\0\0\x09\x01AMQP".to_vec()], &[b"AMQP\0\0\x09\x01AMQP".to_vec()]);
        // A method that is shorter than its arguments is the library's to refuse.
        let short = [frame(METHOD, 1, &[0, 60, 0, 60, 3, b'\xff'])];
        check(&short, &short);
    }

    #[test]
    fn properties_that_cannot_be_read_are_marked_and_the_body_stays() {
        let body = frame(BODY, 7, b"body");
        check(&[header(7, &[0x80, 0, 1, 0xff]), body.clone()], &[unreadable(7), body]);
    }

    #[test]
    fn an_address_that_is_no_text_marks_the_message_of_its_channel_and_no_other() {
        let good = header(2, &[0, 0]);
        check(
            &[
                deliver(1, b"\xffx", b"k"),
                deliver(2, b"", b""),
                good.clone(),
                header(1, &[0, 0]),
                deliver(1, b"", b""),
                header(1, &[0, 0]),
            ],
            &[
                deliver(1, b"?x", b"k"),
                deliver(2, b"", b""),
                good,
                unreadable(1),
                deliver(1, b"", b""),
                header(1, &[0, 0]),
            ],
        );
    }

    #[test]
    fn the_reason_of_a_close_that_was_cut_within_a_character_is_a_text() {
        let close = |text: &[u8]| {
            frame(METHOD, 3, &[&[0, 20, 0, 40, 1, 0x94, text.len() as u8][..], text, &[0, 60, 0, 40]].concat())
        };
        check(&[close(b"no exchange \xc3...")], &[close(b"no exchange ?...")]);
        check(
            &[close("no exchange ü".as_bytes()), header(3, &[0, 0])],
            &[close("no exchange ü".as_bytes()), header(3, &[0, 0])],
        );
    }
}
