//! The task that makes requests of what waits: for one queue or topic each, as many messages as there are and fit.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::requests::AwsClient;
use crate::AwsDestination;
use crate::service::{AwsService, MOST};
use crate::wire::message::WireMessage;
use delaybridge_sink::Outbound;
use delaybridge_sink::worker_queue::WorkItem;

/// Elements that are looked through for those of one place.
const WINDOW: usize = 8 * MOST;

/// An element that waits for a request.
struct AwsItem {
    item: WorkItem,
    /// The queue or topic that it is for; `None` if it is for another kind of sink.
    place: Option<Arc<str>>,
    /// The bytes that it takes of a request, at most.
    size: usize,
}

impl AwsItem {
    fn of(service: AwsService, item: WorkItem) -> AwsItem {
        let destination = item.message().destination.of_kind::<AwsDestination>(service.kind()).ok();
        let found = destination.filter(|destination| destination.service == service);
        let place = found.map(|destination| destination.place.clone());
        let size = found.map_or(0, |destination| size(service, item.message(), destination));
        AwsItem { item, place, size }
    }
}

/// Returns the bytes that a message takes of a request. Where ten like it fit, a bound will do.
fn size(service: AwsService, message: &Outbound, destination: &AwsDestination) -> usize {
    match WireMessage::bound(message) {
        bound if bound <= service.limit() / MOST => bound,
        _ => WireMessage::of(message, destination).size(),
    }
}

/// Delivers until the queue is closed and empty, and everything has its answer.
pub(super) async fn run(client: Arc<AwsClient>, mut items: mpsc::Receiver<WorkItem>) {
    let service = client.spec().service;
    let places = Arc::new(Semaphore::new(client.spec().max_concurrency));
    let mut requests = JoinSet::new();
    let mut waiting = VecDeque::new();
    loop {
        // First a place, then elements: those that come meanwhile go along.
        let Ok(place) = places.clone().acquire_owned().await else { break };
        if waiting.is_empty() {
            match items.recv().await {
                Some(item) => waiting.push_back(AwsItem::of(service, item)),
                None => break,
            }
        }
        while waiting.len() < WINDOW
            && let Ok(item) = items.try_recv()
        {
            waiting.push_back(AwsItem::of(service, item));
        }
        let batch = take(service.limit(), &mut waiting);
        let client = client.clone();
        requests.spawn(async move {
            client.deliver(batch).await;
            drop(place);
        });
        while requests.try_join_next().is_some() {}
    }
    while requests.join_next().await.is_some() {}
}

/// Takes the first element, and those behind it that go with it into one request, in their order.
fn take(limit: usize, waiting: &mut VecDeque<AwsItem>) -> Vec<WorkItem> {
    let place = waiting.front().and_then(|first| first.place.clone());
    let mut batch = Vec::with_capacity(MOST);
    let mut room = limit;
    let mut at = 0;
    while batch.len() < MOST
        && let Some(next) = waiting.get(at)
    {
        if next.place != place {
            at += 1;
            continue;
        }
        // What does not fit by itself is sent by itself: the service says what it takes.
        if !batch.is_empty() && next.size > room {
            break;
        }
        room = room.saturating_sub(next.size);
        batch.extend(waiting.remove(at).map(|taken| taken.item));
    }
    batch
}
