//! The common parts of requests and answers: the id of a request, its token, and the last headers of its answer.

use std::time::Duration;

use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, HeaderName, HeaderValue, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response};

use super::answers::AnswerRoom;
use super::gzip;
use super::handover::ReplyBody;
use super::problem::{Problem, ProblemKind};
use super::reply::Reply;
use super::room::{BodyMemory, Who};
use super::server::Connection;
use delaybridge_core::clock::Instant;
use delaybridge_telemetry::events::api::{Answered, ApiEvents};
use delaybridge_telemetry::peer::Peer;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest answer that is packed where it is made: that takes a few milliseconds.
const PACKED_HERE: usize = 256 << 10;

/// Returns the token behind `Authorization: Bearer`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A request between its arrival and its answer.
pub struct Exchange {
    began: Instant,
    id: HeaderValue,
    /// The headers of the request.
    asked: HeaderMap,
    connection: Connection,
}

impl Exchange {
    /// Begins with the headers of the request.
    pub fn begin(headers: &HeaderMap, connection: Connection) -> Exchange {
        Exchange { began: Instant::now(), id: request_id(headers), asked: headers.clone(), connection }
    }

    /// Returns the address of the client.
    pub fn peer(&self) -> Peer {
        self.connection.peer
    }

    /// Counts the request as one without a token. Their number is bounded, so that callers with a token find a place.
    ///
    /// # Errors
    /// The bound is reached.
    pub fn of_stranger(&self) -> Result<(), Problem> {
        if self.connection.place.admits_stranger() {
            return Ok(());
        }
        let detail = "answer the request: as many requests without a token as may be are under way; send it again, or with a token";
        Err(Problem::new(ProblemKind::TooMany, detail).retry_after(Duration::from_secs(1)))
    }

    /// Reports the answer under the label of its route, and writes it. `refuse` makes the answer of a problem.
    pub async fn end(
        self,
        (events, memory): (&ApiEvents, &BodyMemory),
        route: &'static str,
        token: Option<&str>,
        result: Result<Reply, Problem>,
        refuse: impl FnOnce(Problem) -> Reply,
    ) -> Response<ReplyBody> {
        let result = match result {
            Ok(reply) => self.fits(reply, memory, token).await,
            Err(problem) => Err(problem),
        };
        let problem = result.as_ref().err().map(|problem| problem.detail.clone());
        let (reply, room) = result.unwrap_or_else(|problem| (refuse(problem), None));
        let status = reply.status.as_u16();
        events.metrics.answered(route, status, self.began.elapsed());
        events.answered(&Answered {
            route,
            status,
            peer: self.connection.peer,
            token: token.unwrap_or_default(),
            request: self.id.to_str().unwrap_or_default(),
            problem: problem.as_deref(),
        });
        self.write(reply, room, memory).await
    }

    /// Reserves the room that an answer takes until its client has read it. Without room its jobs go back.
    async fn fits(
        &self,
        mut reply: Reply,
        memory: &BodyMemory,
        token: Option<&str>,
    ) -> Result<(Reply, Option<AnswerRoom>), Problem> {
        let who = token.map_or_else(|| Who::Address(self.peer().ip()), |token| Who::Token(token.into()));
        let room = memory.answer(&who, reply.body.len()).await?;
        drop(reply.turn.take());
        Ok((reply, room))
    }

    /// Writes the answer as it leaves. A large one is packed on another thread.
    async fn write(self, reply: Reply, room: Option<AnswerRoom>, memory: &BodyMemory) -> Response<ReplyBody> {
        let packed = match reply.body.len() {
            length if !gzip::is_wanted(&self.asked, length) => None,
            ..=PACKED_HERE => gzip::pack(&reply.body),
            _ => {
                let body = reply.body.clone();
                // Not packed, it is right as well.
                memory.aside(move || gzip::pack(&body)).await.unwrap_or_default()
            }
        };
        let coded = packed.is_some();
        let body = packed.unwrap_or_else(|| reply.body.clone());
        let mut response = Reply { body, ..reply }.response(self.connection.unflushed, room);
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, self.id);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if coded {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        response
    }
}

/// Returns the client's own id of the request, if it is harmless, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|id| {
        let bytes = id.as_bytes();
        (1..=64).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
    });
    let new = || {
        HeaderValue::try_from(format!("{:016x}", fastrand::u64(..))).unwrap_or_else(|_| HeaderValue::from_static("0"))
    };
    given.cloned().unwrap_or_else(new)
}

/// Adds the header for a path with other methods.
pub fn allow(reply: Reply, problem: &Problem) -> Reply {
    match problem.fields.get("allow").and_then(|allow| allow.as_str()) {
        Some(allow) => reply.header(ALLOW, allow),
        None => reply,
    }
}
