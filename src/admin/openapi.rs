//! The OpenAPI 3.1 document of the operators' API, made from the table of routes.
//!
//! A route without a description here, or a description without a route, fails a test; and every answer that the tests get is compared
//! with what the document says of it.

mod schemas;

use serde_json::{Map, Value, json};

use super::access::Need;
use super::routes::{ROUTES, Route};
use super::v1::filter;
use crate::api::openapi::describe::{Operation, Place, body, described, ok};
use crate::api::problem::Kind;

/// Problems of every endpoint that asks Redis.
const ALWAYS: &[Kind] = &[
    Kind::BadRequest,
    Kind::Unauthorized,
    Kind::Forbidden,
    Kind::TooMany,
    Kind::Unexpected,
    Kind::Unavailable,
    Kind::OutcomeUnknown,
    Kind::Stopping,
];

/// The document.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES.iter().filter(|route| route.is_api()) {
        let Some(operation) = operation(route.name) else { continue };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = of(route, operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "delaybridge admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "What operators see of a daemon and ask of it. Times are milliseconds since 1970 by the clock of Redis. A token \
                is needed for what changes something and for payloads; without a file of tokens clients on the same machine need none.",
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas::all(),
        },
    })
}

fn of(route: &Route, operation: Operation) -> Value {
    let open = matches!(route.need, Need::Nothing | Need::ToLook);
    let always = if route.name == "openapi" { &[] } else { ALWAYS };
    described(&Place { name: route.name, path: route.path, open, tag: "admin", always }, parameter, operation)
}

