//! `dead redrive` and `dead purge`: many dead letters, by name, by filter, or all.

use std::borrow::Cow;

use clap::Args;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::dead::selection::Selection;
use crate::dead::{Letters, SweepPlace, none_of, still_unknown, unknown_sinks};
use crate::error::{Attempted, Error};
use crate::operation::{ChangeSubject, ChangeTarget, Explain, Operation, OperatorAct, Route, Scene, route};
use crate::plural;
use crate::progress::{Pacer, Progress};
use crate::session::Queue;
use delaybridge_ledger::{DeadLetter, Order};
use delaybridge_model::Config;

/// Letters with errors, and names that fit none, that are named.
const NAMED: usize = 100;

/// Redrive dead letters: deliver them again.
///
/// The element returns unchanged, due now, with its id and due time and no counted attempts. Sinks that had confirmed
/// it do not get it again. With `max_lateness`, consider that it is late. Letters that come meanwhile are not redriven.
///
/// dead -> retry, due now -> claimed by the daemon
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(after_help = REDRIVE)]
#[serde(transparent)]
pub struct Redrive {
    /// The letters
    #[command(flatten)]
    pub letters: Letters,
}

/// Remove dead letters permanently.
///
/// Their elements are lost: no other copy exists. --yes is required with --all, with a filter, and without a terminal.
///
/// dead -> gone
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(after_help = PURGE)]
#[serde(transparent)]
pub struct Purge {
    /// The letters
    #[command(flatten)]
    pub letters: Letters,
    /// Yes, remove them
    #[arg(long)]
    #[serde(skip)]
    pub yes: bool,
}

const REDRIVE: &str = "\
Examples:
  delaybridge dead redrive order_timeout 1795251632252-0
  delaybridge dead redrive order_timeout 52414e444f4d3842 1b2c3d4e5f607182
  delaybridge dead redrive order_timeout --code timeout --newer-than 1d --dry-run
  delaybridge dead redrive order_timeout --code timeout --newer-than 1d --rate 200/s
  delaybridge dead redrive order_timeout --all

Run it again after a failure or Ctrl-C: it goes on, and nothing is redriven twice.";

const PURGE: &str = "\
Examples:
  delaybridge dead purge order_timeout 1795251632252-0
  delaybridge dead purge order_timeout --reason undecodable --older-than 7d --dry-run
  delaybridge dead purge order_timeout --all --yes

Run it again after a failure or Ctrl-C: it goes on.";

/// The outcome of redriving letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct Redriven {
    /// The queue.
    pub queue: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Letters that were meant.
    pub matched: usize,
    /// Letters that were redriven.
    pub redriven: usize,
    /// Letters that stay: the same element waits already, or its job was written again, or another client took it.
    pub left: usize,
    /// Whether it was ended early: run it again, and it goes on.
    pub stopped: bool,
    /// Letters that cannot be redriven; the first hundred.
    pub errors: Vec<LetterError>,
    /// Letters that cannot be redriven, in all.
    pub failed: usize,
    /// Names that fit no letter.
    pub not_found: Vec<String>,
    /// The place that it has come to, if the request has a `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<SweepPlace>,
    /// Sinks of the filter that neither the configuration has nor a letter that was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_sinks: Vec<String>,
}

/// A letter that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LetterError {
    /// The letter's place in the stream.
    pub stream_id: String,
    /// The problem.
    pub message: String,
}

/// The outcome of removing letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct Purged {
    /// The queue.
    pub queue: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Letters that were meant.
    pub matched: usize,
    /// Letters that were removed.
    pub purged: usize,
    /// Whether it was ended early: run it again, and it goes on.
    pub stopped: bool,
    /// Names that fit no letter.
    pub not_found: Vec<String>,
    /// The place that it has come to, if the request has a `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<SweepPlace>,
    /// Sinks of the filter that neither the configuration has nor a letter that was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_sinks: Vec<String>,
}

/// Gives a request the schema of the letters that it is: a schema of its own would have nothing but a reference.
macro_rules! has_schema_of_letters {
    ($($request:ty),*) => {$(
        impl JsonSchema for $request {
            fn inline_schema() -> bool {
                Letters::inline_schema()
            }

            fn schema_name() -> Cow<'static, str> {
                Letters::schema_name()
            }

            fn schema_id() -> Cow<'static, str> {
                Letters::schema_id()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                Letters::json_schema(generator)
            }
        }
    )*};
}
has_schema_of_letters!(Redrive, Purge);

