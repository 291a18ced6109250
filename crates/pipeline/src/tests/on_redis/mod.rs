//! What only a real Redis can show: the fence of the scripts, the fields of a stream, and the order over several threads.

mod outcomes;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::active::ActiveQueue;
use crate::claim::claimer;
use crate::deliver::sink_handle::SinkHandle;
use crate::limits::budget::Budget;
use crate::process::Process;
use delaybridge_ledger::Ledger;
use delaybridge_ledger::redis::RedisStore;
use delaybridge_link::rights::{to_connect, to_load_scripts};
use delaybridge_link::test_server::{TestServer, eventually, soon};
use delaybridge_link::{Link, LinkOptions};
use delaybridge_source::redisson::Redisson;
use delaybridge_source::redisson::layout::{self, Layout};
use delaybridge_telemetry::events::Events;

/// One process with one queue, on a runtime of its own with two threads.
struct Bridge {
    process: Arc<Process>,
    queue: Arc<ActiveQueue>,
    /// A login that may do anything: producers share no user with the daemon.
    producer: Link,
    /// The login of the daemon.
    link: Link,
    /// Redisson's side of the queue, if it is one of Redisson.
    source: Option<Redisson>,
    runtime: Option<Runtime>,
}

impl Bridge {
    /// Only claims and delivers; its leases are not extended, and it looks again only when its alarm rings.
    fn without_keeper(server: &TestServer, owner: u8, sinks: &[(&str, Arc<FakeSink>)], spec: QueueSpec) -> Bridge {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let guard = runtime.enter();
        let source = spec.source.redisson().map(|source| Redisson::configured(source, [owner; 8]));
        let foreign = spec.source.build();
        let scripts = foreign.scripts().all().into_iter().cloned().collect();
        let ledger = Ledger::new(foreign.clone(), [owner; 8]);
        let options = LinkOptions { scripts, ..LinkOptions::default() };
        let grants: Vec<_> = spec.rights(&ledger).into_iter().chain([to_connect(0), to_load_scripts()]).collect();
        let link = Link::start(Arc::new(server.endpoint_within(&format!("daemon-{owner}"), &grants)), options.clone());
        let producer = Link::start(Arc::new(server.endpoint()), options);
        let events = Events::default();
        let process = Arc::new(Process::new([owner; 8], Budget::new(1000, 1 << 26), events.clone()));
        let sinks: Vec<Arc<SinkHandle>> = sinks
            .iter()
            .map(|(name, sink)| {
                let name: Arc<str> = (*name).into();
                let events = events.sink(&name);
                let gates = process.gates.clone();
                Arc::new(SinkHandle::new(name, sink.clone(), None, events, gates))
            })
            .collect();
        let store = Arc::new(RedisStore::new(link.clone(), foreign, [owner; 8]));
        let queue = ActiveQueue::new(Arc::new(spec), process.clone(), store, |name| {
            sinks.iter().find(|handle| &*handle.name == name).cloned()
        });
        let heartbeat = process.events.status().heartbeat("claimer", Duration::from_secs(60));
        runtime.spawn(claimer::run(queue.clone(), heartbeat));
        drop(guard);
        Bridge { process, queue, producer, link, source, runtime: Some(runtime) }
    }

    /// Offers elements with these ids that are due at once.
    async fn offer(&self, ids: impl IntoIterator<Item = u64>) {
        let conn = soon("a connection", self.producer.ready()).await;
        for n in ids {
            let element = layout::pack(Layout::New, id(n), format!("payload {n}").as_bytes());
            let source = self.source.as_ref().expect("a queue of Redisson");
            source.offer(&conn, element.into(), Duration::ZERO).await.unwrap();
        }
        self.queue.alarm.ring(delaybridge_telemetry::labels::Wakeup::Published);
    }

    /// The value of one series, written as in the text format; 0 if it is not there.
    fn metric(&self, series: &str) -> f64 {
        let text = self.process.events.metrics().render().unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or(0.0)
    }

    async fn metric_is(&self, series: &str, expected: f64) {
        eventually(&format!("{series} {expected}"), async || self.metric(series) == expected).await;
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The queue's keys in Redis, as the test looks at them.
struct RedisView(redis::aio::MultiplexedConnection);

impl RedisView {
    async fn at(server: &TestServer) -> Self {
        RedisView(server.admin().await)
    }

    /// Waits until nothing is scheduled, in flight or waiting.
    async fn until_empty(&mut self) {
        eventually("the queue to be empty", async || {
            // At one moment: between two looks an element can move from what is looked at next to what was looked at.
            let mut look = redis::pipe();
            look.atomic().cmd("ZCARD").arg("redisson_delay_queue_timeout:{q}");
            look.cmd("KEYS").arg("delaybridge:claim:*").cmd("ZCARD").arg("delaybridge:retry:{q}");
            look.query_async::<(usize, Vec<String>, usize)>(&mut self.0).await.unwrap() == (0, Vec::new(), 0)
        })
        .await;
    }

    /// The dead letters, field by field.
    async fn dead(&mut self) -> Vec<std::collections::HashMap<String, Vec<u8>>> {
        let letters: redis::streams::StreamRangeReply =
            redis::cmd("XRANGE").arg("delaybridge:dead:{q}").arg("-").arg("+").query_async(&mut self.0).await.unwrap();
        let fields = |letter: redis::streams::StreamId| {
            letter.map.into_iter().map(|(name, value)| (name, redis::from_redis_value(value).unwrap())).collect()
        };
        letters.ids.into_iter().map(fields).collect()
    }
}