/// What the document says of the route of this name.
fn operation(name: &str) -> Option<Operation> {
    let nothing = Operation::default;
    const ACT: &[Kind] = &[Kind::NotFound, Kind::Conflict, Kind::TooLarge, Kind::MediaType, Kind::TooSlow];
    const FILTER: &[&str] = &filter::NAMES;
    const DEAD: &[&str] =
        &["limit", "after", "reason", "class", "code", "sink", "older_than", "newer_than", "id_prefix", "field"];
    const CHANGE: &[Kind] = &[Kind::NotFound, Kind::TooLarge, Kind::MediaType, Kind::TooSlow];
    Some(match name {
        "openapi" => Operation {
            summary: "This document",
            answers: vec![(200, "The document", Some(json!({ "type": "object" })))],
            ..nothing()
        },
        "config" => Operation {
            summary: "The configuration that runs, without secrets",
            answers: vec![(200, "Defaults are filled in", Some(json!({ "type": "object" })))],
            ..nothing()
        },
        "reload" => Operation {
            summary: "Read the configuration file, and run what it says",
            description: "The whole file is checked first. With any problem the configuration before runs on, and the answer is 409 with \
                everything that is wrong.",
            query: &["dry_run"],
            answers: vec![(200, "What changed, or would change", ok("Reload"))],
            problems: &[Kind::Conflict],
            ..nothing()
        },
        "element" => Operation {
            summary: "Find an element by its id: where it is, what happened to it, its payload",
            answers: vec![(200, "The element", ok("Element"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "run_now" => Operation {
            summary: "Make an element due now",
            answers: vec![(200, "What became of it", ok("Acted"))],
            problems: &[Kind::NotFound, Kind::Conflict],
            ..nothing()
        },
        "reschedule" => Operation {
            summary: "Give an element another due time",
            body: body("Reschedule"),
            answers: vec![(200, "What became of it", ok("Acted"))],
            problems: ACT,
            ..nothing()
        },
        "kill" => Operation {
            summary: "Move an element to the dead letters",
            body: body("Kill"),
            answers: vec![(200, "What became of it", ok("Acted"))],
            problems: ACT,
            ..nothing()
        },
        "cancel" => Operation {
            summary: "Remove an element for good",
            answers: vec![(200, "What became of it", ok("Acted"))],
            problems: &[Kind::NotFound, Kind::Conflict],
            ..nothing()
        },
        "dead_count" => Operation {
            summary: "Count dead letters by reason",
            query: FILTER,
            answers: vec![(200, "The totals", ok("Counted"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "queues" => Operation {
            summary: "List queues with their numbers, in the order of the configuration",
            description: "`next` is there if there are more: ask for those after it. What is answered may be a second old.",
            query: &["after", "limit", "like"],
            answers: vec![(200, "A page of queues", ok("Queues"))],
            ..nothing()
        },
        "queue" => Operation {
            summary: "Look at a queue: numbers, what falls due when, settings",
            answers: vec![(200, "The queue", ok("Queue"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "pause" => Operation {
            summary: "Claim nothing from the queue, for all daemons",
            description: "What is in flight is finished. It is kept in Redis, and replaces a pause that is there.",
            body: body("Pause"),
            answers: vec![(200, "It is paused", ok("PauseChanges"))],
            problems: CHANGE,
            ..nothing()
        },
        "resume" => Operation {
            summary: "Claim from the queue again",
            answers: vec![(200, "It is not paused", ok("PauseChanges"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "pause_sink" => Operation {
            summary: "Claim nothing that goes to the sink, for all daemons",
            body: body("Pause"),
            answers: vec![(200, "It is paused for these queues", ok("PauseChanges"))],
            problems: CHANGE,
            ..nothing()
        },
        "resume_sink" => Operation {
            summary: "Claim what goes to the sink again",
            answers: vec![(200, "It is not paused", ok("PauseChanges"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "elements" => Operation {
            summary: "Look at elements in a state",
            description: "The first 4096 bytes of each payload.",
            query: &["state", "limit", "after"],
            answers: vec![(200, "The elements", ok("Elements"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "dead" => Operation {
            summary: "List dead letters, the latest first",
            description: "`next` is there if there are more: ask for those after it. A filter on `field` needs a token.",
            query: DEAD,
            answers: vec![(200, "The letters", ok("DeadLetters"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "redrive" => Operation {
            summary: "Deliver dead letters again",
            description: "What was redriven is not redriven twice, so that it may be sent again after an unknown outcome.",
            body: body("WhichLetters"),
            answers: vec![(200, "How many it were", ok("Redriven"))],
            problems: CHANGE,
            ..nothing()
        },
        "purge" => Operation {
            summary: "Remove dead letters for good",
            body: body("WhichLetters"),
            answers: vec![(200, "How many it were", ok("Purged"))],
            problems: CHANGE,
            ..nothing()
        },
        "letter" => Operation {
            summary: "Look at everything that a dead letter keeps",
            answers: vec![(200, "The letter", ok("DeadLetter"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "events" => Operation {
            summary: "Follow what becomes of single elements, by server-sent events",
            description: "Events have the name `element`, and an `Event` as JSON in `data`. They are recorded while a client follows them. The \
                stream ends after ten minutes: connect again with `Last-Event-ID`. A client that does not read fast enough is disconnected.",
            query: &["queue", "fate", "after"],
            answers: vec![(200, "The events that are kept, and those that follow", Some(json!({ "type": "string" })))],
            media_type: Some("text/event-stream"),
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "topics" => Operation {
            summary: "List topics of the job queue with their numbers, in alphabetical order",
            description: "`next` is there if there are more: ask for those after it.",
            query: &["after", "limit"],
            answers: vec![(200, "A page of topics", ok("Topics"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "topic" => Operation {
            summary: "Look at a topic: numbers and limits",
            answers: vec![(200, "The topic", ok("Topic"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "topic_jobs" => Operation {
            summary: "Look at the first jobs of a topic in a state",
            query: &["state", "limit"],
            answers: vec![(200, "The jobs", ok("Jobs"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "pause_topic" => Operation {
            summary: "Hand out no jobs of the topic, by any daemon",
            description: "Jobs may be added, and what is reserved may be finished.",
            answers: vec![(200, "It is paused", ok("TopicPause"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "resume_topic" => Operation {
            summary: "Hand out jobs of the topic again",
            answers: vec![(200, "It is not paused", ok("TopicPause"))],
            problems: &[Kind::NotFound],
            ..nothing()
        },
        "sinks" => Operation {
            summary: "List the sinks with their state, as this daemon sees them",
            answers: vec![(200, "The sinks", ok("Sinks"))],
            ..nothing()
        },
        _ => return None,
    })
}

/// A parameter of a path or a query.
fn parameter(name: &str, place: &str) -> Value {
    let text = || json!({ "type": "string", "minLength": 1 });
    let (schema, description) = match name {
        "queue" => (text(), "The queue's id in the configuration"),
        "sink" => (text(), "The sink's name in the configuration; in a query several with commas between"),
        "topic" => (text(), "Name of the topic"),
        "id" => (text(), "The element's id, or a dead letter's place in the stream"),
        "after" => (text(), "Only what comes after this: the `next` of the page before"),
        "like" => (text(), "Only queues with this in their name"),
        "dry_run" => (json!({ "type": "boolean" }), "Only say what would change"),
        "reason" => (text(), "Why they died; several with commas between"),
        "class" => (text(), "Class of the last failure; several with commas between"),
        "code" => (text(), "Code of the last failure; several with commas between"),
        "older_than" => (text(), "Dead for longer than this, as 2h"),
        "newer_than" => (text(), "Dead for less than this, as 2h"),
        "id_prefix" => (text(), "How the element's id begins"),
        "fate" => (
            text(),
            "What became of the elements: delivered, retry, waits, dead, held, gone; several with commas between",
        ),
        "field" => (text(), "What the decoded payload has, as orderId=7"),
        "limit" => (json!({ "type": "integer", "minimum": 1, "maximum": 200 }), "Most of them"),
        "state" => (
            json!({ "type": "string", "enum": ["scheduled", "retry", "in_flight", "ready", "delay", "reserved", "dead"] }),
            "Of elements: scheduled (if left out), retry, in_flight, ready. Of jobs: ready (if left out), delay, reserved, dead",
        ),
        _ => (json!({ "type": "string" }), ""),
    };
    json!({ "name": name, "in": place, "required": place == "path", "description": description, "schema": schema })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_of_the_api_is_described_and_nothing_else() {
        let document = document();
        let mut described = 0;
        for route in ROUTES.iter().filter(|route| route.is_api()) {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            assert_eq!(operation["operationId"], route.name);
            assert_ne!(operation["summary"], "", "{}", route.name);
            assert_eq!(
                operation["security"].is_array(),
                matches!(route.need, Need::Nothing | Need::ToLook),
                "{}",
                route.name
            );
            described += 1;
        }
        let paths = document["paths"].as_object().unwrap().values();
        let listed: usize = paths.map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(listed, described);
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        for (at, _) in text.match_indices("#/components/schemas/") {
            let name = text[at + 21..].split('"').next().unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
        assert!(!text.contains("\"description\":\"\""), "a parameter or an answer has no description");
    }

    #[test]
    fn whatever_changes_something_asks_for_a_token() {
        for route in ROUTES.iter().filter(|route| route.method != hyper::Method::GET) {
            let open = ["log_in", "log_out"].contains(&route.name.trim_start_matches("page_"));
            assert_eq!(route.need == Need::ToChange, !open, "{}", route.name);
        }
    }
}
