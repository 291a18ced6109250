//! `decode`: what is in an element, or in a payload. Offline, but for `--queue`.

use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::{ArgGroup, Args};
use redisson_codecs::{Classes, Coding};

use super::access::environment;
use super::answer::answer;
use super::failed::Failed;
use super::global::{DEFAULT_CONFIG, Global};
use super::input::input;
use super::load::{load_queues, on_queue};
use delaybridge_config::Needs;
use delaybridge_ops::content::escaped;
use delaybridge_ops::decode::{DecodeOptions, DecodeOutcome, DecodedPayload, decode, decode_in};

/// Decode an element or a payload.
///
/// Recognises an element of Redisson in either layout, an entry of delaybridge, or a bare payload. Without --codec it
/// guesses the codec: `certain` if no other writes such bytes, `likely`, or `guess` if several fit. It needs Redis only
/// for --queue, and a configuration only for the `classes` of objects in Kryo 5.
///
/// bytes -> layout and id -> payload -> codec -> value as JSON
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
#[command(group(ArgGroup::new("what").required(true).args(["hex", "file", "stdin", "queue"])))]
pub struct DecodeArgs {
    /// The bytes in hexadecimal digits; spaces are ignored
    #[arg(long, value_name = "HEX", value_parser = digits)]
    pub hex: Option<Bytes>,
    /// A file with the bytes
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read the bytes from standard input
    #[arg(value_name = "-", value_parser = ["-"], allow_hyphen_values = true)]
    pub stdin: Option<String>,
    /// An element of the queue with this id in the configuration; by default the next due one
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// With --queue: the element with this id, scheduled, waiting for a retry or in flight
    #[arg(long, value_name = "ID", requires = "queue", conflicts_with_all = ["hex", "file", "stdin"])]
    pub id: Option<String>,
    /// The codec, as in the configuration; with --queue the queue's unless that is raw, else guessed
    #[arg(long, value_name = "NAME")]
    pub codec: Option<Coding>,
    /// Remove Java class names from the value
    #[arg(long)]
    pub strip_types: bool,
}

const AFTER: &str = "\
Examples:
  delaybridge decode --hex 036162e3
  delaybridge decode --hex '08 52414e444f4d3842 0400000000000000 036162e3' --output json
  redis-cli --raw lindex order:timeout 0 | head -c -1 | delaybridge decode --codec kryo5 -
  delaybridge decode --queue order_timeout --id 52414e444f4d3842

In JSON the element is in `elements`, with `value`, `value_base64` (only bytes) or `error`.
docs/codecs.md describes the codecs.

Exit codes: 0 decoded, 1 the codec refuses it or Redis does not answer, 2 wrong arguments";

fn digits(text: &str) -> Result<Bytes, String> {
    let digits: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let digits = digits.strip_prefix("0x").unwrap_or(&digits);
    let bytes = hex::decode(digits).map(Bytes::from);
    bytes.map_err(|_| "write two hexadecimal digits for each byte, as in 036162e3".to_owned())
}

/// Refuses a text that can be no id of an element, before Redis is asked.
fn check_element(global: &Global, queue: &str, id: &str) -> Result<(), Failed> {
    // The own name of a letter is its place in the stream.
    if !delaybridge_ops::dead::is_place(id) {
        delaybridge_ops::check_id(&load_queues(global)?, queue, id)?;
    }
    Ok(())
}

pub(super) async fn run(global: &Global, args: &DecodeArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let options = DecodeOptions { codec: args.codec, strip_types: args.strip_types };
    let decoded = match (&args.queue, &args.hex) {
        (Some(queue), _) => {
            let (_session, queue) = match &args.id {
                Some(id) => {
                    check_element(global, queue, id)?;
                    on_queue(global, queue).await?
                }
                None => on_queue(global, queue).await?,
            };
            decode_in(&queue, args.id.as_deref(), options).await?
        }
        (None, Some(bytes)) => decode(bytes.clone(), options, &classes(global)?),
        (None, None) => decode(input("element", args.file.as_deref())?, options, &classes(global)?),
    };
    answer(global, out, &decoded, text)?;
    // An object that only Java can read is an answer to a question; a codec that was named and does not fit is not.
    let refused = matches!(decoded.elements[0].outcome, DecodeOutcome::Error(_));
    Ok(u8::from(refused && args.codec.is_some()))
}

/// Returns the `classes` of the configuration. A file at the default place was not asked for by name, so it may be
/// missing or invalid.
fn classes(global: &Global) -> Result<Classes, Failed> {
    if global.config == Path::new(DEFAULT_CONFIG) && !global.config.exists() {
        return Ok(Classes::default());
    }
    match delaybridge_config::load_for(&global.config, &environment, Needs::Nothing) {
        Ok(loaded) => Ok(loaded.config.classes),
        Err(_) if global.config == Path::new(DEFAULT_CONFIG) => Ok(Classes::default()),
        Err(errors) => Err(Failed::usage(errors.to_string())),
    }
}

fn text(decoded: &DecodedPayload) -> String {
    let [element] = &decoded.elements;
    let id = element.id.as_ref().map_or_else(|| "-".to_owned(), |id| id.to_string());
    let (name, value) = match &element.outcome {
        // On one line, as JSON escapes what a terminal would obey.
        DecodeOutcome::Value(value) => ("value", value.to_string()),
        DecodeOutcome::Bytes(bytes) => ("bytes", hex::encode(bytes)),
        DecodeOutcome::Error(error) => ("error", error.clone()),
    };
    let size = element.size.to_string();
    let lines = [
        ("layout", element.layout),
        ("id", &id),
        ("size", &size),
        ("codec", &element.codec),
        ("sure", element.sure),
        (name, &escaped(&value)),
    ];
    lines.map(|(name, value)| format!("{name:<8}{value}\n")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_with_spaces_and_a_prefix() {
        assert_eq!(digits(" 0x08 5241\n4e"), Ok(Bytes::from_static(b"\x08RAN")));
        assert!(digits("0").is_err() && digits("zz").is_err());
    }

    #[test]
    fn text_shows_nothing_that_a_terminal_obeys() {
        let shown =
            text(&decode(Bytes::from_static(b"\x03\x1b[31\xed"), DecodeOptions::default(), &Classes::default()));
        assert!(shown.contains("codec   kryo5\nsure    certain\n") && !shown.contains('\x1b'), "{shown}");
    }
}
