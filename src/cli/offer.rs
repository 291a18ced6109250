//! `offer`: one element, byte for byte as Redisson packs and announces it.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args, ValueEnum};
use serde_json::json;

use super::session::{Session, attempted, may_have_run};
use super::{Failed, Global, Output, show};
use crate::config::{OnDecodeError, QueueSpec};
use crate::message::MessageId;
use crate::source::redisson::layout::{self, Layout};

/// Offer an element, exactly as Redisson does.
///
/// The payload goes in as it is given; nothing is encoded. If the queue's codec is `json` or `string` it must be that,
/// because it could not be delivered otherwise. A reply that was lost is reported with the element's id; it is never
/// sent a second time.
///
/// payload -> Redisson's layout -> sorted set and list -> announced to those who wait
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
#[command(group(ArgGroup::new("what").required(true).args(["payload", "file", "stdin"])))]
pub struct OfferArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// How long from now, by Redis's clock, it falls due (5s, 10m, 0s)
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    pub delay: Duration,
    /// The payload itself
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub payload: Option<String>,
    /// A file that holds the payload
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The payload comes from standard input
    #[arg(value_name = "-", value_parser = ["-"], allow_hyphen_values = true)]
    pub stdin: Option<String>,
    /// The layout of the element; auto is that of what stands in the queue, or new
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t = Wanted::Auto)]
    pub layout: Wanted,
}

const AFTER: &str = "\
Examples:
  delaybridge offer order_timeout --delay 5s --payload '{\"orderId\":4711}'
  delaybridge offer order_timeout --delay 0s --file element.json
  printf hello | delaybridge offer reminders --delay 10m -

Exit codes: 0 offered, 1 failed or its fate is unknown, 2 wrong arguments or a payload that the codec refuses";

/// The layout that the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// As what stands in the queue; new if it is empty.
    Auto,
    /// Redisson up to 3.21.0.
    Old,
    /// Redisson from 3.21.1 on.
    New,
}

fn delay(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 500ms, 5s, 10m or 1h 30m"))
}

pub(super) async fn run(global: &Global, args: &OfferArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let payload = read(args)?;
    let (session, queue) = Session::on_queue(global, &args.queue).await?;
    refuse_what_cannot_be_delivered(&args.queue, &queue.spec, &payload)?;
    let layout = match args.layout {
        Wanted::Old => Layout::Old,
        Wanted::New => Layout::New,
        Wanted::Auto => {
            let what = format!("read the layout in use in `{}`", args.queue);
            queue.redisson.layout_in_use(&session.conn).await.map_err(attempted(&what))?.unwrap_or(Layout::New)
        }
    };
    let id = new_id(layout)?;
    let element = Bytes::from(layout::pack(layout, id, &payload));
    let what = format!("offer element {id} to `{}`", args.queue);
    let (due_ms, _) = match queue.redisson.offer(&session.conn, element, args.delay).await {
        Err(error) if may_have_run(&error) => {
            return Err(Failed::runtime(format!(
                "{what}: {error}; it may have been offered, so it was not sent again: look for the id with \
                 `delaybridge peek {}`, or in what was delivered, before you repeat it",
                args.queue
            )));
        }
        other => other.map_err(attempted(&what))?,
    };
    let name = if layout == Layout::New { "new" } else { "old" };
    match global.output {
        Output::Json => {
            let answer = json!({ "id": id.to_string(), "queue": args.queue, "due_ms": due_ms, "layout": name });
            writeln!(out, "{answer}")?;
        }
        Output::Text => {
            let due = show::absolute(due_ms);
            writeln!(out, "{id} offered to {}, due {due} ({} layout)", args.queue, name)?;
        }
    }
    Ok(0)
}

fn read(args: &OfferArgs) -> Result<Bytes, Failed> {
    if let Some(text) = &args.payload {
        return Ok(Bytes::from(text.clone()));
    }
    let (bytes, from) = match &args.file {
        Some(path) => (std::fs::read(path), path.display().to_string()),
        None => {
            let mut bytes = Vec::new();
            (std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes), "standard input".to_owned())
        }
    };
    bytes.map(Bytes::from).map_err(|error| Failed::usage(format!("read the payload from {from}: {error}")))
}

fn refuse_what_cannot_be_delivered(queue: &str, spec: &QueueSpec, payload: &Bytes) -> Result<(), Failed> {
    match redisson_codecs::decode(spec.codec, payload) {
        Err(error) if !error.is_opaque() && spec.on_decode_error != OnDecodeError::ForwardRaw => {
            Err(Failed::usage(format!(
                "check the payload: {} at byte {}, and the codec of queue `{queue}` is {}; nothing was offered",
                error.problem, error.offset, spec.codec
            )))
        }
        _ => Ok(()),
    }
}

/// A random id as clients of that layout make it.
fn new_id(layout: Layout) -> Result<MessageId, Failed> {
    loop {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| {
            Failed::runtime(format!("draw a random id: {error}; does the system provide randomness?"))
        })?;
        match layout {
            Layout::New => return Ok(MessageId(random)),
            Layout::Old => {
                // Redisson's random long, converted to a double. One in 8,192 has a smaller exponent than the others;
                // it is drawn again, because readers tell the two layouts of a 17-byte element by that exponent.
                #[expect(clippy::cast_precision_loss, reason = "the loss is what the conversion in Redisson does")]
                let double = (i64::from_le_bytes(random) as f64).to_le_bytes();
                if matches!(double[7], 0x43 | 0xc3) {
                    return Ok(MessageId(double));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_old_layout_is_a_double_of_a_random_long() {
        for _ in 0..100 {
            let id = new_id(Layout::Old).map_err(|failed| failed.message).unwrap();
            assert!(matches!(id.0[7], 0x43 | 0xc3), "{id}");
            let double = f64::from_le_bytes(id.0);
            assert!(double.fract() == 0.0 && double.abs() <= 9.3e18, "{double}");
        }
    }

    #[test]
    fn delays_are_written_as_in_the_configuration() {
        assert_eq!(delay("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(delay("0s"), Ok(Duration::ZERO));
        assert!(delay("5").unwrap_err().contains("500ms"));
    }

    #[test]
    fn a_payload_that_the_codec_refuses_is_not_offered() {
        let check = |keys: &str, payload: &'static [u8]| {
            let text = format!(
                "redis: {{ url: 'redis://h' }}\nsinks: {{ out: {{ stdout: }} }}\n\
                 queues: {{ q: {{ source: {{ redisson: {{ name: n }} }}, {keys}, to: [{{ sink: out }}] }} }}\n"
            );
            let spec = crate::config::load_str(&text, "c.yaml", &|_| None).unwrap().config.queues.remove(0);
            refuse_what_cannot_be_delivered("q", &spec, &Bytes::from_static(payload))
        };
        let failed = check("codec: json", b"{oops").unwrap_err();
        assert_eq!(failed.code, 2);
        assert!(failed.message.contains("not JSON at byte 1") && !failed.message.contains("oops"), "{failed}");
        assert!(check("codec: raw", b"\xff").is_ok());
        assert!(check("codec: json, on_decode_error: forward_raw", b"{oops").is_ok());
        assert!(check("codec: kryo5", b"\x01\x00com.example.Orde\xf2").is_ok(), "goes on as bytes");
    }
}
