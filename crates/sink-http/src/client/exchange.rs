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
use super::retry_after::{self, RetryPause};
use super::{errors, request};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_sink::Outbound;

/// Bytes of an answer that are read. A longer one is as good as complete; its connection is closed.
const ANSWER_BYTES: usize = 64 << 10;
/// Time allowed for the rest of an answer of failure, so that its connection can be kept.
const REST: Duration = Duration::from_millis(500);
/// Connections that are tried while each of them ends before a byte was sent.
const TRIES: usize = 3;

/// State that all deliveries of a sink share.
#[derive(Debug)]
pub(super) struct HttpClient {
    pub(super) spec: Arc<HttpSpec>,
    pub(super) pool: Pool,
    pub(super) pause: RetryPause,
}

/// The end of reading an answer.
enum AnswerRead {
    /// To its end, so that the connection can carry the next request.
    Complete,
    /// As much as is read at all.
    Long,
    /// The connection broke within it.
    Broken,
}

impl HttpClient {
    /// Sends one element and reads the answer. The caller stops waiting by dropping this; `sent` then says whether a
    /// byte may have left.
    pub(super) async fn deliver(
        &self,
        message: &Outbound,
        path: &str,
        credentials: &Credentials,
        sent: &mut bool,
    ) -> Outcome {
        for attempt in 0..TRIES {
            let ready = self.pool.acquire(attempt > 0).await?;
            let request = request::build(&self.spec, message, path, credentials, ready.version())?;
            if let Some(left) = self.pause.left(Instant::now()) {
                self.pool.keep(ready);
                return Err(errors::paused(&self.spec, left));
            }
            // Asked last: from here on bytes may leave.
            if Instant::now() >= message.send_before {
                self.pool.keep(ready);
                return Err(Failure::stale());
            }
            *sent = true;
            let mut guard = Retire(Some(ready));
            let Some(ready) = guard.0.as_mut() else { continue };
            match ready.send(request).await {
                Ok(response) => return self.answered(message, path, response, guard).await,
                // The connection had ended, or ended now, without a byte of this request.
                Err(error) if error.message().is_some() => *sent = false,
                Err(error) => {
                    guard.disarm();
                    return Err(errors::lost(&self.spec, &error.into_error()));
                }
            }
        }
        Err(errors::ended_at_once(&self.spec))
    }

    /// Sends a request that asks for nothing, on a new connection: whether the server answers and speaks HTTP.
    ///
    /// # Errors
    /// Why no request would be answered now.
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
        path: &str,
        response: Response<Incoming>,
        mut guard: Retire,
    ) -> Outcome {
        let (head, mut body) = response.into_parts();
        let failure = errors::of_status(&self.spec, head.status, &head.headers, path);
        let Some(failure) = failure else {
            // Only a complete answer is a success: a server that breaks off in the middle may have failed.
            return match read(&mut body).await {
                AnswerRead::Complete => {
                    guard.keep(&self.pool);
                    Ok(())
                }
                AnswerRead::Long => {
                    guard.disarm();
                    Ok(())
                }
                AnswerRead::Broken => Err(errors::truncated(&self.spec)),
            };
        };
        if failure.class == Class::Backpressure
            && let Some(wait) = retry_after::wait(&head.headers, message.now_ms)
        {
            self.pause.extend(Instant::now(), wait);
        }
        // The status says it all. What follows is read only to keep the connection.
        if let Ok(AnswerRead::Complete) = tokio::time::timeout(REST, read(&mut body)).await {
            guard.keep(&self.pool);
        }
        Err(failure)
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
