//! A real RabbitMQ for the tests of this sink: one node, shared by all that do not break it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use brokers::Rabbit;
use lapin::options::{BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use secrecy::SecretString;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{AmqpDestination, AmqpLogin, AmqpSpec};
use delaybridge_settings::Secret;
use delaybridge_sink::Destination;

/// How long a test waits for anything before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The node, started by the first test that asks for it.
struct Shared {
    rabbit: Rabbit,
    lock: RwLock<()>,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| Shared { rabbit: Rabbit::start().unwrap(), lock: RwLock::new(()) })
}

/// Something that is wrong with the node until it is over. A test that fails in between leaves the node well, too.
#[must_use]
pub(crate) struct Trouble {
    rabbit: &'static Rabbit,
    mend: Option<Mend>,
}

type Mend = Box<dyn FnOnce(&Rabbit) -> brokers::Result<()> + Send>;

impl Trouble {
    /// Ends it.
    pub(crate) async fn over(mut self) {
        let rabbit = self.rabbit;
        let mend = self.mend.take().expect("it is over once");
        tokio::task::spawn_blocking(move || mend(rabbit)).await.unwrap().unwrap();
    }
}

impl Drop for Trouble {
    fn drop(&mut self) {
        if let Some(mend) = self.mend.take() {
            let _ = mend(self.rabbit);
        }
    }
}

/// The right to use the node, together with others or alone.
pub(crate) struct Node {
    shared: &'static Shared,
    _guard: Guard,
    prefix: String,
}

#[allow(dead_code, reason = "held, not read")]
enum Guard {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

impl Node {
    /// For tests that leave the node as it is.
    pub(crate) async fn shared() -> Node {
        let shared = tokio::task::spawn_blocking(shared).await.unwrap();
        Node::new(shared, Guard::Shared(shared.lock.read().await))
    }

    /// For tests that stop it, or set its limits.
    pub(crate) async fn alone() -> Node {
        let shared = tokio::task::spawn_blocking(shared).await.unwrap();
        Node::new(shared, Guard::Alone(shared.lock.write().await))
    }

    fn new(shared: &'static Shared, guard: Guard) -> Node {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Node { shared, _guard: guard, prefix }
    }

    pub(crate) fn port(&self) -> u16 {
        self.shared.rabbit.port()
    }

    /// A name that no other test uses.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{}.{what}", self.prefix)
    }

    /// What the sink needs to reach it as guest.
    pub(crate) fn spec(&self) -> AmqpSpec {
        spec_on(self.port())
    }

    /// Does something to the node that takes its time.
    pub(crate) async fn does<T: Send + 'static>(&self, what: impl FnOnce(&Rabbit) -> T + Send + 'static) -> T {
        let rabbit = &self.shared.rabbit;
        tokio::task::spawn_blocking(move || what(rabbit)).await.unwrap()
    }

    /// Breaks the node; `repair` ends it.
    async fn suffers(
        &self,
        begin: impl FnOnce(&Rabbit) -> brokers::Result<()> + Send + 'static,
        mend: impl FnOnce(&Rabbit) -> brokers::Result<()> + Send + 'static,
    ) -> Trouble {
        // Repaired too if it breaks only by half.
        let trouble = Trouble { rabbit: &self.shared.rabbit, mend: Some(Box::new(mend)) };
        self.does(begin).await.unwrap();
        trouble
    }

    pub(crate) async fn memory_alarm(&self) -> Trouble {
        self.suffers(|rabbit| rabbit.set_memory_alarm(true), |rabbit| rabbit.set_memory_alarm(false)).await
    }

    pub(crate) async fn disk_alarm(&self) -> Trouble {
        self.suffers(|rabbit| rabbit.set_disk_alarm(true), |rabbit| rabbit.set_disk_alarm(false)).await
    }

    /// The node is paused: connections stay open and nothing is answered.
    pub(crate) async fn freeze(&self) -> Trouble {
        self.suffers(
            |rabbit| {
                rabbit.freeze();
                Ok(())
            },
            |rabbit| {
                rabbit.thaw();
                Ok(())
            },
        )
        .await
    }

    /// The node is killed, until it is started again.
    pub(crate) async fn kill(&self) -> Trouble {
        self.suffers(
            |rabbit| {
                rabbit.kill();
                Ok(())
            },
            |server| server.restart(),
        )
        .await
    }

    /// The broker is stopped in order.
    pub(crate) async fn stop_app(&self) -> Trouble {
        self.suffers(Rabbit::stop_app, Rabbit::start_app).await
    }

    /// One of the broker's limits is another than usual.
    pub(crate) async fn limit(&self, name: &'static str, value: u32) -> Trouble {
        let usual = match name {
            "channel_max" => 2047,
            "max_message_size" => 128 << 20,
            other => panic!("the usual value of {other}"),
        };
        let set = |rabbit: &Rabbit, name, value| {
            rabbit.eval(&format!("application:set_env(rabbit, {name}, {value})")).map(drop)
        };
        self.suffers(move |rabbit| set(rabbit, name, value), move |rabbit| set(rabbit, name, usual)).await
    }

    /// A queue's process does not answer, like that of a quorum queue without its other nodes.
    pub(crate) async fn suspend_quorum_queue(&self, queue: &str) -> Trouble {
        let (queue, same) = (queue.to_owned(), queue.to_owned());
        let suspend = move |rabbit: &Rabbit| rabbit.suspend_quorum_queue(&queue, true);
        self.suffers(suspend, move |rabbit| rabbit.suspend_quorum_queue(&same, false)).await
    }

    /// A connection that looks behind the sink's back.
    pub(crate) async fn admin(&self) -> Admin {
        Admin::connect(&format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port())).await
    }
}

