//! The protocol of NATS: what the server sends, taken out of a buffer; what we send, put at the end of one. Pure.
//!
//! Nothing that the server sends is believed to be small: a line and a message have a limit each.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

use delaybridge_sink::Outbound;
use delaybridge_sink::headers::{IdText, Standard, is_standard};

/// Longest line: the one that lists the servers of a cluster, and any other one.
const MAX_INFO: usize = 64 << 10;
const MAX_LINE: usize = 4 << 10;
/// Largest message: they are answers to questions of ours.
const MAX_MESSAGE: usize = 1 << 20;

/// A line of the server, with the message behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerOp {
    /// The server describes itself, in JSON.
    Info(Bytes),
    /// A message to a subject that we listen to.
    Message(Inbound),
    /// The server asks whether we are there.
    Ping,
    /// The answer to our own `PING`.
    Pong,
    /// A refusal that does not say what is refused.
    Refused(String),
    /// Anything else that needs no answer.
    Nothing,
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inbound {
    /// The last word of its subject, if that is a number of ours.
    pub(super) number: Option<u64>,
    pub(super) status: Option<u16>,
    pub(super) body: Bytes,
}

/// The server does not speak the protocol; the text says where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotNats(pub(super) &'static str);

/// Takes the first line, and its message, out of the buffer; `None` if it is not complete.
pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<ServerOp>, NotNats> {
    let begins_info = buffer.first_chunk::<4>().is_some_and(|word| word.eq_ignore_ascii_case(b"INFO"));
    let longest = if begins_info { MAX_INFO } else { MAX_LINE };
    let Some(end) = buffer.iter().take(longest).position(|byte| *byte == b'\n') else {
        return if buffer.len() >= longest { Err(NotNats("a line without end")) } else { Ok(None) };
    };
    let line = buffer[..end].trim_ascii_end();
    let word_end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let (word, rest) = line.split_at(word_end);
    let op = match word.to_ascii_uppercase().as_slice() {
        b"MSG" => return message(buffer, end, false),
        b"HMSG" => return message(buffer, end, true),
        b"INFO" => ServerOp::Info(Bytes::copy_from_slice(rest.trim_ascii())),
        b"PING" => ServerOp::Ping,
        b"PONG" => ServerOp::Pong,
        b"+OK" => ServerOp::Nothing,
        b"-ERR" => {
            let text = String::from_utf8_lossy(rest.trim_ascii());
            ServerOp::Refused(text.trim_matches('\'').to_owned())
        }
        _ => return Err(NotNats("a line that is none of the protocol")),
    };
    buffer.advance(end + 1);
    Ok(Some(op))
}

/// Parses `[H]MSG subject sid [reply] [header bytes] bytes`, then that many bytes and the end of the line.
fn message(buffer: &mut BytesMut, end: usize, with_header: bool) -> Result<Option<ServerOp>, NotNats> {
    const BAD: NotNats = NotNats("a message without its length");
    let line = std::str::from_utf8(&buffer[..end]).map_err(|_| BAD)?;
    let mut words = line.split_ascii_whitespace();
    let count = words.clone().count() - usize::from(with_header);
    let subject = words.nth(1).filter(|_| matches!(count, 4 | 5)).ok_or(BAD)?;
    let number = subject.rsplit('.').next().and_then(|word| u64::from_str_radix(word, 16).ok());
    let mut from_end = words.rev();
    let mut length = || from_end.next().and_then(|word| word.parse::<usize>().ok()).ok_or(BAD);
    let total = length()?;
    let header = if with_header { length()? } else { 0 };
    if total > MAX_MESSAGE {
        return Err(NotNats("a message that is larger than any answer"));
    }
    if header > total {
        return Err(BAD);
    }
    if buffer.len() < end + 1 + total + 2 {
        return Ok(None);
    }
    buffer.advance(end + 1);
    let mut message = buffer.split_to(total).freeze();
    buffer.advance(2);
    let status = status(&message.split_to(header));
    Ok(Some(ServerOp::Message(Inbound { number, status, body: message })))
}

/// Returns the status in the first line of a header, `NATS/1.0 503`.
fn status(header: &[u8]) -> Option<u16> {
    let line = header.split(|byte| *byte == b'\r').next()?;
    let rest = std::str::from_utf8(line).ok()?.strip_prefix("NATS/1.0")?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// The reason why a message cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// A header's value has a line break.
    Header,
    /// Headers and body together are so large, which is more than the server takes.
    Size(usize),
}

