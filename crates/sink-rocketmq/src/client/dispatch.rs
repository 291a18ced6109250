//! The task of the sink: takes elements, finds the routes of their topics, and hands requests to brokers.
//!
//! It owns all that waits, and awaits nothing but the next event. What takes time (a route, a request) is a future that ends
//! with an event here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::batch::{self, BrokerNote, RequestEnd};
use super::call::{MessageBatch, ReadyItem};
use super::lanes::{TopicLanes, WaitingItem};
use super::peer::RemotingPeer;
use super::routes::{self, RouteAnswer};
use crate::wire::message::ReadyMessage;
use crate::wire::route::TopicRoute;
use crate::{NAME, RocketMqDestination, RocketMqSpec, errors};
use delaybridge_core::message::{About, Failure};
use delaybridge_core::unordered;
use delaybridge_dial::ReadBudget;
use delaybridge_sink::reconnect::Intake;
use delaybridge_sink::together;
use delaybridge_sink::worker_queue::WorkItem;

const MANY: usize = 512;
/// Longest wait for a route or a queue.
const PATIENCE: Duration = Duration::from_secs(5);
/// Age at which a route is asked for again, and the shortest time between two questions for one.
const ROUTE_AGE: Duration = Duration::from_secs(30);
const ROUTE_PAUSE: Duration = Duration::from_secs(1);
/// Queues of the routes of all topics that are kept: name servers say how many there are.
const MAX_QUEUES: usize = 100_000;
/// Time after which an unused topic or broker is forgotten.
const UNUSED: Duration = Duration::from_secs(300);

/// A question of a check or a probe.
pub struct ClusterQuestion {
    /// The topic, or whether anything is there.
    pub(super) topic: Option<Arc<str>>,
    pub(super) reply: oneshot::Sender<Result<(), Failure>>,
}

struct UsedTopic {
    lanes: TopicLanes,
    /// A question for its route is under way.
    is_asked: bool,
    asked_at: Option<Instant>,
    /// The route may be wrong.
    is_doubtful: bool,
    used: Instant,
}

struct UsedBroker {
    peer: RemotingPeer,
    shunned_until: Instant,
    used: Instant,
}

enum DispatchEvent {
    Route(Arc<str>, RouteAnswer),
    Batch(RequestEnd),
    /// A topic was looked up for a check.
    Looked(Result<TopicRoute, Failure>, ClusterQuestion),
    Answered,
}

/// The state of the task.
struct Dispatcher {
    spec: Arc<RocketMqSpec>,
    timeout: Duration,
    /// The budget of all connections.
    reads: Arc<ReadBudget>,
    name_servers: RemotingPeer,
    topics: HashMap<Arc<str>, UsedTopic>,
    brokers: HashMap<Arc<str>, UsedBroker>,
    events: FuturesUnordered<BoxFuture<'static, DispatchEvent>>,
    /// Elements without an answer.
    load: usize,
}

/// Delivers until the queue is closed and everything has its answer, or `stop`.
pub(super) async fn run(
    spec: Arc<RocketMqSpec>,
    timeout: Duration,
    Intake { mut items, asks: mut questions, mut closed }: Intake<ClusterQuestion>,
    stop: CancellationToken,
) {
    let reads = ReadBudget::new(ReadBudget::ANSWERS);
    let name_servers = RemotingPeer::name_servers(&spec, timeout, &reads);
    let most = spec.max_unconfirmed as usize;
    let topics = HashMap::new();
    let brokers = HashMap::new();
    let events = FuturesUnordered::new();
    let mut state = Dispatcher { spec, timeout, reads, name_servers, topics, brokers, events, load: 0 };
    let mut received = Vec::new();
    let mut look = interval((timeout / 40).clamp(Duration::from_millis(10), Duration::from_millis(250)));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !(closed && state.load == 0) {
        let room = most.saturating_sub(state.load).min(MANY);
        // Answers first: they make room. All branches are cancel safe.
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(event) = unordered::next(&mut state.events), if !state.events.is_empty() => if state.happened(event).is_err() {
                return;
            },
            Some(question) = questions.recv() => state.ask(question),
            count = items.recv_many(&mut received, room), if room > 0 && !closed => {
                closed = count == 0;
                state.take(received.drain(..));
            }
            _ = look.tick() => state.look(),
        }
    }
}

