//! The messages of a topic that wait for their queue. Pure, but for the time.
//!
//! A queue has one request at a time, so that its messages keep their order: brokers work on the requests of a connection in any
//! order. A message with a sharding key waits for its own queue, any other goes to the next free one; a broker in trouble gets
//! those only if all are.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use super::call::{MessageBatch, ReadyItem};
use crate::wire::route::{RouteQueue, TopicRoute};

/// Maximum number of messages of a request.
pub(super) const MANY: usize = 128;
/// Maximum number of bytes of a request, unless one message has more.
const FULL: usize = 512 << 10;

pub(super) struct WaitingItem {
    pub(super) ready: ReadyItem,
    pub(super) since: Instant,
}

impl WaitingItem {
    /// Returns the text that chooses its queue.
    fn sharding_key(&self) -> Option<&str> {
        self.ready.sharding_key()
    }
}

/// The name of a queue: its broker, and its number there.
type QueueName = (Arc<str>, u32);

/// The messages that wait for the queues of a topic.
pub(super) struct TopicLanes {
    topic: Arc<str>,
    route: Option<TopicRoute>,
    /// Messages for any queue; all of them, while there is no route.
    any: VecDeque<WaitingItem>,
    /// Messages with a sharding key, by the place of their queue in the route.
    keyed: HashMap<usize, VecDeque<WaitingItem>>,
    /// Queues with a request under way.
    busy: HashSet<QueueName>,
    /// The place of the queue whose turn it is.
    turn: usize,
}

impl TopicLanes {
    /// Creates the lanes of a topic without a route.
    pub(super) fn new(topic: Arc<str>) -> TopicLanes {
        TopicLanes {
            topic,
            route: None,
            any: VecDeque::new(),
            keyed: HashMap::new(),
            busy: HashSet::new(),
            turn: fastrand::usize(..1024),
        }
    }

    /// Returns the route, where one is known.
    pub(super) fn route(&self) -> Option<&TopicRoute> {
        self.route.as_ref()
    }

    /// Returns whether nothing waits, and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.any.is_empty() && self.keyed.is_empty() && self.busy.is_empty()
    }

    /// Notes that a request to a queue is under way.
    #[cfg(test)]
    pub(super) fn keep_busy(&mut self, queue: &RouteQueue) {
        self.busy.insert((queue.broker.clone(), queue.number));
    }

    pub(super) fn has_work(&self) -> bool {
        !self.any.is_empty() || !self.keyed.is_empty()
    }

    pub(super) fn put(&mut self, item: WaitingItem) {
        match (&self.route, item.sharding_key()) {
            (Some(route), Some(key)) if !route.queues.is_empty() => {
                self.keyed.entry(route.place(key)).or_default().push_back(item);
            }
            _ => self.any.push_back(item),
        }
    }

    /// Takes a message for any queue back, in front of all others.
    pub(super) fn put_back(&mut self, item: WaitingItem) {
        self.any.push_front(item);
    }

    /// Replaces the route. Messages with a sharding key find their queue anew, in their order.
    pub(super) fn set_route(&mut self, route: TopicRoute) {
        if self.route.as_ref() == Some(&route) {
            return;
        }
        self.route = Some(route);
        for item in self.take_all() {
            self.put(item);
        }
    }

    /// Takes out everything that waits. Messages of one key are in their order.
    pub(super) fn take_all(&mut self) -> Vec<WaitingItem> {
        let keyed = std::mem::take(&mut self.keyed).into_values().flatten();
        std::mem::take(&mut self.any).into_iter().chain(keyed).collect()
    }

    pub(super) fn take_old(&mut self, since: Instant) -> Vec<WaitingItem> {
        let mut old = Vec::new();
        for lane in self.keyed.values_mut().chain([&mut self.any]) {
            while lane.front().is_some_and(|item| item.since <= since) {
                old.extend(lane.pop_front());
            }
        }
        self.keyed.retain(|_, lane| !lane.is_empty());
        old
    }

    /// Builds the next request, for a queue that has none under way. `shuns`: whether a master at this address is in
    /// trouble.
    pub(super) fn next(&mut self, shuns: impl Fn(&str) -> bool) -> Option<MessageBatch> {
        let queues = &self.route.as_ref()?.queues;
        let well = |queue: &RouteQueue| queue.master.as_deref().is_some_and(|master| !shuns(master));
        let any_well = self.any.is_empty() || queues.iter().any(well);
        for step in 0..queues.len() {
            let place = self.turn.wrapping_add(step) % queues.len();
            let queue = &queues[place];
            let takes_any = !self.any.is_empty() && (well(queue) || (!any_well && queue.master.is_some()));
            if !(takes_any || self.keyed.contains_key(&place)) {
                continue;
            }
            let name = (queue.broker.clone(), queue.number);
            if self.busy.contains(&name) {
                continue;
            }
            let waiting = self.any.len() + self.keyed.get(&place).map_or(0, VecDeque::len);
            let mut items = Vec::with_capacity(waiting.min(MANY));
            let mut room = FULL;
            if let Some(lane) = self.keyed.get_mut(&place) {
                fill(&mut items, &mut room, lane);
                if lane.is_empty() {
                    self.keyed.remove(&place);
                }
            }
            if takes_any {
                self.turn = place + 1;
                fill(&mut items, &mut room, &mut self.any);
            }
            self.busy.insert(name);
            return Some(MessageBatch { topic: self.topic.clone(), queue: queue.clone(), items, again: false });
        }
        None
    }

    pub(super) fn done(&mut self, queue: &RouteQueue) {
        self.busy.remove(&(queue.broker.clone(), queue.number));
    }
}

