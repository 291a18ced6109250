//! How the document describes one endpoint.

use serde_json::{Map, Value, json};

use super::schemas;
use crate::api::problem::Kind;

/// What the document says of one endpoint.
#[derive(Default)]
pub struct Operation {
    pub summary: &'static str,
    pub description: &'static str,
    /// Names of parameters beside those in the path.
    pub query: &'static [&'static str],
    /// The request's body.
    pub body: Option<Value>,
    /// Status and schema of answers that are no problems; no schema is no body.
    pub answers: Vec<(u16, &'static str, Option<Value>)>,
    /// Media type of these answers, if it is not JSON.
    pub media_type: Option<&'static str>,
    /// Kinds of problems beside those that every endpoint may answer.
    pub problems: &'static [Kind],
}

/// Where the endpoint is.
pub struct Place {
    pub name: &'static str,
    pub path: &'static str,
    /// Whether it needs no token.
    pub open: bool,
    /// What it belongs to.
    pub tag: &'static str,
    /// Problems that it may always answer.
    pub always: &'static [Kind],
}

/// The endpoint in the words of OpenAPI; `parameter` describes one by its name and place.
pub fn described(place: &Place, parameter: fn(&str, &str) -> Value, operation: Operation) -> Value {
    let names = place.path.split('{').skip(1).filter_map(|part| part.split('}').next());
    let in_path = names.map(|name| parameter(name, "path"));
    let parameters: Vec<Value> = in_path.chain(operation.query.iter().map(|name| parameter(name, "query"))).collect();
    let mut responses = Map::new();
    for (status, description, schema) in operation.answers {
        let mut answer = json!({ "description": description });
        if let Some(schema) = schema {
            answer["content"] = json!({ operation.media_type.unwrap_or("application/json"): { "schema": schema } });
        }
        responses.insert(status.to_string(), answer);
    }
    for kind in place.always.iter().chain(operation.problems) {
        let answer = responses.entry(kind.status().as_str().to_owned()).or_insert_with(|| {
            json!({
                "description": "",
                "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
            })
        });
        let described = answer["description"].as_str().unwrap_or_default();
        let more = if described.is_empty() { String::new() } else { format!("{described}; ") };
        answer["description"] = json!(format!("{more}{}: {}", kind.as_str(), kind.title()));
    }
    let mut described = json!({
        "operationId": place.name,
        "tags": [place.tag],
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if !operation.description.is_empty() {
        described["description"] = json!(operation.description);
    }
    if let Some(body) = operation.body {
        described["requestBody"] = body;
    }
    if place.open {
        described["security"] = json!([]);
    }
    described
}

/// A body of JSON.
pub fn body(schema: &str) -> Option<Value> {
    let schema = schemas::reference(schema);
    Some(json!({ "required": true, "content": { "application/json": { "schema": schema } } }))
}

/// An answer of this schema.
pub fn ok(schema: &str) -> Option<Value> {
    Some(schemas::reference(schema))
}
