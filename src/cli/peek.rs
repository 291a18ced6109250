//! `peek`: who stands where in a queue. Takes nothing.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::session::{Session, attempted};
use super::table::{Align, Table};
use super::{Failed, Global, Output, payload, show};
use crate::config::QueueSpec;
use crate::message::MessageId;
use crate::route::{self, ElementInfo, Misfit};
use crate::source::redisson::{Place, Seen, Shape, Show};

/// Look at the elements of a queue without taking them.
///
/// Shows who falls due first, with what the queue's codec reads in the payload. Only the beginning of large payloads is
/// read, unless --full is given. What moves while it is read can be shown twice or not at all.
///
/// scheduled -> in-flight -> gone | retry -> in-flight; ready -> in-flight
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct PeekArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Most elements that are shown
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub limit: usize,
    /// Where to look
    #[arg(long, value_enum, value_name = "STATE", default_value_t = State::Scheduled)]
    pub state: State,
    /// Show whole payloads
    #[arg(long)]
    pub full: bool,
    /// Show where each element would go now; reads whole payloads, as --full
    #[arg(long)]
    pub routes: bool,
}

const AFTER: &str = "\
Examples:
  delaybridge peek order_timeout
  delaybridge peek order_timeout --state retry --limit 5 --full
  delaybridge peek order_timeout --routes
  delaybridge peek order_timeout --output json

In JSON a payload is `payload` (text) or `payload_base64`; `payload_cut` says that it goes on.
`value` is what the queue's codec read in it; with codec `raw`, what another one most likely wrote.
An element whose layout is `junk` is none of Redisson's; it becomes a dead letter when it falls due.";

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Not claimed yet.
    Scheduled,
    /// Waits for another attempt.
    Retry,
    /// Claimed.
    InFlight,
    /// Transferred by a Redisson client.
    Ready,
}

impl State {
    fn place(self) -> Place {
        match self {
            State::Scheduled => Place::Scheduled,
            State::Retry => Place::Retry,
            State::InFlight => Place::InFlight,
            State::Ready => Place::Ready,
        }
    }

    /// What the score of that place means, if it is not the due time itself.
    fn score(self) -> Option<(&'static str, &'static str)> {
        match self {
            State::Scheduled | State::Ready => None,
            State::Retry => Some(("NEXT ATTEMPT", "next_attempt_ms")),
            State::InFlight => Some(("LEASE ENDS", "lease_ends_ms")),
        }
    }
}

/// Bytes of a payload that are read for a person, and for a program. A character has at most four.
const START_TEXT: usize = 4 * (payload::PREVIEW + 1);
const START_JSON: usize = 64 << 10;

pub(super) async fn run(global: &Global, args: &PeekArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (session, queue) = Session::on_queue(global, &args.queue).await?;
    let read = match (args.full || args.routes, global.output) {
        (true, _) => Show::All,
        // JSON can only be read as such when it was read to its end, so a little more than is shown.
        (false, Output::Text) => Show::Start(START_TEXT.max(4096)),
        (false, Output::Json) => Show::Start(START_JSON),
    };
    let what = format!("look at queue `{}`", args.queue);
    let (mut seen, mut now_ms, mut total) = (Vec::new(), 0, 0);
    while seen.len() < args.limit {
        let page = queue.redisson.peek(&session.conn, args.state.place(), seen.len(), args.limit - seen.len(), read);
        let page = page.await.map_err(attempted(&what))?;
        (now_ms, total) = (page.now_ms, page.total);
        if page.seen.is_empty() {
            break;
        }
        seen.extend(page.seen);
    }
    match global.output {
        Output::Json => {
            let elements: Vec<_> = seen.iter().map(|seen| json_row(args, &queue.spec, seen)).collect();
            let answer = json!({ "queue": args.queue, "now_ms": now_ms, "total": total, "elements": elements });
            writeln!(out, "{answer:#}")?;
        }
        Output::Text => {
            write!(out, "{}", text(args, &queue.spec, now_ms, &seen))?;
            writeln!(out, "\n{} of {}", seen.len(), show::count(total, "element"))?;
        }
    }
    Ok(0)
}

