//! The whole conveyor against a real Redis and scripted sinks: what each outcome does to an element, its neighbours, the
//! breaker and the hold.

mod ahead;
mod dead_letter_target;
mod ends;
mod fan_out;
mod outcomes;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redisson_codecs::Codec;
use tokio::runtime::{Builder, Runtime};

use crate::config::{ListCleanup, MaxInFlight, Mode, OnDecodeError, OnExpired, QueueSpec, RetryPolicy, RouteSpec};
use crate::link::rights::{to_connect, to_load_scripts};
use crate::link::test_server::{TestServer, eventually, soon};
use crate::link::{Link, LinkOptions};
use crate::message::{About, Class, Failure, MessageId};
use crate::pipeline::claim::{claimer, pollers};
use crate::pipeline::deliver::sink_handle::SinkHandle;
use crate::pipeline::leases::keeper;
use crate::pipeline::limits::budget::Budget;
use crate::pipeline::process::Process;
use crate::pipeline::queue::Queue;
use crate::route::{Envelope, MessageSpec};
use crate::sink::fake::{FakeSink, Step};
use crate::sink::stdout::StdoutSpec;
use crate::source::SourceSpec;
use crate::source::redis::{RedisServer, RedisStore};
use crate::source::redisson::layout::{self, Layout};
use crate::source::redisson::{Consume, RedissonSpec};
use crate::source::redisson::{Entry, Redisson, SCRIPTS};
use crate::telemetry::events::Events;

/// A sink that confirms, until it is told something else, and answers in time unless it is stalled for long.
fn sink() -> Arc<FakeSink> {
    Arc::new(FakeSink::new(Duration::from_secs(20)))
}

fn failure(class: Class, code: &'static str) -> Failure {
    Failure::new(class, code, "deliver: told to fail")
}

/// A queue with a lease of a minute and three quick attempts.
fn spec(sinks: &[(&str, Arc<FakeSink>)]) -> QueueSpec {
    let to = sinks.iter().map(|(name, _)| RouteSpec {
        sink: (*name).into(),
        target: Arc::new(StdoutSpec),
        message: MessageSpec { headers: Vec::new(), envelope: Envelope::Raw },
    });
    QueueSpec {
        mode: Mode::Deliver,
        id: "q".into(),
        source: SourceSpec::Redisson(RedissonSpec {
            name: "q".to_owned(),
            consume: Consume { delayed: true, ready: true },
            list_cleanup: ListCleanup::Auto,
            ghost_max_age: Duration::from_secs(30),
            sweep_bandwidth: 16 << 20,
            rescue_after: Duration::from_secs(10),
        }),
        codec: Codec::Raw.into(),
        on_decode_error: OnDecodeError::DeadLetter,
        lease: Duration::from_secs(60),
        claim_ahead: Duration::ZERO,
        max_in_flight: MaxInFlight::Fixed(100),
        max_in_flight_bytes: 16 << 20,
        max_rate: None,
        max_lateness: None,
        on_expired: OnExpired::Deliver,
        to: to.collect(),
        retry: RetryPolicy {
            max_attempts: 3,
            initial_interval: Duration::from_millis(10),
            max_interval: Duration::from_millis(50),
            multiplier: 2.0,
            full_jitter: false,
        },
        dead_letter_max_len: None,
        dead_letter_to: None,
    }
}

/// One process with one queue, on a runtime of its own: dropped, it is gone like a process that was killed.
struct Bridge {
    process: Arc<Process>,
    queue: Arc<Queue>,
    /// A login that may do anything: producers share no user with the daemon.
    producer: Link,
    /// The login of the daemon.
    link: Link,
    /// Redisson's side of the queue.
    source: Redisson,
    runtime: Option<Runtime>,
}

impl Bridge {
    /// Everything runs that a daemon runs for its queue, except the sweep.
    fn start(server: &TestServer, owner: u8, sinks: &[(&str, Arc<FakeSink>)]) -> Bridge {
        Bridge::start_with(server, owner, sinks, spec(sinks))
    }

    /// The same with a configuration of its own.
    fn start_with(server: &TestServer, owner: u8, sinks: &[(&str, Arc<FakeSink>)], spec: QueueSpec) -> Bridge {
        let bridge = Bridge::without_keeper(server, owner, sinks, spec);
        let runtime = bridge.runtime.as_ref().expect("it runs");
        let (process, queues) = (bridge.process.clone(), vec![bridge.queue.clone()]);
        let beat = |task: &str| process.events.status().heartbeat(task, Duration::from_secs(60));
        runtime.spawn(keeper::run(process.clone(), queues.clone(), beat("lease keeper")));
        runtime.spawn(pollers::safety_poll(process.clone(), queues, beat("safety poll")));
        bridge
    }

