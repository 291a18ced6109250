//! Finds frames in what a broker sends, measures them before the client library believes them, and replaces what it cannot
//! read. Pure.
//!
//! A method keeps its layout: bytes that are no UTF-8 become `?`. Properties become a table with one header, [`UNREADABLE`], in
//! the frame of the same body. A message that is too large keeps its properties with one header more, [`TOO_LARGE`], and loses its
//! body; one of ours that came back keeps its id alone. Everything else passes byte by byte, or ends the connection.

use std::collections::BTreeSet;
use std::str;

use super::arriving::Arriving;
use super::expected::{BODY, Content, Expected, Fate, HEADER, METHOD};
use super::table::{self, Rest, readable};
use super::{TOO_LARGE, UNREADABLE, Violation};

/// The type of a frame without a content.
const HEARTBEAT: u8 = 8;
/// Type, channel and size in front of a frame.
pub(super) const HEAD: usize = 7;
/// The byte behind a frame.
const END: u8 = 0xce;
/// Bytes of a frame that are not its payload.
const AROUND: usize = HEAD + 1;
/// Bytes of a header frame in front of its properties: class, weight, size of the body.
const BEFORE_PROPERTIES: usize = 12;
/// Tables and lists within each other in the properties of a broker: the library reads them by recursion. RabbitMQ has two.
const DEEPEST_OF_BROKER: usize = 32;

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
/// The methods that a broker sends, by class. The library reads those of clients as well, with tables in them.
const OF_BROKERS: [(u16, &[u16]); 8] = [
    (10, &[10, 20, 30, 41, 50, 51, 60, 61, 71]),
    (20, &[11, 20, 21, 40, 41]),
    (30, &[11]),
    (40, &[11, 21, 31, 51]),
    (50, &[11, 21, 31, 41, 51]),
    (BASIC, &[11, 21, 30, 31, 50, 60, 71, 72, 80, 111, 120]),
    (85, &[11]),
    (90, &[11, 21, 31]),
];
/// The first method of a connection, with the properties of the broker.
const START: [u16; 2] = [10, 10];

/// The frames that come on one connection.
#[derive(Debug)]
pub(super) struct Frames {
    /// The size of the largest payload of a frame.
    largest: usize,
    /// The beginning of a frame that has not come whole.
    held: Vec<u8>,
    /// Bytes that pass, or are left out, before the next frame begins.
    passing: usize,
    leaves_out: bool,
    /// Whether a frame has come.
    begun: bool,
    /// Whether these are no frames: the broker speaks another protocol, and the library says so.
    foreign: bool,
    /// The channels with a message whose address was replaced and whose properties have not come yet.
    replaced: BTreeSet<u16>,
}

impl Frames {
    /// Creates the filter for the frames of a connection on which none is larger than `frame_max`.
    pub(super) fn new(frame_max: u32) -> Frames {
        Frames {
            largest: (frame_max as usize).saturating_sub(AROUND),
            held: Vec::new(),
            passing: 0,
            leaves_out: false,
            begun: false,
            foreign: false,
            replaced: BTreeSet::new(),
        }
    }

