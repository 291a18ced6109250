//! Pauses of queues and sinks, as they are in Redis: read, begun and ended for every daemon.

use std::sync::Arc;

use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::content::bounded;
use super::error::{Attempted, Error, QueueError, explained, may_have_run};
use super::operation::ChangeTarget;
use super::plural;
use super::session::{Queue, Session, find};
use delaybridge_core::clock::utc;
use delaybridge_ledger::{Changed, NewPause, Pause, Pauses, StoreError, Subject, redis_now_ms};
use delaybridge_model::{Config, QueueSpec};

/// Queues that are asked for their pauses at once: their questions go to Redis together.
const AT_ONCE: usize = 500;

/// The outcome of a pause or a resume.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PauseChanges {
    /// The changed queues.
    pub queues: Vec<PauseChange>,
    /// The queues for which it failed.
    pub errors: Vec<QueueError>,
}

/// The change of one queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PauseChange {
    /// The queue.
    pub queue: String,
    /// The sink, where one is paused or resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink: Option<String>,
    /// The new pause; none after a resume.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub pause: Option<PauseState>,
    /// The previous pause.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub before: Option<PauseState>,
    /// Whether the daemons were notified at once; else they see it within a minute.
    pub announced: bool,
}

impl PauseChanges {
    /// Returns the changes in words, for the audit, which names the person: the reason and the end of a pause, or what
    /// was ended. The words are kept beside each of the queues, so that they tell of a former pause only if it was that
    /// of all.
    pub fn words(&self) -> String {
        let Some(change) = self.queues.first() else { return "no queue was changed".to_owned() };
        let former = |change: &PauseChange| change.before.as_ref().map(|pause| (pause.by.clone(), pause.why.clone()));
        let differ = self.queues.iter().any(|other| former(other) != former(change));
        match (&change.pause, &change.before) {
            (Some(pause), _) => pause.told(),
            (None, _) if differ => "resumed".to_owned(),
            (None, Some(before)) => format!("resumed; it was paused by {}: {}", before.by, before.why),
            (None, None) => "was not paused".to_owned(),
        }
    }
}

/// A pause of a queue, or of one of its sinks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseState {
    /// The sink, if it is not the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink: Option<String>,
    /// The person who paused it.
    pub by: String,
    /// The reason.
    pub why: String,
    /// The time of the pause.
    pub since_ms: i64,
    /// The time at which the pause ends by itself.
    pub until_ms: Option<i64>,
}

#[derive(Clone, Copy)]
pub(super) enum PauseStep<'a> {
    /// A pause begins, in place of the one that is there.
    Pause(NewPause<'a>),
    Resume,
}

/// Pauses or resumes something, queue by queue. Refuses an end that is over already.
pub(super) async fn change(
    session: &Session,
    target: &ChangeTarget,
    step: PauseStep<'_>,
) -> Result<PauseChanges, Error> {
    let verb = if matches!(step, PauseStep::Pause(_)) { "pause" } else { "resume" };
    let (subject, sink) = match target {
        ChangeTarget::Sink(name) => (Subject::Sink(name), Some(name.clone())),
        _ => (Subject::Queue, None),
    };
    let mut changes = PauseChanges { queues: Vec::new(), errors: Vec::new() };
    for spec in queues_of(&session.config, target)? {
        let queue = match session.queue(spec.clone()).await {
            Ok(queue) => queue,
            Err(error) => {
                changes.errors.push(QueueError { queue: spec.id.to_string(), message: error.to_string() });
                continue;
            }
        };
        let changed = match &step {
            PauseStep::Pause(new) => queue.ledger.pause(&queue.conn, subject, new).await,
            PauseStep::Resume => queue.ledger.resume(&queue.conn, subject).await.map(Some),
        };
        match changed {
            Ok(Some(Changed { before, after, notified, .. })) => changes.queues.push(PauseChange {
                queue: spec.id.to_string(),
                sink: sink.clone(),
                pause: after.map(|pause| PauseState::of(None, pause)),
                before: before.map(|pause| PauseState::of(None, pause)),
                announced: notified,
            }),
            Ok(None) => {
                return Err(Error::invalid(format!("{verb} {target}: the end is over already, by the clock of Redis")));
            }
            Err(error) => changes.errors.push(QueueError { queue: spec.id.to_string(), message: failed(&error, verb) }),
        }
    }
    Ok(changes)
}

