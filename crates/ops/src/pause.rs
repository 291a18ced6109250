//! Pauses queues and sinks for every daemon that serves them, and ends that.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::join_all;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::content::bounded;
use super::error::{Attempted, Error, QueueError, explained, may_have_run};
use super::plural;
use super::session::{Queue, Session, find};
use delaybridge_core::clock::utc;
pub use delaybridge_ledger::PauseEnd;
use delaybridge_ledger::{Changed, NewPause, Pause, Pauses, Subject, redis_now_ms};
use delaybridge_model::{Config, QueueSpec};
use delaybridge_source::StoreError;

/// Characters of a name, and of a reason.
const LONGEST: usize = 500;
/// Queues that are asked for their pauses at once: their questions go to Redis together.
const AT_ONCE: usize = 500;

/// A queue or a sink that is paused or resumed.
#[derive(Debug, Clone, Copy)]
pub enum PauseTarget<'a> {
    /// A queue of the configuration.
    Queue(&'a str),
    /// A sink, for all queues of the configuration that deliver to it.
    Sink(&'a str),
}

/// The person, the reason and the end of a pause.
#[derive(Debug, Clone, Copy)]
pub struct PauseReason<'a> {
    /// The person.
    pub by: &'a str,
    /// Why.
    pub why: &'a str,
    /// The end.
    pub end: PauseEnd,
}

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
    /// The changes in words, for the audit, which names the person: the reason and the end of a pause, or what was ended. The words
    /// are kept beside each of the queues, so that they tell of a former pause only if it was that of all.
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

/// The body of a request for a pause.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(rename = "Pause")]
pub struct PauseBody {
    /// The reason, for everybody who wonders why nothing moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The person, if not the token's name; that is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The length, as in 2h 30m; without it, until it is resumed.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<String>,
    /// The end, by the clock of Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

/// A change of a pause.
#[derive(Clone, Copy)]
enum PauseStep<'a> {
    Pause(NewPause<'a>),
    Resume,
}

/// Refuses a target that the configuration does not have, without Redis.
///
/// # Errors
///
/// When there is no such queue or sink, and when no queue delivers to the sink.
pub fn check_target(config: &Config, target: PauseTarget<'_>) -> Result<(), Error> {
    queues_of(config, target).map(drop)
}

/// Pauses. A pause that is there already is replaced.
///
/// # Errors
///
/// When the target, the words or the end cannot be, and when Redis cannot be asked about any queue.
pub async fn pause(
    session: &Session,
    target: PauseTarget<'_>,
    reason: &PauseReason<'_>,
) -> Result<PauseChanges, Error> {
    for (what, text) in [("--by", reason.by), ("--why", reason.why)] {
        if text.trim().is_empty() || text.chars().count() > LONGEST || text.chars().any(char::is_control) {
            let problem = format!("{what} takes one line of 1 to {LONGEST} characters");
            return Err(Error::invalid(format!("pause {}: {problem}", name_of(target))));
        }
    }
    let PauseReason { by, why, end } = *reason;
    change(session, target, PauseStep::Pause(NewPause { nonce: fastrand::u64(..), end, by, why })).await
}

/// Ends a pause. What was not paused stays as it is.
///
/// # Errors
///
/// When the target cannot be, and when Redis cannot be asked about any queue.
pub async fn resume(session: &Session, target: PauseTarget<'_>) -> Result<PauseChanges, Error> {
    change(session, target, PauseStep::Resume).await
}

async fn change(session: &Session, target: PauseTarget<'_>, step: PauseStep<'_>) -> Result<PauseChanges, Error> {
    let verb = if matches!(step, PauseStep::Pause(_)) { "pause" } else { "resume" };
    let (subject, sink) = match target {
        PauseTarget::Queue(_) => (Subject::Queue, None),
        PauseTarget::Sink(name) => (Subject::Sink(name), Some(name.to_owned())),
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
                return Err(Error::invalid(format!(
                    "{verb} {}: the end is over already, by the clock of Redis",
                    name_of(target)
                )));
            }
            Err(error) => changes.errors.push(QueueError { queue: spec.id.to_string(), message: failed(&error, verb) }),
        }
    }
    Ok(changes)
}

