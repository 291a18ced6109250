//! Elements of a queue, as a daemon shows and changes them.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::client::{Daemon, of_one, part};
use crate::content::Content;
use crate::element::{ActOutcome, Action, FoundElement, KillBody, RescheduleBody, When};
use crate::error::Error;
use crate::peek::{Elements, PeekState};
use crate::progress::{Progress, ProgressWatch};
use crate::search::{Hits, Search, SearchBody};

/// Reads the first elements in a state, with the beginning of their payloads.
pub async fn peek(daemon: &Daemon, queue: &str, state: PeekState, limit: usize) -> Result<Elements, Error> {
    let path = format!("/v1/queues/{}/elements?state={}&limit={limit}", part(queue), state.as_str());
    let answer: Value = daemon.get(&path).await?;
    let mut found = Elements::deserialize(&answer).map_err(|_| daemon.strange())?;
    for (element, answer) in found.elements.iter_mut().zip(rows(&answer)) {
        element.content = Content::answered(answer).ok_or_else(|| daemon.strange())?;
    }
    Ok(found)
}

/// Reads everything that is known of the element with this id.
pub async fn find(daemon: &Daemon, queue: &str, id: &str) -> Result<FoundElement, Error> {
    let answer: Value = daemon.get(&path_of(queue, id)).await.map_err(not_found)?;
    let mut found = FoundElement::deserialize(&answer).map_err(|_| daemon.strange())?;
    let content = rows(&answer).next().and_then(Content::answered);
    found.elements[0].content = content.ok_or_else(|| daemon.strange())?;
    Ok(found)
}

/// Elements to look at in a request.
const LOOKED_AT: u64 = 10_000;
/// Elements to answer in a request.
const MATCHES: usize = 100;

/// Searches elements by fields of their payload, with as many requests as that takes.
pub async fn search(daemon: &Daemon, queue: &str, ask: &Search, watch: &mut dyn ProgressWatch) -> Result<Hits, Error> {
    let path = format!("/v1/queues/{}/search", part(queue));
    let fields: Vec<String> = ask.fields.iter().map(ToString::to_string).collect();
    let mut all =
        Hits { queue: queue.to_owned(), next: ask.after.as_ref().map(ToString::to_string), ..Hits::default() };
    loop {
        // A daemon of another version may answer more than it was asked for.
        let rest = (ask.limit.saturating_sub(all.examined), ask.matches.saturating_sub(all.elements.len()));
        let body = SearchBody {
            fields: fields.clone(),
            limit: Some(rest.0.clamp(1, LOOKED_AT)),
            matches: Some(rest.1.clamp(1, MATCHES) as u64),
            after: all.next.take(),
        };
        let answer: Value = daemon.post(&path, &body).await?;
        let mut hits = Hits::deserialize(&answer).map_err(|_| daemon.strange())?;
        for (element, answer) in hits.elements.iter_mut().zip(rows(&answer)) {
            element.content = Content::answered(answer).ok_or_else(|| daemon.strange())?;
        }
        all.total = all.total.max(hits.total);
        (all.now_ms, all.next) = (hits.now_ms, hits.next);
        all.examined += hits.examined;
        all.elements.extend(hits.elements);
        let of = Some(all.total.min(ask.limit));
        watch.at(Progress { done: all.examined, of, acted: all.elements.len() as u64 });
        let over = all.examined >= ask.limit || all.elements.len() >= ask.matches || watch.is_stopped();
        if over || all.next.is_none() {
            all.incomplete = all.next.is_some() && (all.examined < all.total || watch.is_stopped());
            return Ok(all);
        }
    }
}

/// Reschedules, cancels or kills an element.
pub async fn act(daemon: &Daemon, queue: &str, id: &str, action: Action<'_>) -> Result<ActOutcome, Error> {
    let path = path_of(queue, id);
    let reschedule = match action {
        Action::Cancel => return daemon.delete(&path).await.map_err(not_found),
        Action::Kill { by, why } => {
            let body = KillBody { by: Some(by.to_owned()), why: Some(why.to_owned()) };
            return daemon.post(&format!("{path}/kill"), &body).await.map_err(not_found);
        }
        Action::Reschedule(When::Now) => {
            return daemon.post(&format!("{path}/run-now"), &json!({})).await.map_err(not_found);
        }
        Action::Reschedule(When::In(time)) => {
            RescheduleBody { after: Some(humantime::format_duration(time).to_string()), at_ms: None }
        }
        Action::Reschedule(When::At(ms)) => RescheduleBody { after: None, at_ms: Some(ms) },
    };
    daemon.post(&format!("{path}/reschedule"), &reschedule).await.map_err(not_found)
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
    use crate::peek::PeekedElement;

    #[test]
    fn an_element_that_is_not_there_is_no_mistake_in_the_arguments() {
        let of = |message: &str| not_found(Error::invalid(message)).kind;
        let missing = "find 01 in `q`: not found among the scheduled, retried, in-flight and dead elements";
        assert_eq!(of(missing), crate::ErrorKind::NotFound);
        assert_eq!(of("find queue `q`: the configuration has none of that name"), crate::ErrorKind::Invalid);
        // One that is known has all of its fields.
        assert!(PeekedElement::deserialize(json!({ "id": "52414e444f4d3842" })).is_err());
    }
}
