//! `queues`: the numbers of every queue at one glance.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;

use super::jobs::topics;
use super::remote::DaemonArgs;
use super::table::{Align, Table};
use super::top::every;
use super::{Failed, Global, Output, answer, load_queues, show};
use crate::operate::overview::Overview;
use crate::operate::queues::{QueueState, Queues, queues};
use crate::operate::remote::{self, Daemon};
use crate::operate::{Session, words};

/// Show every queue with its pending, late and dead elements.
///
/// Every element is in one state: a due element does not count as scheduled. GHOSTS are entries of Redisson's list
/// with claimed elements. ORPHANS are entries of that list in no sorted set; they are kept. OLDEST DUE is how long the oldest
/// element is due that is scheduled or waits for a retry. DAEMONS are those that deliver from the queue and are connected; why one
/// of them holds a queue is in its /readyz.
///
/// SCHEDULED -> DUE -> IN FLIGHT -> gone | RETRY | DEAD; READY: by a Redisson client
///
/// What is paused follows, and the topics of a job queue in the configuration.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct QueuesArgs {
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Look again every so often, until it is stopped
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "2s", require_equals = true, value_parser = every)]
    pub watch: Option<Duration>,
}

const AFTER: &str = "\
Examples:
  delaybridge queues
  delaybridge queues --output json
  delaybridge queues --daemon http://127.0.0.1:9465 --watch

Exit codes: 0 done, 1 a queue could not be read, 2 wrong configuration";

pub(super) async fn run(global: &Global, args: &QueuesArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let place = match args.daemon.daemon()? {
        Some(daemon) => Place::Daemon(daemon),
        None => Place::Redis(Box::new(Session::open(load_queues(global)?).await?)),
    };
    let Some(every) = args.watch else { return once(global, &place, out).await };
    let clear = std::io::stdout().is_terminal() && global.output == Output::Text;
    loop {
        if clear {
            // From the first line on: one screen, and not a roll of paper.
            out.write_all(b"\x1b[H\x1b[2J")?;
        }
        if let Err(failed) = once(global, &place, out).await {
            writeln!(out, "{failed}")?;
        }
        if !clear && global.output == Output::Text {
            writeln!(out)?;
        }
        out.flush()?;
        tokio::time::sleep(every).await;
    }
}

/// What is asked.
enum Place {
    Daemon(Daemon),
    Redis(Box<Session>),
}

async fn once(global: &Global, place: &Place, out: &mut dyn Write) -> Result<u8, Failed> {
    let found = match place {
        Place::Redis(session) => queues(session).await,
        Place::Daemon(daemon) => {
            let Overview { queues, errors, .. } = remote::overview(daemon, "").await?;
            Queues { queues: queues.into_iter().map(|row| row.state).collect(), topics: None, errors }
        }
    };
    answer(global, out, &found, text)?;
    let failed: Vec<_> =
        found.errors.iter().map(|error| format!("read queue `{}`: {}", error.queue, error.message)).collect();
    if failed.is_empty() { Ok(0) } else { Err(Failed::runtime(failed.join("\n"))) }
}

fn text(found: &Queues) -> String {
    let numbers = ["SCHEDULED", "DUE", "IN FLIGHT", "RETRY", "DEAD", "READY", "GHOSTS", "ORPHANS"];
    let mut columns = vec![("QUEUE", Align::Left)];
    columns.extend(numbers.map(|name| (name, Align::Right)));
    columns.extend(["NEXT DUE", "OLDEST DUE"].map(|name| (name, Align::Left)));
    columns.push(("DAEMONS", Align::Right));
    columns.extend(["MODE", "SINKS"].map(|name| (name, Align::Left)));
    let mut table = Table::new(&columns);
    let rows = found.queues.len() + found.errors.len();
    for s in &found.queues {
        let in_flight = format!("{}{}", if s.in_flight_at_least { ">=" } else { "" }, s.in_flight);
        let numbers: [&dyn Display; 8] =
            [&s.scheduled, &s.due, &in_flight, &s.retry, &s.dead, &s.ready, &s.ghosts, &s.orphans];
        let next = s.next_due_ms.map_or("-".to_owned(), |ms| show::relative(ms.max(s.now_ms), s.now_ms));
        let oldest = s.oldest_due_age_ms.map_or("-".to_owned(), words::duration);
        let daemons = s.daemons.map_or("?".to_owned(), |daemons| daemons.to_string());
        let rest = [next, oldest, daemons, s.mode.clone(), s.sinks.join(", ")];
        table.row(std::iter::once(s.queue.clone()).chain(numbers.map(|n| n.to_string())).chain(rest));
    }
    for error in &found.errors {
        table.row([error.queue.clone(), "?".to_owned()]);
    }
    let of_queue = |s: &QueueState| -> String {
        s.paused.iter().map(|pause| format!("{}: {}\n", s.queue, pause.line(s.now_ms))).collect()
    };
    let paused: String = found.queues.iter().map(of_queue).collect();
    let paused = if paused.is_empty() { paused } else { format!("\n{paused}") };
    match &found.topics {
        None => table.render() + &paused,
        Some(found) if rows == 0 => topics(found),
        Some(found) => format!("{}{paused}\n{}", table.render(), topics(found)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::QueueError;

    #[test]
    fn a_row_says_what_is_late_and_what_comes_next() {
        let ahead = QueueState {
            queue: "a".to_owned(),
            now_ms: 10_000,
            scheduled: 3,
            next_due_ms: Some(15_000),
            ..QueueState::default()
        };
        let late = QueueState {
            queue: "b".to_owned(),
            scheduled: 1,
            due: 2,
            dead: 1,
            next_due_ms: Some(4_000),
            oldest_overdue_ms: Some(6_000),
            oldest_due_age_ms: Some(6_000),
            daemons: Some(2),
            mode: "deliver".to_owned(),
            sinks: vec!["events".to_owned()],
            ..ahead.clone()
        };
        let many = QueueState { queue: "m".to_owned(), in_flight: 1_000, in_flight_at_least: true, ..ahead.clone() };
        let error = QueueError { queue: "c".to_owned(), message: "x".to_owned() };
        let text = text(&Queues { queues: vec![ahead, late, many], topics: None, errors: vec![error] });
        let cells: Vec<Vec<_>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(cells[0], ["a", "3", "0", "0", "0", "0", "0", "0", "0", "in", "5s", "-", "?"]);
        assert_eq!(cells[1], ["b", "1", "2", "0", "0", "1", "0", "0", "0", "now", "6s", "2", "deliver", "events"]);
        assert_eq!(cells[2][..4], ["m", "3", "0", ">=1000"]);
        assert_eq!(cells[3], ["c", "?"]);
    }
}
