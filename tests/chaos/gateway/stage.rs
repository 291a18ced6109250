//! The processes of a run.

use std::sync::Arc;
use std::time::Duration;

use brokers::{Kafka, KafkaOptions, Rabbit, RabbitOptions};
use rustix::process::Signal;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::plan::{Blow, DAEMONS, Struck};
use super::{CameOut, GatewayBook, Way};
use crate::offers::now_ms;
use harness::amqp::Rabbits;
use harness::daemon::Daemon;
use harness::kafka::{count_topic, read_topic};
use harness::oracle::Delivery;
use harness::publisher::Publisher;
use harness::redis_server::{RedisServer, ServerOptions};

/// The interval at which the reader looks.
const LOOK: Duration = Duration::from_millis(50);
/// The time that a question to a broker may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// A place for a daemon.
#[derive(Default)]
struct GatewaySeat {
    daemon: Option<Daemon>,
    /// The lines of those that have ended.
    logs: Vec<Vec<String>>,
}

/// The processes of a run.
pub struct GatewayStage {
    redis: Mutex<RedisServer>,
    rabbit: Arc<Rabbit>,
    pub kafka: Arc<Kafka>,
    seats: [Mutex<GatewaySeat>; DAEMONS],
    yaml: String,
    lie: Option<String>,
}

impl GatewayStage {
    pub async fn start(lie: Option<&str>) -> GatewayStage {
        let redis = RedisServer::start_with(ServerOptions::default().append_only()).await;
        let brokers = || {
            let rabbit = Rabbit::start_with(RabbitOptions::default()).unwrap_or_else(|e| panic!("start RabbitMQ: {e}"));
            let kafka = Kafka::start_with(KafkaOptions::default()).unwrap_or_else(|e| panic!("start Kafka: {e}"));
            for (topic, partitions) in [("delay-in", 4), ("events", 2), ("refused", 1)] {
                kafka.create_topic(topic, partitions, &[]).expect("create a topic");
            }
            (Arc::new(rabbit), Arc::new(kafka))
        };
        let (rabbit, kafka) = tokio::task::spawn_blocking(brokers).await.expect("no panic");
        let url = format!("amqp://127.0.0.1:{}", rabbit.port());
        Publisher::connect(&url).await.expect("connect").declare("delay-in", &["orders"]).await;
        let bootstrap = kafka.bootstrap();
        let redis_url = redis.url();
        let yaml = format!(
            "redis: {{ url: '{redis_url}' }}\n\
             retry: {{ default: {{ max_attempts: 1000, initial_interval: 200ms, max_interval: 2s }} }}\n\
             sinks:\n  shop: {{ amqp: {{ url: '{url}', heartbeat: 2s, timeout: 3s }} }}\n  \
             events: {{ kafka: {{ brokers: ['{bootstrap}'], timeout: 5s }} }}\n\
             inputs:\n  late: {{ amqp: {{ url: '{url}', queue: delay-in, heartbeat: 2s }}, topic: late, lease: 12s, to: {{ sink: shop }} }}\n  \
             logs: {{ kafka: {{ brokers: ['{bootstrap}'], topics: [delay-in], identity: header, dead_letter_topic: refused }}, \
             topic: logs, lease: 12s, to: {{ sink: events, topic: events }} }}\n"
        );
        let stage = GatewayStage {
            redis: Mutex::new(redis),
            rabbit,
            kafka,
            seats: Default::default(),
            yaml,
            lie: lie.map(str::to_owned),
        };
        stage.start_daemons().await;
        stage
    }