    /// Only claims and delivers; nobody keeps its leases, and it looks again only when it is told to.
    fn without_keeper(server: &TestServer, owner: u8, sinks: &[(&str, Arc<FakeSink>)], spec: QueueSpec) -> Bridge {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let guard = runtime.enter();
        let options = LinkOptions { scripts: SCRIPTS.all().into_iter().cloned().collect(), ..LinkOptions::default() };
        let SourceSpec::Redisson(source) = &spec.source;
        let source = Redisson::configured(source, [owner; 8]);
        let grants: Vec<_> = source.to_run(&spec).into_iter().chain([to_connect(0), to_load_scripts()]).collect();
        let link = Link::start(Arc::new(server.endpoint_within(&format!("daemon-{owner}"), &grants)), options.clone());
        let producer = Link::start(Arc::new(server.endpoint()), options);
        let events = Events::default();
        let process = Arc::new(Process::new(
            [owner; 8],
            Arc::new(RedisServer::new(link.clone())),
            Budget::new(1000, 1 << 26),
            events.clone(),
        ));
        let sinks: Vec<Arc<SinkHandle>> = sinks
            .iter()
            .map(|(name, sink)| {
                let name: Arc<str> = (*name).into();
                let (events, gates) = (events.sink(&name), process.gates.clone());
                Arc::new(SinkHandle::new(name, sink.clone(), None, events, gates))
            })
            .collect();
        let store = Arc::new(RedisStore::new(link.clone(), crate::source::build(&spec), [owner; 8]));
        let queue = Queue::new(Arc::new(spec), process.clone(), store, |name| {
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
            self.source.offer(&conn, element.into(), Duration::ZERO).await.unwrap();
        }
        self.queue.alarm.ring(crate::telemetry::labels::Wakeup::Published);
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

fn id(n: u64) -> MessageId {
    MessageId(n.to_be_bytes())
}

/// What a test looks at in Redis.
struct ReplyPending(redis::aio::MultiplexedConnection);

impl ReplyPending {
    async fn at(server: &TestServer) -> Self {
        ReplyPending(server.admin().await)
    }

    /// Offers elements with these ids, long due, all at one moment: one claim takes them together.
    async fn offer(&mut self, ids: impl IntoIterator<Item = u64>) {
        let mut offers = redis::pipe();
        offers.atomic();
        for n in ids {
            let element = layout::pack(Layout::New, id(n), format!("payload {n}").as_bytes());
            offers.cmd("ZADD").arg("redisson_delay_queue_timeout:{q}").arg(1).arg(&element);
            offers.cmd("RPUSH").arg("redisson_delay_queue:{q}").arg(&element);
        }
        offers.exec_async(&mut self.0).await.unwrap();
    }

    async fn count(&mut self, what: &str) -> usize {
        self.entries(what).await.len()
    }

    /// The entries `inflight` or `retry`.
    async fn entries(&mut self, what: &str) -> Vec<Entry> {
        let members: Vec<Vec<u8>> = redis::cmd("ZRANGE")
            .arg(format!("delaybridge:{what}:{{q}}"))
            .arg(0)
            .arg(-1)
            .query_async(&mut self.0)
            .await
            .unwrap();
        members.into_iter().map(|member| Entry::decode(Bytes::from(member)).expect("an entry of ours")).collect()
    }

    /// Waits until no other connection is left: all that a process has sent before it ended is then done.
    async fn until_alone(&mut self) {
        eventually("the other connections to be gone", async || {
            let info: String = redis::cmd("INFO").arg("clients").query_async(&mut self.0).await.unwrap();
            info.lines().any(|line| line == "connected_clients:1")
        })
        .await;
    }

    /// Waits until nothing is scheduled, in flight or waiting.
    async fn until_empty(&mut self) {
        eventually("the queue to be empty", async || {
            // At one moment: between two looks an element can move from what is looked at next to what was looked at.
            let mut look = redis::pipe();
            look.atomic().cmd("ZCARD").arg("redisson_delay_queue_timeout:{q}");
            look.cmd("ZCARD").arg("delaybridge:inflight:{q}").cmd("ZCARD").arg("delaybridge:retry:{q}");
            look.query_async::<[usize; 3]>(&mut self.0).await.unwrap() == [0, 0, 0]
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

/// How often each of these ids was handed to the sink.
fn times(sink: &FakeSink, ids: impl IntoIterator<Item = u64>) -> Vec<usize> {
    let attempts = sink.attempts();
    ids.into_iter().map(|n| attempts.iter().filter(|message| message.id == id(n)).count()).collect()
}
