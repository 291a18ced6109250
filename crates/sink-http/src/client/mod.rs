//! The sink itself: one request an element, and the answer's status as the confirmation.
//!
//! ```text
//! deliver -> a place at the URL -> one among `max_concurrency` -> credentials -> connection -> exchange -> status
//!            pause                                                              pool
//! ```
//!
//! **What is sent, is known.** The connections are hyper's, the pool around them is ours: no request is repeated by a
//! library, a connection is ready before the lease is asked for the last time, and a request that was handed to a
//! connection is in doubt until its answer is complete; see `exchange.rs`. Where the server takes fewer streams at once
//! than the sink would send, elements wait here and not in the library, which would send them after their time.
//!
//! **What a failure of one costs the others.** With HTTP/1.1 each request has a connection of its own, with HTTP/2 a
//! stream. A request that is given up resets its stream, and the connection takes no new ones, since the peer may be
//! gone. A URL that answers nothing has a few places, so that others go on; see `urls.rs`.
//!
//! All rows of what a status means are in `errors.rs`.

mod body;
mod connect;
mod connection;
mod credentials;
mod errors;
mod exchange;
mod pool;
mod request;
mod retry_after;
mod signature;
mod tasks;
mod urls;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use self::connect::HttpConnector;
use self::credentials::CredentialFiles;
use self::exchange::{HttpClient, Progress};
use self::pool::Pool;
use self::tasks::Tasks;
use self::urls::{NotNow, Urls};
use super::{HttpDestination, HttpProbe, HttpSpec, NAME};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Failure, Outcome};
use delaybridge_sink::{Destination, Outbound, Sink};

/// The interval at which connections that have been idle for too long are closed.
const PRUNE: Duration = Duration::from_secs(5);
/// Time allowed for closing.
const CLOSE: Duration = Duration::from_secs(3);

/// Delivers to the webhooks of one server.
#[derive(Debug)]
pub struct HttpSink {
    client: Arc<HttpClient>,
    credentials: CredentialFiles,
    urls: Urls,
    timeout: Duration,
    /// One permit for each request that may be under way.
    places: Semaphore,
    tasks: Tasks,
    _pruning: AbortOnDropHandle<()>,
}

impl HttpSink {
    /// Creates a sink that answers within `timeout`. It connects when there is something to send.
    pub fn new(spec: HttpSpec, timeout: Duration) -> HttpSink {
        // An attempt to connect ends before the delivery that waits for it, so that it can say why it failed.
        let connect_timeout = spec.connect_timeout.min(timeout * 4 / 5);
        let spec = Arc::new(HttpSpec { connect_timeout, ..spec });
        let tasks = Tasks::default();
        let pool = Pool::new(HttpConnector::new(spec.clone(), tasks.clone()));
        let credentials = CredentialFiles::new(&spec);
        let places = Semaphore::new(spec.max_concurrency);
        let client = Arc::new(HttpClient { spec, pool });
        let pruned = client.clone();
        let pruning = tokio::spawn(async move {
            loop {
                tokio::time::sleep(PRUNE).await;
                pruned.pool.prune();
            }
        });
        let urls = Urls::new(client.spec.max_concurrency, Instant::now());
        HttpSink { client, credentials, urls, timeout, places, tasks, _pruning: AbortOnDropHandle::new(pruning) }
    }

    async fn deliver_in_time(&self, message: &Outbound) -> Outcome {
        let HttpDestination { path, .. } = message.destination.of_kind(NAME)?;
        let mut progress = Progress::Waiting;
        // A request that begins in the last twentieth of its time would only be in doubt: its answer would come too late.
        let begin_before = Instant::now().after(self.timeout * 19 / 20);
        let delivery = self.deliver_in_turn(message, path, begin_before, &mut progress);
        let delivery = tokio::time::timeout(self.timeout, delivery).await;
        match delivery {
            Ok(outcome) => outcome,
            Err(_) if progress == Progress::Taken => Ok(()),
            Err(_) if progress == Progress::Sent => Err(errors::timeout(&self.client.spec, self.timeout)),
            Err(_) if Instant::now() >= message.send_before => Err(Failure::stale()),
            Err(_) => Err(errors::not_sent(&self.client.spec, self.timeout)),
        }
    }

    async fn deliver_in_turn(
        &self,
        message: &Outbound,
        path: &str,
        begin_before: Instant,
        progress: &mut Progress,
    ) -> Outcome {
        let spec = &self.client.spec;
        let begun = Instant::now();
        // At the URL first: what waits for one that does not answer takes no place of others.
        let at_url = self.urls.place(path).await.map_err(|why| match why {
            NotNow::Paused(left) => errors::paused(spec, left),
            NotNow::HostBusy(wait) => errors::host_busy(spec, wait),
        })?;
        let Ok(_place) = self.places.acquire().await else { return Err(errors::closed(spec)) };
        if let Some(failure) = self.client.pool.failed_since(begun) {
            return Err(failure);
        }
        let credentials = self.credentials.current().await.map_err(|why| errors::secret(spec, &why))?;
        if Instant::now() >= begin_before && Instant::now() < message.send_before {
            return Err(errors::not_sent(spec, self.timeout));
        }
        self.client.deliver(message, (path, &at_url), &credentials, progress).await
    }
}

impl Drop for HttpSink {
    fn drop(&mut self) {
        self.tasks.end();
    }
}

impl Sink for HttpSink {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        async move { self.deliver_in_time(&message).await }.boxed()
    }

    fn check<'a>(&'a self, _: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        // Name, TCP, TLS and the files. No request: even a HEAD may do something there.
        async move {
            self.credentials.current().await.map_err(|why| errors::secret(&self.client.spec, &why))?;
            self.client.pool.check().await.map(|()| Vec::new())
        }
        .boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        let ask = async {
            if let Some(left) = self.urls.paused(Instant::now()) {
                return Err(errors::paused(&self.client.spec, left));
            }
            match self.client.spec.probe {
                HttpProbe::Connect => self.client.pool.check().await,
                HttpProbe::Options => self.client.probe(hyper::Method::OPTIONS).await,
                HttpProbe::Head => self.client.probe(hyper::Method::HEAD).await,
            }
        };
        let limited = async move {
            let asked = tokio::time::timeout(self.timeout, ask).await;
            asked.unwrap_or_else(|_elapsed| Err(errors::probe_timeout(&self.client.spec, self.timeout)))
        };
        Some(limited.boxed())
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        // Connections come and go; no task is needed for the next one.
        std::future::pending().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.places.close();
            self.client.pool.close();
            // Connections end by themselves when no delivery holds them.
            let _ = tokio::time::timeout(CLOSE, self.tasks.done()).await;
            self.tasks.end();
        }
        .boxed()
    }
}
