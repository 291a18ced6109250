//! What a request is answered with, before it becomes bytes on a connection.

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode, header};
use serde::Serialize;

use super::answers::AnswerRoom;
use super::feed::Feed;
use super::handover::{HandedOut, ReplyBody, Unflushed};
use super::problem::{Problem, ProblemKind};
use super::turns::CallerTurn;

/// The media type of JSON.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The headers, but for those about the body's length and coding.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Jobs that are in it: they go back unless the client gets it.
    pub reserved: Option<HandedOut>,
    /// The stream that follows the body.
    pub feed: Option<Feed>,
    /// The turn of its caller, until it has room.
    pub turn: Option<CallerTurn>,
}

impl Reply {
    /// Creates an answer without a body.
    pub fn empty(status: StatusCode) -> Reply {
        Reply { status, headers: HeaderMap::new(), body: Bytes::new(), reserved: None, feed: None, turn: None }
    }

    /// Creates an answer with a value as JSON.
    ///
    /// # Errors
    /// The value has no JSON: a defect of ours.
    pub fn json(status: StatusCode, value: &impl Serialize) -> Result<Reply, Problem> {
        let mut body = serde_json::to_vec(value)
            .map_err(|error| Problem::new(ProblemKind::Unexpected, format!("write the answer: {error}")))?;
        body.push(b'\n');
        Ok(Reply::bytes(status, JSON, body))
    }

    /// Creates an answer with bytes of a media type.
    pub fn bytes(status: StatusCode, media_type: HeaderValue, body: impl Into<Bytes>) -> Reply {
        Reply::empty(status).header(header::CONTENT_TYPE, media_type).with_body(body)
    }

    /// Adds a header; one that no header can hold is left out.
    pub fn header(mut self, name: HeaderName, value: impl TryInto<HeaderValue>) -> Reply {
        if let Ok(value) = value.try_into() {
            self.headers.insert(name, value);
        }
        self
    }

    /// Adds jobs that go back unless the client gets the answer.
    pub fn hands_over(mut self, reserved: HandedOut) -> Reply {
        self.reserved = Some(reserved);
        self
    }

    /// Adds the turn that it was made in.
    pub fn in_turn(mut self, turn: CallerTurn) -> Reply {
        self.turn = Some(turn);
        self
    }

    /// Adds a feed that follows the body.
    pub fn followed_by(mut self, feed: Feed) -> Reply {
        self.feed = Some(feed);
        self
    }

    /// Returns the response that leaves on a connection, whose bytes take this room.
    pub fn response(self, unflushed: Unflushed, room: Option<AnswerRoom>) -> Response<ReplyBody> {
        let body = ReplyBody::new(self.body, self.reserved, unflushed).in_room(room).followed_by(self.feed);
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }

    fn with_body(mut self, body: impl Into<Bytes>) -> Reply {
        self.body = body.into();
        self
    }
}

impl Problem {
    /// Adds the time after which another attempt makes sense.
    pub fn waits(&self, reply: Reply) -> Reply {
        match self.retry_after {
            // Whole seconds, never before the time has come.
            Some(after) => reply.header(header::RETRY_AFTER, after.as_millis().div_ceil(1000).max(1).to_string()),
            None => reply,
        }
    }
}

impl From<Problem> for Reply {
    fn from(problem: Problem) -> Reply {
        let body = format!("{}\n", problem.body());
        let reply = Reply::bytes(problem.kind.status(), PROBLEM, body);
        let reply = problem.waits(reply);
        match problem.kind {
            ProblemKind::Unauthorized => reply.header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            _ => reply,
        }
    }
}