/// Implements what is common to the operations on many letters.
macro_rules! works_through_letters {
    ($verb:literal, $past:literal, $errors:path => $answer:ident: $done:ident) => {
        type Answer = $answer;

        const LONG: bool = true;

        fn queue(&self) -> Option<&str> {
            Some(&self.letters.queue)
        }

        fn check(&self, config: &Config) -> Result<(), Error> {
            self.letters.check(config, $verb)
        }

        fn change(&self) -> Option<ChangeSubject> {
            let Letters { queue, dry_run, .. } = &self.letters;
            let subject =
                || ChangeSubject { what: $verb, of: ChangeTarget::Queue(queue.clone()), which: self.letters.words() };
            (!dry_run).then(subject)
        }

        fn result(done: &$answer) -> String {
            format!("{} matched, {} {}", done.matched, done.$done, stringify!($done))
        }

        fn missed(done: &$answer) -> Option<String> {
            let words = |n| format!("{n} {}", $past);
            let stopped = || {
                let done = done.$done;
                format!("{} dead letters: ended after {done}; run the same command again to go on with the rest", $verb)
            };
            let missing = || {
                (!done.not_found.is_empty()).then(|| none_of(&done.queue, &done.not_found, &words(done.$done)).message)
            };
            $errors(done)
                .or_else(|| done.stopped.then(stopped))
                .or_else(missing)
                .or_else(|| unknown_sinks(&done.queue, &done.unknown_sinks))
        }

        fn names(&mut self) -> Option<&mut Vec<String>> {
            self.letters.ids.as_mut()
        }

        fn nothing(&self) -> Option<$answer> {
            let Letters { queue, ids, dry_run, .. } = &self.letters;
            let done = || $answer { queue: queue.clone(), dry_run: *dry_run, ..$answer::default() };
            ids.as_ref().is_some_and(Vec::is_empty).then(done)
        }

        fn rate(&self) -> Option<f64> {
            self.letters.rate
        }

        fn portion(&self) -> Self {
            let mut portion = self.clone();
            portion.letters = self.letters.portion();
            portion
        }

        fn rest(&self, done: &$answer) -> Option<Self> {
            let mut rest = self.clone();
            rest.letters = self.letters.rest(done.part.as_ref())?;
            Some(rest)
        }

        fn end(all: &mut $answer, stopped: bool) {
            (all.stopped, all.part) = (stopped, None);
        }

        fn progress(&self, all: &$answer) -> Progress {
            let acted = if all.dry_run { all.matched } else { all.$done } as u64;
            match &all.part {
                Some(part) => Progress { done: part.examined, of: Some(part.total), acted },
                None => Progress {
                    done: all.matched as u64,
                    of: self.letters.ids.as_ref().map(|ids| ids.len() as u64),
                    acted,
                },
            }
        }
    };
}

impl Operation for Redrive {
    works_through_letters!("redrive", "redriven", unread => Redriven: redriven);

    const NAME: &'static str = "dead redrive";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/queues/{queue}/dead/redrive" redrive ToOperate,
        "Deliver dead letters again" => "The number of letters",
        "What was redriven is not redriven twice, so that it may be sent again after an unknown outcome.")];

    async fn run(&self, scene: &Scene) -> Result<Redriven, Error> {
        let Letters { queue, dry_run, rate, .. } = &self.letters;
        let mut done = Redriven { queue: queue.clone(), dry_run: *dry_run, ..Redriven::default() };
        let queue = scene.queue(queue).await?;
        let mut selection = Selection::open(&queue, &self.letters, Order::Oldest).await?;
        let mut rate = Pacer::new(*rate);
        while let Some(page) = selection.next(usize::MAX).await? {
            for letter in page.letters {
                done.matched += 1;
                if !dry_run {
                    rate.turn().await;
                    let before = done.redriven;
                    redrive(&queue, letter, &mut done).await?;
                    scene.count(&queue, OperatorAct::Redriven, done.redriven - before);
                    // What follows at a rate, a claimer that is awake finds.
                    if before == 0 && done.redriven > 0 {
                        let _ = queue.ledger.announce_change(&queue.conn).await;
                    }
                }
            }
        }
        if done.redriven > 0 {
            // Daemons look by themselves too, only later.
            let _ = queue.ledger.announce_change(&queue.conn).await;
        }
        (done.not_found, done.part) = (selection.not_found(), selection.place());
        done.unknown_sinks = selection.unknown_sinks(scene.config());
        Ok(done)
    }

    fn text(&self, done: &Redriven, _: Explain) -> String {
        let queue = &done.queue;
        let letters = plural::count(if done.dry_run { done.matched } else { done.redriven }, "dead letter");
        match done.dry_run {
            true => format!("{letters} of {queue} would be redriven; nothing was changed\n"),
            false if done.left == 0 => format!("{letters} of {queue} redriven\n"),
            false => format!(
                "{letters} of {queue} redriven; {} left: the same elements wait already, or another client has them\n",
                done.left
            ),
        }
    }

    fn add_rest(all: &mut Redriven, rest: Redriven) {
        all.matched += rest.matched;
        all.redriven += rest.redriven;
        all.left += rest.left;
        all.failed += rest.failed;
        add_some(&mut all.errors, rest.errors);
        add_some(&mut all.not_found, rest.not_found);
        add_place(&mut all.part, rest.part);
        still_unknown(&mut all.unknown_sinks, &rest.unknown_sinks);
    }
}

