//! The writer of an OpenAPI document, from the lines of a table of routes.

use hyper::Method;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::operation::{Operation, Success};
use super::schemas;
use crate::problem::ProblemKind;
use crate::route::Route;

/// Problems of every endpoint that reads a body.
const OF_A_BODY: [ProblemKind; 3] = [ProblemKind::TooLarge, ProblemKind::MediaType, ProblemKind::TooSlow];

/// An API that is to be described.
pub struct ApiDescription {
    /// The name of the API.
    pub title: &'static str,
    /// The tag of its operations.
    pub tag: &'static str,
    /// The purpose.
    pub description: &'static str,
    /// Parameters of paths and queries.
    pub parameters: &'static [Parameter],
}

/// Writes the document of an API with these endpoints. `schemas` may have types already that no answer names.
pub fn write<'a>(
    about: &ApiDescription,
    endpoints: impl Iterator<Item = DescribedEndpoint<'a>>,
    mut schemas: SchemaGenerator,
) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in endpoints {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_lowercase()] = endpoint.write(about.tag, about.parameters, &mut schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": about.description,
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas::components(schemas),
        },
    })
}

/// A parameter of a path or a query.
pub struct Parameter {
    name: &'static str,
    description: &'static str,
    schema: fn() -> Value,
    required: bool,
}

/// Returns a parameter; in a path every one is required.
pub const fn parameter(name: &'static str, schema: fn() -> Value, description: &'static str) -> Parameter {
    Parameter { name, description, schema, required: false }
}

impl Parameter {
    /// Makes the parameter required in a query too.
    pub const fn required(self) -> Parameter {
        Parameter { required: true, ..self }
    }

    fn described(&self, place: &str) -> Value {
        json!({
            "name": self.name,
            "in": place,
            "required": self.required || place == "path",
            "description": self.description,
            "schema": (self.schema)(),
        })
    }
}

/// Describes a field of a request as a parameter of the query.
fn query_parameter(name: &str, required: bool, mut schema: Value) -> Value {
    let description = schema.as_object_mut().and_then(|parts| parts.remove("description")).unwrap_or_default();
    if schema["type"] == "array" {
        // With commas between its items.
        schema = json!({ "type": "string" });
    }
    json!({ "name": name, "in": "query", "required": required, "description": description, "schema": schema })
}

/// An endpoint of a document.
pub struct DescribedEndpoint<'a> {
    /// The name of the operation.
    pub name: &'a str,
    /// The method.
    pub method: &'a Method,
    /// The path, with `{names}`.
    pub path: &'a str,
    /// Whether it needs no token.
    pub open: bool,
    /// Problems beside those of the operation.
    pub always: &'a [ProblemKind],
    /// The description.
    pub operation: &'a Operation,
}

impl<'a> DescribedEndpoint<'a> {
    /// Returns the endpoint of a route, if the document has it.
    pub fn of<S, C, R>(route: &'a Route<S, C, R>, open: bool, always: &'a [ProblemKind]) -> Option<Self> {
        let Route { method, path, name, operation, .. } = route;
        operation.as_ref().map(|operation| DescribedEndpoint { name, method, path, open, always, operation })
    }

    fn write(&self, tag: &str, parameters: &[Parameter], schemas: &mut SchemaGenerator) -> Value {
        let operation = self.operation;
        let names = self.path.split('{').skip(1).filter_map(|part| part.split('}').next());
        let asked = names.map(|name| (name, "path")).chain(operation.query.iter().map(|name| (*name, "query")));
        let known = |(name, place): (&str, &str)| {
            Some(parameters.iter().find(|parameter| parameter.name == name)?.described(place))
        };
        let in_body = ![Method::GET, Method::DELETE].contains(self.method) && operation.body.is_none();
        let (fields, needed) = operation.request.map(|request| request.fields()).unzip();
        let has_fields = fields.as_ref().is_some_and(|fields| fields.as_object().is_some_and(|all| !all.is_empty()));
        let mut parameters: Vec<_> = asked.filter_map(known).collect();
        let needed = needed.as_ref().and_then(Value::as_array);
        if let (false, Some(Value::Object(fields))) = (in_body, fields) {
            let is_needed = |name: &str| needed.is_some_and(|names| names.iter().any(|needed| needed == name));
            let of = |(name, schema): (String, Value)| query_parameter(&name, is_needed(&name), schema);
            parameters.extend(fields.into_iter().map(of));
        }
        let mut described = json!({
            "operationId": self.name,
            "tags": [tag],
            "summary": operation.summary,
            "parameters": parameters,
            "responses": self.responses(schemas),
        });
        if !operation.description.is_empty() {
            described["description"] = json!(operation.description);
        }
        if let Some((media_type, schema)) = operation.body {
            let content = json!({ media_type: { "schema": (schema.add)(schemas) } });
            described["requestBody"] = json!({ "required": true, "content": content });
        }
        if let Some(request) = operation.request.filter(|_| in_body && has_fields) {
            let content = json!({ "application/json": { "schema": (request.add)(schemas) } });
            // None is a request with the defaults.
            let is_needed = needed.is_some_and(|names| !names.is_empty());
            described["requestBody"] = json!({ "required": is_needed, "content": content });
        }
        if self.open {
            described["security"] = json!([]);
        }
        described
    }

    fn responses(&self, schemas: &mut SchemaGenerator) -> Map<String, Value> {
        let mut responses = Map::new();
        for Success { status, description, schema } in self.operation.answers.iter().flatten() {
            let mut answer = json!({ "description": description });
            if let Some(schema) = schema {
                answer["content"] = json!({ self.operation.media_type: { "schema": (schema.add)(schemas) } });
            }
            responses.insert(status.to_string(), answer);
        }
        let of_body: &[ProblemKind] = if self.operation.has_body(self.method) { &OF_A_BODY } else { &[] };
        for kind in self.always.iter().chain(self.operation.problems).chain(of_body) {
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
        responses
    }
}
