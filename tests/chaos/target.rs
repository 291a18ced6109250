//! The destinations: streams of a Redis or a NATS, topics of a Kafka or a RocketMQ, queues of a RabbitMQ, of a broker of AMQP 1.0 or
//! of SQS, or paths of a webhook. Jobs have none.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use brokers::{Rabbit, RabbitOptions};
use tokio::sync::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::artemis_queues::ArtemisQueues;
use crate::disk::Disk;
use crate::nats_streams::NatsStreams;
use crate::offers::{QUEUES, now_ms};
use crate::profile::Profile;
use crate::receiver::Receiver;
use crate::rocketmq_topics::RocketMqTopics;
use crate::sqs_queues::SqsQueues;
use crate::topics::Topics;
use crate::what::Ailment;
use harness::amqp::Rabbits;
use harness::oracle::{Delivery, read_stream};
use harness::redis_server::{RedisServer, ServerOptions};

/// The exchange before the queues of RabbitMQ.
const EXCHANGE: &str = "chaos";
const PATIENCE: Duration = Duration::from_secs(10);
/// The poll interval for arrivals in RabbitMQ, which records no times.
const LOOK: Duration = Duration::from_millis(50);

/// The server with the destinations.
pub enum Target {
    /// Streams.
    Redis(Box<RedisServer>),
    /// Topics.
    Kafka(Arc<Topics>),
    /// Queues, with the messages taken from them.
    Amqp(Arc<Rabbit>, Arc<Mutex<Taken>>),
    /// Streams of NATS.
    Nats(Arc<NatsStreams>),
    /// Queues of AMQP 1.0.
    Amqp1(Arc<ArtemisQueues>),
    /// Queues of SQS.
    Sqs(Arc<SqsQueues>),
    /// Topics of RocketMQ.
    RocketMq(Arc<RocketMqTopics>),
    /// Paths.
    Webhook(Arc<Receiver>),
    /// None: consumers fetch the jobs.
    Consumers,
}

/// The messages taken from the queues of a RabbitMQ.
#[derive(Default)]
pub struct Taken {
    arrived: [Vec<Delivery>; QUEUES.len()],
    /// The ids of the taken messages: unconfirmed ones come again after a kill of the broker. Each publish has an id of
    /// its own.
    known: HashSet<Vec<u8>>,
}

/// The name of a queue's destination.
pub fn place(queue: &str) -> String {
    format!("out-{queue}")
}

impl Target {
    /// Starts the server of this profile, with its topics or queues.
    pub async fn start(profile: Profile, disk: Option<Disk>) -> Target {
        match profile {
            Profile::Kafka => Target::Kafka(Topics::start(disk).await),
            Profile::Amqp => {
                let rabbit = blocking(|| Rabbit::start_with(RabbitOptions::default())).await;
                let rabbits =
                    Rabbits::connect(&url(&rabbit)).await.unwrap_or_else(|e| panic!("connect to RabbitMQ: {e}"));
                for queue in QUEUES {
                    rabbits.declare(EXCHANGE, Some(&place(queue)), &place(queue)).await;
                }
                Target::Amqp(Arc::new(rabbit), Arc::default())
            }
            Profile::Nats => Target::Nats(NatsStreams::start().await),
            Profile::Amqp1 => Target::Amqp1(ArtemisQueues::start().await),
            Profile::Sqs => Target::Sqs(SqsQueues::start().await),
            Profile::RocketMq => Target::RocketMq(RocketMqTopics::start().await),
            Profile::Webhook => Target::Webhook(Arc::new(Receiver::start().await)),
            Profile::Jobs | Profile::JobsSentinel | Profile::HostileJobs => Target::Consumers,
            _ => Target::Redis(Box::new(RedisServer::start_with(ServerOptions::default().append_only()).await)),
        }
    }

    /// The port of the only server, before which there may be proxies.
    pub fn port(&self) -> Option<u16> {
        match self {
            Target::Redis(server) => Some(server.port()),
            Target::Webhook(receiver) => Some(receiver.port()),
            Target::Kafka(_)
            | Target::Amqp(..)
            | Target::Nats(_)
            | Target::Amqp1(_)
            | Target::Sqs(_)
            | Target::RocketMq(_)
            | Target::Consumers => None,
        }
    }

