//! The sink: a queue, and a worker that sends what is in it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::target::NAME;
use crate::{errors, run, worker};
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_link::{Redis, Script};
use delaybridge_sink::worker_queue::WorkerQueue;
use delaybridge_sink::{Answers, Destination, Outbound, RunSink, Sink};

/// Elements that wait for their turn; later ones wait in `deliver`.
const QUEUE: usize = 1024;

/// Delivers to lists and streams of one Redis.
#[derive(Debug)]
pub struct RedisSink {
    pub(crate) redis: Redis,
    owns_redis: bool,
    pub(crate) items: WorkerQueue,
    /// The script that adds entries to a stream in their order.
    entries: Script,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl RedisSink {
    /// Returns a sink on connections that their owner closes.
    pub fn on_shared(redis: impl Into<Redis>, timeout: Duration) -> RedisSink {
        RedisSink::start(redis.into(), timeout, false)
    }

    /// Returns a sink on connections of its own, closed with the sink.
    pub fn on_own(redis: impl Into<Redis>, timeout: Duration) -> RedisSink {
        RedisSink::start(redis.into(), timeout, true)
    }

    fn start(redis: Redis, timeout: Duration, owns_redis: bool) -> RedisSink {
        let (items, taken) = WorkerQueue::new(NAME, timeout, QUEUE);
        let worker = Mutex::new(Some(tokio::spawn(worker::run(redis.clone(), taken))));
        RedisSink { redis, owns_redis, items, entries: run::script(), worker }
    }
}

impl Sink for RedisSink {
    fn kind(&self) -> &'static str {
        self.items.kind()
    }

    fn timeout(&self) -> Duration {
        self.items.timeout()
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.items.deliver(message).boxed()
    }

    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        self.items.deliver_all(batch, answers).boxed()
    }

    fn runs(&self) -> Option<&dyn RunSink> {
        Some(self)
    }

    /// Of large bodies, each of which has a pipeline: the command, and what the client library makes of it. The pipelines of
    /// small ones have few megabytes together.
    fn copies(&self, bytes: usize) -> u64 {
        if bytes > worker::MAX_BYTES { 2 } else { 0 }
    }

    fn check<'a>(&'a self, _: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        let check = async {
            let conn = worker::connection(&self.redis, self.redis.first().await)?;
            let ping = conn.query::<::redis::Value>(&::redis::cmd("PING")).await;
            ping.map(|_| Vec::new()).map_err(|error| errors::classify("PING", &error))
        };
        async move {
            tokio::time::timeout(self.timeout(), check).await.unwrap_or_else(|_elapsed| {
                let text =
                    format!("connect to Redis {}: not connected within {:?}", self.redis.address(), self.timeout());
                Err(Failure::new(Class::Transient, Failure::NOT_CONNECTED, text))
            })
        }
        .boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        Some(self.check(&[]).map_ok(drop).boxed())
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        async move {
            // The supervisor of connections that the source owns is the daemon's to watch.
            tokio::select! {
                () = self.items.ended() => {}
                () = self.redis.ended(), if self.owns_redis => {}
            }
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.items.close();
            let worker = self.worker.lock().take();
            if let Some(worker) = worker {
                // A panic of the worker has answered all waiting deliveries already.
                drop(worker.await);
            }
            if self.owns_redis {
                self.redis.close().await;
            }
        }
        .boxed()
    }
}

impl RunSink for RedisSink {
    /// Returns every key: the elements of a run go to it one command after the other.
    fn line(&self, _: &Destination) -> Option<u32> {
        Some(0)
    }

    fn deliver_run<'a>(&'a self, run: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        async move {
            let sender = run::RunSender { redis: &self.redis, entries: &self.entries, timeout: self.timeout() };
            sender.deliver(&run, answers).await;
        }
        .boxed()
    }
}