    /// Takes bytes in, and appends to `out` what the library may read of them. An error ends the connection.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        expected: &mut Expected,
        arriving: &Arriving,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        while !bytes.is_empty() {
            if self.foreign {
                out.extend(bytes);
                return Ok(());
            }
            if self.passing > 0 {
                let (pass, rest) = bytes.split_at(self.passing.min(bytes.len()));
                if !self.leaves_out {
                    out.extend(pass);
                }
                self.passing -= pass.len();
                bytes = rest;
                continue;
            }
            let whole = self.size().map_or(HEAD, |size| HEAD + size + 1);
            let (more, rest) = bytes.split_at((whole - self.held.len()).min(bytes.len()));
            self.held.extend(more);
            bytes = rest;
            match (self.held.first(), self.size()) {
                (Some(&(METHOD | HEADER | BODY | HEARTBEAT)), Some(size)) if size > self.largest => {
                    let size = size + AROUND;
                    let most = self.largest + AROUND;
                    return Err(Violation(format!("it has sent a frame of {size} bytes, above frame_max of {most}")));
                }
                (Some(&(METHOD | HEADER)), Some(size)) => {
                    if self.held.len() == HEAD + size + 1 {
                        self.begun = true;
                        let frame = std::mem::take(&mut self.held);
                        self.replace(&frame, expected, arriving, out)?;
                        // The memory of a frame serves the next one.
                        self.held = frame;
                        self.held.clear();
                    }
                }
                (Some(&kind @ (BODY | HEARTBEAT)), Some(size)) => {
                    self.begun = true;
                    self.passing = size + 1;
                    self.leaves_out = kind == BODY && !body(channel(&self.held), size, expected, arriving)?;
                    if self.leaves_out {
                        self.held.clear();
                    }
                    out.append(&mut self.held);
                }
                (Some(&(METHOD | HEADER | BODY | HEARTBEAT)) | None, None) => {}
                _ if self.begun => return Err(Violation("it has sent what is no frame".to_owned())),
                _ => {
                    self.foreign = true;
                    out.append(&mut self.held);
                }
            }
        }
        Ok(())
    }

    /// Returns the size of the frame that has begun, once its head is there.
    fn size(&self) -> Option<usize> {
        let size = self.held.get(3..HEAD)?;
        usize::try_from(u32::from_be_bytes(size.try_into().ok()?)).ok()
    }

    /// Appends a frame with a method or properties.
    fn replace(
        &mut self,
        frame: &[u8],
        expected: &mut Expected,
        arriving: &Arriving,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let (head, rest) = frame.split_at(HEAD);
        let payload = &rest[..rest.len() - 1];
        let channel = channel(head);
        let replaced = match head[0] {
            METHOD => {
                let number = checked(payload)?;
                if expected.method(channel, number, &payload[4..])? == Fate::Drop {
                    return Ok(());
                }
                let method = method(payload);
                if method.is_some() && number[0] == BASIC {
                    self.replaced.insert(channel);
                }
                method
            }
            _ => {
                let whole = !self.replaced.remove(&channel);
                self.properties(channel, payload, whole, expected, arriving)?
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
        Ok(())
    }

    /// Rewrites the payload of a header of which the library may not have all; `None` if it may stay.
    fn properties(
        &self,
        channel: u16,
        payload: &[u8],
        whole: bool,
        expected: &mut Expected,
        arriving: &Arriving,
    ) -> Result<Option<Vec<u8>>, Violation> {
        let Some((before, properties)) = payload.split_at_checked(BEFORE_PROPERTIES) else {
            return Err(Violation("it has sent a header without the size of its body".to_owned()));
        };
        let size = before[4..].iter().fold(0, |size, byte| size << 8 | u64::from(*byte));
        let may_pass = |content| content == Content::Message && arriving.takes(size);
        let (content, passes) = expected.header(channel, size, may_pass)?;
        // The body of a message of ours is known, and nothing but its id is asked for.
        let without_body = [&before[..4], &[0; 8]].concat();
        Ok(match content {
            Content::Return => Some([without_body, table::id_alone(properties)].concat()),
            Content::Message if whole && readable(properties) => (!passes).then(|| {
                let marked = table::with_header(properties, TOO_LARGE);
                let fits = marked.len() + BEFORE_PROPERTIES <= self.largest;
                [without_body, if fits { marked } else { table::header_alone(TOO_LARGE) }].concat()
            }),
            Content::Message => {
                let before = if passes { before.to_vec() } else { without_body };
                Some([before, table::header_alone(UNREADABLE)].concat())
            }
        })
    }
}

/// Returns the channel in the head of a frame.
fn channel(head: &[u8]) -> u16 {
    u16::from_be_bytes([head[1], head[2]])
}

/// Returns whether a part of a body passes.
fn body(channel: u16, size: usize, expected: &mut Expected, arriving: &Arriving) -> Result<bool, Violation> {
    let part = expected.body(channel, size as u64)?;
    arriving.arrived(part.message);
    Ok(part.passes)
}

/// Reads the number of a method that brokers send, and that the library can read.
fn checked(payload: &[u8]) -> Result<[u16; 2], Violation> {
    let mut rest = Rest(payload);
    let (Some(class), Some(method)) = (rest.short_int(), rest.short_int()) else {
        return Err(Violation("it has sent a method without a number".to_owned()));
    };
    if !OF_BROKERS.iter().any(|(known, methods)| *known == class && methods.contains(&method)) {
        return Err(Violation(format!("it has sent the method {class}.{method}, which no broker sends")));
    }
    let mut is_readable = || table::is_table(rest.take(2).and_then(|_| rest.long())?, DEEPEST_OF_BROKER);
    if [class, method] == START && is_readable().is_none() {
        let text = format!("its properties cannot be read, or have tables more than {DEEPEST_OF_BROKER} deep");
        return Err(Violation(text));
    }
    Ok([class, method])
}

/// Returns a method whose texts are none, with texts; `None` if it is readable, or not one of these.
fn method(payload: &[u8]) -> Option<Vec<u8>> {
    let mut rest = Rest(payload);
    let method = [rest.short_int()?, rest.short_int()?];
    let (_, parts) = METHODS.iter().find(|(known, _)| *known == method)?;
    let mut replaced = None;
    for part in *parts {
        match part {
            Part::Bytes(count) => {
                let _ = rest.take(*count)?;
            }
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

/// Replaces each byte that is no text by a question mark: the length stays.
fn with_question_marks(text: &[u8]) -> Vec<u8> {
    let chunks = text.utf8_chunks();
    chunks.flat_map(|chunk| chunk.valid().bytes().chain(chunk.invalid().iter().map(|_| b'?'))).collect()
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
        sized(channel, 0, properties)
    }

    fn sized(channel: u16, size: u64, properties: &[u8]) -> Vec<u8> {
        frame(HEADER, channel, &[&[0, 60, 0, 0][..], &size.to_be_bytes(), properties].concat())
    }

    fn unreadable(channel: u16) -> Vec<u8> {
        header(channel, b"\x20\0\0\0\0\x18\x16delaybridge-unreadableV")
    }

    /// Returns a connection with these channels, on each of which a message was sent, and ten may be consumed.
    fn opened(channels: &[u16]) -> Expected {
        let mut expected = Expected::default();
        for channel in channels {
            expected.sent(METHOD, *channel, 5, &[0, 20, 0, 10, 0]);
            expected.sent(METHOD, *channel, 11, &[0, 60, 0, 10, 0, 0, 0, 0, 0, 10, 0]);
            expected.sent(METHOD, *channel, 30, &[0, 60, 0, 20, 0, 0]);
            expected.sent(HEADER, *channel, 14, &[0; 13]);
        }
        expected
    }

    /// Returns the frames as they come out when this many bytes come in at a time, with messages of up to 8 bytes.
    fn passed(frames: &[Vec<u8>], at_once: usize) -> Result<Vec<u8>, Violation> {
        let mut reader = Frames::new(4096);
        let mut expected = opened(&[1, 2, 3, 7]);
        let mut out = Vec::new();
        let arriving = Arriving::default();
        arriving.allow(8, 1 << 20);
        for bytes in frames.concat().chunks(at_once) {
            reader.take(bytes, &mut expected, &arriving, &mut out)?;
        }
        Ok(out)
    }

    fn through(frames: &[Vec<u8>], at_once: usize) -> Vec<u8> {
        passed(frames, at_once).unwrap()
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
            sized(1, 4, &[0x80, 0, 1, b'a']),
            frame(BODY, 1, b""),
            frame(METHOD, 0, &[0, 10, 0, 30, 0xff]),
            frame(BODY, 1, b"\xff\xce\x01\0"),
        ];
        check(&all, &all);
        check(&[b"AMQP\0\0\x09\x01AMQP".to_vec()], &[b"AMQP\0\0\x09\x01AMQP".to_vec()]);
        // A method that is shorter than its arguments is the library's to refuse.
        let short = [frame(METHOD, 1, &[0, 20, 0, 40, 3, b'\xff'])];
        check(&short, &short);
    }

    #[test]
    fn properties_that_cannot_be_read_are_marked_and_the_body_stays() {
        let deliver = deliver(7, b"", b"k");
        let body = frame(BODY, 7, b"body");
        let marked = sized(7, 4, &unreadable(7)[HEAD + BEFORE_PROPERTIES..][..30]);
        check(&[deliver.clone(), sized(7, 4, &[0x80, 0, 1, 0xff]), body.clone()], &[deliver, marked, body]);
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
        check(&[close("no exchange ü".as_bytes())], &[close("no exchange ü".as_bytes())]);
    }

    #[test]
    fn a_message_that_is_too_large_keeps_its_properties_and_loses_its_body() {
        let text = [&[0x80, 0x80, 1, b'a'][..], b"\x02id"].concat();
        let marked = table::with_header(&text, TOO_LARGE);
        let body = [frame(BODY, 1, b"12345"), frame(BODY, 1, b"6789")].concat();
        let next = [deliver(1, b"", b"k"), sized(1, 4, &text), frame(BODY, 1, b"body")].concat();
        check(
            &[deliver(1, b"", b"k"), sized(1, 9, &text), body.clone(), next.clone()],
            &[deliver(1, b"", b"k"), sized(1, 0, &marked), next],
        );
        // One that could not be read is not read either.
        check(&[deliver(1, b"", b"k"), sized(1, 9, b"\x80\0\x01\xff"), body], &[deliver(1, b"", b"k"), unreadable(1)]);
    }

    #[test]
    fn of_a_message_that_came_back_only_its_id_is_read() {
        let back = frame(METHOD, 2, b"\0\x3c\0\x32\x01\x38\x08NO_ROUTE\x01e\x01k");
        let properties = [&[0x80, 0x80, 1, b'a'][..], b"\x02id"].concat();
        check(
            &[back.clone(), sized(2, 1 << 40, &properties), frame(BODY, 2, &[b'a'; 4000])],
            &[back, sized(2, 0, b"\0\x80\x02id")],
        );
    }

    #[test]
    fn what_no_broker_sends_ends_the_connection() {
        let table = |depth: usize| {
            (0..depth).fold(Vec::new(), |inner: Vec<u8>, _| {
                [&b"\x01nF"[..], &(inner.len() as u32).to_be_bytes(), &inner].concat()
            })
        };
        let start = |depth: usize| {
            let table = table(depth);
            frame(METHOD, 0, &[&[0, 10, 0, 10, 0, 9][..], &(table.len() as u32).to_be_bytes(), &table].concat())
        };
        for (frames, ends) in [
            (vec![start(DEEPEST_OF_BROKER)], false),
            (vec![start(DEEPEST_OF_BROKER + 2)], true),
            // The library reads the tables of clients too: queue.declare.
            (vec![frame(METHOD, 1, &[0, 50, 0, 10, 0, 0, 0, 0, 0, 0, 0])], true),
            (vec![frame(METHOD, 1, &[0, 10])], true),
            (vec![frame(HEADER, 1, &[0, 60, 0, 0])], true),
            (vec![frame(HEARTBEAT, 0, &[0; 4096 - AROUND])], false),
            (vec![frame(HEARTBEAT, 0, &[0; 4097 - AROUND])], true),
            (vec![[&[BODY, 0, 1][..], &[0xff; 4]].concat()], true),
            (vec![frame(HEARTBEAT, 0, b""), b"HTTP/1.1".to_vec()], true),
            (vec![b"HTTP/1.1 400 Bad Request".to_vec()], false),
        ] {
            for at_once in [1, 13, 1 << 20] {
                assert_eq!(passed(&frames, at_once).is_err(), ends, "{frames:02x?}");
            }
        }
    }
}
