//! The queues of a broker of AMQP 1.0, and its problems.

use std::sync::Arc;
use std::time::Duration;

use brokers::{Artemis, ArtemisOptions};
use tokio::time::sleep;

use crate::offers::QUEUES;
use crate::target::{blocking, place};
use crate::what::Ailment;
use harness::amqp1::read_queue;
use harness::oracle::Delivery;

/// The broker.
pub struct ArtemisQueues {
    artemis: Artemis,
}

impl ArtemisQueues {
    pub async fn start() -> Arc<ArtemisQueues> {
        let options = ArtemisOptions { queues: QUEUES.map(place).to_vec(), times: true, ..ArtemisOptions::default() };
        Arc::new(ArtemisQueues { artemis: blocking(move || Artemis::start_with(&options)).await })
    }

    /// The keys of the sink under `amqp1` that name the broker.
    pub fn login(&self) -> String {
        format!("url: 'amqp://127.0.0.1:{}'", self.artemis.port())
    }

    /// The arrivals from this queue.
    pub async fn deliveries(self: &Arc<Self>, queue: usize) -> Vec<Delivery> {
        let read = move |artemis: &Artemis| {
            Ok(read_queue(artemis, &place(QUEUES[queue])).unwrap_or_else(|e| panic!("read a queue: {e}")))
        };
        self.work(read).await
    }

    /// Causes a problem of the broker, and undoes it.
    pub async fn suffer(self: &Arc<Self>, ailment: Ailment, lasts: Duration) {
        match ailment {
            Ailment::Freeze => {
                self.artemis.freeze();
                sleep(lasts).await;
                self.artemis.thaw();
            }
            Ailment::Kill => {
                self.artemis.kill();
                sleep(lasts).await;
                self.work(|server| server.restart()).await;
            }
            Ailment::Full => self.each(Artemis::fill, lasts, Artemis::empty).await,
            Ailment::Rights => self.each(Artemis::deny, lasts, Artemis::allow).await,
            Ailment::Disconnect
            | Ailment::Disk
            | Ailment::Gone
            | Ailment::Half { .. }
            | Ailment::NameServer
            | Ailment::Refuse => panic!("a fault of another broker, for AMQP 1.0"),
        }
    }

    /// Does something to each address, and undoes it.
    async fn each(
        self: &Arc<Self>,
        begin: fn(&Artemis, &str) -> brokers::Result<()>,
        lasts: Duration,
        end: fn(&Artemis, &str) -> brokers::Result<()>,
    ) {
        let all = |change: fn(&Artemis, &str) -> brokers::Result<()>| {
            move |artemis: &Artemis| QUEUES.iter().try_for_each(|queue| change(artemis, &place(queue)))
        };
        self.work(all(begin)).await;
        sleep(lasts).await;
        self.work(all(end)).await;
    }

    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Artemis) -> brokers::Result<T> + Send + 'static,
    ) -> T {
        let queues = Arc::clone(self);
        blocking(move || work(&queues.artemis)).await
    }
}