/// Moves messages from the front of a lane into a request, as many as fit.
fn fill(items: &mut Vec<ReadyItem>, room: &mut usize, lane: &mut VecDeque<WaitingItem>) {
    while items.len() < MANY
        && lane.front().is_some_and(|item| items.is_empty() || item.ready.wire.size <= *room)
        && let Some(item) = lane.pop_front()
    {
        *room = room.saturating_sub(item.ready.wire.size);
        items.push(item.ready);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::RocketMqDestination;
    use crate::wire::message::ReadyMessage;
    use delaybridge_sink::Answers;
    use delaybridge_sink::worker_queue::WorkerQueue;
    use delaybridge_testing::sink::outbound;
    use futures_util::FutureExt;

    /// Builds messages with these sharding keys, numbered; empty is none.
    fn waiting(keys: &[&str]) -> Vec<WaitingItem> {
        if keys.is_empty() {
            return Vec::new();
        }
        let (queue, mut taken) = WorkerQueue::new("test", Duration::from_secs(1), 1024);
        let destination = |key: &str| RocketMqDestination {
            topic: "t".into(),
            tags: None,
            sharding_key: (!key.is_empty()).then(|| key.into()),
            keys: None,
        };
        let batch = (0..).zip(keys).map(|(id, key)| outbound(id, destination(key).into(), "x")).collect();
        let queue = Box::leak(Box::new(queue));
        let answers = Box::leak(Box::new(Answers::new(keys.len())));
        let delivery = Box::leak(Box::new(Box::pin(queue.deliver_all(batch, answers))));
        assert!(delivery.as_mut().now_or_never().is_none());
        let item = |key: &&str| {
            let item = taken.try_recv().unwrap();
            let wire = ReadyMessage::of(item.message(), &destination(key)).unwrap();
            WaitingItem { ready: ReadyItem { item, wire }, since: Instant::now() }
        };
        keys.iter().map(item).collect()
    }

    fn route(queues: &[(&str, u32)]) -> TopicRoute {
        let queue = |(broker, number): &(&str, u32)| RouteQueue {
            broker: (*broker).into(),
            number: *number,
            master: Some(format!("{broker}:1").into()),
        };
        TopicRoute { queues: queues.iter().map(queue).collect(), lacks_master: false }
    }

    fn lanes(keys: &[&str]) -> TopicLanes {
        let mut lanes = TopicLanes { turn: 0, ..TopicLanes::new("t".into()) };
        waiting(keys).into_iter().for_each(|item| lanes.put(item));
        lanes
    }

    fn shown(batch: &MessageBatch) -> (String, Vec<u64>) {
        let numbers = batch.items.iter().map(|ready| u64::from_be_bytes(ready.item.message().id.id.0));
        (format!("{}-{}", batch.queue.broker, batch.queue.number), numbers.collect())
    }

    fn next(lanes: &mut TopicLanes) -> Option<(String, Vec<u64>)> {
        lanes.next(|_| false).map(|batch| shown(&batch))
    }

    #[tokio::test]
    async fn a_queue_has_one_request_at_a_time_and_a_key_its_own_queue() {
        // "a" is 97, "b" 98: the queues 1 and 0 of two.
        let mut lanes = lanes(&["a", "b", "a", ""]);
        assert!(lanes.next(|_| false).is_none(), "there is no route");
        lanes.set_route(route(&[("x", 0), ("x", 1)]));
        assert_eq!(next(&mut lanes), Some(("x-0".to_owned(), vec![1, 3])));
        assert_eq!(next(&mut lanes), Some(("x-1".to_owned(), vec![0, 2])));
        waiting(&["a", "a"]).into_iter().for_each(|item| lanes.put(item));
        assert_eq!(next(&mut lanes), None, "both have a request");
        let queues = route(&[("x", 0), ("x", 1)]).queues;
        lanes.done(&queues[0]);
        assert_eq!(next(&mut lanes), None, "it waits for its own");
        lanes.done(&queues[1]);
        assert_eq!(next(&mut lanes), Some(("x-1".to_owned(), vec![0, 1])));
        assert!(!lanes.is_idle() && !lanes.has_work());
    }

    #[tokio::test]
    async fn what_has_no_key_avoids_a_broker_in_trouble() {
        let mut lanes = lanes(&["", "a"]);
        lanes.set_route(route(&[("x", 0), ("y", 0)]));
        // "a" belongs to y.
        let batch = lanes.next(|master| master == "y:1").unwrap();
        assert_eq!(shown(&batch), ("x-0".to_owned(), vec![0]));
        let batch = lanes.next(|master| master == "y:1").unwrap();
        assert_eq!(shown(&batch), ("y-0".to_owned(), vec![1]));
        let mut lanes = self::lanes(&[""]);
        lanes.set_route(route(&[("x", 0), ("y", 0)]));
        assert_eq!(shown(&lanes.next(|_| true).unwrap()).0, "x-0", "if all are in trouble, one is tried");
    }

    #[tokio::test]
    async fn a_new_route_keeps_the_order_of_each_key() {
        let mut lanes = lanes(&["a", "b", "a", "b"]);
        lanes.set_route(route(&[("x", 0), ("x", 1)]));
        lanes.set_route(route(&[("y", 0)]));
        let (queue, numbers) = next(&mut lanes).unwrap();
        let of = |parity| numbers.iter().copied().filter(|number| number % 2 == parity).collect::<Vec<_>>();
        assert_eq!((queue, of(0), of(1)), ("y-0".to_owned(), vec![0, 2], vec![1, 3]));
    }

    #[tokio::test]
    async fn a_request_has_as_many_messages_as_fit() {
        let keys = vec![""; MANY + 1];
        let mut lanes = lanes(&keys);
        lanes.set_route(route(&[("x", 0), ("x", 1)]));
        assert_eq!(next(&mut lanes).unwrap().1.len(), MANY);
        assert_eq!(next(&mut lanes).unwrap().1.len(), 1);
        let mut items = waiting(&["", "", ""]);
        items.iter_mut().for_each(|item| item.ready.wire.size = FULL / 2 + 1);
        items[0].ready.wire.size = 2 * FULL;
        let mut lanes = self::lanes(&[]);
        lanes.set_route(route(&[("x", 0), ("x", 1), ("x", 2)]));
        items.into_iter().for_each(|item| lanes.put(item));
        for number in 0..3 {
            assert_eq!(next(&mut lanes).unwrap().1, [number]);
        }
    }

    #[tokio::test]
    async fn what_has_waited_for_too_long_is_taken_out() {
        let mut lanes = lanes(&["", "a"]);
        lanes.set_route(route(&[("x", 0)]));
        let now = Instant::now();
        assert!(lanes.take_old(now - Duration::from_secs(9)).is_empty());
        assert_eq!(lanes.take_old(now).len(), 2);
        assert!(lanes.is_idle());
    }
}
