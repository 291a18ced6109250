//! One request and its answer, and what they say about whether the element has arrived.
//!
//! Before the request is handed to a connection, nothing has been sent; afterwards only a complete answer says what
//! became of it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Incoming};

use super::super::HttpSpec;
use super::connection::ReadyConnection;
use super::credentials::Credentials;
use super::pool::Pool;
use super::urls::{Heard, UrlPlace};
use super::{errors, request, retry_after};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_sink::Outbound;

/// Bytes of an answer that are read. A longer one is as good as complete; its connection is closed.
const ANSWER_BYTES: usize = 64 << 10;
/// Time allowed for the body of an answer of success: the status has said it. With `read_body` it is waited for.
const BODY: Duration = Duration::from_secs(5);
/// Time allowed for the rest of an answer of failure, so that its connection can be kept.
const REST: Duration = Duration::from_millis(500);
/// Connections that are tried while each of them ends before a byte was sent.
const TRIES: usize = 3;

/// State that all deliveries of a sink share.
#[derive(Debug)]
pub(super) struct HttpClient {
    pub(super) spec: Arc<HttpSpec>,
    pub(super) pool: Pool,
}

/// The progress of a request when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// No byte of it has left.
    Waiting,
    /// The request may have arrived.
    Sent,
    /// The server has answered that it took it. Only the body is missing.
    Taken,
}

/// The end of reading an answer.
enum AnswerRead {
    /// To its end, so that the connection can carry the next request.
    Complete,
    /// An answer longer than what is read.
    Long,
    /// The connection broke within the answer.
    Broken,
}

impl HttpClient {
    /// Sends one element and reads the answer. The caller stops waiting by dropping this; `progress` then says how far it came.
    pub(super) async fn deliver(
        &self,
        message: &Outbound,
        (path, place): (&str, &UrlPlace<'_>),
        credentials: &Credentials,
        progress: &mut Progress,
    ) -> Outcome {
        for attempt in 0..TRIES {
            let ready = self.pool.acquire(attempt > 0).await?;
            let request = request::build(&self.spec, message, path, credentials, ready.version())?;
            if let Some(left) = place.paused(Instant::now()) {
                self.pool.keep(ready);
                return Err(errors::paused(&self.spec, left));
            }
            // Asked last: from here on bytes may leave.
            if Instant::now() >= message.send_before {
                self.pool.keep(ready);
                return Err(Failure::stale());
            }
            *progress = Progress::Sent;
            place.sent();
            let mut guard = Retire(Some(ready));
            let Some(ready) = guard.0.as_mut() else { continue };
            match ready.send(request).await {
                Ok(response) => return self.answered(message, (path, place), response, guard, progress).await,
                // The connection had ended, or ended now, without a byte of this request.
                Err(error) if error.message().is_some() => {
                    *progress = Progress::Waiting;
                    place.not_sent();
                }
                Err(error) => {
                    let has_answered = ready.has_answered();
                    guard.disarm();
                    place.heard(Heard::Lost);
                    return Err(errors::lost(&self.spec, &error.into_error(), has_answered));
                }
            }
        }
        Err(errors::ended_at_once(&self.spec))
    }

    /// Sends a request that asks for nothing, on a new connection: whether the server answers and speaks HTTP.
    pub(super) async fn probe(&self, method: hyper::Method) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let ready = self.pool.acquire(true).await?;
            let request = request::probe(&self.spec, method.clone(), ready.version())?;
            let mut guard = Retire(Some(ready));
            let Some(ready) = guard.0.as_mut() else { continue };
            match ready.send(request).await {
                Ok(response) => {
                    let (head, mut body) = response.into_parts();
                    if let Ok(AnswerRead::Complete) = tokio::time::timeout(REST, read(&mut body)).await {
                        guard.keep(&self.pool);
                    }
                    return errors::of_probe(&self.spec, head.status).map_or(Ok(()), Err);
                }
                // The connection had ended before the request: the next one tells.
                Err(error) if error.message().is_some() => {}
                Err(error) => {
                    guard.disarm();
                    return Err(errors::probe_lost(&self.spec, &error.into_error()));
                }
            }
        }
        Err(errors::ended_at_once(&self.spec))
    }

    async fn answered(
        &self,
        message: &Outbound,
        (path, place): (&str, &UrlPlace<'_>),
        response: Response<Incoming>,
        mut guard: Retire,
        progress: &mut Progress,
    ) -> Outcome {
        let (head, mut body) = response.into_parts();
        let failure = errors::of_status(&self.spec, head.status, &head.headers, path, message.attempt > 1);
        let Some(failure) = failure else {
            let limit = if self.spec.read_body {
                // It is all that is waited for: the caller ends that.
                Duration::MAX
            } else {
                *progress = Progress::Taken;
                // Now: the caller may not wait for the end.
                place.heard(Heard::Taken);
                BODY
            };
            // A server that breaks off in the middle may have failed. One that is slow has said it.
            let outcome = match tokio::time::timeout(limit, read(&mut body)).await {
                Ok(AnswerRead::Complete) => {
                    guard.keep(&self.pool);
                    Ok(())
                }
                Ok(AnswerRead::Long) | Err(_) => {
                    guard.disarm();
                    Ok(())
                }
                Ok(AnswerRead::Broken) => Err(errors::truncated(&self.spec)),
            };
            if self.spec.read_body {
                place.heard(if outcome.is_ok() { Heard::Taken } else { Heard::Lost });
            }
            return outcome;
        };
        let wait = match failure.class {
            Class::Backpressure => retry_after::wait(&head.headers, message.now_ms),
            _ => None,
        };
        let is_busy = failure.class == Class::Backpressure && failure.about.is_of_destination();
        place.heard(if is_busy { Heard::Busy(wait) } else { Heard::Other });
        // The status says it all. What follows is read only to keep the connection.
        if let Ok(AnswerRead::Complete) = tokio::time::timeout(REST, read(&mut body)).await {
            guard.keep(&self.pool);
        }
        Err(failure.after(wait))
    }
}

/// Retires the connection when the request is given up before its answer is complete: the peer may be gone.
struct Retire(Option<ReadyConnection>);

impl Retire {
    fn keep(&mut self, pool: &Pool) {
        if let Some(ready) = self.0.take() {
            pool.keep(ready);
        }
    }

    fn disarm(&mut self) {
        drop(self.0.take());
    }
}

impl Drop for Retire {
    fn drop(&mut self) {
        if let Some(ready) = &self.0 {
            ready.retire();
        }
    }
}

/// Reads an answer without keeping any of it.
async fn read(body: &mut Incoming) -> AnswerRead {
    let mut left = ANSWER_BYTES;
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
            None => return AnswerRead::Complete,
            Some(Err(_)) => return AnswerRead::Broken,
            Some(Ok(frame)) => match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(rest) => left = rest,
                None => return AnswerRead::Long,
            },
        }
    }
}
