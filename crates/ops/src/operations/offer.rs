//! `offer`: an element, as Redisson offers it.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args};

use super::job_args::duration;
use crate::error::Error;
use crate::operation::{Explain, Operation, Scene};
use crate::redisson::LayoutArg;
use crate::redisson::offer::{Offered, offer};
use crate::show;

/// Offer an element, as Redisson does.
///
/// The payload is stored as given. With codec `json` or `string` it must be valid. A lost reply is reported with the
/// element's id; the offer is never sent twice.
///
/// payload -> Redisson's layout -> sorted set and list -> announced to the subscribers
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER)]
#[command(group(ArgGroup::new("what").required(true).args(["payload", "file", "stdin"])))]
pub struct OfferElement {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// The delay until the due time, by Redis's clock (5s, 10m, 0s)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
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

impl Operation for OfferElement {
    type Answer = Offered;

    const NAME: &'static str = "offer";

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    async fn run(&self, scene: &Scene) -> Result<Offered, Error> {
        let payload = match &self.payload {
            Some(text) => Bytes::from(text.clone()),
            None => scene.input("payload", self.file.as_deref())?,
        };
        offer(&scene.queue(&self.queue).await?, &payload, self.delay, self.layout.layout()).await
    }

    fn text(&self, offered: &Offered, _: Explain) -> String {
        let [element] = &offered.elements;
        let due = show::absolute(element.due_ms);
        format!("{} offered to {}, due {due} ({} layout)\n", element.id, offered.queue, element.layout)
    }
}
