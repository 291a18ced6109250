//! `queues`: the numbers of every queue at one glance.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use super::session::{Queue, Session, explained};
use super::table::{Align, Table};
use super::{Failed, Global, Output, show};
use crate::source::redisson::{Hints, SourceError, Stats};

/// Show every queue: what is pending, late, dead.
///
/// The states exclude each other: what is due is not counted as scheduled. GHOSTS are entries that Redisson's own list
/// still shows although they were taken; ORPHANS stand in that list and nowhere else, and are left alone.
///
/// SCHEDULED -> DUE -> IN FLIGHT -> gone | RETRY | DEAD; READY: by a Redisson client
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct QueuesArgs {}

const AFTER: &str = "\
Examples:
  delaybridge queues
  delaybridge queues --output json

Exit codes: 0 done, 1 a queue could not be read, 2 wrong configuration";

pub(super) async fn run(global: &Global, _: &QueuesArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let session = Session::open(global).await?;
    let mut answers = Vec::new();
    for spec in &session.config.queues {
        let queue = Queue::of(spec.clone());
        let stats = queue.redisson.stats(&session.conn, &mut Hints::default()).await;
        answers.push((spec.id.to_string(), stats));
    }
    match global.output {
        Output::Json => {
            let rows: Vec<_> = answers.iter().map(|(id, stats)| json_row(id, stats)).collect();
            writeln!(out, "{:#}", Value::from(rows))?;
        }
        Output::Text => write!(out, "{}", text(&answers))?,
    }
    let failed: Vec<_> = answers
        .iter()
        .filter_map(|(id, stats)| Some(format!("read queue `{id}`: {}", explained(stats.as_ref().err()?))))
        .collect();
    if failed.is_empty() { Ok(0) } else { Err(Failed::runtime(failed.join("\n"))) }
}

fn text(answers: &[(String, Result<Stats, SourceError>)]) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("QUEUE", Left),
        ("SCHEDULED", Right),
        ("DUE", Right),
        ("IN FLIGHT", Right),
        ("RETRY", Right),
        ("DEAD", Right),
        ("READY", Right),
        ("GHOSTS", Right),
        ("ORPHANS", Right),
        ("NEXT DUE", Left),
        ("OLDEST OVERDUE", Left),
    ]);
    for (id, stats) in answers {
        let Ok(s) = stats else {
            table.row([id.clone(), "?".to_owned()]);
            continue;
        };
        let numbers = [
            s.source.scheduled - s.source.due,
            s.source.due,
            s.in_flight,
            s.retry,
            s.dead,
            s.source.ready,
            s.source.leftovers.count as i64,
            s.source.orphans,
        ];
        let (next, overdue) = heads(s);
        let next = next.map_or("-".to_owned(), |ms| show::relative(ms, s.now_ms));
        let overdue = overdue.map_or("-".to_owned(), show::duration);
        table.row(std::iter::once(id.clone()).chain(numbers.map(|n| n.to_string())).chain([next, overdue]));
    }
    table.render()
}

/// When the head of Z falls due, or is overdue since, in ms.
fn heads(stats: &Stats) -> (Option<i64>, Option<u64>) {
    match stats.source.head_ms {
        Some(ms) if ms <= stats.now_ms => (Some(stats.now_ms), Some(ms.abs_diff(stats.now_ms))),
        head => (head, None),
    }
}

fn json_row(id: &str, stats: &Result<Stats, SourceError>) -> Value {
    match stats {
        Err(error) => json!({ "queue": id, "error": error.to_string() }),
        Ok(s) => json!({
            "queue": id,
            "now_ms": s.now_ms,
            "scheduled": s.source.scheduled - s.source.due,
            "due": s.source.due,
            "in_flight": s.in_flight,
            "retry": s.retry,
            "dead": s.dead,
            "ready": s.source.ready,
            "listed": s.source.leftovers.of,
            "ghosts": s.source.leftovers.count,
            "oldest_ghost_age_ms": (s.source.leftovers.count > 0).then_some(s.source.leftovers.oldest.as_millis() as u64),
            "orphans": s.source.orphans,
            "next_due_ms": s.source.head_ms,
            "oldest_overdue_ms": heads(s).1,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkError;
    use crate::source::Depths;

    #[test]
    fn a_row_tells_what_is_late_and_what_comes_next() {
        let ahead = Stats {
            now_ms: 10_000,
            source: Depths { scheduled: 3, head_ms: Some(15_000), ..Depths::default() },
            ..Stats::default()
        };
        let late = Stats {
            now_ms: 10_000,
            dead: 1,
            source: Depths { scheduled: 3, due: 2, head_ms: Some(4_000), ..Depths::default() },
            ..Stats::default()
        };
        let error = SourceError::Link(LinkError::Server { code: "WRONGKEY", message: "x".to_owned() });
        let answers = [("a".to_owned(), Ok(ahead)), ("b".to_owned(), Ok(late)), ("c".to_owned(), Err(error))];
        let text = text(&answers);
        let cells: Vec<Vec<_>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(cells[0], ["a", "3", "0", "0", "0", "0", "0", "0", "0", "in", "5s", "-"]);
        assert_eq!(cells[1], ["b", "1", "2", "0", "0", "1", "0", "0", "0", "now", "6s"]);
        assert_eq!(cells[2], ["c", "?"]);
        assert_eq!(json_row("b", &answers[1].1)["oldest_overdue_ms"], 6_000);
        assert_eq!(json_row("a", &answers[0].1)["oldest_overdue_ms"], Value::Null);
    }
}
