//! The `redis` sink: pushes to lists, appends to streams, on a server of its own or the source's.
//!
//! Elements are batched into pipelines by one worker; each has its own answer. `exactly_once` is not here: there push
//! and settle are one script of the source.

mod command;
mod errors;
mod rights;
mod worker;

#[cfg(test)]
mod tests;

use std::sync::Mutex;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

pub use rights::to_deliver;

use super::Sink;
use super::handoff::Handoff;
use crate::link::Link;
use crate::message::{Class, Destination, Failure, Outbound, Outcome};

/// Elements that wait for their turn; whoever comes later waits in `deliver`.
const QUEUE: usize = 1024;

/// Delivers to lists and streams of one Redis server.
#[derive(Debug)]
pub struct RedisSink {
    link: Link,
    owns_link: bool,
    handoff: Handoff,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl RedisSink {
    /// A sink on a link that somebody else closes.
    pub fn on_shared(link: Link, timeout: Duration) -> RedisSink {
        RedisSink::start(link, timeout, false)
    }

    /// A sink on a link of its own, closed with the sink.
    pub fn on_own(link: Link, timeout: Duration) -> RedisSink {
        RedisSink::start(link, timeout, true)
    }

    fn start(link: Link, timeout: Duration, owns_link: bool) -> RedisSink {
        let (handoff, jobs) = Handoff::new("redis", timeout, QUEUE);
        let worker = Mutex::new(Some(tokio::spawn(worker::run(link.clone(), jobs))));
        RedisSink { link, owns_link, handoff, worker }
    }
}

impl Sink for RedisSink {
    fn kind(&self) -> &'static str {
        self.handoff.kind()
    }

    fn timeout(&self) -> Duration {
        self.handoff.timeout()
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.handoff.deliver(message).boxed()
    }

    fn check<'a>(&'a self, _: &'a [Destination]) -> BoxFuture<'a, Result<(), Failure>> {
        let check = async {
            let conn = worker::connection(&self.link).await?;
            let ping = conn.query::<::redis::Value>(&::redis::cmd("PING")).await;
            ping.map(drop).map_err(|error| errors::classify("PING", &error))
        };
        async move {
            tokio::time::timeout(self.timeout(), check).await.unwrap_or_else(|_elapsed| {
                let text =
                    format!("connect to Redis {}: not connected within {:?}", self.link.address(), self.timeout());
                Err(Failure::new(Class::Transient, Failure::NOT_CONNECTED, text))
            })
        }
        .boxed()
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        async move {
            // The supervisor of a link that the source owns is the daemon's to watch.
            tokio::select! {
                () = self.handoff.ended() => {}
                () = self.link.ended(), if self.owns_link => {}
            }
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.handoff.close();
            let worker = self.worker.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            if let Some(worker) = worker {
                // A panic of the worker has answered all waiting deliveries already.
                drop(worker.await);
            }
            if self.owns_link {
                self.link.close().await;
            }
        }
        .boxed()
    }
}
