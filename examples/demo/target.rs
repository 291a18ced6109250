//! The second destination of the demo, beside the screen, and reading it back.

use anyhow::{Context, Result, bail};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

#[cfg(feature = "amqp")]
use harness::amqp::Rabbits;
#[cfg(feature = "kafka")]
use harness::kafka;
use harness::oracle::{self, Delivery};

/// The name of the stream, topic or queue.
const NAME: &str = "order.timed-out";
/// Number of records or messages that are shown in full.
const SHOWN: usize = 3;

/// The destination.
pub enum Target {
    Redis(MultiplexedConnection),
    #[cfg(feature = "kafka")]
    Kafka(Box<brokers::Kafka>),
    #[cfg(feature = "amqp")]
    Amqp(Box<brokers::Rabbit>, Box<Rabbits>),
}

impl Target {
    /// Starts the server of this kind.
    pub async fn start(kind: &str, redis: MultiplexedConnection) -> Result<Target> {
        Ok(match kind {
            "redis" => Target::Redis(redis),
            #[cfg(feature = "kafka")]
            "kafka" => {
                println!("Starting a private Kafka ...");
                let kafka = tokio::task::spawn_blocking(|| -> Result<_> {
                    let kafka = brokers::Kafka::start().context("start Kafka")?;
                    kafka.create_topic(NAME, 4, &[]).context("create the topic")?;
                    Ok(kafka)
                });
                let kafka = kafka.await??;
                println!("It listens on {}, and is gone when this is over.", kafka.bootstrap());
                Target::Kafka(Box::new(kafka))
            }
            #[cfg(feature = "amqp")]
            "amqp" => {
                println!("Starting a private RabbitMQ ...");
                let rabbit = tokio::task::spawn_blocking(brokers::Rabbit::start).await?.context("start RabbitMQ")?;
                println!("It listens on port {}, and is gone when this is over.", rabbit.port());
                let rabbits = Rabbits::connect(&url(&rabbit)).await.map_err(anyhow::Error::msg)?;
                Target::Amqp(Box::new(rabbit), Box::new(rabbits))
            }
            other => bail!(
                "show a delivery to {other}: this demo was built without it, see `make demo-kafka` and `make demo-amqp`"
            ),
        })
    }

    /// The sink in the YAML.
    pub fn sink(&self) -> String {
        match self {
            Target::Redis(_) => "{ redis: {} }                   # the Redis above".to_owned(),
            #[cfg(feature = "kafka")]
            Target::Kafka(kafka) => format!("{{ kafka: {{ brokers: [\"{}\"] }} }}", kafka.bootstrap()),
            #[cfg(feature = "amqp")]
            Target::Amqp(rabbit, _) => format!(
                "
    amqp:
      url: {}
      exchange: orders
      routing_key: {NAME}
      topology: declare
      declare: {{ queue: {{ name: {NAME}, type: quorum }} }}",
                url(rabbit)
            ),
        }
    }

    /// The destination in the YAML.
    pub fn destination(&self) -> String {
        match self {
            Target::Redis(_) => format!("stream: {NAME}"),
            #[cfg(feature = "kafka")]
            Target::Kafka(_) => format!("topic: {NAME}, key: \"${{payload.orderId}}\""),
            #[cfg(feature = "amqp")]
            Target::Amqp(..) => "headers: { order: \"${payload.orderId}\" }".to_owned(),
        }
    }

    /// Number of deliveries that have arrived.
    pub async fn count(&self) -> usize {
        match self {
            Target::Redis(redis) => redis.clone().xlen(NAME).await.unwrap_or(0),
            #[cfg(feature = "kafka")]
            Target::Kafka(broker) => kafka::count_topic(&broker.bootstrap(), NAME).await.unwrap_or(0),
            #[cfg(feature = "amqp")]
            Target::Amqp(_, rabbits) => rabbits.count(NAME).await as usize,
        }
    }

    /// Reads all deliveries.
    pub async fn read(&mut self) -> Vec<Delivery> {
        match self {
            Target::Redis(redis) => oracle::read_stream(&mut redis.clone(), NAME).await,
            #[cfg(feature = "kafka")]
            Target::Kafka(broker) => kafka::read_topic(&broker.bootstrap(), NAME).await.unwrap_or_default(),
            #[cfg(feature = "amqp")]
            Target::Amqp(_, rabbits) => rabbits.take_all(NAME).await.unwrap_or_default(),
        }
    }

    /// Shows the first deliveries with their metadata.
    pub fn show(&self, deliveries: &[Delivery]) {
        let what = match self {
            Target::Redis(_) => return,
            #[cfg(feature = "kafka")]
            Target::Kafka(_) => "records of the topic",
            #[cfg(feature = "amqp")]
            Target::Amqp(..) => "messages of the queue",
        };
        println!("\nThe first {what} `{NAME}`, read back by a client of their own:\n");
        for delivery in deliveries.iter().take(SHOWN) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let partition = delivery.partition.map(|n| format!("partition {n}, ")).unwrap_or_default();
            let key = delivery.key.as_deref().map(text).unwrap_or_default();
            println!("    {partition}key {key}: {}", text(&delivery.payload));
            println!("        delaybridge-id {}", delivery.id.as_deref().unwrap_or("missing"));
            println!("        delaybridge-queue {}", delivery.queue.as_deref().unwrap_or("missing"));
            println!("        delaybridge-due-ms {}", delivery.due_ms.unwrap_or_default());
            println!("        delaybridge-attempt {}", delivery.attempt.unwrap_or_default());
            delivery.headers.iter().for_each(|(name, value)| println!("        {name} {}", text(value)));
        }
    }
}

#[cfg(feature = "amqp")]
fn url(rabbit: &brokers::Rabbit) -> String {
    format!("amqp://127.0.0.1:{}", rabbit.port())
}
