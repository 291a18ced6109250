//! `pause` and `resume`: a queue or a sink, for every daemon that serves it.

use clap::{ArgGroup, Args};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NO_REASON, no_reason, one_line};
use crate::error::Error;
use crate::operation::route;
use crate::operation::{ChangeSubject, ChangeTarget, Explain, Operation, Route, Scene};
use crate::pause::{PauseChange, PauseChanges, PauseStep, change, queues_of};
use crate::time::{Length, Moment};
use crate::{plural, show};
use delaybridge_ledger::{NewPause, PauseEnd};
use delaybridge_model::Config;

/// Stop the deliveries of a queue, or to a sink.
///
/// Every daemon that serves the queue sees it within a second, and after a restart too: it is kept in Redis. Nothing is
/// claimed, what is in flight is finished, retries wait, dead letters are forwarded. Elements that fall due meanwhile are
/// delivered after the end. A sink is paused for all queues of this configuration that deliver to it.
///
/// due -> (paused) -> due
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = PAUSE, group = ArgGroup::new("paused").required(true))]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = []))]
pub struct Pause {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE", group = "paused")]
    #[schemars(skip)]
    pub queue: Option<String>,
    /// The sink's name in the configuration
    #[arg(long, value_name = "NAME", group = "paused")]
    #[schemars(skip)]
    pub sink: Option<String>,
    /// The reason, for everybody who wonders why nothing moves
    #[arg(long, alias = "reason", value_name = "TEXT", default_value = NO_REASON)]
    #[serde(default = "no_reason")]
    pub why: String,
    /// Name of the person who pauses it [default: the user who runs the command, or the owner of the token]
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Length of the pause, as 2h 30m; without it, until `resume`
    #[arg(long = "for", value_name = "DURATION")]
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<Length>,
    /// The end, by the clock of Redis: 2027-01-31T09:00:00Z, 2027-01-31T10:00:00+01:00, or milliseconds since 1970
    #[arg(long, value_name = "TIME", conflicts_with = "length")]
    #[serde(rename = "until_ms", skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
}

/// Continue the deliveries of a queue, or to a sink.
///
/// Ends a pause, for every daemon. What was not paused stays as it is.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = RESUME, group = ArgGroup::new("paused").required(true))]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE", group = "paused")]
    #[schemars(skip)]
    pub queue: Option<String>,
    /// The sink's name in the configuration
    #[arg(long, value_name = "NAME", group = "paused")]
    #[schemars(skip)]
    pub sink: Option<String>,
}

const PAUSE: &str = "\
Examples:
  delaybridge pause order_timeout --why 'the shop is migrated' --for 2h
  delaybridge pause --sink events --why 'Kafka upgrade, call Ann'

Exit codes: 0 paused, 1 failed for a queue, 2 wrong arguments or configuration";

const RESUME: &str = "\
Examples:
  delaybridge resume order_timeout
  delaybridge resume --sink events

Exit codes: 0 resumed, or was not paused, 1 failed for a queue, 2 wrong arguments or configuration";

impl Operation for Pause {
    type Answer = PauseChanges;

