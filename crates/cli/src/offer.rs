//! `offer`: one element, byte for byte as Redisson packs and announces it.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args};

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::input::input;
use super::layout::LayoutArg;
use super::load::on_queue;
use super::show;
use delaybridge_ops::redisson::offer::offer;

/// Offer an element, as Redisson does.
///
/// The payload is stored as given. With codec `json` or `string` it must be valid. A lost reply is reported with the
/// element's id; the offer is never sent twice.
///
/// payload -> Redisson's layout -> sorted set and list -> announced to the subscribers
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
#[command(group(ArgGroup::new("what").required(true).args(["payload", "file", "stdin"])))]
pub struct OfferArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// The delay until the due time, by Redis's clock (5s, 10m, 0s)
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    pub delay: Duration,
    /// The payload
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub payload: Option<String>,
    /// A file with the payload
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read the payload from standard input
    #[arg(value_name = "-", value_parser = ["-"], allow_hyphen_values = true)]
    pub stdin: Option<String>,
    /// The layout; auto is that of the queue's first elements, and new for an empty queue
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t = LayoutArg::Auto)]
    pub layout: LayoutArg,
}

const AFTER: &str = "\
Examples:
  delaybridge offer order_timeout --delay 5s --payload '{\"orderId\":4711}'
  delaybridge offer order_timeout --delay 0s --file element.json
  printf hello | delaybridge offer reminders --delay 10m -

Exit codes: 0 offered, 1 failed or unknown, 2 wrong arguments or a payload that the codec refuses";

fn delay(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 500ms, 5s, 10m or 1h 30m"))
}

pub(super) async fn run(global: &Global, args: &OfferArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let payload = match &args.payload {
        Some(text) => Bytes::from(text.clone()),
        None => input("payload", args.file.as_deref())?,
    };
    let (_session, queue) = on_queue(global, &args.queue).await?;
    let offered = offer(&queue, &payload, args.delay, args.layout.layout()).await?;
    answer(global, out, &offered, |offered| {
        let [element] = &offered.elements;
        let due = show::absolute(element.due_ms);
        format!("{} offered to {}, due {due} ({} layout)\n", element.id, offered.queue, element.layout)
    })?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_written_as_in_the_configuration() {
        assert_eq!(delay("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(delay("0s"), Ok(Duration::ZERO));
        assert!(delay("5").unwrap_err().contains("500ms"));
    }
}
