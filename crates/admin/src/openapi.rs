//! The writer of the OpenAPI 3.1 document of the operators' API, from the table of routes. It is no part of the daemon, which answers
//! the file.
//!
//! A line of the table has the description of its endpoint, and the schemas are those of the types that are answered; every answer
//! that the tests get is compared with what the document says of it.

use serde_json::{Value, json};

use super::access::Need;
use super::routes::{ROUTES, is_api};
use super::v1::events::EventShape;
use delaybridge_http_server::openapi::schemas;
use delaybridge_http_server::openapi::write::{ApiDescription, DescribedEndpoint, parameter, write};
use delaybridge_http_server::problem::ProblemKind;

/// Problems of every endpoint that asks Redis.
const ALWAYS: &[ProblemKind] = &[
    ProblemKind::BadRequest,
    ProblemKind::Unauthorized,
    ProblemKind::Forbidden,
    ProblemKind::TooMany,
    ProblemKind::Unexpected,
    ProblemKind::Unavailable,
    ProblemKind::OutcomeUnknown,
    ProblemKind::Stopping,
];

pub(crate) fn document() -> Value {
    let endpoints = ROUTES.iter().filter_map(|route| {
        let open = matches!(route.rule, Need::Nothing | Need::ToLook);
        let always = if route.rule == Need::Nothing { &[] } else { ALWAYS };
        DescribedEndpoint::of(route, open, always)
    });
    let mut schemas = schemas::generator();
    // The stream of events has it inside.
    let _ = schemas.subschema_for::<EventShape>();
    write(&ABOUT, endpoints, schemas)
}

const ABOUT: ApiDescription = ApiDescription {
    title: "delaybridge admin API",
    tag: "admin",
    description: "What operators see of a daemon and ask of it. Times are milliseconds since 1970 by the clock of Redis. A token \
        is needed for what changes something (role operator; admin to remove for good and to reload) and for payloads (role reader); without \
        a file of tokens clients on the same machine need none.",
    parameters: &[
        parameter("queue", text, "The queue's id in the configuration"),
        parameter("sink", text, "The sink's name in the configuration; in a query several with commas between"),
        parameter("topic", text, "Name of the topic"),
        parameter("id", text, "The element's id, or a dead letter's place in the stream"),
        parameter("after", text, "The `next` of the page before"),
        parameter("dry_run", || json!({ "type": "boolean" }), "Only report the changes"),
        parameter("fate", text, "Outcomes: delivered, retry, waits, dead, held, gone; several with commas between"),
    ],
};

fn text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_document_is_current() {
        delaybridge_http_server::testing::assert_current(env!("CARGO_MANIFEST_DIR"), "openapi.json", &document());
    }

    #[test]
    fn every_route_of_the_api_is_described_and_nothing_else() {
        let document = document();
        let api = || ROUTES.iter().filter(|route| is_api(route.path));
        let routes = api().map(|route| (&route.method, route.path, route.name));
        delaybridge_http_server::testing::assert_describes(&document, routes);
        for route in api() {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            let open = matches!(route.rule, Need::Nothing | Need::ToLook);
            assert_eq!(operation["security"].is_array(), open, "{}", route.name);
        }
    }

    #[test]
    fn whatever_changes_something_asks_for_a_token() {
        for route in ROUTES.iter().filter(|route| route.method != hyper::Method::GET) {
            // A search is a POST because what is searched for may not be in a URL.
            let open = ["log_in", "log_out", "search", "search_all"].contains(&route.name.trim_start_matches("page_"));
            let changes = matches!(route.rule, Need::ToOperate | Need::ToAdminister);
            assert_eq!(changes, !open, "{}", route.name);
        }
    }
}
