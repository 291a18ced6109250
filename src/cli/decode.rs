//! `decode`: what is in an element, or in a payload. Offline, but for `--queue`.

use std::io::{Read, Write};
use std::path::PathBuf;

use bytes::Bytes;
use clap::{ArgGroup, Args};
use redisson_codecs::{Codec, Coding, DecodeError, JavaTypes, Payload};
use serde_json::{Value, json};

use super::session::{Session, attempted};
use super::{Failed, Global, Output, payload};
use crate::message::{MessageId, Origin};
use crate::source::redisson::layout::{self, Layout};
use crate::source::redisson::{Entry, Place, Show};

/// Show what is in an element or a payload.
///
/// Takes a whole element of Redisson in either layout, an entry of delaybridge's own, or a bare payload, and finds out by
/// itself which it is. Without --codec the codec is guessed, and how sure that is stands beside it: `certain` if no other
/// codec writes such bytes, `likely`, or `guess` if it could be several things. Needs no configuration and no Redis,
/// unless --queue is given.
///
/// bytes -> layout and id -> payload -> codec -> value as JSON
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
#[command(group(ArgGroup::new("what").required(true).args(["hex", "file", "stdin", "queue"])))]
pub struct DecodeArgs {
    /// The bytes in hexadecimal digits; spaces between them do not matter
    #[arg(long, value_name = "HEX", value_parser = digits)]
    pub hex: Option<Bytes>,
    /// A file that holds the bytes
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The bytes come from standard input
    #[arg(value_name = "-", value_parser = ["-"], allow_hyphen_values = true)]
    pub stdin: Option<String>,
    /// An element of this queue, by its id in the configuration; the one that falls due first
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// With --queue: the element with this id, scheduled, waiting for a retry or in flight
    #[arg(long, value_name = "ID", requires = "queue", conflicts_with_all = ["hex", "file", "stdin"])]
    pub id: Option<MessageId>,
    /// The codec, as in the configuration; with --queue the queue's unless that is raw, else guessed
    #[arg(long, value_name = "NAME")]
    pub codec: Option<Coding>,
    /// Leave the names of Java classes out of the value
    #[arg(long)]
    pub strip_types: bool,
}

const AFTER: &str = "\
Examples:
  delaybridge decode --hex 036162e3
  delaybridge decode --hex '08 52414e444f4d3842 0400000000000000 036162e3' --output json
  redis-cli --raw lindex order:timeout 0 | head -c -1 | delaybridge decode --codec kryo5 -
  delaybridge decode --queue order_timeout --id 52414e444f4d3842

In JSON the value is `value`, or `value_base64` where it is bytes and nothing else; `error` says why
there is none. docs/codecs.md says what each codec reads.

Exit codes: 0 read, 1 the codec refuses it or Redis cannot be asked, 2 wrong arguments";

/// The longest string that Redis holds; nothing larger is an element.
const LONGEST: u64 = 512 << 20;

fn digits(text: &str) -> Result<Bytes, String> {
    let digits: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let digits = digits.strip_prefix("0x").unwrap_or(&digits);
    let bytes = hex::decode(digits).map(Bytes::from);
    bytes.map_err(|_| "write two hexadecimal digits for each byte, as in 036162e3".to_owned())
}

/// Bytes, as far as they could be taken apart.
struct Whole {
    layout: &'static str,
    id: Option<MessageId>,
    payload: Bytes,
}

/// What a codec makes of the payload.
struct Reading {
    coding: Coding,
    /// How sure the codec is: in the words of a guess, or who said so.
    sure: &'static str,
    value: Result<Payload, DecodeError>,
}

pub(super) async fn run(global: &Global, args: &DecodeArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (whole, configured) = match &args.queue {
        Some(queue) => from_redis(global, queue, args.id).await?,
        None => (take_apart(bytes(args)?), None),
    };
    let java_types = if args.strip_types { JavaTypes::Strip } else { JavaTypes::Keep };
    let typed = |coding: Coding| match args.strip_types {
        true => Coding { java_types: JavaTypes::Strip, ..coding },
        false => coding,
    };
    let reading = match (args.codec, configured.filter(|coding| !coding.is_raw())) {
        (Some(coding), _) if coding.codec != Codec::Auto => read(&whole.payload, typed(coding), "given"),
        (None, Some(coding)) if coding.codec != Codec::Auto => read(&whole.payload, typed(coding), "configured"),
        (_, configured) => {
            let settings = configured.unwrap_or(Coding { java_types, ..Codec::Auto.into() });
            guess(&whole.payload, typed(settings))
        }
    };
    match global.output {
        Output::Json => writeln!(out, "{:#}", json(&whole, &reading))?,
        Output::Text => write!(out, "{}", text(&whole, &reading))?,
    }
    // An object that only Java can read is an answer to a question; a codec that was named and does not fit is not.
    Ok(u8::from(reading.value.is_err() && args.codec.is_some()))
}

fn bytes(args: &DecodeArgs) -> Result<Bytes, Failed> {
    if let Some(bytes) = &args.hex {
        return Ok(bytes.clone());
    }
    let mut bytes = Vec::new();
    let (read, from) = match &args.file {
        Some(path) => {
            let read = std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
            (read, path.display().to_string())
        }
        None => (std::io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes), "standard input".to_owned()),
    };
    match read {
        Ok(length) if length as u64 > LONGEST => {
            Err(Failed::usage(format!("read the element from {from}: more than the 512 MiB that Redis can hold")))
        }
        Ok(_) => Ok(bytes.into()),
        Err(error) => Err(Failed::usage(format!("read the element from {from}: {error}"))),
    }
}