    pub fn rabbit_url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.rabbit.port())
    }

    /// Starts every daemon that does not run.
    pub async fn start_daemons(&self) {
        for seat in &self.seats {
            self.start_daemon(&mut *seat.lock().await).await;
        }
    }

    async fn start_daemon(&self, seat: &mut GatewaySeat) {
        if seat.daemon.is_none() {
            let plant: Vec<_> = self.lie.iter().map(|lie| ("DELAYBRIDGE_PLANT", lie.as_str())).collect();
            // Its user is created there.
            let _answers = self.redis.lock().await;
            let mut daemon = Daemon::spawn_with(&self.yaml, &plant);
            // Every line is one that faults explain.
            daemon.expect_log("");
            seat.daemon = Some(daemon);
        }
    }

    /// Makes a fault, and undoes it.
    pub async fn suffer(&self, (struck, blow): (Struck, Blow), lasts: Duration) {
        match struck {
            Struck::Daemon(number) => {
                let mut seat = self.seats[number].lock().await;
                let Some(daemon) = &mut seat.daemon else { return self.start_daemon(&mut seat).await };
                match blow {
                    Blow::Freeze => {
                        daemon.signal(Signal::STOP);
                        sleep(lasts).await;
                        return daemon.signal(Signal::CONT);
                    }
                    Blow::Kill => daemon.kill(),
                    // It may need longer than it has without its brokers.
                    // Before it listens it does not catch signals either.
                    Blow::Terminate if daemon.get("/livez").await.is_err() => daemon.kill(),
                    Blow::Terminate => {
                        daemon.stop().await;
                    }
                }
                let log = daemon.log().all();
                seat.logs.push(log);
                seat.daemon = None;
                sleep(lasts).await;
                self.start_daemon(&mut seat).await;
            }
            Struck::Redis => {
                let mut redis = self.redis.lock().await;
                match blow {
                    Blow::Freeze => {
                        redis.pause();
                        sleep(lasts).await;
                        redis.resume();
                    }
                    _ => {
                        redis.kill();
                        sleep(lasts).await;
                        redis.boot().await.unwrap_or_else(|log| panic!("start a killed Redis again: {log}"));
                    }
                }
            }
            Struck::Rabbit | Struck::Kafka => {
                let rabbit = self.rabbit.clone();
                let kafka = self.kafka.clone();
                let strike = move || {
                    let wait = || std::thread::sleep(lasts);
                    match (struck, blow) {
                        (Struck::Rabbit, Blow::Freeze) => {
                            rabbit.freeze();
                            wait();
                            rabbit.thaw();
                        }
                        (Struck::Rabbit, _) => {
                            rabbit.kill();
                            wait();
                            rabbit.restart().unwrap_or_else(|e| panic!("start a killed RabbitMQ again: {e}"));
                        }
                        (_, Blow::Freeze) => {
                            kafka.freeze(1);
                            wait();
                            kafka.thaw(1);
                        }
                        _ => {
                            kafka.kill(1);
                            wait();
                            kafka.restart(1).unwrap_or_else(|e| panic!("start a killed Kafka again: {e}"));
                        }
                    }
                };
                tokio::task::spawn_blocking(strike).await.expect("the broker comes back");
            }
        }
    }

    /// Reads the topic, once it has more records than are known.
    pub async fn read_events(&self, book: &GatewayBook) {
        let bootstrap = self.kafka.bootstrap();
        let known = book.came().iter().filter(|came| came.way == Way::Kafka).count();
        if !count_topic(&bootstrap, "events").await.is_ok_and(|count| count > known) {
            return;
        }
        let Ok(all) = read_topic(&bootstrap, "events").await else { return };
        let mut came = book.came();
        came.retain(|came| came.way != Way::Kafka);
        came.extend(all.into_iter().enumerate().map(|(number, delivery)| {
            let at_ms = delivery.arrived_ms.unwrap_or_default();
            came_out(Way::Kafka, delivery, at_ms, number.to_string())
        }));
    }

    /// The number of refused messages.
    pub async fn refused(&self) -> usize {
        let in_queue = match Rabbits::connect(&self.rabbit_url()).await {
            Ok(rabbits) => rabbits.count("refused").await as usize,
            Err(error) => panic!("look for refused messages: {error}"),
        };
        in_queue + count_topic(&self.kafka.bootstrap(), "refused").await.expect("count the refused records")
    }

    /// Ends the daemons; returns the lines of all of them.
    pub async fn end(&self) -> Vec<Vec<String>> {
        let mut logs = Vec::new();
        for seat in &self.seats {
            let mut seat = seat.lock().await;
            if let Some(mut daemon) = seat.daemon.take() {
                daemon.stop().await;
                seat.logs.push(daemon.log().all());
            }
            logs.append(&mut seat.logs);
        }
        logs
    }
}

fn came_out(way: Way, delivery: Delivery, at_ms: i64, sending: String) -> CameOut {
    let name = String::from_utf8_lossy(&delivery.payload).into_owned();
    CameOut { way, name, at_ms, due_ms: delivery.due_ms, attempt: delivery.attempt.unwrap_or(0), sending }
}

/// Takes what arrives in `orders`, and notes when, for ever. A message is confirmed after it was noted.
pub async fn read_orders(url: String, book: Arc<GatewayBook>) {
    loop {
        if let Ok(Ok(rabbits)) = tokio::time::timeout(PATIENCE, Rabbits::connect(&url)).await {
            let note = |delivery: Delivery| {
                let sending = delivery.headers.get("property:message_id").cloned().unwrap_or_default();
                let sending = String::from_utf8_lossy(&sending).into_owned();
                // Later than the delivery: what is early here was early.
                book.came().push(came_out(Way::Amqp, delivery, now_ms(), sending));
            };
            while let Ok(Ok(())) = tokio::time::timeout(PATIENCE, rabbits.take_each("orders", &note)).await {
                sleep(LOOK).await;
            }
        }
        sleep(LOOK).await;
    }
}