/// Puts the publication of an element at the end of the buffer. The answer comes to `inbox`, a dot and the number.
pub(super) fn publish(
    out: &mut BytesMut,
    message: &Outbound,
    subject: &str,
    (inbox, number): (&str, u64),
    max_payload: usize,
) -> Result<(), Unfit> {
    if message.headers.iter().any(|(_, value)| value.contains(['\r', '\n'])) {
        return Err(Unfit::Header);
    }
    let message_id = message_id(message, subject);
    let mut header = VERSION.len() + 2;
    each_header(message, &message_id, |name, value| header += name.len() + value.len() + 4);
    let total = header + message.body.len();
    if total > max_payload {
        return Err(Unfit::Size(total));
    }
    out.reserve(subject.len() + inbox.len() + 64 + total);
    out.extend_from_slice(format!("HPUB {subject} {inbox}.{number:x} {header} {total}\r\n").as_bytes());
    out.extend_from_slice(VERSION);
    each_header(message, &message_id, |name, value| {
        for part in [name, ": ", value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    });
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&message.body);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Returns the id by which a stream recognises what is sent again: the same for each attempt, and for nothing else.
///
/// The element's id alone is not enough. A stream drops repeats whatever their subject: two routes into one stream, or
/// an
/// element and its dead letter, would be one message. Two queues may have the same ids of their own, and a producer may
/// use one
/// again for another due time. So the due time is in it, and a hash of the queue, the subject and what a dead letter
/// says of
/// its cause.
fn message_id(message: &Outbound, subject: &str) -> String {
    let mut text = format!("{}\0{subject}", message.queue).into_bytes();
    for (name, value) in message.headers.iter().filter(|(name, _)| is_standard(name)) {
        text.extend_from_slice(format!("\0{name}\0{value}").as_bytes());
    }
    let id = IdText::of(&message.id);
    let due_ms = message.due_ms.unwrap_or(0);
    let place = xxh3_64(&text);
    format!("{}-{due_ms}-{place:016x}", id.as_str())
}

/// Passes the headers of an element to `take`: the id by which a stream knows repeats, the standard ones, the user's.
fn each_header(message: &Outbound, message_id: &str, mut take: impl FnMut(&str, &str)) {
    take("Nats-Msg-Id", message_id);
    for (name, value) in Standard::of(message).iter() {
        take(name, value);
    }
    for (name, value) in &message.headers {
        take(name, value);
    }
}

const VERSION: &[u8] = b"NATS/1.0\r\n";

/// Puts a question at the end of the buffer; the answer comes to `inbox`, a dot and the number.
pub(super) fn ask(out: &mut BytesMut, subject: &str, inbox: &str, number: u64, body: &[u8]) {
    out.put_slice(format!("PUB {subject} {inbox}.{number:x} {}\r\n", body.len()).as_bytes());
    out.put_slice(body);
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{anywhere, outbound};

    fn all(bytes: &[u8]) -> Result<Vec<ServerOp>, NotNats> {
        let mut buffer = BytesMut::from(bytes);
        let mut ops = Vec::new();
        while let Some(op) = take(&mut buffer)? {
            ops.push(op);
        }
        Ok(ops)
    }

    fn inbound(number: Option<u64>, status: Option<u16>, body: &'static str) -> ServerOp {
        ServerOp::Message(Inbound { number, status, body: body.into() })
    }

    #[test]
    fn what_the_server_sends_is_read() {
        let text = b"INFO {\"a\":1} \r\n+OK\r\nPING\r\npong\r\n-ERR 'Authorization Violation'\r\nMSG i.1f 1 5\r\nhello\r\n\
                     HMSG i.2 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\nHMSG i.x 1 r.e 12 14\r\nNATS/1.0\r\n\r\n{}\r\nMSG i.3 1 0\r\n\r\n";
        let expected = [
            ServerOp::Info("{\"a\":1}".into()),
            ServerOp::Nothing,
            ServerOp::Ping,
            ServerOp::Pong,
            ServerOp::Refused("Authorization Violation".to_owned()),
            inbound(Some(0x1f), None, "hello"),
            inbound(Some(2), Some(503), ""),
            inbound(None, None, "{}"),
            inbound(Some(3), None, ""),
        ];
        assert_eq!(all(text).unwrap(), expected);
        // However it is cut.
        for cut in 0..text.len() {
            let mut buffer = BytesMut::new();
            let mut ops = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                buffer.extend_from_slice(part);
                while let Some(op) = take(&mut buffer).unwrap() {
                    ops.push(op);
                }
            }
            assert_eq!(ops, expected, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_not_nats_ends_the_connection() {
        for text in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"\r\n", b"MSG a\r\n", b"MSG a 1 x\r\n", b"HMSG a 1 3\r\n"] {
            assert!(all(text).is_err(), "{text:?}");
        }
        for text in [&b"HMSG a 1 9 3\r\n"[..], b"MSG a 1 99999999999\r\n", b"MSG a 1 -1\r\n", b"MSG \xff 1 1\r\nx\r\n"]
        {
            assert!(all(text).is_err(), "{text:?}");
        }
        let line = |word: &[u8], length: usize| [word, &vec![b'x'; length - word.len()]].concat();
        for (line, is_none) in [
            (line(b"x", MAX_LINE), true),
            (line(b"-ERR '", MAX_LINE - 1), false),
            (line(b"info ", MAX_INFO - 1), false),
            (line(b"INFO ", MAX_INFO), true),
            (b"MSG a 1 1048577\r\n".to_vec(), true),
            (b"MSG a 1 1048576\r\n".to_vec(), false),
        ] {
            assert_eq!(all(&line).is_err(), is_none, "{} bytes", line.len());
        }
    }

    #[test]
    fn random_bytes_do_no_harm() {
        let mut random = fastrand::Rng::with_seed(7);
        let words: [&[u8]; 10] =
            [b"MSG ", b"HMSG ", b"a.1 ", b"1 ", b"12 ", b"\r\n", b"INFO {", b"NATS/1.0 503", b"-ERR '", b"\xff\n"];
        for _ in 0..20_000 {
            let mut buffer = BytesMut::new();
            for _ in 0..random.usize(1..12) {
                buffer.extend_from_slice(words[random.usize(..words.len())]);
            }
            while let Ok(Some(_)) = take(&mut buffer) {}
        }
    }

    #[test]
    fn a_publication_has_its_id_and_headers() {
        let mut message = outbound(0xab, anywhere(), "body");
        message.headers = vec![("tenant".into(), "t 1".to_owned())];
        let mut out = BytesMut::new();
        publish(&mut out, &message, "orders.eu", ("_INBOX.x", 31), 1000).unwrap();
        let id = message_id(&message, "orders.eu");
        let header = format!(
            "NATS/1.0\r\nNats-Msg-Id: {id}\r\ndelaybridge-id: 00000000000000ab\r\ndelaybridge-queue: q\r\n\
                      delaybridge-due-ms: 1000\r\ndelaybridge-attempt: 1\r\ntenant: t 1\r\n\r\n"
        );
        let length = header.len();
        let total = header.len() + 4;
        assert_eq!(out, format!("HPUB orders.eu _INBOX.x.1f {length} {total}\r\n{header}body\r\n"));
        let mut none = BytesMut::new();
        assert_eq!(publish(&mut none, &message, "orders.eu", ("i", 1), total), Ok(()));
        assert_eq!(publish(&mut none, &message, "orders.eu", ("i", 1), total - 1), Err(Unfit::Size(total)));
        message.headers[0].1 = "t\r\nNats-Rollup: all".to_owned();
        none.clear();
        assert_eq!(publish(&mut none, &message, "s", ("i", 1), 1000), Err(Unfit::Header));
        assert!(none.is_empty());
    }

    #[test]
    fn the_id_is_the_same_for_each_attempt_and_for_nothing_else() {
        let message = outbound(0xab, anywhere(), "body");
        let id = message_id(&message, "s");
        assert!(id.starts_with("00000000000000ab-1000-"), "{id}");
        let again = Outbound { attempt: 7, now_ms: 9999, body: "other".into(), ..message.clone() };
        assert_eq!(message_id(&again, "s"), id);
        let user = Outbound { headers: vec![("attempt".into(), "7".to_owned())], ..message.clone() };
        assert_eq!(message_id(&user, "s"), id);
        let letter = Outbound { headers: vec![("delaybridge-dead-reason".into(), "x".to_owned())], ..message.clone() };
        let others = [
            message_id(&message, "t"),
            message_id(&Outbound { due_ms: Some(1001), ..message.clone() }, "s"),
            message_id(&Outbound { due_ms: None, ..message.clone() }, "s"),
            message_id(&Outbound { queue: "p".into(), ..message.clone() }, "s"),
            message_id(&outbound(0xac, anywhere(), "body"), "s"),
            message_id(&letter, "s"),
        ];
        let all: std::collections::HashSet<_> = others.iter().chain([&id]).collect();
        assert_eq!(all.len(), 7);
    }
}
