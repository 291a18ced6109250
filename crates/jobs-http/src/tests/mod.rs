//! The API over real connections and a real Redis.

mod changes;
mod handover;
mod leaving;
mod limits;
mod lmstfy;
mod ouqiang;
mod own;
mod recurring;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{HttpApi, ServiceEnd};
use delaybridge_http_server::listener::ApiListener;
use delaybridge_http_server::server::{GOODBYE, serve};
pub(super) use delaybridge_http_server::testing::{Answer, Client};
use delaybridge_jobs::{Dispenser, JobQueue, JobSettings, SCRIPTS, wake};
use delaybridge_link::test_server::{PATIENCE, TestServer};
use delaybridge_link::{KeyPrefix, Link, LinkOptions, Subscriber};
use delaybridge_model::{ApiSpec, Face};
use delaybridge_telemetry::events::Events;

/// A running API with a Redis of its own.
pub(super) struct World {
    pub(super) redis: TestServer,
    pub(super) queue: JobQueue,
    pub(super) events: Events,
    pub(super) address: SocketAddr,
    pub(super) leave: CancellationToken,
    pub(super) stop: CancellationToken,
    pub(super) served: JoinHandle<()>,
    pub(super) dispensing: JoinHandle<()>,
    _subscriber: Subscriber,
}

impl World {
    pub(super) async fn start() -> World {
        World::with(|_| {}, JobSettings::default()).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut ApiSpec), settings: JobSettings) -> World {
        delaybridge_dial::init();
        let redis = TestServer::start();
        let endpoint = Arc::new(redis.endpoint());
        let link = Link::start(endpoint.clone(), LinkOptions::default());
        let queue = JobQueue::new(link, settings, &SCRIPTS);
        let mut spec = spec(None);
        change(&mut spec);
        let events = Events::default();
        let leave = CancellationToken::new();
        let stop = CancellationToken::new();
        let (subscriber, heard) = Subscriber::start(endpoint, vec![wake(&KeyPrefix::default()).into()]);
        let (dispenser, dispensing) = Dispenser::new(queue.clone());
        let dispensing = tokio::spawn(dispensing.run(heard, stop.clone()));
        let bounds = (
            delaybridge_http_server::room::BodyMemory::new(spec.max_body, delaybridge_http_server::room::ROOM),
            super::weight::turns(),
        );
        let end = ServiceEnd { leaving: leave.clone(), closing: stop.clone(), goodbye: GOODBYE };
        let api = HttpApi::new(&spec, (queue.clone(), dispenser), bounds, events.api(), end).unwrap();
        let certificates = spec
            .tls
            .map(|files| Arc::new(delaybridge_http_server::tls::Certificates::read(files, events.api()).unwrap()));
        let listener = ApiListener::bind(&spec.listen.into()).unwrap();
        let address = listener.address.tcp().unwrap();
        let served = tokio::spawn(serve(listener, Arc::new(api), certificates));
        World { redis, queue, events, address, leave, stop, served, dispensing, _subscriber: subscriber }
    }

    /// Waits until the server has so many connections: it has met each that began, and noticed each that ended.
    pub(super) async fn until_connected(&self, connections: usize) {
        let series = format!("delaybridge_api_connections {connections}\n");
        let has = || self.events.metrics().render().is_ok_and(|text| text.contains(&series));
        let began = tokio::time::Instant::now();
        while !has() {
            assert!(began.elapsed() < PATIENCE, "the server does not have {connections} connections");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// One request on a connection of its own.
    pub(super) async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let headers = [("content-type", "application/json")];
        let answer = self.client().await.ask(method, path, &headers, body.as_bytes()).await;
        delaybridge_http_server::testing::check(&crate::openapi::document(), method, path, &answer);
        answer
    }

    pub(super) async fn add(&self, topic: &str, job: &str) -> Answer {
        self.ask("POST", &format!("/v1/topics/{topic}/jobs"), job).await
    }

    /// Adds a job to the queue, without a connection.
    pub(super) async fn add_directly(&self, topic: &str) {
        let job = delaybridge_jobs::NewJob::new("x");
        self.queue.add(&topic.parse().unwrap(), vec![job]).await.unwrap();
    }

    /// Jobs of a topic by state.
    pub(super) async fn sizes(&self, topic: &str) -> [u64; 4] {
        let sizes = self.queue.sizes(&topic.parse().unwrap()).await.unwrap();
        [sizes.delay, sizes.ready, sizes.reserved, sizes.dead]
    }

    pub(super) async fn until_sizes(&self, topic: &str, expected: [u64; 4]) {
        let reached = async {
            while self.sizes(topic).await != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), reached).await.is_err() {
            panic!("{topic} has {:?}, not {expected:?}", self.sizes(topic).await);
        }
    }
}

/// A free port of this machine, and small limits.
pub(super) fn spec(tokens_file: Option<PathBuf>) -> ApiSpec {
    ApiSpec {
        key: "jobs.listen",
        listen: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        tokens_file,
        tokens_max_age: Duration::from_secs(3600),
        max_body: 4 << 20,
        max_connections: 64,
        max_topics_per_token: Some(1000),
        max_rate: None,
        shutdown_delay: Duration::ZERO,
        faces: vec![Face::Own, Face::Lmstfy, Face::LmstfyAdmin, Face::Ouqiang],
    }
}