    /// The sink `out`, reached through this port if there is one, with a time-out in ms.
    pub fn sink(&self, link: Option<u16>, timeout: u128) -> String {
        match self {
            Target::Redis(server) => {
                let port = link.unwrap_or(server.port());
                let command = timeout * 4 / 7;
                format!(
                    "redis: {{ url: 'redis://127.0.0.1:{port}/0', timeout: {timeout}ms, connect_timeout: 1s, command_timeout: {command}ms }}"
                )
            }
            Target::Kafka(topics) => {
                format!("kafka: {{ {}, timeout: {timeout}ms, max_message_size: 4MB }}", topics.login())
            }
            Target::Amqp(rabbit, _) => {
                format!("amqp: {{ url: '{}', timeout: {timeout}ms, connect_timeout: 2s, heartbeat: 2s }}", url(rabbit))
            }
            Target::Nats(streams) => {
                format!("nats: {{ {}, timeout: {timeout}ms, ping_interval: 1s }}", streams.login())
            }
            Target::Amqp1(queues) => {
                format!("amqp1: {{ {}, timeout: {timeout}ms, connect_timeout: 2s, heartbeat: 2s }}", queues.login())
            }
            Target::Sqs(queues) => format!("sqs: {{ {}, timeout: {timeout}ms }}", queues.login()),
            Target::RocketMq(topics) => {
                format!("rocketmq: {{ {}, timeout: {timeout}ms, heartbeat: 1s }}", topics.login())
            }
            Target::Consumers => panic!("jobs are not delivered"),
            Target::Webhook(receiver) => {
                let port = link.unwrap_or(receiver.port());
                let connect = timeout * 4 / 7;
                format!(
                    "http: {{ url: 'http://127.0.0.1:{port}/', timeout: {timeout}ms, connect_timeout: {connect}ms, \
                     max_concurrency: 500 }}"
                )
            }
        }
    }

    /// The destination of a queue.
    pub fn route(&self, queue: &str) -> String {
        let place = place(queue);
        match self {
            Target::Redis(_) => format!("stream: {place}"),
            Target::Kafka(_) => Topics::route(queue),
            Target::Amqp(..) => format!("exchange: {EXCHANGE}, routing_key: {place}"),
            Target::Nats(_) => format!("subject: {place}"),
            Target::Amqp1(_) => format!("address: {place}"),
            Target::Sqs(queues) => queues.route(queue),
            Target::RocketMq(_) => format!("topic: {place}"),
            Target::Webhook(_) => format!("path: /{place}"),
            Target::Consumers => panic!("jobs are not delivered"),
        }
    }

    /// The only server, a Redis.
    pub fn server(&mut self) -> &mut RedisServer {
        match self {
            Target::Redis(server) => server,
            _ => panic!("a fault of a Redis, for a broker"),
        }
    }

    /// The receiver of webhooks.
    pub fn receiver(&self) -> Arc<Receiver> {
        match self {
            Target::Webhook(receiver) => Arc::clone(receiver),
            _ => panic!("a fault of a receiver, for another destination"),
        }
    }

    /// Causes a problem of the broker, and undoes it; returns how often it struck.
    pub async fn suffer(&self, ailment: Ailment, lasts: Duration) -> u64 {
        match (self, ailment) {
            (Target::Redis(_) | Target::Webhook(_) | Target::Consumers, _) => {
                panic!("a fault of a broker, for another destination")
            }
            (Target::Kafka(topics), _) => return topics.suffer(ailment, lasts).await,
            (Target::Nats(streams), _) => streams.suffer(ailment, lasts).await,
            (Target::Amqp1(queues), _) => queues.suffer(ailment, lasts).await,
            (Target::Sqs(queues), _) => queues.suffer(ailment, lasts).await,
            (Target::RocketMq(topics), _) => topics.suffer(ailment, lasts).await,
            (Target::Amqp(rabbit, _), Ailment::Freeze) => {
                rabbit.freeze();
                sleep(lasts).await;
                rabbit.thaw();
            }
            (Target::Amqp(rabbit, _), Ailment::Kill) => {
                rabbit.kill();
                sleep(lasts).await;
                let rabbit = rabbit.clone();
                blocking(move || rabbit.restart()).await;
            }
            (Target::Amqp(rabbit, _), Ailment::Full) => {
                let first = rabbit.clone();
                let then = rabbit.clone();
                blocking(move || first.set_disk_alarm(true)).await;
                sleep(lasts).await;
                blocking(move || then.set_disk_alarm(false)).await;
            }
            (Target::Amqp(rabbit, _), Ailment::Gone) => {
                let rabbits =
                    Rabbits::connect(&url(rabbit)).await.unwrap_or_else(|e| panic!("connect to RabbitMQ: {e}"));
                rabbits.delete_exchange(EXCHANGE).await;
                sleep(lasts).await;
                for queue in QUEUES {
                    rabbits.declare(EXCHANGE, Some(&place(queue)), &place(queue)).await;
                }
            }
            (Target::Amqp(rabbit, _), Ailment::Rights) => {
                let first = rabbit.clone();
                let then = rabbit.clone();
                blocking(move || first.set_permissions("/", "guest", [".*", "", ".*"])).await;
                sleep(lasts).await;
                blocking(move || then.set_permissions("/", "guest", [".*", ".*", ".*"])).await;
            }
            (Target::Amqp(..), Ailment::Refuse | Ailment::Half { .. } | Ailment::Disk | Ailment::NameServer) => {
                panic!("a fault of another broker, for RabbitMQ")
            }
            (Target::Amqp(rabbit, _), Ailment::Disconnect) => {
                let rabbit = rabbit.clone();
                blocking(move || rabbit.close_all_connections("chaos")).await;
            }
        }
        1
    }

