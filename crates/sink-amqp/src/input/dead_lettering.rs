//! Where a rejected message goes: a queue without a dead-letter exchange drops it.

use std::time::Duration;

use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

use super::declared::Declared;
use super::questions::{answer, short};
use crate::client::{AmqpSession, channels};
use crate::codes;
use delaybridge_core::message::Failure;

/// The beginning of a refusal of a user without the right.
const NO_RIGHT: &str = codes::ACCESS_REFUSED.code;

/// Asks whether the place is there where the rejected messages of a queue go; returns the exchange or the queue. An
/// error says why they must not be rejected, and what to do.
pub(super) async fn place(
    session: &AmqpSession,
    queue: &str,
    declared: &Result<Declared, String>,
    time: Duration,
) -> Result<String, String> {
    let unknown = |why: &str| {
        let advice = if why.contains(NO_RIGHT) {
            "give the user the right to configure it, or write `dead_letter_exchange: policy` if it has one"
        } else {
            "declare the queue with `x-dead-letter-exchange`, or write `dead_letter_exchange: policy` if a policy sets it"
        };
        format!("where the rejected messages of queue {queue} go is not known ({why}): {advice}")
    };
    let declared = declared.as_ref().map_err(|why| unknown(why))?;
    let Some(exchange) = declared.exchange.as_deref() else { return Err(unknown("it has no such argument")) };
    let (what, name, is_exchange) = match (exchange, declared.routing_key.as_deref()) {
        // Rejected messages keep their routing key there.
        ("", None) => return Ok("the queues that their routing keys name".to_owned()),
        ("", Some(name)) => ("queue", name, false),
        (name, _) => ("exchange", name, true),
    };
    there(session, name, is_exchange, time).await.map(|()| format!("{what} {name}")).map_err(|why| unknown(&why))
}

/// Returns whether rejected messages come back to the queue, as far as its declaration shows: what to do.
pub(super) fn comes_back(queue: &str, declared: &Declared) -> Option<String> {
    let which = match (declared.exchange.as_deref()?, declared.routing_key.as_deref()) {
        ("", Some(name)) if name == queue => "rejected messages",
        ("", None) => "rejected messages that were published with its name as the routing key",
        _ => return None,
    };
    Some(format!(
        "{which} come back to queue {queue}: declare it with an `x-dead-letter-routing-key` that names another queue"
    ))
}

/// Returns the delivery limit of a queue, for a person; `None` if its type has none. `is_kept` says whether rejected
/// messages go anywhere.
pub(super) fn limit(declared: &Declared, is_kept: bool) -> Option<String> {
    let end = if is_kept { "dead-letters" } else { "drops" };
    match (declared.kind.as_deref(), declared.limit.as_deref()) {
        (_, Some(limit)) if limit.starts_with('-') => Some("no delivery limit".to_owned()),
        (_, Some(limit)) => {
            Some(format!("a delivery limit of {limit}: the broker {end} a message that has come back more often"))
        }
        (Some("quorum"), None) => Some(format!(
            "a delivery limit that its declaration does not set (20 from RabbitMQ 4.0 on, or by a policy): the broker {end} a message \
             that has come back more often"
        )),
        _ => None,
    }
}

/// Looks for an exchange, or a queue.
async fn there(session: &AmqpSession, name: &str, exchange: bool, time: Duration) -> Result<(), String> {
    let channel = channels::open(session, time).await.map_err(|failure: Failure| failure.message)?;
    let none = FieldTable::default();
    if exchange {
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let look = channel.exchange_declare(short(name), ExchangeKind::Direct, options, none);
        answer(tokio::time::timeout(time, look).await)
    } else {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        answer(tokio::time::timeout(time, channel.queue_declare(short(name), options, none)).await).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(exchange: Option<&str>, routing_key: Option<&str>) -> Declared {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Declared { exchange: text(exchange), routing_key: text(routing_key), ..Declared::default() }
    }

    #[test]
    fn a_place_that_leads_back_to_the_queue_is_named() {
        let back = |exchange, key| comes_back("delay-in", &declared(exchange, key));
        assert!(back(Some(""), Some("delay-in")).is_some_and(|text| text.starts_with("rejected messages come back")));
        assert!(back(Some(""), None).is_some_and(|text| text.contains("with its name as the routing key")));
        assert_eq!(back(Some(""), Some("refused")), None);
        // The bindings of an exchange are not shown.
        assert_eq!(back(Some("dlx"), Some("delay-in")), None);
        assert_eq!(back(None, None), None);
    }

    #[test]
    fn the_limit_of_a_quorum_queue_is_named_and_others_have_none() {
        let limit = |kind: Option<&str>, of: Option<&str>| {
            let kind = kind.map(str::to_owned);
            let of = of.map(str::to_owned);
            limit(&Declared { kind, limit: of, ..Declared::default() }, true)
        };
        assert!(
            limit(Some("quorum"), Some("3")).is_some_and(|text| text.contains("limit of 3: the broker dead-letters"))
        );
        assert!(limit(Some("quorum"), None).is_some_and(|text| text.contains("20 from RabbitMQ 4.0 on")));
        assert_eq!(limit(Some("quorum"), Some("-1")).as_deref(), Some("no delivery limit"));
        assert_eq!(limit(Some("classic"), None), None);
        assert_eq!(limit(None, None), None);
    }
}
