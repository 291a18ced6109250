//! The description of our own API: its endpoints by the table of routes, and the parameters that they share.

use serde_json::{Value, json};

use crate::routes::OWN;
use delaybridge_http_server::openapi::schemas;
use delaybridge_http_server::openapi::write::{ApiDescription, DescribedEndpoint, parameter, write};
use delaybridge_http_server::problem::ProblemKind;

/// Problems of every endpoint that needs a token and asks Redis.
const ALWAYS: [ProblemKind; 9] = [
    ProblemKind::BadRequest,
    ProblemKind::Unauthorized,
    ProblemKind::Forbidden,
    ProblemKind::TooMany,
    ProblemKind::Unexpected,
    ProblemKind::Refused,
    ProblemKind::Unavailable,
    ProblemKind::OutcomeUnknown,
    ProblemKind::Stopping,
];

pub(crate) fn document() -> Value {
    let endpoints = OWN.iter().filter_map(|route| {
        let open = route.rule.open;
        DescribedEndpoint::of(route, open, if open { &[] } else { &ALWAYS })
    });
    write(&ABOUT, endpoints, schemas::generator())
}

const ABOUT: ApiDescription = ApiDescription {
    title: "delaybridge job queue",
    tag: "jobs",
    description: "Jobs with a due time, handed to consumers for a time to run. A consumer finishes the job, or it comes back. Times are \
        milliseconds since 1970 by the clock of Redis.",
    parameters: &[
        parameter("topic", name, "Name of the topic"),
        parameter("name", recurring_name, "Name of the recurring job"),
        parameter("id", || json!({ "type": "string", "minLength": 3 }), "The job's id"),
        parameter("token", token, "The token that `pop` answered with the job").required(),
        parameter("count", count, "Maximum number of jobs; 1 if left out"),
        parameter("ttr", duration, "Time to run instead of the job's own"),
        parameter("ttr_ms", || millis(1), "The same in milliseconds"),
        parameter("wait", duration, "Time to wait for the first job, at most 5m; 0 if left out"),
        parameter("wait_ms", wait, "The same in milliseconds"),
        parameter(
            "delay",
            duration,
            "Delay until the job is ready; the topic's back-off if left out, if the attempt counts",
        ),
        parameter("delay_ms", || millis(0), "The same in milliseconds"),
        parameter("count_attempt", || json!({ "type": "boolean" }), "Whether this attempt counts; true if left out"),
        parameter("reason", || json!({ "type": "string" }), "The reason; kept with the job, 256 bytes at most"),
        parameter("state", state, "State of the jobs; ready if left out"),
        parameter("skip", || millis(0), "Jobs to pass over"),
        parameter("limit", limit, "Maximum number; 100 if left out"),
        parameter("force", || json!({ "type": "boolean" }), "Whether jobs in use are removed too; false if left out"),
        parameter("after", name, "Only those after this name"),
    ],
};

/// Returns a topic, or several with commas between.
fn name() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn recurring_name() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 100 })
}

fn token() -> Value {
    json!({ "type": "string", "minLength": 16, "maxLength": 16 })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": delaybridge_jobs::MAX_POP })
}

fn limit() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 100 })
}

fn duration() -> Value {
    json!({ "type": "string", "description": "A duration with its unit: `500ms`, `30s`, `1h30m`, `7d`" })
}

fn millis(least: u64) -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": least })
}

fn wait() -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": 300_000 })
}

fn state() -> Value {
    json!({ "type": "string", "enum": ["delay", "ready", "reserved", "dead"] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_document_is_current() {
        delaybridge_http_server::testing::assert_current(env!("CARGO_MANIFEST_DIR"), "openapi.json", &document());
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let routes = OWN.iter().map(|route| (&route.method, route.path, route.name));
        delaybridge_http_server::testing::assert_describes(&document(), routes);
    }

    /// Words and forms that OpenAPI 3.0 does not have.
    #[test]
    fn the_older_document_has_nothing_newer() {
        let text = crate::openapi::older(document()).to_string();
        for newer in
            ["\"type\":[", "\"const\"", "\"prefixItems\"", "\"examples\"", "\"identifier\"", "\"null\"", "\"$defs\""]
        {
            assert!(!text.contains(newer), "{newer}");
        }
        assert!(text.starts_with("{\"openapi\":\"3.0.3\""));
    }
}