fn failed(error: &StoreError, verb: &str) -> String {
    let more = match may_have_run(error) {
        true => format!("; {verb} may have run: run the command again, which does no harm"),
        false => String::new(),
    };
    format!("{}{more}", explained(error))
}

fn name_of(target: PauseTarget<'_>) -> String {
    match target {
        PauseTarget::Queue(name) => format!("queue `{name}`"),
        PauseTarget::Sink(name) => format!("sink `{name}`"),
    }
}

/// The queues that a target is about.
fn queues_of(config: &Config, target: PauseTarget<'_>) -> Result<Vec<Arc<QueueSpec>>, Error> {
    let sink = match target {
        PauseTarget::Queue(id) => return Ok(vec![find(config, id)?]),
        PauseTarget::Sink(name) => name,
    };
    let uses = |spec: &&Arc<QueueSpec>| sinks_of(spec).iter().any(|name| **name == *sink);
    let queues: Vec<_> = config.queues.iter().filter(uses).cloned().collect();
    if !queues.is_empty() {
        return Ok(queues);
    }
    let attempt = format!("find sink `{sink}`: no queue of the configuration delivers to it");
    let names = || config.sinks.iter().map(|sink| &*sink.name);
    Err(Error::invalid(match plural::similar(sink, names()).as_slice() {
        [] => format!("{attempt}; the sinks in use are: {}", names().collect::<Vec<_>>().join(", ")),
        near => format!("{attempt}; did you mean `{}`?", near.join("` or `")),
    }))
}

/// The sinks that elements and dead letters of a queue go to.
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
    let asked = queues_of(&session.config, PauseTarget::Sink(sink))?;
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

/// The same for a command that a person runs.
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

    /// The same behind a word for it: `5m ago by ann: a deployment; until 2026-11-23T10:00:00Z`, of a sink behind its name.
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

/// The last millisecond of the year 9999.
const LAST_MS: i64 = 253_402_300_799_999;

/// Reads the length of a pause: as in the configuration, but not zero, and not beyond the calendar.
///
/// # Errors
///
/// What is wrong with the text.
pub fn length(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write 30m, 2h or 1d 12h"))?;
    if time.is_zero() || time > LONGEST { Err("more than 0s, and at most 100 years".to_owned()) } else { Ok(time) }
}

/// A point in time: milliseconds since 1970, or as RFC 3339 writes it. Without an offset it is UTC.
///
/// # Errors
///
/// What is wrong with the text.
pub fn point(text: &str) -> Result<i64, String> {
    let with_offset = || text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    let in_utc = || humantime::parse_rfc3339_weak(text).ok()?.duration_since(UNIX_EPOCH).ok();
    let ms = text.parse().ok().or_else(with_offset).or_else(|| i64::try_from(in_utc()?.as_millis()).ok());
    ms.filter(|ms| (0..=LAST_MS).contains(ms)).ok_or_else(|| {
        "write 2027-01-31T09:00:00Z, with an offset as in 2027-01-31T10:00:00+01:00, or milliseconds since 1970"
            .to_owned()
    })
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

    #[test]
    fn ends_are_read_or_refused_in_words() {
        assert_eq!(length("1h 30m"), Ok(Duration::from_secs(5_400)));
        assert!(length("0s").unwrap_err().contains("more than 0s"));
        assert!(length("2").unwrap_err().contains("30m"));
        assert_eq!(point("2027-01-31T09:00:00Z"), Ok(1_801_386_000_000));
        assert_eq!(point("1801386000000"), Ok(1_801_386_000_000));
        for text in [
            "2027-01-31 09:00:00",
            "2027-01-31T10:00:00+01:00",
            "2027-01-31T14:30:00.000+05:30",
            "2027-01-30T23:00:00-10:00",
            "2027-01-31t09:00:00z",
        ] {
            assert_eq!(point(text), Ok(1_801_386_000_000), "{text}");
        }
        for text in ["tomorrow", "-1", "999999999999999", "", "2027-01-31T09:00:00+26:00", "1960-01-01T00:00:00Z"] {
            assert!(point(text).unwrap_err().contains("2027"), "{text}");
        }
    }
}
