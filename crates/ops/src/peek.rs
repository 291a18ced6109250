//! Elements of a queue, without taking them.

use std::borrow::Cow;

use bytes::Bytes;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::{Content, with_content};
use super::error::{Attempted, Error};
use super::pause::{PauseState, paused_of};
use super::session::Queue;
use delaybridge_core::message::{Identity, MessageId};
use delaybridge_core::template::ElementInfo;
use delaybridge_ledger::{DeadLetter, Place, Seen, Shape, Show};
use delaybridge_model::{Misfit, QueueSpec, SKIPPED};

/// The elements to read.
#[derive(Debug, Clone, Copy)]
pub struct Peek {
    /// Elements in this state.
    pub state: PeekState,
    /// So many are passed over.
    pub first: usize,
    /// At most so many.
    pub limit: usize,
    /// At most so many bytes of each payload; `None` for whole payloads.
    pub payload_bytes: Option<usize>,
    /// Whether to say where each would go now; that needs whole payloads.
    pub routes: bool,
}

/// The state of an element.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeekState {
    /// Not claimed yet.
    #[default]
    Scheduled,
    /// Waits for another attempt.
    Retry,
    /// Claimed.
    InFlight,
    /// Transferred by a Redisson client.
    Ready,
    /// A dead letter.
    #[value(skip)]
    Dead,
}

impl PeekState {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            PeekState::Scheduled => "scheduled",
            PeekState::Retry => "retry",
            PeekState::InFlight => "in_flight",
            PeekState::Ready => "ready",
            PeekState::Dead => "dead",
        }
    }
}

/// Some elements of a queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct Elements {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// Elements in this state in all.
    pub total: usize,
    /// The pauses of the queue and of its sinks.
    pub paused: Vec<PauseState>,
    /// The elements, the first one first.
    #[schemars(skip)]
    pub elements: Vec<PeekedElement>,
    /// The cursor of the next page, if there are more. Elements that leave the state meanwhile move those behind them forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One element.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct PeekedElement {
    /// The element's id; elements of the ready list have none.
    pub id: Option<Identity>,
    /// The state.
    pub state: PeekState,
    /// Of a dead letter: its place in the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<String>,
    /// The due time.
    pub due_ms: Option<i64>,
    /// Of one that waits for a retry: when it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_ms: Option<i64>,
    /// Of one in flight: when its lease ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ends_ms: Option<i64>,
    /// Attempts that counted so far.
    pub attempts: u32,
    /// Code of the last failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// `old`, `new`, `bare`, `junk` or `unknown`.
    pub layout: Cow<'static, str>,
    /// Bytes of the payload.
    pub size: usize,
    /// The destinations of a delivery now, by sink, or the other end of the element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<String>>,
    /// The payload.
    #[serde(flatten, skip_deserializing)]
    pub content: Content,
}

with_content!(PeekedElement);

/// Reads the first elements in a state.
///
/// # Errors
///
/// For dead letters, which have more to show, and when Redis cannot be asked.
pub async fn peek(queue: &Queue, ask: &Peek) -> Result<Elements, Error> {
    let show = ask.payload_bytes.filter(|_| !ask.routes).map_or(Show::All, Show::Start);
    let place = match ask.state {
        PeekState::Scheduled => Place::Scheduled,
        PeekState::Retry => Place::Retry,
        PeekState::InFlight => Place::InFlight,
        PeekState::Ready => Place::Ready,
        PeekState::Dead => {
            return Err(Error::invalid(format!("look at dead letters: `delaybridge dead ls {}`", queue.id())));
        }
    };
    let what = format!("look at queue `{}`", queue.id());
    let mut answer = Elements {
        queue: queue.id().to_owned(),
        now_ms: 0,
        total: 0,
        paused: Vec::new(),
        elements: Vec::new(),
        next: None,
    };
    answer.paused = paused_of(queue, &what).await?;
    while answer.elements.len() < ask.limit {
        let read = answer.elements.len();
        let rest = ask.limit - answer.elements.len();
        let page =
            queue.ledger.peek(&queue.conn, place, ask.first.saturating_add(read), rest, show).await.attempt(&what)?;
        (answer.now_ms, answer.total) = (page.now_ms, page.total);
        if page.seen.is_empty() {
            break;
        }
        answer.elements.extend(page.seen.into_iter().map(|seen| PeekedElement::of(&queue.spec, ask, seen)));
    }
    let next = ask.first.saturating_add(answer.elements.len());
    answer.next = (!answer.elements.is_empty() && next < answer.total).then(|| next.to_string());
    Ok(answer)
}

impl PeekedElement {
    fn of(spec: &QueueSpec, ask: &Peek, seen: Seen) -> Self {
        let score = |state| seen.score_ms.filter(|_| ask.state == state);
        PeekedElement {
            state: ask.state,
            due_ms: seen.due_ms,
            next_attempt_ms: score(PeekState::Retry),
            lease_ends_ms: score(PeekState::InFlight),
            attempts: seen.attempts,
            layout: seen.shape.as_str().into(),
            size: seen.size,
            routes: ask.routes.then(|| routes(spec, &seen)),
            content: Content::new(spec.codec, seen.payload.clone(), seen.is_complete()).with(&spec.classes),
            code: seen.code,
            id: seen.id,
            ..PeekedElement::default()
        }
    }
}