    const NAME: &'static str = "pause";
    const ROUTES: &'static [Route] = &[
        route!(POST "/v1/queues/{queue}/pause" pause ToOperate,
            "Claim nothing from the queue, for all daemons" => "It is paused",
            "What is in flight is finished. It is kept in Redis, and replaces a pause that is there."),
        route!(POST "/v1/sinks/{sink}/pause" pause_sink ToOperate,
            "Claim nothing that goes to the sink, for all daemons" => "It is paused for these queues"),
    ];

    fn check(&self, config: &Config) -> Result<(), Error> {
        let target = target(&self.queue, &self.sink)?;
        queues_of(config, &target)?;
        one_line(&format!("pause {target}: --why"), &self.why)?;
        self.by.as_deref().map_or(Ok(()), |by| one_line(&format!("pause {target}: --by"), by))?;
        match (&self.length, &self.until) {
            (Some(_), Some(_)) => Err(Error::invalid("read the end of the pause: there are both `for` and `until_ms`")),
            _ => Ok(()),
        }
    }

    async fn run(&self, scene: &Scene) -> Result<PauseChanges, Error> {
        let end = match (self.length, self.until) {
            (Some(Length(time)), _) => PauseEnd::After(time),
            (None, Some(Moment(ms))) => PauseEnd::At(ms),
            (None, None) => PauseEnd::Never,
        };
        let by = scene.by(self.by.as_deref());
        let new = NewPause { nonce: fastrand::u64(..), end, by: &by, why: &self.why };
        change(scene.session().await?, &target(&self.queue, &self.sink)?, PauseStep::Pause(new)).await
    }

    fn text(&self, changes: &PauseChanges, _: Explain) -> String {
        lines(changes, |change| {
            let until = change.pause.as_ref().and_then(|pause| pause.until_ms);
            let until =
                until.map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {}", show::absolute(at)));
            let again = if change.before.is_some() { "; it was paused before" } else { "" };
            format!("paused {until}{again}")
        })
    }

    fn failed(changes: &PauseChanges) -> Option<String> {
        failures(changes, Self::NAME)
    }

    fn change(&self) -> Option<ChangeSubject> {
        Some(ChangeSubject::whole(Self::NAME, target(&self.queue, &self.sink).ok()?))
    }

    fn result(changes: &PauseChanges) -> String {
        changes.words()
    }

    fn person(&self) -> Option<&str> {
        self.by.as_deref()
    }

    fn name_person(&mut self, person: String) {
        self.by.get_or_insert(person);
    }
}

impl Operation for Resume {
    type Answer = PauseChanges;

    const NAME: &'static str = "resume";
    const ROUTES: &'static [Route] = &[
        route!(POST "/v1/queues/{queue}/resume" resume ToOperate,
            "Claim from the queue again" => "It is not paused"),
        route!(POST "/v1/sinks/{sink}/resume" resume_sink ToOperate,
            "Claim what goes to the sink again" => "It is not paused"),
    ];

    fn check(&self, config: &Config) -> Result<(), Error> {
        queues_of(config, &target(&self.queue, &self.sink)?).map(drop)
    }

    async fn run(&self, scene: &Scene) -> Result<PauseChanges, Error> {
        change(scene.session().await?, &target(&self.queue, &self.sink)?, PauseStep::Resume).await
    }

    fn text(&self, changes: &PauseChanges, _: Explain) -> String {
        lines(changes, |change| match &change.before {
            Some(pause) => format!("resumed; it was paused by {}: {}", pause.by, pause.why),
            None => "was not paused".to_owned(),
        })
    }

    fn failed(changes: &PauseChanges) -> Option<String> {
        failures(changes, Self::NAME)
    }

    fn change(&self) -> Option<ChangeSubject> {
        Some(ChangeSubject::whole(Self::NAME, target(&self.queue, &self.sink).ok()?))
    }

    fn result(changes: &PauseChanges) -> String {
        changes.words()
    }
}

/// Returns the queue or the sink.
fn target(queue: &Option<String>, sink: &Option<String>) -> Result<ChangeTarget, Error> {
    match (queue, sink) {
        (Some(queue), None) => Ok(ChangeTarget::Queue(queue.clone())),
        (None, Some(sink)) => Ok(ChangeTarget::Sink(sink.clone())),
        _ => Err(Error::invalid("read the request: name a queue or a sink")),
    }
}

/// Returns the changes, a line for each queue.
fn lines(changes: &PauseChanges, words_of: impl Fn(&PauseChange) -> String) -> String {
    let line = |change: &PauseChange| {
        let sink = change.sink.as_ref().map(|sink| format!("sink {sink} of ")).unwrap_or_default();
        format!("{sink}{}: {}\n", change.queue, words_of(change))
    };
    let silent = match changes.queues.iter().filter(|change| !change.announced).count() {
        0 => String::new(),
        n => format!(
            "The daemons of {} were not notified: the right to PUBLISH is missing. They see it within a minute.\n",
            plural::count(n, "queue")
        ),
    };
    changes.queues.iter().map(line).collect::<String>() + &silent
}

/// Returns the queues for which it failed: it may be repeated as a whole.
fn failures(changes: &PauseChanges, verb: &str) -> Option<String> {
    let failed: Vec<_> =
        changes.errors.iter().map(|error| format!("{verb} queue `{}`: {}", error.queue, error.message)).collect();
    (!failed.is_empty()).then(|| failed.join("\n"))
}