/// A task of the sink has ended by a defect.
struct Defect;

impl Dispatcher {
    /// Takes elements into the lanes of their topics, and sends what can be sent.
    fn take(&mut self, items: impl Iterator<Item = WorkItem>) {
        let now = Instant::now();
        let mut touched: Vec<Arc<str>> = Vec::new();
        for item in items {
            let destination = match item.message().destination.of_kind::<RocketMqDestination>(NAME) {
                Ok(destination) => destination,
                Err(failure) => {
                    item.finish(Err(failure));
                    continue;
                }
            };
            let wire = match ReadyMessage::of(item.message(), destination) {
                Ok(wire) => wire,
                Err(why) => {
                    let attempt = format!("send to topic {}", destination.topic);
                    item.finish(Err(errors::unfit(&attempt, why)));
                    continue;
                }
            };
            if !touched.contains(&destination.topic) {
                touched.push(destination.topic.clone());
            }
            self.load += 1;
            let lanes = &mut self.topic(&destination.topic, now).lanes;
            lanes.put(WaitingItem { ready: ReadyItem { item, wire }, since: now });
        }
        touched.iter().for_each(|topic| self.dispatch(topic));
    }

    fn topic(&mut self, topic: &Arc<str>, now: Instant) -> &mut UsedTopic {
        let state = self.topics.entry(topic.clone()).or_insert_with(|| UsedTopic {
            lanes: TopicLanes::new(topic.clone()),
            is_asked: false,
            asked_at: None,
            is_doubtful: false,
            used: now,
        });
        state.used = now;
        state
    }

    /// Sends what can be sent for a topic, and asks for its route if that is due.
    fn dispatch(&mut self, topic: &Arc<str>) {
        self.find_route(topic);
        let now = Instant::now();
        loop {
            let Some(state) = self.topics.get_mut(topic) else { return };
            let brokers = &self.brokers;
            let shuns = |master: &str| brokers.get(master).is_some_and(|broker| broker.shunned_until > now);
            let Some(batch) = state.lanes.next(shuns) else { return };
            self.send(batch);
        }
    }

    fn send(&mut self, batch: MessageBatch) {
        match batch.queue.master.clone() {
            Some(master) => {
                let sender = self.broker(&master).sender();
                self.events.push(batch::deliver(self.spec.clone(), sender, batch).map(DispatchEvent::Batch).boxed());
            }
            None => {
                self.load -= batch.items.len();
                if let Some(state) = self.topics.get_mut(&batch.topic) {
                    state.lanes.done(&batch.queue);
                    state.is_doubtful = true;
                }
                let failure = errors::away(&batch.attempt(), &batch.queue.broker);
                batch.items.into_iter().for_each(|ready| ready.item.finish(Err(failure.clone())));
            }
        }
    }

    fn broker(&mut self, master: &Arc<str>) -> &RemotingPeer {
        let now = Instant::now();
        let state = self.brokers.entry(master.clone()).or_insert_with(|| UsedBroker {
            peer: RemotingPeer::broker(&self.spec, self.timeout, &self.reads, master),
            shunned_until: now,
            used: now,
        });
        state.used = now;
        &state.peer
    }

    /// Asks for the route of a topic if there is none and something waits for it, if it is old, or if it may be wrong.
    fn find_route(&mut self, topic: &Arc<str>) {
        let Some(state) = self.topics.get_mut(topic) else { return };
        let age = state.asked_at.map(|asked| asked.elapsed());
        let is_due = match state.lanes.route() {
            None => state.lanes.has_work(),
            Some(_) => age.is_none_or(|age| age >= ROUTE_AGE || (state.is_doubtful && age >= ROUTE_PAUSE)),
        };
        if !state.is_asked && is_due {
            (state.is_asked, state.asked_at, state.is_doubtful) = (true, Some(Instant::now()), false);
            let topic = topic.clone();
            let finding = routes::find(&self.name_servers, &topic);
            self.events.push(finding.map(|answer| DispatchEvent::Route(topic, answer)).boxed());
        }
    }

