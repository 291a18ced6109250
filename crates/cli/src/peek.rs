//! `peek`: the elements of a queue. Takes nothing.

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::choice::{Choice, Choices};
use super::failed::Failed;
use super::global::{Global, Output};
use super::remote::{DaemonArgs, carry_out_at};
use super::show;
use super::table::TextTable;
use delaybridge_ops::operations::ShowElement;
use delaybridge_ops::operator::Peeked;
use delaybridge_ops::peek::{Elements, Peek, PeekState};
use delaybridge_ops::plural;

/// Show the elements of a queue without taking them.
///
/// Shows the elements in the order of their due times, with the decoded payload. Only the beginning of large payloads is
/// read, unless --full is given. An element that moves meanwhile can be shown twice or not at all.
///
/// scheduled -> in-flight -> gone | retry -> in-flight; ready -> in-flight
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct PeekArgs {
    /// The queue's id in the configuration, or a topic of the job queue
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Everything about the one element with this id, wherever it is
    #[arg(long, value_name = "ID", conflicts_with_all = ["limit", "state", "full", "routes"])]
    pub id: Option<String>,
    /// Maximum number of elements
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub limit: usize,
    /// The state of the elements
    #[arg(long, value_enum, value_name = "STATE", default_value_t = Choice(PeekState::Scheduled))]
    pub state: Choice<PeekState>,
    /// Show whole payloads
    #[arg(long, conflicts_with = "url")]
    pub full: bool,
    /// Show the destination of each element; reads whole payloads, as --full
    #[arg(long, conflicts_with = "url")]
    pub routes: bool,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

const AFTER: &str = "\
Examples:
  delaybridge peek order_timeout
  delaybridge peek order_timeout --state retry --limit 5 --full
  delaybridge peek order_timeout --routes
  delaybridge peek order_timeout --id 52414e444f4d3842
  delaybridge peek order_timeout --output json

In JSON a payload is `payload` (text) or `payload_base64`; `payload_cut` means that it is longer.
`value` is the payload decoded by the queue's codec; with codec `raw`, by the most probable codec.
An element with the layout `junk` is not from Redisson; it becomes a dead letter at its due time.";

impl Choices for PeekState {
    fn all() -> &'static [Choice<Self>] {
        &[Choice(PeekState::Scheduled), Choice(PeekState::Retry), Choice(PeekState::InFlight), Choice(PeekState::Ready)]
    }

    fn name(&self) -> (&'static str, &'static str) {
        match self {
            PeekState::Scheduled => ("scheduled", "Not claimed yet"),
            PeekState::Retry => ("retry", "Waits for another attempt"),
            PeekState::InFlight => ("in-flight", "Claimed"),
            PeekState::Ready => ("ready", "Transferred by a Redisson client"),
            // No choice: `dead ls` has more to show.
            PeekState::Dead => ("dead", "Dead letters"),
        }
    }
}

/// Characters of a payload in a row.
const PREVIEW: usize = 80;
/// Bytes of a payload that are read for a person: a character has at most four. A codec can only read a payload that was
/// read to its end, so it is a little more than is shown.
const START_TEXT: usize = 4096;
/// The same for a program.
const START_JSON: usize = 64 << 10;

pub(super) async fn run(global: &Global, args: &PeekArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    if let Some(id) = &args.id {
        let request = ShowElement { queue: args.queue.clone(), id: id.clone() };
        return carry_out_at(global, &args.daemon.place(global)?, &request, out).await;
    }
    let operator = args.daemon.operator(global)?;
    let start = if global.output == Output::Json { START_JSON } else { START_TEXT };
    let PeekArgs { limit, state, full, routes, .. } = *args;
    let ask = Peek { state: state.0, first: 0, limit, payload_bytes: (!full).then_some(start), routes };
    match operator.peek(&args.queue, &ask).await? {
        Peeked::Elements(found) => answer(global, out, &found, |found| text(found, &ask))?,
        Peeked::Jobs(found) => answer(global, out, &found, super::jobs::list)?,
    }
    Ok(0)
}

fn text(found: &Elements, ask: &Peek) -> String {
    let score = match ask.state {
        PeekState::Scheduled | PeekState::Ready | PeekState::Dead => "",
        PeekState::Retry => "NEXT ATTEMPT|",
        PeekState::InFlight => "LEASE ENDS|",
    };
    let routes = if ask.routes { "|WOULD GO TO" } else { "" };
    let mut table = TextTable::new(&format!("ID|DUE||{score}>ATTEMPTS|LAYOUT|>SIZE|PAYLOAD{routes}"));
    let none = || "-".to_owned();
    let relative = |ms| show::relative(ms, found.now_ms);
    for element in &found.elements {
        let mut row = vec![
            element.id.as_ref().map_or_else(none, |id| id.to_string()),
            element.due_ms.map_or_else(none, show::absolute),
            element.due_ms.map_or_else(String::new, relative),
        ];
        if !score.is_empty() {
            row.push(element.next_attempt_ms.or(element.lease_ends_ms).map_or_else(none, relative));
        }
        let failed = if element.code.is_empty() { String::new() } else { format!(" ({})", element.code) };
        let most = if ask.payload_bytes.is_none() { usize::MAX } else { PREVIEW };
        row.extend([
            format!("{}{failed}", element.attempts),
            element.layout.to_string(),
            show::size(element.size),
            element.content.preview(most),
        ]);
        row.extend(element.routes.as_ref().map(|routes| routes.join(", ")));
        table.row(row);
    }
    let paused: String = found.paused.iter().map(|pause| format!("{}\n", pause.line(found.now_ms))).collect();
    format!("{}\n{} of {}\n{paused}", table.render(), found.elements.len(), plural::count(found.total, "element"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use redisson_codecs::Codec;

    use super::*;
    use delaybridge_core::message::MessageId;
    use delaybridge_ops::content::Content;
    use delaybridge_ops::peek::PeekedElement;

    #[test]
    fn a_row_says_which_when_and_what() {
        let element = PeekedElement {
            id: Some(MessageId(*b"RANDOM8B").into()),
            state: PeekState::Retry,
            stream_id: None,
            due_ms: Some(1_795_251_632_252),
            next_attempt_ms: Some(1_795_251_637_252),
            lease_ends_ms: None,
            attempts: 2,
            code: "timeout".to_owned(),
            layout: "new".into(),
            size: 100,
            routes: None,
            content: Content::new(Codec::String, Bytes::from("x".repeat(100)), true),
        };
        let found = Elements {
            queue: "q".to_owned(),
            now_ms: 1_795_251_642_252,
            total: 1,
            paused: Vec::new(),
            elements: vec![element],
            next: None,
        };
        let ask = Peek { state: PeekState::Retry, first: 0, limit: 20, payload_bytes: Some(START_TEXT), routes: false };
        let text = text(&found, &ask);
        let row = text.lines().nth(1).unwrap();
        assert_eq!(
            row.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect::<Vec<_>>(),
            [
                "52414e444f4d3842",
                "2026-11-21T09:00:32.252Z",
                "10s ago",
                "5s ago",
                "2 (timeout)",
                "new",
                "100 B",
                &format!("{}...", "x".repeat(80))
            ]
        );
    }
}
