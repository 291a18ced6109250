//! `dead ls`: who died when, of what.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use super::super::session::{Session, attempted};
use super::super::table::{Align, Table};
use super::super::{Failed, Global, Output, show};
use crate::source::redisson::{DeadLetter, Order, redis_now_ms};

/// List the dead letters of a queue, the latest first.
///
/// One line each: when and why it died, and which sink decided. `dead show` has the rest.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct LsArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Most letters that are listed
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub limit: usize,
}

const AFTER: &str = "\
Examples:
  delaybridge dead ls order_timeout
  delaybridge dead ls order_timeout --limit 1000 --output json";

pub(super) async fn run(global: &Global, args: &LsArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (session, queue) = Session::on_queue(global, &args.queue).await?;
    let what = format!("list the dead letters of `{}`", args.queue);
    let now_ms = redis_now_ms(&session.conn).await.map_err(|error| attempted(&what)(error.into()))?;
    let mut letters = queue.redisson.dead_letters(&session.conn, Order::Newest).await.map_err(attempted(&what))?;
    let mut rows = Vec::new();
    loop {
        let page = letters.next(&session.conn, args.limit - rows.len()).await.map_err(attempted(&what))?;
        if page.is_empty() {
            break;
        }
        // The elements are not kept: a thousand letters may hold gigabytes.
        rows.extend(page.iter().map(|letter| match global.output {
            Output::Json => Row::Json(json_row(letter)),
            Output::Text => Row::Text(text_row(letter, now_ms)),
        }));
    }
    match global.output {
        Output::Json => {
            let rows: Vec<_> =
                rows.into_iter().filter_map(|row| if let Row::Json(row) = row { Some(row) } else { None }).collect();
            writeln!(out, "{:#}", json!({ "queue": args.queue, "dead": rows }))?;
        }
        Output::Text if rows.is_empty() => writeln!(out, "no dead letters in {}", args.queue)?,
        Output::Text => {
            let mut table = Table::new(
                &["STREAM ID", "ID", "DIED", "REASON", "ATTEMPTS", "CODE", "SINK", "MESSAGE"]
                    .map(|name| (name, Align::Left)),
            );
            for row in rows {
                if let Row::Text(cells) = row {
                    table.row(cells);
                }
            }
            write!(out, "{}", table.render())?;
        }
    }
    Ok(0)
}

enum Row {
    Text(Vec<String>),
    Json(Value),
}

fn text_row(letter: &DeadLetter, now_ms: i64) -> Vec<String> {
    let mut row = vec![letter.stream_id.clone(), letter.text("id").to_owned()];
    row.push(letter.number("died_ms").map(|ms| show::relative(ms, now_ms)).unwrap_or_default());
    row.extend(
        ["reason", "attempts", "code", "sink", "message"]
            .map(|field| letter.text(field).replace(char::is_control, " ")),
    );
    row
}

fn json_row(letter: &DeadLetter) -> Value {
    let mut row = json!({ "stream_id": letter.stream_id });
    for field in ["id", "reason", "class", "code", "message", "sink", "destination"] {
        row[field] = letter.text(field).into();
    }
    for field in ["due_ms", "died_ms", "attempts"] {
        row[field] = letter.number(field).into();
    }
    row["size"] = letter.bytes("element").map_or(0, bytes::Bytes::len).into();
    row
}
