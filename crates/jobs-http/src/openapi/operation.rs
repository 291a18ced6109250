//! The description of an endpoint, as its line in a table of routes has it.

use hyper::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::call::Query;
use crate::problem::{Problem, ProblemKind};

/// Adds the schema of a type to the document, and returns a reference to it.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The description of an endpoint.
#[derive(Clone, Copy)]
pub struct Operation {
    summary: &'static str,
    description: &'static str,
    /// Parameters of the query.
    query: &'static [&'static str],
    /// Parameters that only the description names.
    unlisted: &'static [&'static str],
    /// The media type and the schema of the body.
    body: Option<(&'static str, SchemaOf)>,
    /// Answers that are no problems.
    answers: [Option<Success>; 2],
    media_type: &'static str,
    /// Problems beside those of every endpoint.
    problems: &'static [ProblemKind],
}

/// An answer that is no problem.
#[derive(Clone, Copy)]
struct Success {
    status: u16,
    description: &'static str,
    /// The schema of the body, if there is one.
    schema: Option<SchemaOf>,
}

/// Problems of every endpoint that reads a body.
const OF_A_BODY: [ProblemKind; 3] = [ProblemKind::TooLarge, ProblemKind::MediaType, ProblemKind::TooSlow];

impl Operation {
    /// An endpoint without parameters and answers.
    pub const fn new(summary: &'static str) -> Operation {
        Operation {
            summary,
            description: "",
            query: &[],
            unlisted: &[],
            body: None,
            answers: [None; 2],
            media_type: "application/json",
            problems: &[],
        }
    }

    /// The same with further sentences.
    pub const fn about(self, description: &'static str) -> Operation {
        Operation { description, ..self }
    }

    /// The same with parameters of the query.
    pub const fn query(self, query: &'static [&'static str]) -> Operation {
        Operation { query, ..self }
    }

    /// The same with parameters of the query that only the description names.
    pub const fn unlisted(self, unlisted: &'static [&'static str]) -> Operation {
        Operation { unlisted, ..self }
    }

    /// Refuses a query with unknown parameters.
    ///
    /// # Errors
    /// One is not known.
    pub fn check(&self, query: &Query) -> Result<(), Problem> {
        if query.is_empty() { Ok(()) } else { query.only(&[self.query, self.unlisted].concat()) }
    }

    /// The same with a body of JSON.
    pub const fn takes<T: JsonSchema>(self) -> Operation {
        Operation { body: Some(("application/json", SchemaGenerator::subschema_for::<T>)), ..self }
    }

    /// The same with a body of lines, each of which is a JSON object.
    pub const fn takes_lines(self) -> Operation {
        // Generators of clients refuse `application/x-ndjson`.
        Operation {
            body: Some(("application/octet-stream", |_| json_schema!({ "type": "string", "format": "binary" }))),
            ..self
        }
    }

    /// The same with an answer that has a body.
    pub const fn returns<T: JsonSchema>(self, status: u16, description: &'static str) -> Operation {
        self.answer(Success { status, description, schema: Some(SchemaGenerator::subschema_for::<T>) })
    }

    /// The same with an answer that has no body.
    pub const fn empty(self, status: u16, description: &'static str) -> Operation {
        self.answer(Success { status, description, schema: None })
    }

    /// The same with bodies of this media type.
    pub const fn media_type(self, media_type: &'static str) -> Operation {
        Operation { media_type, ..self }
    }

    /// The same with further problems.
    pub const fn problems(self, problems: &'static [ProblemKind]) -> Operation {
        Operation { problems, ..self }
    }

    const fn answer(mut self, answer: Success) -> Operation {
        let at = if self.answers[0].is_none() { 0 } else { 1 };
        self.answers[at] = Some(answer);
        self
    }
}

/// A parameter of a path or a query.
pub struct Parameter {
    name: &'static str,
    description: &'static str,
    schema: fn() -> Value,
    required: bool,
}

/// A parameter; in a path every one is required.
pub const fn parameter(name: &'static str, schema: fn() -> Value, description: &'static str) -> Parameter {
    Parameter { name, description, schema, required: false }
}

impl Parameter {
    /// The same, required in a query too.
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

impl DescribedEndpoint<'_> {
    /// The endpoint in the terms of OpenAPI.
    pub(super) fn write(&self, tag: &str, parameters: &[Parameter], schemas: &mut SchemaGenerator) -> Value {
        let operation = self.operation;
        let names = self.path.split('{').skip(1).filter_map(|part| part.split('}').next());
        let asked = names.map(|name| (name, "path")).chain(operation.query.iter().map(|name| (*name, "query")));
        let known = |(name, place): (&str, &str)| {
            Some(parameters.iter().find(|parameter| parameter.name == name)?.described(place))
        };
        let mut described = json!({
            "operationId": self.name,
            "tags": [tag],
            "summary": operation.summary,
            "parameters": asked.filter_map(known).collect::<Vec<_>>(),
            "responses": self.responses(schemas),
        });
        if !operation.description.is_empty() {
            described["description"] = json!(operation.description);
        }
        if let Some((media_type, schema)) = operation.body {
            let content = json!({ media_type: { "schema": schema(schemas) } });
            described["requestBody"] = json!({ "required": true, "content": content });
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
                answer["content"] = json!({ self.operation.media_type: { "schema": schema(schemas) } });
            }
            responses.insert(status.to_string(), answer);
        }
        let of_body: &[ProblemKind] = if self.operation.body.is_some() { &OF_A_BODY } else { &[] };
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
