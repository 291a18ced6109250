//! `queues`: the numbers of every queue at one glance.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;

use super::answer::answer_of;
use super::failed::Failed;
use super::global::{Global, Output};
use super::remote::DaemonArgs;
use super::show;
use super::table::TextTable;
use super::top::every;
use delaybridge_ops::content::escaped;
use delaybridge_ops::jobs::text::topics;
use delaybridge_ops::operation::Place;
use delaybridge_ops::overview::{QueueRow, SinkRow};
use delaybridge_ops::plural;
use delaybridge_ops::queues::{Queues, queues};

/// Show every queue with its pending, late and dead elements.
///
/// Every element is in one state: a due element does not count as scheduled. GHOSTS are entries of Redisson's list
/// with claimed elements. ORPHANS are entries of that list in no sorted set; they are kept. OLDEST DUE is how long the oldest
/// element is due that is scheduled, waits for a retry, or is in flight. DAEMONS are those that deliver from the queue and are
/// connected. HOLD is for how long the daemon has held the queue.
///
/// Only a daemon knows what it holds, how old what it has in flight is, its sinks and its inputs: the one that the configuration names
/// (http.admin) is asked, or that of --daemon. Where none answers for these queues, the first line says why, and HOLD is `?`.
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
    let place = args.daemon.place(global)?;
    place.connect().await?;
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

async fn once(global: &Global, place: &Place, out: &mut dyn Write) -> Result<u8, Failed> {
    let found = queues(place).await?;
    answer_of(global, out, place.without_daemon(), &found, text)?;
    let failed: Vec<_> =
        found.errors.iter().map(|error| format!("read queue `{}`: {}", error.queue, error.message)).collect();
    if failed.is_empty() { Ok(0) } else { Err(Failed::runtime(failed.join("\n"))) }
}

/// The note where no daemon was asked.
const UNKNOWN: &str = "\
holds, sinks and inputs are known to daemons alone: name one in `http.admin` of the configuration, or with --daemon URL
";

fn text(found: &Queues) -> String {
    let mut table = TextTable::new(
        "QUEUE|>SCHEDULED|>DUE|>IN FLIGHT|>RETRY|>DEAD|>READY|>GHOSTS|>ORPHANS|NEXT DUE|OLDEST DUE|>DAEMONS|HOLD|MODE|SINKS",
    );
    let rows = found.queues.len() + found.errors.len();
    for row in &found.queues {
        let s = &row.state;
        let in_flight = format!("{}{}", if s.in_flight_at_least { ">=" } else { "" }, s.in_flight);
        let numbers: [&dyn Display; 8] =
            [&s.scheduled, &s.due, &in_flight, &s.retry, &s.dead, &s.ready, &s.ghosts, &s.orphans];
        let next = s.next_due_ms.map_or("-".to_owned(), |ms| show::relative(ms.max(s.now_ms), s.now_ms));
        let oldest = s.oldest_overdue_ms.map_or("-".to_owned(), plural::duration);
        let daemons = s.daemons.map_or("?".to_owned(), |daemons| daemons.to_string());
        let hold = match row.here.as_ref().map(|here| &here.held) {
            None => "?".to_owned(),
            Some(None) => "-".to_owned(),
            Some(Some(hold)) => lasted(hold.seconds),
        };
        let rest = [next, oldest, daemons, hold, s.mode.clone(), s.destinations()];
        table.row(std::iter::once(s.queue.clone()).chain(numbers.map(|n| n.to_string())).chain(rest));
    }
    for error in &found.errors {
        table.row([error.queue.clone(), "?".to_owned()]);
    }
    let obstacles: String = found.queues.iter().map(obstacles).collect();
    let sinks: String = found.sinks.iter().flatten().map(troubles).collect();
    let machine = if found.sinks.is_some() { "the daemon's machine" } else { "this machine" };
    let clocks: String = found.clocks.iter().map(|clock| format!("clock of {machine}: {}\n", clock.line())).collect();
    let inputs: String = found.inputs.iter().map(|input| format!("input {}\n", escaped(&input.line()))).collect();
    let unknown = if found.sinks.is_none() && !found.queues.is_empty() { UNKNOWN } else { "" };
    let notes = obstacles + &inputs + &sinks + &clocks + unknown;
    let notes = if notes.is_empty() { notes } else { format!("\n{notes}") };
    match &found.topics {
        None => table.render() + &notes,
        Some(found) if rows == 0 => topics(&found.topics, found.now_ms) + &notes,
        Some(found) => format!("{}{notes}\n{}", table.render(), topics(&found.topics, found.now_ms)),
    }
}

/// Why nothing is claimed from a queue, a line for each reason, and its input.
fn obstacles(row: &QueueRow) -> String {
    let s = &row.state;
    let held = row.here.iter().filter_map(|here| here.held.as_ref());
    let held =
        held.map(|hold| format!("{}: on hold for {}: {}\n", s.queue, lasted(hold.seconds), escaped(&hold.reason)));
    let paused = s.paused.iter().map(|pause| format!("{}: {}\n", s.queue, pause.line(s.now_ms)));
    let input = row.here.iter().filter_map(|here| here.input.as_ref());
    let input = input.map(|input| format!("{}: {}; {}\n", s.queue, escaped(&input.words()), input.numbers()));
    held.chain(paused).chain(input).collect()
}