fn text(args: &PeekArgs, spec: &QueueSpec, now_ms: i64, seen: &[Seen]) -> String {
    use Align::{Left, Right};
    let mut columns = vec![("ID", Left), ("DUE", Left), ("", Left)];
    columns.extend(args.state.score().map(|(title, _)| (title, Left)));
    columns.extend([("ATTEMPTS", Right), ("LAYOUT", Left), ("SIZE", Right), ("PAYLOAD", Left)]);
    columns.extend(args.routes.then_some(("WOULD GO TO", Left)));
    let mut table = Table::new(&columns);
    let none = || "-".to_owned();
    let most = if args.full { usize::MAX } else { payload::PREVIEW };
    for element in seen {
        let mut row = vec![
            element.id.map_or_else(none, |id| id.to_string()),
            element.due_ms.map_or_else(none, show::absolute),
            element.due_ms.map_or_else(String::new, |ms| show::relative(ms, now_ms)),
        ];
        if args.state.score().is_some() {
            row.push(element.score_ms.map_or_else(none, |ms| show::relative(ms, now_ms)));
        }
        let failed = if element.code.is_empty() { String::new() } else { format!(" ({})", element.code) };
        row.extend([
            format!("{}{failed}", element.attempts),
            element.shape.as_str().to_owned(),
            show::size(element.size),
            payload::preview(spec.codec, &element.payload, element.is_complete(), most),
        ]);
        row.extend(args.routes.then(|| routes(spec, element).join(", ")));
        table.row(row);
    }
    table.render()
}

/// Where an element would go, by sink, or what else would become of it.
fn routes(spec: &QueueSpec, element: &Seen) -> Vec<String> {
    if matches!(element.shape, Shape::Junk | Shape::Unknown) {
        let fate = if element.shape == Shape::Junk { "dead letter: of no layout" } else { "left to a newer daemon" };
        return vec![fate.to_owned()];
    }
    let id = element.id.unwrap_or(MessageId([0; 8]));
    let info = ElementInfo { id, queue: &spec.id, due_ms: element.due_ms, attempt: element.attempts.saturating_add(1) };
    match route::preview(spec, &info, &element.payload) {
        Ok(destinations) => {
            spec.to.iter().zip(destinations).map(|(to, place)| format!("{}: {place}", to.sink)).collect()
        }
        Err(Misfit::DeadLetter(reason)) => vec![format!("dead letter: {reason}")],
        Err(Misfit::Hold(reason)) => vec![format!("hold: {reason}")],
    }
}

fn json_row(args: &PeekArgs, spec: &QueueSpec, element: &Seen) -> Value {
    let state = args.state;
    let mut row = json!({
        "id": element.id.map(|id| id.to_string()),
        "due_ms": element.due_ms,
        "attempts": element.attempts,
        "layout": element.shape.as_str(),
        "size": element.size,
    });
    if let Some((_, name)) = state.score() {
        row[name] = element.score_ms.into();
    }
    if args.routes {
        row["routes"] = routes(spec, element).into();
    }
    if !element.code.is_empty() {
        row["code"] = element.code.as_str().into();
    }
    if let Some(fields) = row.as_object_mut() {
        fields.extend(payload::fields(spec.codec, &element.payload, element.is_complete()));
    }
    row
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::source::redisson::layout::Layout;

    fn sample() -> Seen {
        Seen {
            id: Some(MessageId(*b"RANDOM8B")),
            due_ms: Some(1_795_251_632_252),
            score_ms: Some(1_795_251_637_252),
            attempts: 2,
            code: "timeout".to_owned(),
            shape: Shape::Packed(Layout::New),
            size: 100,
            payload: Bytes::from("x".repeat(100)),
        }
    }

    fn spec() -> std::sync::Arc<QueueSpec> {
        let text = "redis: { url: 'redis://h' }\nsinks: { out: { redis: { list: 'l:${payload.a}' } } }\nqueues:\n  q:\n    \
                    source: { redisson: { name: n } }\n    codec: string\n    to: [{ sink: out, list: done }]\n";
        crate::config::load_str(text, "c.yaml", &|_| None).unwrap().config.queues.remove(0)
    }

    fn args(state: State) -> PeekArgs {
        PeekArgs { queue: "q".to_owned(), limit: 20, state, full: false, routes: false }
    }

    #[test]
    fn a_row_tells_who_when_and_what() {
        let text = text(&args(State::Retry), &spec(), 1_795_251_642_252, &[sample()]);
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

    #[test]
    fn json_names_the_score_by_its_meaning() {
        let row = json_row(&args(State::InFlight), &spec(), &sample());
        assert_eq!((&row["lease_ends_ms"], &row["code"]), (&json!(1_795_251_637_252_i64), &json!("timeout")));
        assert_eq!(row["payload"], "x".repeat(100));
        assert!(json_row(&args(State::Scheduled), &spec(), &sample()).get("lease_ends_ms").is_none());
    }

    #[test]
    fn with_routes_a_row_says_where_it_would_go() {
        let row = json_row(&PeekArgs { routes: true, ..args(State::Scheduled) }, &spec(), &sample());
        assert_eq!(row["routes"], json!(["out: list done"]));
        let junk = Seen { shape: Shape::Junk, ..sample() };
        assert_eq!(routes(&spec(), &junk), ["dead letter: of no layout"]);
    }
}
