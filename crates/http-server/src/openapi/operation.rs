//! The description of an endpoint, as its line in a table of routes has it.
//!
//! A build without tests reads the parameters of the query alone, and has no code that makes schemas.

use hyper::Method;
use schemars::JsonSchema;
#[cfg(any(test, feature = "testing"))]
use schemars::SchemaGenerator;

use crate::call::Query;
use crate::problem::{Problem, ProblemKind};

#[derive(Clone, Copy)]
pub(super) struct BodySchema {
    /// Adds the schema to a document, and returns a reference to it.
    #[cfg(any(test, feature = "testing"))]
    pub(super) add: fn(&mut SchemaGenerator) -> schemars::Schema,
}

impl BodySchema {
    #[allow(clippy::extra_unused_type_parameters, reason = "the document is made with `testing` alone")]
    const fn of<T: JsonSchema>() -> BodySchema {
        BodySchema {
            #[cfg(any(test, feature = "testing"))]
            add: SchemaGenerator::subschema_for::<T>,
        }
    }

    /// Returns the schemas of the fields of a request, and the names of those that it must have.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn fields(self) -> (serde_json::Value, serde_json::Value) {
        let mut schemas = super::schemas::reader();
        let schema = (self.add)(&mut schemas);
        let name = schema.get("$ref").and_then(|path| path.as_str()?.rsplit('/').next()).unwrap_or_default().to_owned();
        let mut schema = schemas.take_definitions(false).remove(&name).unwrap_or_default();
        super::schemas::simplify(&mut schema);
        let part = |name: &str| schema.get(name).cloned().unwrap_or_default();
        (part("properties"), part("required"))
    }

    const fn bytes() -> BodySchema {
        BodySchema {
            #[cfg(any(test, feature = "testing"))]
            add: |_| schemars::json_schema!({ "type": "string", "format": "binary" }),
        }
    }
}

/// The description of an endpoint.
#[cfg_attr(not(any(test, feature = "testing")), expect(dead_code, reason = "only the tests write the document"))]
#[derive(Clone, Copy)]
pub struct Operation {
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) query: &'static [&'static str],
    /// Parameters that only the description names.
    unlisted: &'static [&'static str],
    /// Whether a JSON object in the body may have the parameters instead of the query.
    or_in_body: bool,
    /// The type of the request, if it is one: its fields are the query of a GET or DELETE, and the body of another method.
    pub(super) request: Option<BodySchema>,
    /// The media type and the schema of the body.
    pub(super) body: Option<(&'static str, BodySchema)>,
    /// Answers that are no problems.
    pub(super) answers: [Option<Success>; 2],
    pub(super) media_type: &'static str,
    /// Problems beside those of every endpoint.
    pub(super) problems: &'static [ProblemKind],
}

/// An answer that is no problem.
#[cfg_attr(not(any(test, feature = "testing")), expect(dead_code, reason = "only the tests write the document"))]
#[derive(Clone, Copy)]
pub(super) struct Success {
    pub(super) status: u16,
    pub(super) description: &'static str,
    pub(super) schema: Option<BodySchema>,
}

impl Operation {
    /// Creates an endpoint without parameters and answers.
    pub const fn new(summary: &'static str) -> Operation {
        Operation {
            summary,
            description: "",
            query: &[],
            unlisted: &[],
            or_in_body: false,
            request: None,
            body: None,
            answers: [None; 2],
            media_type: "application/json",
            problems: &[],
        }
    }

    /// Adds further sentences.
    pub const fn about(self, description: &'static str) -> Operation {
        Operation { description, ..self }
    }

    /// Adds parameters of the query.
    pub const fn query(self, query: &'static [&'static str]) -> Operation {
        Operation { query, ..self }
    }

    /// Adds parameters of the query that only the description names.
    pub const fn unlisted(self, unlisted: &'static [&'static str]) -> Operation {
        Operation { unlisted, ..self }
    }

    /// Lets a JSON object in the body have the parameters instead of the query, as the description says.
    pub const fn or_in_body(self) -> Operation {
        Operation { or_in_body: true, ..self }
    }

    /// Sets the type of the request. Its reader refuses unknown fields.
    pub const fn request<T: JsonSchema>(self) -> Operation {
        Operation { request: Some(BodySchema::of::<T>()), ..self }
    }

    /// Refuses a query with unknown parameters.
    ///
    /// # Errors
    /// One is not known.
    pub fn check(&self, query: &Query) -> Result<(), Problem> {
        if query.is_empty() || self.request.is_some() { Ok(()) } else { query.only(&self.parameters()) }
    }

    /// Returns the parameters of the query, unless they are the fields of the request.
    pub fn parameters(&self) -> Vec<&'static str> {
        [self.query, self.unlisted].concat()
    }

    /// Returns whether it has a body, as an endpoint of this method.
    pub fn has_body(&self, method: &Method) -> bool {
        let has_request = self.request.is_some() && ![Method::GET, Method::DELETE].contains(method);
        self.body.is_some() || self.or_in_body || has_request
    }

    /// Sets a body of JSON.
    pub const fn takes<T: JsonSchema>(self) -> Operation {
        Operation { body: Some(("application/json", BodySchema::of::<T>())), ..self }
    }

    /// Sets a body of lines, each of which is a JSON object.
    pub const fn takes_lines(self) -> Operation {
        // Generators of clients refuse `application/x-ndjson`.
        Operation { body: Some(("application/octet-stream", BodySchema::bytes())), ..self }
    }

    /// Adds an answer that has a body.
    pub const fn returns<T: JsonSchema>(self, status: u16, description: &'static str) -> Operation {
        self.answer(Success { status, description, schema: Some(BodySchema::of::<T>()) })
    }

    /// Adds an answer that has no body.
    pub const fn empty(self, status: u16, description: &'static str) -> Operation {
        self.answer(Success { status, description, schema: None })
    }

    /// Sets the media type of bodies.
    pub const fn media_type(self, media_type: &'static str) -> Operation {
        Operation { media_type, ..self }
    }

    /// Adds further problems.
    pub const fn problems(self, problems: &'static [ProblemKind]) -> Operation {
        Operation { problems, ..self }
    }

    const fn answer(mut self, answer: Success) -> Operation {
        let at = if self.answers[0].is_none() { 0 } else { 1 };
        self.answers[at] = Some(answer);
        self
    }
}