/// Returns a line for each trouble of a sink and of its destinations.
fn troubles(sink: &SinkRow) -> String {
    let name = &sink.sink;
    let word = sink.word();
    let lines: String =
        sink.troubles().iter().map(|trouble| format!("sink {name}: {word}: {}\n", escaped(trouble))).collect();
    if lines.is_empty() && sink.state != "up" {
        format!("sink {name}: {word} for {}\n", lasted(sink.seconds))
    } else {
        lines
    }
}

fn lasted(seconds: u64) -> String {
    plural::duration(seconds.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_ops::QueueError;
    use delaybridge_ops::overview::{ClockSkew, DestinationTrouble, Here, Hold, InputRow, TopicInput};
    use delaybridge_ops::queue_state::QueueState;

    fn cells(found: &Queues) -> (Vec<Vec<String>>, Vec<String>) {
        let text = text(found);
        let (table, notes) = text.split_once("\n\n").unwrap_or((&text, ""));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        (table.lines().skip(1).map(words).collect(), notes.lines().map(str::to_owned).collect())
    }

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
            daemons: Some(2),
            mode: "deliver".to_owned(),
            sinks: vec!["events".to_owned(), "large".to_owned()],
            conditions: [("large".to_owned(), "payload.n > 9".to_owned())].into(),
            ..ahead.clone()
        };
        let many = QueueState { queue: "m".to_owned(), in_flight: 1_000, in_flight_at_least: true, ..ahead.clone() };
        let error = QueueError { queue: "c".to_owned(), message: "x".to_owned() };
        let queues = [ahead, late, many].map(|state| QueueRow { state, here: None }).into();
        let (cells, notes) = cells(&Queues { queues, errors: vec![error], ..Queues::default() });
        assert!(notes[0].starts_with("holds, sinks and inputs are known to daemons alone"), "{notes:?}");
        assert_eq!(cells[0], ["a", "3", "0", "0", "0", "0", "0", "0", "0", "in", "5s", "-", "?", "?"]);
        let (late, sinks) = cells[1].split_at(13);
        assert_eq!(late, ["b", "1", "2", "0", "0", "1", "0", "0", "0", "now", "6s", "2", "?"]);
        assert_eq!(sinks.join(" "), "deliver events, large when payload.n > 9");
        assert_eq!(cells[2][..4], ["m", "3", "0", ">=1000"]);
        assert_eq!(cells[3], ["c", "?"]);
    }

    #[test]
    fn a_daemon_says_why_nothing_moves() {
        let state = QueueState {
            queue: "a".to_owned(),
            oldest_overdue_ms: Some(6_000),
            daemons: Some(1),
            ..Default::default()
        };
        let hold = Hold { reason: "sink events: no\ntopic".to_owned(), seconds: 240 };
        let here = Here { held: Some(hold), ..Here::default() };
        let input = InputRow {
            state: "down".to_owned(),
            reason: Some("no\nbroker".to_owned()),
            seconds: 60,
            received: 9,
            scheduled: 6,
            duplicates: 2,
            refused: 1,
            lag: 4,
        };
        let inputs = vec![TopicInput { name: "in".to_owned(), topic: "mails".to_owned(), input: input.clone() }];
        let free = QueueRow {
            state: QueueState { queue: "b".to_owned(), ..state.clone() },
            here: Some(Here { input: Some(input), ..Here::default() }),
        };
        let sink = |name: &str, state: &str, reason: Option<&str>| SinkRow {
            sink: name.to_owned(),
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
            seconds: 3,
            ..SinkRow::default()
        };
        let destination = "list due:${payload.shop}".to_owned();
        let trouble = DestinationTrouble { destination, count: 3, reason: "NOPERM".to_owned(), seconds: 60 };
        let partly = SinkRow { destinations: vec![trouble], ..sink("partly", "up", None) };
        let sinks = Some(vec![sink("events", "down", Some("no broker")), sink("good", "up", None), partly]);
        let queues = vec![QueueRow { state, here: Some(here) }, free];
        let clocks = vec![ClockSkew { redis: "default".to_owned(), ahead_seconds: 3_600.0 }];
        let (cells, notes) = cells(&Queues { queues, sinks, clocks, inputs, ..Queues::default() });
        assert_eq!(cells[0][9..], ["-", "6s", "1", "4m"]);
        assert_eq!(cells[1][9..], ["-", "6s", "1", "-"]);
        let expected = [
            r"a: on hold for 4m: sink events: no\ntopic",
            r"b: input down for 1m: no\nbroker; 9 received, 6 scheduled, 2 known already, 1 refused, 4 wait at the broker",
            r"input in, to topic mails: input down for 1m: no\nbroker; 9 received, 6 scheduled, 2 known already, 1 refused, 4 wait at the broker",
            "sink events: down: no broker (for 3s)",
            "sink partly: partly up: list due:${payload.shop} (3 of them): NOPERM (for 1m)",
            "clock of the daemon's machine: 1h ahead of that of Redis `default`, by which elements are due; check the time \
             synchronization of both",
        ];
        assert_eq!(notes, expected);
    }
}