fn failed(error: &StoreError, verb: &str) -> String {
    let more = if may_have_run(error) {
        format!("; {verb} may have run: run the command again, which does no harm")
    } else {
        String::new()
    };
    format!("{}{more}", explained(error))
}

/// Returns the queues that a target is about. There is at least one.
pub(super) fn queues_of(config: &Config, target: &ChangeTarget) -> Result<Vec<Arc<QueueSpec>>, Error> {
    let sink = match target {
        ChangeTarget::Sink(name) => name.as_str(),
        other => return Ok(vec![find(config, other.name())?]),
    };
    let queues: Vec<_> = target.queues(config).cloned().collect();
    if !queues.is_empty() {
        return Ok(queues);
    }
    let attempt = format!("find sink `{sink}`: no queue of the configuration delivers to it");
    let names = || config.sinks.iter().map(|sink| &*sink.name);
    Err(Error::unknown(match plural::similar(sink, names()).as_slice() {
        [] => format!("{attempt}; the sinks in use are: {}", names().collect::<Vec<_>>().join(", ")),
        near => format!("{attempt}; did you mean `{}`?", near.join("` or `")),
    }))
}

/// Returns the sinks that elements and dead letters of a queue go to.
fn sinks_of(spec: &QueueSpec) -> Vec<Arc<str>> {
    spec.routes().map(|route| route.sink.clone()).collect()
}

/// The queues of a sink, and their pauses for it.
#[derive(Debug, Clone, Default)]
pub struct SinkPauses {
    /// The pauses, each with its queue.
    pub paused: Vec<(Arc<str>, PauseState)>,
    /// The number of queues that were asked.
    pub asked: usize,
    /// Queues that could not be asked.
    pub errors: Vec<QueueError>,
    /// Redis time; none where nothing is paused.
    pub now_ms: Option<i64>,
}

/// Reads whether a sink is paused for the queues that deliver to it: two commands a queue.
///
/// # Errors
///
/// When no queue delivers to the sink.
pub async fn sink_pauses(session: &Session, sink: &str) -> Result<SinkPauses, Error> {
    let asked = queues_of(&session.config, &ChangeTarget::Sink(sink.to_owned()))?;
    let one = async |spec: &Arc<QueueSpec>| {
        let queue = session.queue(spec.clone()).await.map_err(|error| error.to_string())?;
        paused(&queue).await.map_err(|error| explained(&error))
    };
    let now = async |spec: &Arc<QueueSpec>| redis_now_ms(&session.queue(spec.clone()).await.ok()?.conn).await.ok();
    let mut found = SinkPauses { asked: asked.len(), ..SinkPauses::default() };
    let mut answers = Vec::with_capacity(asked.len());
    for some in asked.chunks(AT_ONCE) {
        answers.extend(join_all(some.iter().map(one)).await);
    }
    for (spec, answer) in asked.iter().zip(answers) {
        match answer {
            Ok(pauses) => {
                let of_sink = pauses.into_iter().find(|pause| pause.sink.as_deref() == Some(sink));
                if of_sink.is_some() && found.now_ms.is_none() {
                    found.now_ms = now(spec).await;
                }
                found.paused.extend(of_sink.map(|pause| (spec.id.clone(), pause)));
            }
            Err(message) => found.errors.push(QueueError { queue: spec.id.to_string(), message }),
        }
    }
    Ok(found)
}

/// Reads the pauses of a queue and of its sinks.
pub(super) async fn paused(queue: &Queue) -> Result<Vec<PauseState>, StoreError> {
    let Pauses { queue: own, sinks, .. } = queue.ledger.pauses(&queue.conn, &sinks_of(&queue.spec)).await?;
    let of_sinks = sinks.into_iter().map(|(sink, pause)| PauseState::of(Some(sink.to_string()), pause));
    Ok(own.map(|pause| PauseState::of(None, pause)).into_iter().chain(of_sinks).collect())
}

