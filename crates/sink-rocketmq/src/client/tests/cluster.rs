//! Clusters of tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use brokers::{RocketMq, RocketMqMessage, RocketMqOptions, RocketMqVersion};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::{patient_sink, topic};
use crate::{RocketMqSpec, SlaveNotAvailable};
use delaybridge_sink::Sink;
use delaybridge_testing::sink::outbound;

/// A cluster, which is a test's own or shared by tests that break nothing.
#[derive(Clone)]
pub(super) struct Cluster(pub(super) Arc<RocketMq>);

impl Cluster {
    /// Starts a cluster, and warms it up: the first messages are slow, until the broker's code is compiled.
    pub(super) async fn start(options: RocketMqOptions) -> Cluster {
        let warm = options.acl.is_none();
        let cluster = Cluster::start_cold(options).await;
        if warm {
            cluster.warm_up().await;
        }
        cluster
    }

    async fn warm_up(&self) {
        let sink = patient_sink(self.spec());
        for number in 0..20 {
            sink.deliver(outbound(number, topic("warm"), "x")).await.unwrap();
        }
        sink.close().await;
    }

    pub(super) async fn start_cold(mut options: RocketMqOptions) -> Cluster {
        options.topics.push(("warm".to_owned(), 4, 6));
        let cluster = tokio::task::spawn_blocking(move || RocketMq::start_with(&options)).await.unwrap().unwrap();
        Cluster(Arc::new(cluster))
    }

    pub(super) async fn shared() -> Cluster {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        let topics = vec![("readonly".to_owned(), 4, 4)];
        let options = RocketMqOptions { topics, ..RocketMqOptions::default() };
        SHARED.get_or_init(|| Cluster::start(options)).await.clone()
    }

    pub(super) async fn shared_four() -> Cluster {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        let version = RocketMqVersion::Four;
        SHARED.get_or_init(|| Cluster::start(RocketMqOptions { version, ..RocketMqOptions::default() })).await.clone()
    }

    /// The cluster of version 5 that tests break, one after the other: it runs when a test gets its turn.
    pub(super) async fn to_break() -> (Cluster, MutexGuard<'static, ()>) {
        static BROKEN: OnceCell<Cluster> = OnceCell::const_new();
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let cluster = BROKEN.get_or_init(|| Cluster::start(RocketMqOptions::default())).await.clone();
        // As the test before has left it.
        let repair = |cluster: &RocketMq| {
            cluster.thaw(0);
            if cluster.pids().is_empty() {
                cluster.restart(0).unwrap();
            }
        };
        cluster.does(repair).await;
        cluster.warm_up().await;
        (cluster, turn)
    }

    /// Does something that takes its time.
    pub(super) async fn does<T: Send + 'static>(&self, what: impl FnOnce(&RocketMq) -> T + Send + 'static) -> T {
        let cluster = self.0.clone();
        tokio::task::spawn_blocking(move || what(&cluster)).await.unwrap()
    }

    /// A new topic with so many queues at each broker.
    pub(super) async fn topic(&self, queues: u32) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("orders-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let created = name.clone();
        self.does(move |cluster| cluster.create(&created, queues).unwrap()).await;
        name
    }

    pub(super) fn spec(&self) -> RocketMqSpec {
        spec_on(self.0.port())
    }

    pub(super) async fn messages(&self, topic: &str) -> Vec<RocketMqMessage> {
        let topic = topic.to_owned();
        self.does(move |cluster| cluster.messages(&topic).unwrap()).await
    }

    pub(super) async fn bodies(&self, topic: &str) -> Vec<Vec<u8>> {
        self.messages(topic).await.into_iter().map(|message| message.body).collect()
    }
}

/// The settings of a cluster with a name server at this port.
pub(in crate::client) fn spec_on(port: u16) -> RocketMqSpec {
    RocketMqSpec {
        name_servers: vec![("127.0.0.1".to_owned(), port)],
        tls: None,
        login: None,
        group: "delaybridge".to_owned(),
        slave_not_available: SlaveNotAvailable::Retry,
        connect_timeout: Duration::from_secs(5),
        heartbeat: Duration::from_secs(10),
        max_unconfirmed: 2000,
    }
}
