//! The task that hands elements to the publishers of their exchanges, and keeps the number of those bounded.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::context::SinkContext;
use super::message::attempt;
use super::publisher::Publisher;
use super::supervisor::ConnectionState;
use crate::{AmqpDestination, NAME, errors};
use delaybridge_sink::worker_queue::WorkItem;

/// Elements taken from the queue at once.
const MANY: usize = 512;
/// Exchanges with a publisher; the one that was not used for longest gives way to a new one.
const EXCHANGES: usize = 64;
/// Elements that wait for one exchange: more than a queue may have in flight. Room that is not used takes no memory.
const WAITING: usize = 16 * 1024;

struct ExchangePublisher {
    items: mpsc::Sender<WorkItem>,
    /// Number of the element that used it last.
    used: u64,
}

/// Runs until the queue is closed and everything in it is answered.
pub(super) async fn run(
    context: Arc<SinkContext>,
    mut items: mpsc::Receiver<WorkItem>,
    state: watch::Receiver<ConnectionState>,
) {
    let mut exchanges: HashMap<Arc<str>, ExchangePublisher> = HashMap::new();
    let mut publishers = JoinSet::new();
    let mut received = Vec::new();
    let mut count: u64 = 0;
    loop {
        // Both branches are cancel safe.
        tokio::select! {
            biased;
            Some(ended) = publishers.join_next(), if !publishers.is_empty() => {
                if ended.is_err() {
                    // A publisher panicked: the sink ends, and with it the process.
                    return;
                }
            }
            taken = items.recv_many(&mut received, MANY) => {
                if taken == 0 {
                    break;
                }
            }
        }
        for item in received.drain(..) {
            let exchange = match item.message().destination.of_kind(NAME) {
                Ok(AmqpDestination { exchange, .. }) => exchange,
                Err(failure) => {
                    item.finish(Err(failure));
                    continue;
                }
            };
            count += 1;
            if !exchanges.contains_key(exchange) {
                if exchanges.len() >= EXCHANGES {
                    retire(&mut exchanges);
                }
                if publishers.len() >= 2 * EXCHANGES {
                    let failure = errors::crowded(&attempt(&item.message().destination));
                    item.finish(Err(failure));
                    continue;
                }
                let (sender, receiver) = mpsc::channel(WAITING);
                publishers.spawn(Publisher::new(context.clone(), state.clone(), receiver).run());
                exchanges.insert(exchange.clone(), ExchangePublisher { items: sender, used: count });
            }
            let Some(entry) = exchanges.get_mut(exchange) else { continue };
            entry.used = count;
            if let Err(refused) = entry.items.try_send(item) {
                let item = refused.into_inner();
                let failure = errors::crowded(&attempt(&item.message().destination));
                item.finish(Err(failure));
            }
        }
    }
    exchanges.clear();
    while let Some(Ok(())) = publishers.join_next().await {}
}

/// Drops the least recently used publisher; it answers its messages and ends.
fn retire(exchanges: &mut HashMap<Arc<str>, ExchangePublisher>) {
    let oldest = exchanges.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| name.clone());
    if let Some(name) = oldest {
        exchanges.remove(&name);
    }
}