/// An entry of ours, an element of Redisson, or else a payload.
fn take_apart(bytes: Bytes) -> Whole {
    match Entry::decode(bytes.clone()) {
        Some(entry) => {
            let (id, payload) = crate::source::redisson::open_entry(&entry);
            let layout = match entry.header.origin {
                Origin::Ready => "bare",
                Origin::Delayed => layout::parse(&entry.element).map_or("junk", |element| name(element.layout)),
            };
            Whole { layout, id: Some(id), payload: payload.unwrap_or(entry.element) }
        }
        None => match layout::parse(&bytes) {
            Ok(element) => Whole { layout: name(element.layout), id: Some(element.id), payload: element.payload },
            Err(_) => Whole { layout: "bare", id: None, payload: bytes },
        },
    }
}

fn name(layout: Layout) -> &'static str {
    match layout {
        Layout::Old => "old",
        Layout::New => "new",
    }
}

async fn from_redis(global: &Global, queue: &str, id: Option<MessageId>) -> Result<(Whole, Option<Coding>), Failed> {
    let (session, found) = Session::on_queue(global, queue).await?;
    let what = format!("read an element of queue `{queue}`");
    let whole = match id {
        Some(id) => {
            let located = found.redisson.locate(&session.conn, id).await.map_err(attempted(&what))?;
            take_apart(located.ok_or_else(|| missing(queue, &format!("no element {id}")))?.member)
        }
        None => {
            let page = found.redisson.peek(&session.conn, Place::Scheduled, 0, 1, Show::All).await;
            let first = page.map_err(attempted(&what))?.seen.into_iter().next();
            let first = first.ok_or_else(|| missing(queue, "nothing scheduled"))?;
            Whole { layout: first.shape.as_str(), id: first.id, payload: first.payload }
        }
    };
    Ok((whole, Some(found.spec.codec)))
}

fn missing(queue: &str, what: &str) -> Failed {
    Failed::runtime(format!(
        "read an element of queue `{queue}`: there is {what}; `delaybridge peek {queue}` lists what is there"
    ))
}

fn read(payload: &Bytes, coding: Coding, sure: &'static str) -> Reading {
    Reading { coding, sure, value: redisson_codecs::decode(coding, payload) }
}

/// What nobody recognises is bytes.
fn guess(payload: &Bytes, settings: Coding) -> Reading {
    match redisson_codecs::guess(payload, settings) {
        Some(guess) => Reading { coding: guess.coding, sure: guess.confidence.as_str(), value: guess.payload },
        None => read(payload, Codec::Raw.into(), redisson_codecs::Confidence::Guess.as_str()),
    }
}

fn json(whole: &Whole, reading: &Reading) -> Value {
    let mut answer = json!({
        "layout": whole.layout,
        "id": whole.id.map(|id| id.to_string()),
        "size": whole.payload.len(),
        "codec": reading.coding.as_str(),
        "sure": reading.sure,
    });
    let (name, value) = match &reading.value {
        Ok(payload) => match payload::value(payload) {
            Some(value) => ("value", value),
            None => ("value_base64", payload::base64(&payload.decoded()).into()),
        },
        Err(error) => ("error", error.to_string().into()),
    };
    answer[name] = value;
    answer
}

fn text(whole: &Whole, reading: &Reading) -> String {
    let id = whole.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    let (name, value) = match &reading.value {
        Ok(payload) => match payload::value(payload) {
            // On one line, as JSON escapes what a terminal would obey.
            Some(value) => ("value", value.to_string()),
            None => ("bytes", hex::encode(payload.decoded())),
        },
        Err(error) => ("error", error.to_string()),
    };
    let size = whole.payload.len().to_string();
    let lines = [
        ("layout", whole.layout),
        ("id", &id),
        ("size", &size),
        ("codec", reading.coding.as_str()),
        ("sure", reading.sure),
        (name, &payload::escaped(&value)),
    ];
    lines.map(|(name, value)| format!("{name:<8}{value}\n")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::redisson::Header;

    #[test]
    fn an_element_an_entry_and_a_payload_are_told_apart() {
        let id = MessageId(*b"RANDOM8B");
        let check = |bytes: Vec<u8>, layout: &str, id: Option<MessageId>| {
            let whole = take_apart(bytes.into());
            assert_eq!((whole.layout, whole.id, &whole.payload[..]), (layout, id, &b"\x03ab\xe3"[..]));
        };
        let element = layout::pack(Layout::New, id, b"\x03ab\xe3");
        let header = |origin| Header::redriven(origin, id, 5, [0; 8], vec![7]).encode();
        check(element.clone(), "new", Some(id));
        check(layout::pack(Layout::Old, id, b"\x03ab\xe3"), "old", Some(id));
        check([header(Origin::Delayed), element].concat(), "new", Some(id));
        check([header(Origin::Ready), b"\x03ab\xe3".to_vec()].concat(), "bare", Some(id));
        check(b"\x03ab\xe3".to_vec(), "bare", None);
    }

    #[test]
    fn digits_are_read_with_spaces_and_a_prefix() {
        assert_eq!(digits(" 0x08 5241\n4e"), Ok(Bytes::from_static(b"\x08RAN")));
        assert!(digits("0").is_err() && digits("zz").is_err());
    }

    #[test]
    fn text_shows_nothing_that_a_terminal_obeys() {
        let whole = take_apart(Bytes::from_static(b"\x03\x1b[31\xed"));
        let reading = guess(&whole.payload, Codec::Auto.into());
        let shown = text(&whole, &reading);
        assert!(shown.contains("codec   kryo5\nsure    certain\n") && !shown.contains('\x1b'), "{shown}");
    }
}