/// Returns the same for a command that a person runs.
pub(super) async fn paused_of(queue: &Queue, what: &str) -> Result<Vec<PauseState>, Error> {
    paused(queue).await.attempt(what)
}

impl PauseState {
    fn of(sink: Option<String>, pause: Pause) -> Self {
        let Pause { by, why, since_ms, until_ms } = pause;
        // Whoever may write there can write anything.
        PauseState { sink, by: bounded(&by), why: bounded(&why), since_ms, until_ms }
    }

    /// `paused 5m ago by ann: a deployment; until 2026-11-23T10:00:00Z`.
    pub fn line(&self, now_ms: i64) -> String {
        let of_sink = self.sink.as_ref().map(|sink| format!("sink {sink} ")).unwrap_or_default();
        format!("{of_sink}paused {}", self.since(now_ms))
    }

    /// Returns the same behind a word for it: `5m ago by ann: a deployment; until 2026-11-23T10:00:00Z`, of a sink
    /// behind its name.
    pub fn words(&self, now_ms: i64) -> String {
        let of_sink = self.sink.as_ref().map(|sink| format!("{sink}, ")).unwrap_or_default();
        of_sink + &self.since(now_ms)
    }

    /// `5m ago by ann: a deployment; until 2026-11-23T10:00:00Z`, without what is paused.
    pub fn since(&self, now_ms: i64) -> String {
        let since = plural::duration(now_ms.abs_diff(self.since_ms));
        format!("{since} ago by {}: {}; {}", self.by, self.why, self.end())
    }

    /// `paused: a deployment; until it is resumed`.
    fn told(&self) -> String {
        format!("paused: {}; {}", self.why, self.end())
    }

    fn end(&self) -> String {
        self.until_ms.map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {}", utc(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_one_line() {
        let mut pause = PauseState {
            sink: None,
            by: "ann".to_owned(),
            why: "a deployment".to_owned(),
            since_ms: 0,
            until_ms: Some(1_795_251_632_252),
        };
        assert_eq!(pause.line(300_000), "paused 5m ago by ann: a deployment; until 2026-11-21T09:00:32Z");
        assert_eq!(pause.told(), "paused: a deployment; until 2026-11-21T09:00:32Z");
        (pause.sink, pause.until_ms) = (Some("kafka".to_owned()), None);
        assert_eq!(pause.line(300_000), "sink kafka paused 5m ago by ann: a deployment; until it is resumed");
    }

    #[test]
    fn a_reason_that_a_stranger_wrote_is_one_line_that_ends() {
        let stranger =
            Pause { by: "e\u{1b}[2J".to_owned(), why: "\u{1b}]0;x".repeat(9_000), since_ms: 0, until_ms: None };
        let pause = PauseState::of(None, stranger);
        assert!(!pause.line(0).chars().any(char::is_control) && pause.line(0).len() < 1_000, "{}", pause.line(0));
    }

    /// A token for one of the queues does not read the reason of another one.
    #[test]
    fn the_end_of_a_pause_of_several_queues_tells_only_what_is_true_of_all() {
        let pause = |why: &str| PauseState { by: "ann".to_owned(), why: why.to_owned(), ..PauseState::default() };
        let told = |before: &[Option<PauseState>]| {
            let change = |(n, before): (usize, &Option<PauseState>)| PauseChange {
                queue: format!("q{n}"),
                sink: Some("out".to_owned()),
                pause: None,
                before: before.clone(),
                announced: true,
            };
            PauseChanges { queues: before.iter().enumerate().map(change).collect(), errors: Vec::new() }.words()
        };
        assert_eq!(told(&[Some(pause("a")), Some(pause("a"))]), "resumed; it was paused by ann: a");
        assert_eq!(told(&[Some(pause("a")), Some(pause("b"))]), "resumed");
        assert_eq!(told(&[None, Some(pause("b"))]), "resumed");
        assert_eq!(told(&[None, None]), "was not paused");
    }
}