    fn happened(&mut self, event: DispatchEvent) -> Result<(), Defect> {
        match event {
            DispatchEvent::Answered => {}
            DispatchEvent::Route(topic, answer) => self.found_route(&topic, answer),
            DispatchEvent::Batch(end) => self.ended(end)?,
            DispatchEvent::Looked(route, question) => self.look_at_brokers(route, question),
        }
        Ok(())
    }

    fn found_route(&mut self, topic: &Arc<str>, answer: RouteAnswer) {
        let attempt = format!("send to topic {topic}");
        let answer = match answer {
            Ok(route) if !self.has_room(topic, route.queues.len()) => Err(errors::many_queues(&attempt, MAX_QUEUES)),
            answer => answer,
        };
        let Some(state) = self.topics.get_mut(topic) else { return };
        state.is_asked = false;
        let failure = match answer {
            Ok(route) => {
                let failure = route.queues.is_empty().then(|| errors::no_queue(&attempt, route.lacks_master));
                state.lanes.set_route(route);
                failure
            }
            // A name server that is away, or has not heard of the brokers yet, does not make a known route wrong. Whether the topic
            // is still there, its brokers know.
            Err(failure) => state.lanes.route().is_none_or(|route| route.queues.is_empty()).then_some(failure),
        };
        if let Some(failure) = failure {
            for item in state.lanes.take_all() {
                self.load -= 1;
                item.ready.item.finish(Err(failure.clone()));
            }
        }
        self.dispatch(topic);
    }

    /// Returns whether a route of this many queues may be kept for this topic. The routes of idle topics make room for
    /// it, the one that was used least of late first.
    fn has_room(&mut self, topic: &Arc<str>, queues: usize) -> bool {
        if queues > MAX_QUEUES {
            // No idle topic makes room for it.
            return false;
        }
        let kept = |state: &UsedTopic| state.lanes.route().map_or(0, |route| route.queues.len());
        let mut others: usize =
            self.topics.iter().filter(|(other, _)| *other != topic).map(|(_, state)| kept(state)).sum();
        while others + queues > MAX_QUEUES {
            let idle = self.topics.iter().filter(|(other, state)| *other != topic && state.lanes.is_idle());
            let Some(oldest) = idle.min_by_key(|(_, state)| state.used).map(|(other, _)| other.clone()) else {
                return false;
            };
            others -= self.topics.remove(&oldest).as_ref().map_or(0, kept);
        }
        true
    }

    fn ended(&mut self, end: RequestEnd) -> Result<(), Defect> {
        self.load -= end.finished;
        let now = Instant::now();
        let broker = end.queue.master.as_ref().and_then(|master| self.brokers.get_mut(master));
        if let Some(broker) = broker {
            broker.shunned_until = match end.note {
                BrokerNote::Well => now,
                BrokerNote::Shun(time) => now + time,
                BrokerNote::Defect => return Err(Defect),
            };
        }
        let Some(state) = self.topics.get_mut(&end.topic) else { return Ok(()) };
        state.lanes.done(&end.queue);
        state.is_doubtful |= end.note != BrokerNote::Well;
        let brokers = &self.brokers;
        let is_well = |master: &Arc<str>| brokers.get(master).is_none_or(|broker| broker.shunned_until <= now);
        let queues = state.lanes.route().map(|route| route.queues.as_slice()).unwrap_or_default();
        let others = queues.iter().any(|queue| queue.master.as_ref().is_some_and(is_well));
        for ready in end.unsent.into_iter().rev() {
            match &end.why_unsent {
                // Another broker takes what has no queue of its own. It waits anew: it has not waited for this one.
                _ if others && ready.sharding_key().is_none() => {
                    state.lanes.put_back(WaitingItem { ready, since: now });
                }
                Some(failure) => {
                    self.load -= 1;
                    ready.item.finish(Err(failure.clone().about(About::Target)));
                }
                None => self.load -= 1,
            }
        }
        self.dispatch(&end.topic);
        Ok(())
    }

