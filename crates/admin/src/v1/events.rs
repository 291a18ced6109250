//! `GET /v1/events`: what becomes of single elements, as it happens, by server-sent events.
//!
//! No operation: one has a single answer, which is JSON as a whole. This is a stream without an end, goes on at a header, and each part of
//! it depends on what its caller may see.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_core::clock::Instant;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::feed::Feed;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_http_server::text::clip;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::content::Content;
use delaybridge_ops::find;
use delaybridge_telemetry::peer::Peer;
use delaybridge_telemetry::tail::{ANONYMOUS, ElementEvent, Fate, LISTENERS, Listener};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// A line without a meaning comes that often, so that a proxy keeps the connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The length of a stream. The client connects again then, and its token is checked again.
const LASTS: Duration = Duration::from_secs(600);
/// The first part: how long a client waits before it connects again.
const HELLO: &str = "retry: 3000\n\n";

/// One event. Fields that may quote a payload are for callers with a token.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Event", extend("additionalProperties" = true))]
pub struct EventShape {
    /// The number of the event: one more than that of the event before.
    number: u64,
    /// Events that were left out since then: more than 100 in a second.
    left_out: u64,
    /// The time, by the clock of Redis.
    pub(crate) at_ms: i64,
    /// The queue.
    pub(crate) queue: Arc<str>,
    /// The element.
    pub(crate) id: String,
    /// The outcome of the attempt.
    #[schemars(extend("enum" = Fate::ALL.map(Fate::as_str)))]
    pub(crate) fate: &'static str,
    /// The sinks that confirmed it, or the one that decided.
    pub(crate) sink: Option<String>,
    /// The due time.
    due_ms: Option<i64>,
    /// The time from the due time to the event.
    pub(crate) late_ms: Option<i64>,
    /// The number of the attempt.
    pub(crate) attempt: u32,
    /// The earliest time of the next attempt.
    pub(crate) next_ms: Option<i64>,
    /// Class of the failure.
    pub(crate) class: Option<&'static str>,
    /// Code of the failure.
    pub(crate) code: Option<&'static str>,
    /// Message of the sink; with a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// Bytes of the payload.
    pub(crate) size: usize,
    /// The payload, up to 4096 bytes; with a token.
    #[serde(flatten)]
    pub(crate) content: Option<Content>,
}

impl Admin {
    /// Returns an event for a caller; `payloads`: the caller may see them.
    pub fn shape(&self, event: &ElementEvent, payloads: bool) -> EventShape {
        let content = event.payload.clone().filter(|_| payloads).and_then(|bytes| {
            let spec = find(&self.session().config, &event.queue).ok()?;
            Some(Content::new(spec.codec, bytes, true).with(&spec.classes))
        });
        EventShape {
            number: event.number,
            left_out: event.left_out,
            at_ms: event.at_ms,
            queue: event.queue.clone(),
            id: event.id.to_string(),
            fate: event.fate.as_str(),
            sink: event.sink.clone(),
            due_ms: event.due_ms,
            late_ms: event.due_ms.map(|due_ms| event.at_ms.saturating_sub(due_ms).max(0)),
            attempt: event.attempt,
            next_ms: event.next_ms,
            class: event.failure.map(|(class, _)| class),
            code: event.failure.map(|(_, code)| code),
            message: event.message.clone().filter(|_| payloads),
            size: event.size,
            content,
        }
    }
}

/// A caller's filter of events.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    queue: Option<String>,
    fates: Vec<Fate>,
}

impl EventFilter {
    /// By the parameters `queue` and `fate`.
    pub fn of(admin: &Admin, call: &Call<AdminCaller>) -> Result<EventFilter, Problem> {
        let queue = call.query.text("queue").filter(|queue| !queue.is_empty()).map(str::to_owned);
        if let Some(queue) = &queue {
            find(&admin.session().config, queue).map_err(|error| Problem::new(ProblemKind::NotFound, error.message))?;
        }
        let words = call.query.text("fate").unwrap_or_default();
        let known = |word: &str| {
            Fate::ALL.into_iter().find(|fate| fate.as_str() == word).ok_or_else(|| {
                let all = Fate::ALL.map(Fate::as_str).join(", ");
                Problem::bad(format!("read `fate` in the query: `{}` is none of {all}", clip(word)))
            })
        };
        let fates =
            words.split(',').map(str::trim).filter(|word| !word.is_empty()).map(known).collect::<Result<_, _>>()?;
        Ok(EventFilter { queue, fates })
    }

    /// Returns whether this is one of them.
    pub fn takes(&self, event: &ElementEvent) -> bool {
        self.queue.as_ref().is_none_or(|queue| **queue == *event.queue)
            && (self.fates.is_empty() || self.fates.contains(&event.fate))
    }
}

/// Returns the stream.
pub async fn stream(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let wanted = EventFilter::of(&admin, &call)?;
    // A client that connects again says in a header what it had last.
    let last = call.headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let after = last.or(call.query.number("after")?).unwrap_or(0);
    let named = call.caller.grant.is_some();
    let listener = admin.tail.listen(after, named).ok_or_else(|| {
        let detail = if named {
            format!("follow the events: {LISTENERS} clients do that already; close one of them")
        } else {
            format!("follow the events: {ANONYMOUS} clients without a token do that already; send a token")
        };
        Problem::new(ProblemKind::TooMany, detail).retry_after(Duration::from_secs(60))
    })?;
    let ends = Instant::now().after(LASTS);
    let following = Following { admin, listener, wanted, caller: call.caller, ends, peer: call.peer };
    let hello = stream::iter([Bytes::from_static(HELLO.as_bytes())]);
    let parts = stream::unfold(following, |mut following| async { Some((following.next().await?, following)) });
    Ok(Reply::empty(StatusCode::OK)
        .header(hyper::header::CONTENT_TYPE, EVENT_STREAM)
        .followed_by(Feed::new(stream::StreamExt::chain(hello, parts))))
}

/// One client that listens.
struct Following {
    admin: Arc<Admin>,
    listener: Listener,
    wanted: EventFilter,
    caller: AdminCaller,
    ends: Instant,
    peer: Peer,
}

impl Following {
    /// Returns the next part; `None` where the stream ends.
    async fn next(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        if now >= self.ends {
            return None;
        }
        let heartbeat = tokio::time::sleep(HEARTBEAT.min(self.ends.since(now)));
        tokio::pin!(heartbeat);
        loop {
            // Order: the end of the daemon goes first. All may be left at any time.
            tokio::select! {
                biased;
                () = self.admin.stopping.cancelled() => return None,
                event = self.listener.next() => match event {
                    Ok(event) if self.wanted.takes(&event) => return self.part(&event),
                    Ok(_) => {}
                    Err(_too_slow) => return None,
                },
                () = &mut heartbeat => return Some(Bytes::from_static(b":\n\n")),
            }
        }
    }

    fn part(&self, event: &ElementEvent) -> Option<Bytes> {
        // JSON has no line break outside of its strings, and escapes those inside.
        let payloads = self.caller.may(AccessRole::Reader, Some(&event.queue));
        let json = serde_json::to_string(&self.admin.shape(event, payloads)).ok()?;
        Some(format!("id: {}\nevent: element\ndata: {json}\n\n", event.number).into())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if self.listener.is_behind() {
            self.admin.events.listener_dropped(self.peer);
        }
    }
}
