//! The queues of a server that behaves as SQS, and its problems.

use std::sync::Arc;
use std::time::Duration;

use brokers::ElasticMq;
use tempfile::NamedTempFile;
use tokio::time::sleep;

use crate::offers::QUEUES;
use crate::target::{blocking, place};
use crate::what::Ailment;
use harness::oracle::Delivery;
use harness::sqs::{TakenMessages, credentials, make_queue, take};

/// The server.
pub struct SqsQueues {
    server: ElasticMq,
    credentials: NamedTempFile,
}

impl SqsQueues {
    /// Starts the server, and makes a standard queue for each queue.
    pub async fn start() -> Arc<SqsQueues> {
        let server = blocking(|| {
            let server = ElasticMq::start()?;
            QUEUES.iter().for_each(|queue| make_queue(&server, &place(queue)));
            Ok(server)
        });
        Arc::new(SqsQueues { server: server.await, credentials: credentials() })
    }

    /// The keys of the sink under `sqs` that name the server.
    pub fn login(&self) -> String {
        let url = self.server.queue_url(&place(QUEUES[0]));
        let file = self.credentials.path().display();
        format!("queue_url: '{url}', region: eu-west-1, credentials_file: '{file}'")
    }

    /// The keys of the destination of a queue.
    pub fn route(&self, queue: &str) -> String {
        format!("queue_url: '{}'", self.server.queue_url(&place(queue)))
    }

    /// The arrivals from this queue, by the time at which the server took them.
    pub async fn deliveries(self: &Arc<Self>, queue: usize) -> Vec<Delivery> {
        let queues = Arc::clone(self);
        let all = blocking(move || {
            let mut all = TakenMessages::default();
            take(&queues.server, &place(QUEUES[queue]), &mut all).unwrap_or_else(|e| panic!("take from a queue: {e}"));
            Ok(all.deliveries)
        });
        let mut all = all.await;
        // A standard queue promises no order.
        all.sort_by_key(|delivery| delivery.arrived_ms);
        all
    }

    /// Causes a problem of the server, and undoes it.
    pub async fn suffer(self: &Arc<Self>, ailment: Ailment, lasts: Duration) {
        match ailment {
            Ailment::Freeze => {
                self.server.freeze();
                sleep(lasts).await;
                self.server.thaw();
            }
            Ailment::Kill => {
                self.server.kill();
                sleep(lasts).await;
                let queues = Arc::clone(self);
                blocking(move || queues.server.restart()).await;
            }
            _ => panic!("a fault of another broker, for SQS"),
        }
    }
}