impl PeekedElement {
    /// One that was read whole, with the payload that its body has where that is elsewhere.
    pub(super) fn with_payload(spec: &QueueSpec, state: PeekState, seen: Seen, payload: Bytes) -> Self {
        let ask = Peek { state, first: 0, limit: 1, payload_bytes: None, routes: false };
        let size = payload.len();
        let content = Content::new(spec.codec, payload, true).with(&spec.classes);
        PeekedElement { size, content, ..PeekedElement::of(spec, &ask, seen) }
    }

    pub(super) fn of_letter(queue: &Queue, letter: &DeadLetter) -> Self {
        let payload = queue.ledger.dead_payload(letter).unwrap_or_default();
        PeekedElement {
            id: letter.identity(),
            state: PeekState::Dead,
            stream_id: Some(letter.stream_id.clone()),
            due_ms: letter.number("due_ms"),
            attempts: letter.number("attempts").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            code: letter.text("code").to_owned(),
            layout: Shape::Bare.as_str().into(),
            size: payload.len(),
            content: Content::new(queue.spec.codec, payload, true).with(&queue.spec.classes),
            ..PeekedElement::default()
        }
    }
}

/// Returns the destinations of an element, by sink, or its other end.
fn routes(spec: &QueueSpec, element: &Seen) -> Vec<String> {
    match element.shape {
        Shape::Junk => return vec!["dead letter: of no layout".to_owned()],
        Shape::Unknown => return vec!["left to a newer daemon".to_owned()],
        Shape::Packed(_) | Shape::Bare => {}
    }
    let id = element.id.clone().unwrap_or(MessageId([0; 8]).into());
    routes_of(spec, &id, element.due_ms, element.attempts.saturating_add(1), &element.payload)
}

/// The destinations of this payload, by sink, or its other end.
pub(super) fn routes_of(
    spec: &QueueSpec,
    id: &Identity,
    due_ms: Option<i64>,
    attempt: u32,
    payload: &Bytes,
) -> Vec<String> {
    let info = ElementInfo { id, queue: &spec.id, due_ms, attempt, topic: None, carried: None };
    match spec.preview(&info, payload) {
        Ok(destinations) => destinations.into_iter().map(|(to, place)| format!("{}: {place}", to.sink)).collect(),
        Err(Misfit::DeadLetter(reason)) => vec![format!("dead letter: {reason}")],
        Err(Misfit::Hold(reason)) => vec![format!("hold: {reason}")],
        Err(Misfit::Skipped) => vec![format!("removed: {SKIPPED}")],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sample() -> Seen {
        Seen {
            id: Some(MessageId(*b"RANDOM8B").into()),
            due_ms: Some(1_795_251_632_252),
            score_ms: Some(1_795_251_637_252),
            attempts: 2,
            code: "timeout".to_owned(),
            shape: Shape::Packed("new"),
            member: Bytes::new(),
            size: 100,
            payload: Bytes::from("x".repeat(100)),
        }
    }

    fn spec() -> std::sync::Arc<QueueSpec> {
        let text = "redis: { url: 'redis://h' }\nsinks: { out: { redis: { list: 'l:${payload.a}' } } }\nqueues:\n  q:\n    \
                    source: { redisson: { name: n } }\n    codec: string\n    to: [{ sink: out, list: done }]\n";
        delaybridge_config::load_str(text, "c.yaml", &|_| None).unwrap().config.queues.remove(0)
    }

    fn json(state: PeekState, routes: bool) -> Value {
        let ask = Peek { state, first: 0, limit: 20, payload_bytes: None, routes };
        serde_json::to_value(PeekedElement::of(&spec(), &ask, sample())).unwrap()
    }

    #[test]
    fn json_names_the_score_by_its_meaning() {
        let row = json(PeekState::InFlight, false);
        assert_eq!((&row["lease_ends_ms"], &row["code"]), (&json!(1_795_251_637_252_i64), &json!("timeout")));
        assert_eq!((&row["state"], &row["id"]), (&json!("in_flight"), &json!("52414e444f4d3842")));
        assert_eq!(row["payload"], "x".repeat(100));
        assert!(json(PeekState::Scheduled, false).get("lease_ends_ms").is_none());
    }

    #[test]
    fn what_a_daemon_answered_is_read_with_numbers_of_any_size() {
        for value in ["340282366920938463463", "-12345678901234567890123456789012345678901234567890", "null", "1.5"] {
            let answer = format!(
                r#"{{"id":null,"state":"scheduled","due_ms":1,"attempts":0,"layout":"bare","size":3,"payload":"x","value":{value}}}"#
            );
            let answer: Value = serde_json::from_str(&answer).unwrap();
            let read: PeekedElement = serde_json::from_value(answer.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), answer);
        }
    }

    #[test]
    fn with_routes_an_element_says_where_it_would_go() {
        assert_eq!(json(PeekState::Scheduled, true)["routes"], json!(["out: list done"]));
        let junk = Seen { shape: Shape::Junk, ..sample() };
        assert_eq!(routes(&spec(), &junk), ["dead letter: of no layout"]);
    }
}
