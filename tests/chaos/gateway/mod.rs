//! The way in under faults: publishers with confirmations, a RabbitMQ and a Kafka, two daemons with an input from each, one
//! Redis, and back to the same brokers. Everything is killed and frozen at random, by a schedule from the seed.
//!
//! The daemons are killed, frozen and stopped one by one, so that the partitions of the topic change hands.

mod judge;
mod plan;
mod publish;
mod stage;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

pub use self::judge::Broken;
pub use self::plan::GatewayPlan;
use self::stage::GatewayStage;
use crate::run::write;

/// The time until everything has arrived after the last fault. A group of Kafka waits 45 s for a member that was killed, and a
/// breaker looks every 30 s.
const BOUND: Duration = Duration::from_secs(150);

/// The broker of a message, which it comes back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From `delay-in` to the queue `orders` of RabbitMQ.
    Amqp,
    /// From `delay-in` to the topic `events` of Kafka.
    Kafka,
}

/// A message that was published.
#[derive(Debug, Clone)]
pub struct Published {
    /// The broker.
    pub way: Way,
    /// The earliest due time, in ms: the one that it was given, or the time before it was first sent and its delay.
    /// Later, because a delay counts from the arrival, and what arrives too late is due at once.
    pub from_ms: i64,
    /// Whether the broker has confirmed it.
    pub confirmed: bool,
}

/// A message that came out.
#[derive(Debug, Clone)]
pub struct CameOut {
    /// The broker.
    pub way: Way,
    /// The name in its body.
    pub name: String,
    /// The time by which it was sent, in ms.
    pub at_ms: i64,
    /// The due time in its header, in ms.
    pub due_ms: Option<i64>,
    pub attempt: u32,
    /// The identity of the sending: a reader may get it twice.
    pub sending: String,
}

/// Everything that was published, by name, and everything that came out.
#[derive(Debug, Default)]
pub struct GatewayBook {
    published: Mutex<BTreeMap<String, Published>>,
    came: Mutex<Vec<CameOut>>,
}

impl GatewayBook {
    fn published(&self) -> MutexGuard<'_, BTreeMap<String, Published>> {
        self.published.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn came(&self) -> MutexGuard<'_, Vec<CameOut>> {
        self.came.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn confirm(&self, name: &str) {
        if let Some(message) = self.published().get_mut(name) {
            message.confirmed = true;
        }
    }
}

/// Plays a schedule, with daemons that tell this lie; returns the broken rules.
pub async fn play(plan: &GatewayPlan, lie: Option<&str>, folder: &Path) -> Vec<Broken> {
    std::fs::create_dir_all(folder).unwrap_or_else(|e| panic!("create {}: {e}", folder.display()));
    write(folder, "plan.txt", &plan.to_string());
    // A run that panics ends its publishers.
    let over = CancellationToken::new();
    let _over = over.clone().drop_guard();
    let stage = Arc::new(GatewayStage::start(lie).await);
    let book = Arc::new(GatewayBook::default());
    let began = Instant::now();
    let end = began + plan.length;
    let publishers = [
        tokio::spawn(publish::amqp(stage.rabbit_url(), plan.seed, end, book.clone())),
        tokio::task::spawn_blocking({
            let bootstrap = stage.kafka.bootstrap();
            let seed = plan.seed;
            let book = book.clone();
            move || publish::kafka(&bootstrap, seed, end.into_std(), &over, &book)
        }),
    ];
    let reader = tokio::spawn(stage::read_orders(stage.rabbit_url(), book.clone()));
    let strands = plan.strands().into_iter().map(|faults| {
        let stage = stage.clone();
        async move {
            for fault in faults {
                sleep_until(began + fault.at).await;
                stage.suffer(fault.what, fault.lasts).await;
            }
        }
    });
    futures_util::future::join_all(strands).await;
    sleep_until(end).await;
    let healed = Instant::now();
    stage.start_daemons().await;
    for publisher in publishers {
        publisher.await.expect("publishers go on until everything is confirmed");
    }
    // Ends when everything has come out, or when the bound is over.
    while healed.elapsed() < BOUND {
        stage.start_daemons().await;
        stage.read_events(&book).await;
        if judge::missing(&book).is_empty() {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    let settled = healed.elapsed();
    // What would come twice has the time of a retry.
    sleep(Duration::from_secs(3)).await;
    stage.read_events(&book).await;
    reader.abort();
    let refused = stage.refused().await;
    let logs = stage.end().await;
    let broken = judge::judge(&book, refused);
    let report = judge::report(plan, &book, settled);
    println!("{report}");
    write(folder, "report.txt", &report);
    if !broken.is_empty() {
        let lines = |all: Vec<String>| all.join("\n");
        write(folder, "published.txt", &lines(book.published().iter().map(|one| format!("{one:?}")).collect()));
        write(folder, "came.txt", &lines(book.came().iter().map(|one| format!("{one:?}")).collect()));
        for (number, log) in logs.iter().enumerate() {
            write(folder, &format!("process-{number}.log"), &log.join("\n"));
        }
    }
    broken
}
