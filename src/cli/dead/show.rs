//! `dead show`: everything that a letter keeps.

use std::io::Write;

use bytes::Bytes;
use clap::Args;
use redisson_codecs::{Codec, Coding};
use serde_json::{Value, json};

use super::super::errors::explain;
use super::super::session::Session;
use super::super::{Failed, Global, Output, payload, show as words};
use super::{Which, each, not_found};
use crate::source::redisson::{DeadLetter, layout};

/// Show everything that is known of one dead letter.
///
/// If several letters have the element's id, the latest is shown. The element is given in hexadecimal digits (text) or
/// base64 (JSON), byte for byte.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct ShowArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Stream id (1795251632252-0) or element id (16 hexadecimal digits)
    #[arg(value_name = "ID", value_parser = super::letter)]
    pub id: String,
}

const AFTER: &str = "\
Examples:
  delaybridge dead show order_timeout 1795251632252-0
  delaybridge dead show order_timeout 52414e444f4d3842 --output json";

pub(super) async fn run(global: &Global, args: &ShowArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (session, queue) = Session::on_queue(global, &args.queue).await?;
    let which = Which { queue: args.queue.clone(), ids: vec![args.id.clone()], all: false };
    let mut latest = None;
    let unmet = each(&session, &queue, &which, async |page| {
        latest = page.into_iter().next_back();
        Ok(())
    })
    .await?;
    let Some(letter) = latest else { return Err(not_found(&args.queue, &unmet, "nothing was shown")) };
    match global.output {
        Output::Json => writeln!(out, "{:#}", json(&letter, queue.spec.codec))?,
        Output::Text => write!(out, "{}", text(&letter, queue.spec.codec))?,
    }
    Ok(0)
}

/// The payload inside the element; junk is all payload.
fn payload_of(letter: &DeadLetter) -> Bytes {
    let element = letter.bytes("element").cloned().unwrap_or_default();
    match letter.text("origin") {
        "delayed" => layout::parse(&element).map_or(element, |parsed| parsed.payload),
        _ => element,
    }
}

fn text(letter: &DeadLetter, codec: Coding) -> String {
    let mut text = format!("{:<17} {}\n", "stream_id", letter.stream_id);
    for (name, value) in &letter.fields {
        let shown = match name.as_str() {
            "element" => {
                let payload = payload::preview(codec, &payload_of(letter), true, usize::MAX);
                text.push_str(&format!("{:<17} {payload}\n", "payload"));
                hex::encode(value)
            }
            name => match letter.number(name).filter(|_| name.ends_with("_ms")) {
                Some(ms) => format!("{ms} ({})", words::absolute(ms)),
                None => payload::preview(Codec::String, value, true, usize::MAX),
            },
        };
        text.push_str(format!("{name:<17} {shown}").trim_end());
        text.push('\n');
        if let Some(known) = (name == "code").then(|| explain(letter.text("code"))).flatten() {
            text.push_str(&format!("{:<17} {}\n{:<17} {}\n", "  cause", known.cause, "  cure", known.cure));
        }
    }
    text
}

fn json(letter: &DeadLetter, codec: Coding) -> Value {
    let mut all = json!({ "stream_id": letter.stream_id });
    let Some(fields) = all.as_object_mut() else { return all };
    for (name, value) in &letter.fields {
        let (name, value) = match name.as_str() {
            "element" => {
                fields.extend(payload::fields(codec, &payload_of(letter), true));
                ("element_base64", payload::base64(value).into())
            }
            "confirmed" => {
                let sinks = letter.text("confirmed").split(',').filter(|sink| !sink.is_empty());
                ("confirmed", sinks.collect::<Vec<_>>().into())
            }
            // Written by the daemon as JSON.
            "attempts_seen" => {
                ("attempts_seen", serde_json::from_slice(value).unwrap_or_else(|_| letter.text("attempts_seen").into()))
            }
            name if name.ends_with("_ms") || matches!(name, "attempts" | "expiries") => {
                (name, letter.number(name).into())
            }
            name => (name, letter.text(name).into()),
        };
        fields.insert(name.to_owned(), value);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> DeadLetter {
        let element = layout::pack(layout::Layout::New, crate::message::MessageId(*b"RANDOM8B"), b"hello");
        let fields = [
            ("id", "52414e444f4d3842".into()),
            ("origin", "delayed".into()),
            ("due_ms", "1795251632252".into()),
            ("attempts", "3".into()),
            ("first_attempt_ms", "".into()),
            ("code", "NO_ROUTE".into()),
            ("message", "a\u{1b}[31m".into()),
            ("confirmed", "audit,lines".into()),
            ("attempts_seen", "[{\"code\":\"timeout\"}]".into()),
            ("element", Bytes::from(element)),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value)).into();
        DeadLetter { stream_id: "1-0".to_owned(), fields }
    }

    #[test]
    fn a_person_sees_times_and_payload_and_nothing_that_a_terminal_obeys() {
        let text = text(&sample(), Codec::String.into());
        for line in [
            "stream_id         1-0",
            "due_ms            1795251632252 (2026-11-21T09:00:32.252Z)",
            "first_attempt_ms",
            "code              NO_ROUTE",
            "  cause           No queue takes the message.",
            "  cure            Bind a queue for this routing key.",
            "message           a\\u{1b}[31m",
            "payload           hello",
            "element           0852414e444f4d3842050000000000000068656c6c6f",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn a_program_gets_values_of_their_own_types() {
        let all = json(&sample(), Codec::Raw.into());
        assert_eq!((&all["attempts"], &all["first_attempt_ms"]), (&json!(3), &Value::Null));
        assert_eq!(all["confirmed"], json!(["audit", "lines"]));
        assert_eq!(all["attempts_seen"][0]["code"], "timeout");
        assert_eq!(
            (&all["payload"], &all["element_base64"]),
            (&json!("hello"), &json!("CFJBTkRPTThCBQAAAAAAAABoZWxsbw=="))
        );
    }
}
