//! The topics of a RocketMQ, and its problems.

use std::sync::Arc;
use std::time::Duration;

use brokers::{RocketMq, RocketMqOptions};
use tokio::time::sleep;

use crate::offers::QUEUES;
use crate::target::{blocking, place};
use crate::what::Ailment;
use harness::oracle::Delivery;
use harness::rocketmq::delivery;

/// The time after a restart until the next fault of a server. On a busy machine a restart takes as long as planned faults are
/// apart, and nothing would arrive between them.
const REST: Duration = Duration::from_secs(12);
/// Reads and writes.
const RIGHTS: u32 = 6;

/// A broker and its name server.
pub struct RocketMqTopics {
    cluster: RocketMq,
}

impl RocketMqTopics {
    /// Starts both, with a topic for each queue. A topic has one queue, which keeps the order of all of its messages.
    pub async fn start() -> Arc<RocketMqTopics> {
        let topics = QUEUES.map(|queue| (place(queue), 1, RIGHTS)).to_vec();
        let options = RocketMqOptions { topics, ..RocketMqOptions::default() };
        Arc::new(RocketMqTopics { cluster: blocking(move || RocketMq::start_with(&options)).await })
    }

    /// The keys of the sink under `rocketmq` that name the cluster.
    pub fn login(&self) -> String {
        format!("name_servers: ['{}']", self.cluster.name_server())
    }

    /// The arrivals from this queue, in their order.
    pub async fn deliveries(self: &Arc<Self>, queue: usize) -> Vec<Delivery> {
        let read = move |cluster: &RocketMq| cluster.messages(&place(QUEUES[queue]));
        self.work(read).await.into_iter().map(delivery).collect()
    }

    /// Causes a problem of a server, and undoes it.
    pub async fn suffer(self: &Arc<Self>, ailment: Ailment, lasts: Duration) {
        match ailment {
            Ailment::Freeze => {
                self.cluster.freeze(0);
                sleep(lasts).await;
                self.cluster.thaw(0);
            }
            Ailment::Kill => {
                self.cluster.kill(0);
                sleep(lasts).await;
                self.work(|cluster| cluster.restart(0)).await;
                sleep(REST).await;
            }
            Ailment::NameServer => {
                self.cluster.kill_name_server();
                sleep(lasts).await;
                self.work(RocketMq::restart_name_server).await;
                // A daemon that starts meanwhile finds no broker.
                self.work(|cluster| cluster.wait_for(&place(QUEUES[0]))).await;
                sleep(REST).await;
            }
            Ailment::Disconnect
            | Ailment::Disk
            | Ailment::Full
            | Ailment::Gone
            | Ailment::Half { .. }
            | Ailment::Refuse
            | Ailment::Rights => panic!("a fault of another broker, for RocketMQ"),
        }
    }

    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&RocketMq) -> brokers::Result<T> + Send + 'static,
    ) -> T {
        let topics = Arc::clone(self);
        blocking(move || work(&topics.cluster)).await
    }
}