    /// Answers what waits for too long, asks for old routes, and forgets what is not used.
    fn look(&mut self) {
        let now = Instant::now();
        let patience = PATIENCE.min(self.timeout / 2);
        let topics: Vec<Arc<str>> = self.topics.keys().cloned().collect();
        for topic in topics {
            if let Some(state) = self.topics.get_mut(&topic) {
                let has_route = state.lanes.route().is_some();
                for item in now.checked_sub(patience).map(|since| state.lanes.take_old(since)).unwrap_or_default() {
                    self.load -= 1;
                    let failure = errors::waited(&item.ready.attempt(), patience, has_route);
                    item.ready.item.finish(Err(failure));
                }
            }
            self.dispatch(&topic);
        }
        let is_used = |used: Instant| now.saturating_duration_since(used) < UNUSED;
        self.topics.retain(|_, state| !state.lanes.is_idle() || state.is_asked || is_used(state.used));
        self.brokers.retain(|_, broker| is_used(broker.used));
    }

    /// Looks a topic up, or asks whether the name servers know brokers.
    fn ask(&mut self, question: ClusterQuestion) {
        let event = match &question.topic {
            Some(topic) => {
                let finding = routes::find(&self.name_servers, topic);
                finding.map(|route| DispatchEvent::Looked(route, question)).boxed()
            }
            None => {
                let asking = routes::has_brokers(&self.name_servers);
                asking.map(|answer| answer_with(question, answer)).boxed()
            }
        };
        self.events.push(event);
    }

    /// Asks the masters of a topic whether they are there.
    fn look_at_brokers(&mut self, route: Result<TopicRoute, Failure>, question: ClusterQuestion) {
        let attempt = format!("look up topic {}", question.topic.as_deref().unwrap_or_default());
        let route = match route {
            Ok(route) if route.queues.is_empty() => Err(errors::no_queue(&attempt, route.lacks_master)),
            other => other,
        };
        let mut masters: Vec<Arc<str>> = match route {
            Ok(route) => route.queues.into_iter().filter_map(|queue| queue.master).collect(),
            Err(failure) => {
                answer_with(question, Err(failure));
                return;
            }
        };
        masters.sort();
        masters.dedup();
        let asking: Vec<_> = masters.iter().map(|master| self.broker(master).is_there()).collect();
        let event = async move {
            let failures = futures_util::future::join_all(asking).await.into_iter().filter_map(Result::err).collect();
            answer_with(question, together(failures))
        };
        self.events.push(event.boxed());
    }
}

fn answer_with(question: ClusterQuestion, answer: Result<(), Failure>) -> DispatchEvent {
    // A caller that does not wait any more needs no answer.
    let _ = question.reply.send(answer);
    DispatchEvent::Answered
}

#[cfg(test)]
mod tests {
    use super::super::tests::cluster::spec_on;
    use super::*;
    use crate::wire::route::RouteQueue;

    #[tokio::test]
    async fn the_queues_of_all_topics_are_bounded_and_idle_topics_make_room() {
        let spec = Arc::new(spec_on(1));
        let reads = ReadBudget::new(ReadBudget::ANSWERS);
        let name_servers = RemotingPeer::name_servers(&spec, Duration::from_secs(1), &reads);
        let topics = HashMap::new();
        let brokers = HashMap::new();
        let events = FuturesUnordered::new();
        let timeout = Duration::from_secs(1);
        let mut dispatcher = Dispatcher { spec, timeout, reads, name_servers, topics, brokers, events, load: 0 };
        let queue = |number| RouteQueue { broker: "b".into(), number, master: None };
        let route = TopicRoute { queues: (0..40_000).map(queue).collect(), lacks_master: false };
        let now = Instant::now();
        let topic = |number: u64| Arc::<str>::from(format!("t{number}"));
        for number in 0..500 {
            let topic = topic(number);
            dispatcher.topic(&topic, now + Duration::from_millis(number));
            dispatcher.found_route(&topic, Ok(route.clone()));
            let kept = dispatcher.topics.values().filter_map(|state| state.lanes.route());
            assert!(kept.map(|route| route.queues.len()).sum::<usize>() <= MAX_QUEUES);
            assert!(dispatcher.topics[&topic].lanes.route().is_some());
        }
        assert_eq!(dispatcher.topics.len(), 2);
        // Those that are in use stay.
        dispatcher.topics.values_mut().for_each(|state| state.lanes.keep_busy(&route.queues[0]));
        let late = topic(500);
        dispatcher.topic(&late, now);
        dispatcher.found_route(&late, Ok(route.clone()));
        assert!(dispatcher.topics[&late].lanes.route().is_none() && dispatcher.topics.len() == 3);
    }
}
