//! What went wrong with a request, as `application/problem+json` (RFC 9457) shows it.
//!
//! Each kind has one status and one type, which clients may branch on. The detail says what was attempted, what happened
//! and what to do. It has no payload and no secret.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The kind: type, status and title.
    pub kind: ProblemKind,
    /// The attempt, the failure, and what to do.
    pub detail: String,
    /// The time after which another attempt makes sense.
    pub retry_after: Option<Duration>,
    /// Further fields of the answer.
    pub fields: Map<String, Value>,
    /// The page that describes the kind.
    pub page: ProblemPage,
}

/// A page of the documentation with kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemPage {
    /// That of the job queue's API.
    HttpApi,
    /// That of the admin API.
    Admin,
}

impl ProblemPage {
    fn file(self) -> &'static str {
        match self {
            ProblemPage::HttpApi => "http-api.md",
            ProblemPage::Admin => "admin.md",
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $status:ident, $title:literal;)*) => {
        /// The kinds of problems.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProblemKind { $($(#[$doc])* $name,)* }

        impl ProblemKind {
            /// Every kind, in the order of the declaration.
            pub const ALL: &[ProblemKind] = &[$(ProblemKind::$name,)*];

            /// Returns the word at the end of the type.
            pub fn as_str(self) -> &'static str {
                match self { $(ProblemKind::$name => $word,)* }
            }

            /// Returns the status of the answer.
            pub fn status(self) -> StatusCode {
                match self { $(ProblemKind::$name => StatusCode::$status,)* }
            }

            /// Returns the title, which is equal for every problem of the kind.
            pub fn title(self) -> &'static str {
                match self { $(ProblemKind::$name => $title,)* }
            }
        }
    };
}

kinds! {
    /// A path, a query, a header or a body that means nothing.
    BadRequest = "bad-request", BAD_REQUEST, "The request cannot be understood";
    /// No token, or none that is known.
    Unauthorized = "unauthorized", UNAUTHORIZED, "A token is needed";
    /// The token has no right to this.
    Forbidden = "forbidden", FORBIDDEN, "Not allowed";
    /// There is no such endpoint.
    NoSuchPath = "no-such-path", NOT_FOUND, "There is no such path";
    /// There is no such job.
    NoSuchJob = "no-such-job", NOT_FOUND, "There is no such job";
    /// The thing that the path names is not there.
    NotFound = "not-found", NOT_FOUND, "There is no such thing";
    /// The path has other methods.
    Method = "method", METHOD_NOT_ALLOWED, "The path has other methods";
    /// The id belongs to another job.
    IdTaken = "id-taken", CONFLICT, "The id belongs to another job";
    /// The job is not reserved by this token any more.
    NotYours = "not-yours", CONFLICT, "The job is no longer reserved by this token";
    /// The state of what the path names forbids it.
    Conflict = "conflict", CONFLICT, "Its state forbids that";
    /// The body, or a job's body, is too large.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE, "The body is too large";
    /// The body is in a form that is not read.
    MediaType = "media-type", UNSUPPORTED_MEDIA_TYPE, "The body's type or coding is not supported";
    /// The topic is full, or the server has too much to do.
    TooMany = "too-many", TOO_MANY_REQUESTS, "Too much at once";
    /// The client did not send its body in time.
    TooSlow = "too-slow", REQUEST_TIMEOUT, "The body did not arrive in time";
    /// A value in Redis is not what it should be.
    Unexpected = "unexpected", INTERNAL_SERVER_ERROR, "An answer of Redis was not understood";
    /// Redis refused.
    Refused = "refused", SERVICE_UNAVAILABLE, "Redis refused";
    /// Redis cannot be asked; nothing was done.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Redis is not there";
    /// Redis was asked and did not answer; it may have been done.
    OutcomeUnknown = "outcome-unknown", SERVICE_UNAVAILABLE, "The outcome is unknown";
    /// The server ends.
    Stopping = "stopping", SERVICE_UNAVAILABLE, "The server is stopping";
}

/// The beginning of every type: the folder of the pages that describe the kinds.
const PAGES: &str = "https://github.com/delaybridge/delaybridge/blob/main/docs/";

impl Problem {
    /// Creates a problem of a kind, with what was attempted, what happened and what to do.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Problem {
        Problem { kind, detail: detail.into(), retry_after: None, fields: Map::new(), page: ProblemPage::HttpApi }
    }

    /// Returns a request that means nothing.
    pub fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(ProblemKind::BadRequest, detail)
    }

    /// Sets a time after which another attempt makes sense.
    pub fn retry_after(mut self, after: Duration) -> Problem {
        self.retry_after = Some(after);
        self
    }

    /// Adds a further field.
    pub fn with(mut self, name: &str, value: Value) -> Problem {
        self.fields.insert(name.to_owned(), value);
        self
    }

    /// Returns the body of the answer.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "type": format!("{PAGES}{}#{}", self.page.file(), self.kind.as_str()),
            "title": self.kind.title(),
            "status": self.kind.status().as_u16(),
            "detail": self.detail,
        });
        if let Some(fields) = body.as_object_mut() {
            fields.extend(self.fields.clone());
        }
        body
    }
}