pub(crate) fn spec_on(port: u16) -> AmqpSpec {
    AmqpSpec {
        nodes: vec![("127.0.0.1".to_owned(), port)],
        vhost: "/".to_owned(),
        tls: None,
        login: login("guest", "guest"),
        connect_timeout: Duration::from_secs(20),
        // No slow machine is taken for a silent broker.
        heartbeat: Duration::from_secs(60),
        frame_max: 128 << 10,
        max_unconfirmed: 1000,
        mandatory: true,
        persistent: true,
        max_message_size: 128 << 20,
        declare: None,
    }
}

pub(crate) fn login(username: &str, password: &str) -> AmqpLogin {
    AmqpLogin::Plain {
        username: username.to_owned(),
        password: Secret::Literal(SecretString::from(password.to_owned())),
    }
}

pub(crate) fn destination(exchange: &str, routing_key: &str) -> Destination {
    AmqpDestination { exchange: exchange.into(), routing_key: routing_key.into(), properties: Vec::new() }.into()
}

/// A client of the library, for the tests' own eyes.
pub(crate) struct Admin {
    _connection: Connection,
    pub(crate) channel: Channel,
}

impl Admin {
    async fn connect(uri: &str) -> Admin {
        let connection = Connection::connect(uri, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        Admin { _connection: connection, channel }
    }

    /// A durable queue; `arguments` are texts or numbers.
    pub(crate) async fn queue(&self, name: &str, arguments: &[(&str, &str)]) {
        let mut table = FieldTable::default();
        for (key, value) in arguments {
            let value = match value.parse() {
                Ok(number) => AMQPValue::LongLongInt(number),
                Err(_) => AMQPValue::LongString((*value).into()),
            };
            table.insert((*key).into(), value);
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name.into(), options, table).await.unwrap();
    }

    /// A durable direct exchange.
    pub(crate) async fn exchange(&self, name: &str) {
        self.exchange_of(name, ExchangeKind::Direct, false).await;
    }

    /// A durable exchange; an internal one takes messages from other exchanges only.
    pub(crate) async fn exchange_of(&self, name: &str, kind: ExchangeKind, internal: bool) {
        let options = ExchangeDeclareOptions { durable: true, internal, ..ExchangeDeclareOptions::default() };
        self.channel.exchange_declare(name.into(), kind, options, FieldTable::default()).await.unwrap();
    }

    pub(crate) async fn bind(&self, queue: &str, exchange: &str, key: &str) {
        let options = QueueBindOptions::default();
        let table = FieldTable::default();
        self.channel.queue_bind(queue.into(), exchange.into(), key.into(), options, table).await.unwrap();
    }

    pub(crate) async fn length(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap().message_count()
    }

    /// Takes everything out of a queue.
    pub(crate) async fn drain(&self, queue: &str) -> Vec<(Vec<u8>, BasicProperties)> {
        let mut taken = Vec::new();
        while let Some(got) = self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap() {
            taken.push((got.delivery.data, got.delivery.properties));
        }
        taken
    }

    pub(crate) async fn texts(&self, queue: &str) -> Vec<String> {
        self.drain(queue).await.into_iter().map(|(body, _)| String::from_utf8(body).unwrap()).collect()
    }
}
