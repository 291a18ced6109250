//! Elements of a queue, as a daemon shows and changes them.

use hyper::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{Daemon, of_one, part, strange};
use crate::operate::content::Content;
use crate::operate::element::{Acted, Action, Found, When};
use crate::operate::error::Error;
use crate::operate::peek::{Elements, State};

/// The first elements in a state, with the beginning of their payloads.
///
/// # Errors
///
/// As over Redis; when the daemon does not answer, or wants a token; and for more elements than it shows.
pub async fn peek(daemon: &Daemon, queue: &str, state: State, limit: usize) -> Result<Elements, Error> {
    let state = match state {
        State::Scheduled => "scheduled",
        State::Retry => "retry",
        State::InFlight => "in_flight",
        State::Ready => "ready",
        State::Dead => "dead",
    };
    let answer = daemon.get(&format!("/v1/queues/{}/elements?state={state}&limit={limit}", part(queue))).await?;
    let mut found = Elements::deserialize(&answer).map_err(|_| strange(daemon))?;
    for (element, answer) in found.elements.iter_mut().zip(rows(&answer)) {
        element.content = Content::answered(answer).ok_or_else(|| strange(daemon))?;
    }
    Ok(found)
}

/// The element with this id, and everything that is known of it.
///
/// # Errors
///
/// As over Redis; and when the daemon does not answer, or wants a token.
pub async fn find(daemon: &Daemon, queue: &str, id: &str) -> Result<Found, Error> {
    let answer = daemon.get(&path_of(queue, id)).await.map_err(not_found)?;
    let mut found = Found::deserialize(&answer).map_err(|_| strange(daemon))?;
    let content = rows(&answer).next().and_then(Content::answered);
    found.elements[0].content = content.ok_or_else(|| strange(daemon))?;
    Ok(found)
}

/// Does something with one element.
///
/// # Errors
///
/// As over Redis; and when the daemon does not answer, or wants a token.
pub async fn act(daemon: &Daemon, queue: &str, id: &str, action: Action<'_>) -> Result<Acted, Error> {
    let path = path_of(queue, id);
    let (verb, body) = match action {
        Action::Cancel => {
            let answer = daemon.ask(Method::DELETE, &path, Default::default()).await.map_err(not_found)?;
            return Acted::deserialize(answer).map_err(|_| strange(daemon));
        }
        Action::Reschedule(When::Now) => ("run-now", json!({})),
        Action::Reschedule(When::In(time)) => {
            ("reschedule", json!({ "in": humantime::format_duration(time).to_string() }))
        }
        Action::Reschedule(When::At(ms)) => ("reschedule", json!({ "at_ms": ms })),
        Action::Kill { by, why } => ("kill", json!({ "by": by, "why": why })),
    };
    let answer = daemon.post(&format!("{path}/{verb}"), &body).await.map_err(not_found)?;
    Acted::deserialize(answer).map_err(|_| strange(daemon))
}

fn path_of(queue: &str, id: &str) -> String {
    format!("/v1/queues/{}/elements/{}", part(queue), part(id))
}

fn not_found(error: Error) -> Error {
    of_one(error, ": not found among")
}

/// The elements of an answer.
fn rows(answer: &Value) -> impl Iterator<Item = &Value> {
    answer.get("elements").and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::peek::Element;

    #[test]
    fn an_element_that_is_not_there_is_no_mistake_in_the_arguments() {
        let of = |message: &str| not_found(Error::invalid(message)).kind;
        let missing = "find 01 in `q`: not found among the scheduled, retried, in-flight and dead elements";
        assert_eq!(of(missing), crate::operate::Kind::NotFound);
        assert_eq!(of("find queue `q`: the configuration has none of that name"), crate::operate::Kind::Invalid);
        // One that is known has all of its fields.
        assert!(Element::deserialize(json!({ "id": "52414e444f4d3842" })).is_err());
    }
}
