//! The task that makes requests of what waits: for one queue or topic each, as many messages as there are and fit.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::requests::AwsClient;
use crate::AwsDestination;
use crate::service::{AwsService, MOST};
use crate::wire::message::WireMessage;
use delaybridge_sink::worker_queue::WorkItem;

/// Elements that are looked through for those of one place.
const WINDOW: usize = 8 * MOST;

/// Delivers until the queue is closed and empty, and everything has its answer.
pub(super) async fn run(client: Arc<AwsClient>, mut items: mpsc::Receiver<WorkItem>) {
    let places = Arc::new(Semaphore::new(client.spec().max_concurrency));
    let (mut requests, mut waiting) = (JoinSet::new(), VecDeque::new());
    loop {
        // First a place, then elements: those that come meanwhile go along.
        let Ok(place) = places.clone().acquire_owned().await else { break };
        if waiting.is_empty() {
            match items.recv().await {
                Some(item) => waiting.push_back(item),
                None => break,
            }
        }
        while waiting.len() < WINDOW
            && let Ok(item) = items.try_recv()
        {
            waiting.push_back(item);
        }
        let batch = take(client.spec().service, &mut waiting);
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
fn take(service: AwsService, waiting: &mut VecDeque<WorkItem>) -> Vec<WorkItem> {
    let place = waiting.front().and_then(|item| place(service, item));
    let (mut batch, mut room, mut is_full) = (Vec::new(), service.limit(), false);
    for _ in 0..waiting.len() {
        let Some(item) = waiting.pop_front() else { break };
        let goes = !is_full && batch.len() < MOST && self::place(service, &item) == place;
        let size = if goes { size(service, &item) } else { 0 };
        // What does not fit by itself is sent by itself: the service says what it takes.
        if goes && (batch.is_empty() || size <= room) {
            room = room.saturating_sub(size);
            batch.push(item);
        } else {
            is_full |= goes;
            waiting.push_back(item);
        }
    }
    batch
}

/// The queue or topic that an element is for; `None` if it is for another kind of sink.
fn place(service: AwsService, item: &WorkItem) -> Option<Arc<str>> {
    let destination = item.message().destination.of_kind::<AwsDestination>(service.kind()).ok()?;
    (destination.service == service).then(|| destination.place.clone())
}

fn size(service: AwsService, item: &WorkItem) -> usize {
    let destination = item.message().destination.of_kind::<AwsDestination>(service.kind());
    destination.map_or(0, |destination| WireMessage::of(item.message(), destination).size())
}