    /// Consumes arrivals in RabbitMQ until `end` is cancelled, and then the rest.
    pub fn collect(&self, end: CancellationToken) -> Option<tokio::task::JoinHandle<()>> {
        let Target::Amqp(rabbit, taken) = self else { return None };
        let url = url(rabbit);
        let taken = taken.clone();
        Some(tokio::spawn(async move {
            let mut rabbits = None;
            loop {
                let last = end.is_cancelled();
                if rabbits.is_none() {
                    rabbits = connect(&url).await;
                }
                let complete = match &rabbits {
                    Some(rabbits) => take(rabbits, &taken).await,
                    None => false,
                };
                if !complete {
                    rabbits = None;
                }
                if last && complete {
                    return;
                }
                sleep(LOOK).await;
            }
        }))
    }

    /// The elements in a stream of the only server, a Redis.
    pub async fn stream(&self, name: &str) -> Vec<Delivery> {
        match self {
            Target::Redis(server) => read_stream(&mut server.client().await, name).await,
            _ => panic!("a stream of a Redis, at another destination"),
        }
    }

    /// The arrivals from this queue; for a RabbitMQ, after [`collect`](Target::collect) has ended.
    pub async fn deliveries(&self, queue: usize) -> Vec<Delivery> {
        let place = place(QUEUES[queue]);
        match self {
            Target::Redis(server) => read_stream(&mut server.client().await, &place).await,
            Target::Kafka(topics) => topics.deliveries(queue).await,
            Target::Nats(streams) => streams.deliveries(queue).await,
            Target::Amqp1(queues) => queues.deliveries(queue).await,
            Target::Sqs(queues) => queues.deliveries(queue).await,
            Target::RocketMq(topics) => topics.deliveries(queue).await,
            Target::Amqp(_, taken) => std::mem::take(&mut taken.lock().await.arrived[queue]),
            Target::Consumers => Vec::new(),
            Target::Webhook(receiver) => receiver.deliveries(&format!("/{place}")),
        }
    }
}

fn url(rabbit: &Rabbit) -> String {
    format!("amqp://127.0.0.1:{}", rabbit.port())
}

async fn connect(url: &str) -> Option<Rabbits> {
    tokio::time::timeout(PATIENCE, Rabbits::connect(url)).await.ok()?.ok()
}

/// Takes all available messages; returns whether that succeeded.
async fn take(rabbits: &Rabbits, taken: &Mutex<Taken>) -> bool {
    for (queue, name) in QUEUES.iter().enumerate() {
        let mut taken = taken.lock().await;
        let note = |mut delivery: Delivery| {
            let publish = delivery.headers.get("property:message_id").cloned().unwrap_or_default();
            if taken.known.insert(publish) {
                delivery.arrived_ms = Some(now_ms());
                taken.arrived[queue].push(delivery);
            }
        };
        // A suspended broker answers when it is resumed; a killed one does not.
        let all = tokio::time::timeout(PATIENCE, rabbits.take_each(&place(name), note)).await;
        if !matches!(all, Ok(Ok(()))) {
            return false;
        }
    }
    true
}

pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> brokers::Result<T> + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await.expect("no panic");
    done.unwrap_or_else(|e| panic!("a broker: {e}"))
}