/// Returns the letters that cannot be read.
fn unread(done: &Redriven) -> Option<String> {
    let mut messages: Vec<_> = done.errors.iter().map(|error| error.message.clone()).collect();
    if done.failed > messages.len() {
        messages.push(format!("and {} more that cannot be read", done.failed - messages.len()));
    }
    (done.failed > 0).then(|| messages.join("\n"))
}

/// No letter has to be read to be removed.
fn all_read(_: &Purged) -> Option<String> {
    None
}

/// Makes an element of a letter again, byte for byte, due now.
async fn redrive(queue: &Queue, letter: DeadLetter, done: &mut Redriven) -> Result<(), Error> {
    let member = match letter.reborn() {
        Ok(member) => member,
        Err(error) => {
            done.failed += 1;
            add_some(&mut done.errors, [LetterError { stream_id: letter.stream_id, message: error.to_string() }]);
            return Ok(());
        }
    };
    let what = format!(
        "redrive dead letter {} of `{}` ({} redriven before it; run the command again, nothing is redriven twice)",
        letter.stream_id, done.queue, done.redriven
    );
    // False: another client took it meanwhile, or its like waits.
    let moved = queue.ledger.redrive(&queue.conn, &letter, member, None).await.attempt(&what)?;
    done.redriven += usize::from(moved);
    done.left += usize::from(!moved);
    Ok(())
}

impl Operation for Purge {
    works_through_letters!("purge", "removed", all_read => Purged: purged);

    const NAME: &'static str = "dead purge";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/queues/{queue}/dead/purge" purge ToAdminister,
        "Remove dead letters for good" => "The number of letters")];

    async fn run(&self, scene: &Scene) -> Result<Purged, Error> {
        let Letters { queue, dry_run, rate, .. } = &self.letters;
        let mut done = Purged { queue: queue.clone(), dry_run: *dry_run, ..Purged::default() };
        let queue = scene.queue(queue).await?;
        let mut selection = Selection::open(&queue, &self.letters, Order::Oldest).await?;
        let mut rate = Pacer::new(*rate);
        while let Some(page) = selection.next(usize::MAX).await? {
            let ids: Vec<_> = page.letters.into_iter().map(|letter| letter.stream_id).collect();
            done.matched += ids.len();
            if *dry_run {
                continue;
            }
            for ids in ids.chunks(if rate.is_bounded() { 1 } else { ids.len().max(1) }) {
                rate.turn().await;
                let what = format!("purge dead letters of `{}` ({} removed before)", done.queue, done.purged);
                let purged = queue.ledger.purge(&queue.conn, ids).await.attempt(&what)?;
                done.purged += purged;
                scene.count(&queue, OperatorAct::Purged, purged);
            }
        }
        (done.not_found, done.part) = (selection.not_found(), selection.place());
        done.unknown_sinks = selection.unknown_sinks(scene.config());
        Ok(done)
    }

    fn text(&self, done: &Purged, _: Explain) -> String {
        let queue = &done.queue;
        if done.dry_run {
            let letters = plural::count(done.matched, "dead letter");
            format!("{letters} of {queue} would be removed; nothing was changed\n")
        } else {
            format!("{} of {queue} removed\n", plural::count(done.purged, "dead letter"))
        }
    }

    fn add_rest(all: &mut Purged, rest: Purged) {
        all.matched += rest.matched;
        all.purged += rest.purged;
        add_some(&mut all.not_found, rest.not_found);
        add_place(&mut all.part, rest.part);
        still_unknown(&mut all.unknown_sinks, &rest.unknown_sinks);
    }

    fn confirm(&self, terminal: bool) -> Result<(), Error> {
        let Letters { queue, ids, all, filter, dry_run, .. } = &self.letters;
        let many = *all || !filter.is_empty() || ids.iter().flatten().any(|id| id == "-");
        if self.yes || *dry_run || (terminal && !many) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "purge dead letters of `{queue}`: nothing was removed; the removal is permanent: see with --dry-run how many it would \
             be, and confirm it with --yes"
        )))
    }
}

/// The first of many: a million of them need not be in memory.
fn add_some<T>(all: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    let room = NAMED.saturating_sub(all.len());
    all.extend(more.into_iter().take(room));
}

fn add_place(all: &mut Option<SweepPlace>, rest: Option<SweepPlace>) {
    if let (Some(all), Some(rest)) = (all, rest) {
        all.examined += rest.examined;
    }
}
