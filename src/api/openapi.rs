//! The OpenAPI 3.1 document of our own API, made from the table of routes; and the same as OpenAPI 3.0, which older generators read.
//!
//! A route without a description here, or a description without a route, fails a test; and every answer that the tests get
//! is compared with what the document says of it.

pub(crate) mod describe;
pub(crate) mod schemas;

use serde_json::{Map, Value, json};

use self::describe::{Operation, Place, body, ok};
use super::problem::Kind;
use super::routes::{OWN, Route};

/// Problems of every endpoint that needs a token and asks Redis.
const ALWAYS: [Kind; 9] = [
    Kind::BadRequest,
    Kind::Unauthorized,
    Kind::Forbidden,
    Kind::TooMany,
    Kind::Unexpected,
    Kind::Refused,
    Kind::Unavailable,
    Kind::OutcomeUnknown,
    Kind::Stopping,
];

/// The document.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in OWN {
        let Some(operation) = operation(route.name) else { continue };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = described(route, operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "delaybridge job queue",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "Jobs with a due time, handed to consumers for a time to run. A consumer finishes the job, or it comes \
                back. Times are milliseconds since 1970 by the clock of Redis.",
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

/// The same as OpenAPI 3.0: nothing in the schemas needs more.
pub fn document_3_0() -> Value {
    let mut document = document();
    document["openapi"] = json!("3.0.3");
    document["info"]["license"] = json!({ "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" });
    document
}

fn described(route: &Route, operation: Operation) -> Value {
    let always: &[Kind] = if route.open { &[] } else { &ALWAYS };
    let Route { name, path, open, .. } = *route;
    describe::described(&Place { name, path, open, tag: "jobs", always }, parameter, operation)
}

/// What the document says of the route of this name.
fn operation(name: &str) -> Option<Operation> {
    let nothing = Operation::default;
    Some(match name {
        "openapi" => Operation {
            summary: "This document",
            answers: vec![(200, "The document", Some(json!({ "type": "object" })))],
            ..nothing()
        },
        "openapi_3_0" => Operation {
            summary: "This document as OpenAPI 3.0",
            answers: vec![(200, "The document", Some(json!({ "type": "object" })))],
            ..nothing()
        },
        "add" => Operation {
            summary: "Add a job",
            description: "With settings in the query, or with a media type other than `application/json`, the request's body is the \
                job's body. The settings are `id`, `delay` or `delay_ms`, `due` or `due_ms`, `ttr` or `ttr_ms`, `tries`, `ttl` or `ttl_ms`. With an id of the client's own a \
                second request adds nothing, so that it may be sent again after an unknown outcome.",
            body: body("NewJob"),
            answers: vec![
                (201, "It was added", ok("AddedJob")),
                (200, "A job with this id is there, or was finished lately; nothing was changed", ok("AddedJob")),
            ],
            problems: &[Kind::IdTaken, Kind::TooLarge, Kind::MediaType, Kind::TooSlow],
            ..nothing()
        },
        "add_batch" => Operation {
            summary: "Add many jobs: all of them, or none",
            description: "The answer has a job for each of the request, in the same order.",
            body: body("NewJobs"),
            answers: vec![(200, "They are there", ok("AddedJobs"))],
            problems: &[Kind::TooLarge, Kind::MediaType, Kind::TooSlow],
            ..nothing()
        },
        "peek" => Operation {
            summary: "Look at jobs of one state, in the order of their times",
            query: &["state", "skip", "limit"],
            answers: vec![(200, "A page of jobs", ok("Jobs"))],
            ..nothing()
        },
        "pop" => Operation {
            summary: "Take jobs, or wait for them",
            description: "Several topics are separated by commas, the most urgent first. With `Accept: application/octet-stream` \
                the answer is the body of one job, with its id and token in the headers `Delaybridge-Job-Id` and \
                `Delaybridge-Token`.",
            query: &["count", "ttr", "ttr_ms", "wait", "wait_ms"],
            answers: vec![(200, "The jobs", ok("PoppedJobs")), (204, "Nothing was ready in time", None)],
            ..nothing()
        },
        "finish" => Operation {
            summary: "The job is done",
            description: "The parameters may be a JSON object in the body instead, as for `release`, `touch` and `bury`; and the path may \
                have topic and id apart, `/v1/jobs/{topic}/{id}/finish`, as for all that is done with one job. A second request answers 404, because the job is gone. A consumer that got no answer may repeat the \
                request. 404 before `deadline_ms` of its reservation then means that its first request worked, or that the job was \
                deleted: until that time no other consumer gets the job.",
            query: &["token"],
            answers: vec![(204, "It is gone", None)],
            problems: &[Kind::NoSuchJob, Kind::NotYours],
            ..nothing()
        },
        "release" => Operation {
            summary: "Give the job back, for later",
            query: &["token", "delay", "delay_ms", "count_attempt", "reason"],
            answers: vec![(200, "What became of it", ok("ReleasedJob"))],
            problems: &[Kind::NoSuchJob, Kind::NotYours],
            ..nothing()
        },
        "touch" => Operation {
            summary: "The time to run starts again",
            query: &["token", "ttr", "ttr_ms"],
            answers: vec![(200, "When it ends now", ok("TouchedJob"))],
            problems: &[Kind::NoSuchJob, Kind::NotYours],
            ..nothing()
        },
        "bury" => Operation {
            summary: "The job is dead, whatever tries it has left",
            query: &["token", "reason"],
            answers: vec![(204, "It is dead", None)],
            problems: &[Kind::NoSuchJob, Kind::NotYours],
            ..nothing()
        },
        "get" => Operation {
            summary: "Look at a job",
            answers: vec![(200, "The job", ok("Job"))],
            problems: &[Kind::NoSuchJob],
            ..nothing()
        },
        "delete" => Operation {
            summary: "Remove a job for good, whatever its state",
            answers: vec![(204, "It is gone", None)],
            problems: &[Kind::NoSuchJob],
            ..nothing()
        },
        "topics" => Operation {
            summary: "List topics, in alphabetical order",
            description: "Only those that the token has the right `admin` on. `next` is there if there may be more: ask for those \
                after it.",
            query: &["after", "limit"],
            answers: vec![(200, "A page of topics", ok("Topics"))],
            ..nothing()
        },
        "topic" => {
            Operation { summary: "Look at a topic", answers: vec![(200, "The topic", ok("Topic"))], ..nothing() }
        }
        "pause" => Operation {
            summary: "Hand out no jobs of the topic",
            description: "Jobs may be added, and what is reserved may be finished.",
            answers: vec![(204, "It is paused", None)],
            ..nothing()
        },
        "resume" => Operation {
            summary: "Hand out jobs of the topic again",
            answers: vec![(204, "It is not paused", None)],
            ..nothing()
        },
        "limits" => Operation {
            summary: "Read the limits of a topic",
            answers: vec![(200, "The limits in effect", ok("Limits"))],
            ..nothing()
        },
        "set_limits" => Operation {
            summary: "Set limits of a topic, in place of the configuration",
            description: "They replace all limits that were set before, and hold for all daemons at once. A limit that is left out is \
                that of the configuration. `ttr_ms`, `tries` and `ttl_ms` are for jobs that are added from now on and do not have \
                their own.",
            body: body("NewLimits"),
            answers: vec![(200, "The limits in effect", ok("Limits"))],
            problems: &[Kind::TooLarge, Kind::MediaType, Kind::TooSlow],
            ..nothing()
        },
        "dead" => Operation {
            summary: "Look at dead jobs, the oldest first",
            query: &["skip", "limit"],
            answers: vec![(200, "A page of jobs", ok("Jobs"))],
            ..nothing()
        },
        "redrive" => Operation {
            summary: "Let dead jobs wait again, with all of their tries",
            body: body("Redrive"),
            answers: vec![(200, "How many it were", ok("Count"))],
            problems: &[Kind::TooLarge, Kind::MediaType, Kind::TooSlow],
            ..nothing()
        },
        "purge" => Operation {
            summary: "Remove dead jobs for good",
            body: body("Purge"),
            answers: vec![(200, "How many it were", ok("Count"))],
            problems: &[Kind::TooLarge, Kind::MediaType, Kind::TooSlow],
            ..nothing()
        },
        _ => return None,
    })
}

/// A parameter of a path or a query.
fn parameter(name: &str, place: &str) -> Value {
    let whole = |least: u64| json!({ "type": "integer", "format": "int64", "minimum": least });
    let (schema, required, description) = match name {
        "topic" => (schemas::topic(), true, "Name of the topic"),
        "id" => (schemas::id(), true, "The job's id"),
        "token" => (schemas::token(), true, "The token that `pop` answered with the job"),
        "count" => (
            json!({ "type": "integer", "minimum": 1, "maximum": crate::jobs::MAX_POP }),
            false,
            "Most jobs; 1 if left out",
        ),
        "ttr" => (schemas::time(), false, "Time to run instead of the job's own"),
        "ttr_ms" => (whole(1), false, "The same in milliseconds"),
        "wait" => (schemas::time(), false, "How long to wait for the first job, at most 5m; 0 if left out"),
        "wait_ms" => (
            json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": 300_000 }),
            false,
            "The same in milliseconds",
        ),
        "delay" => (schemas::time(), false, "How long the job waits; 0 if left out"),
        "delay_ms" => (whole(0), false, "The same in milliseconds"),
        "count_attempt" => (json!({ "type": "boolean" }), false, "Whether this attempt counts; true if left out"),
        "reason" => (json!({ "type": "string" }), false, "Why; kept with the job, 256 bytes at most"),
        "state" => (
            json!({ "type": "string", "enum": ["delay", "ready", "reserved", "dead"] }),
            false,
            "State of the jobs; ready if left out",
        ),
        "skip" => (whole(0), false, "Jobs to pass over"),
        "limit" => (json!({ "type": "integer", "minimum": 1, "maximum": 100 }), false, "Most of them; 100 if left out"),
        "after" => (schemas::topic(), false, "Only topics after this name"),
        _ => (json!({ "type": "string" }), false, ""),
    };
    json!({ "name": name, "in": place, "required": required || place == "path", "description": description, "schema": schema })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let document = document();
        let mut described = 0;
        for route in OWN {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            assert_eq!(operation["operationId"], route.name);
            assert_ne!(operation["summary"], "", "{}", route.name);
            described += 1;
        }
        let listed: usize =
            document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(listed, described);
    }

    /// Words and forms that OpenAPI 3.0 does not have.
    #[test]
    fn the_older_document_has_nothing_newer() {
        let text = document_3_0().to_string();
        for newer in
            ["\"type\":[", "\"const\"", "\"prefixItems\"", "\"examples\"", "\"identifier\"", "\"null\"", "\"$defs\""]
        {
            assert!(!text.contains(newer), "{newer}");
        }
        assert!(text.starts_with("{\"openapi\":\"3.0.3\""));
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
}
