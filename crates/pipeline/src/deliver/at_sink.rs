//! A batch at a sink: which of its elements go past the breakers, and their answers as they come.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::deliver::destinations::{Admission, Ask, DestinationKey};
use crate::deliver::look;
use crate::deliver::sink_handle::SinkHandle;
use crate::limits::budget::Room;
use crate::limits::circuit::Allow;
use crate::queue::{Queue, SinkRoute};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::About;
use delaybridge_sink::{Answered, Answers, Destination, Outbound};

/// The messages for one sink, until they are handed over.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) messages: Vec<Outbound>,
    /// The elements of the messages, by their places in the delivery; empty where these are the places of the messages.
    pub(super) elements: Vec<usize>,
    /// The places of the elements at their destinations, where these differ; else none.
    passes: Vec<Option<Admitted>>,
    /// The messages go in their order: nothing goes past one that does not go.
    pub(super) in_run: bool,
}

/// An element at its destination, until this is dropped.
pub(super) struct Admitted {
    handle: Arc<SinkHandle>,
    lane: DestinationKey,
    size: u64,
    probe: bool,
}

impl Admitted {
    /// Returns whether the element finds out if its destination works again.
    pub(super) fn is_probe(&self) -> bool {
        self.probe
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        // After an answer, the probe has ended already.
        self.handle.left(self.lane, self.size, self.probe);
    }
}

impl Outbox {
    /// Returns the element of the message at this place.
    pub(super) fn element(&self, at: usize) -> usize {
        self.elements.get(at).copied().unwrap_or(at)
    }

    /// Returns whether the last message is that of this element.
    pub(super) fn ends_with(&self, element: usize) -> bool {
        self.messages.len().checked_sub(1).is_some_and(|last| self.element(last) == element)
    }

    /// Removes the messages of this element and of those that came after it.
    pub(super) fn truncate(&mut self, element: usize) {
        let left =
            if self.elements.is_empty() { element } else { self.elements.partition_point(|other| *other < element) };
        self.messages.truncate(left);
        self.elements.truncate(left);
    }

    /// Lets the messages past the breakers, and those that do not pass go back; with a time if it is their destination that is in
    /// trouble. `probe`: the queue was let through to find out whether something works again.
    pub(super) fn pass(
        &mut self,
        queue: &Queue,
        route: &SinkRoute,
        probe: bool,
        mut goes_back: impl FnMut(usize, Option<Duration>),
    ) {
        let Some(first) = self.messages.first() else { return };
        let only = route.only(&first.destination);
        // A breaker that they all wait for opened after the claim: they are not thrown at a sink that is down.
        if !probe && route.handle.allows(only) != Allow::Free {
            let messages = std::mem::take(&mut self.messages);
            let elements = std::mem::take(&mut self.elements);
            return (0..messages.len()).for_each(|at| goes_back(elements.get(at).copied().unwrap_or(at), None));
        }
        // Elements of one topic have all a key or none.
        if only.is_some() && !route.handle.has_parts(&first.destination) {
            return;
        }
        let chosen = route.spec.target.is_chosen_by_payload(About::Route);
        let gives_up = queue.spec.unroutable.gives_up().filter(|_| chosen);
        let ask = |message: &Outbound| Ask {
            lane: route.handle.lane(&message.destination),
            size: message.body.len() as u64,
            gives_up,
        };
        let asks: Vec<Ask> = self.messages.iter().map(ask).collect();
        let own = queue.budget.limit();
        let all = queue.process.budget_of(&queue.spec.redis).limit();
        let room = Room { count: own.count.min(all.count), bytes: own.bytes.min(all.bytes) };
        let admitted = route.handle.admit(room, asks.iter().copied());
        let messages = std::mem::take(&mut self.messages);
        let elements = std::mem::take(&mut self.elements);
        let mut back = 0;
        let mut waiting = HashMap::<DestinationKey, Duration>::default();
        for (at, ((message, ask), admission)) in messages.into_iter().zip(asks).zip(admitted).enumerate() {
            let element = elements.get(at).copied().unwrap_or(at);
            if let Admission::Hold(wait) = admission {
                if self.in_run {
                    waiting.entry(ask.lane).or_insert(wait);
                }
                goes_back(element, Some(wait));
                back += 1;
                continue;
            }
            let handle = route.handle.clone();
            let probe = admission == Admission::Probe;
            let pass = Admitted { handle, lane: ask.lane, size: ask.size, probe };
            // In a run, what is behind one that waits waits too. Those of a key have one destination.
            if let Some(wait) = waiting.get(&ask.lane) {
                goes_back(element, Some(*wait));
                back += 1;
                continue;
            }
            self.messages.push(message);
            self.elements.push(element);
            self.passes.push(Some(pass));
        }
        // What is not sent leaves the rate to others.
        if back > 0 {
            queue.refund_rate(back);
        }
    }
}

/// A batch at a sink.
pub(super) struct AtSink {
    /// The place of the sink among the queue's destinations.
    pub(super) route: usize,
    elements: Vec<usize>,
    passes: Vec<Option<Admitted>>,
    answers: Answers,
    /// `None` when every element has its answer.
    delivering: Option<BoxFuture<'static, ()>>,
    /// The last answer was waited for.
    is_known_over: bool,
    destinations: Vec<Destination>,
    /// The one destination of all of them.
    one: Option<DestinationKey>,
    sent: Instant,
    now_ms: i64,
}

impl AtSink {
    /// Brings every element to the sink, as far as the sink has room. `None` if there is no
    /// element.
    pub(super) fn begin(route: &SinkRoute, place: usize, outbox: Outbox) -> Option<AtSink> {
        let Outbox { messages, elements, passes, in_run } = outbox;
        let handle = &route.handle;
        let first = messages.first()?;
        let one = route.only(&first.destination).filter(|_| !handle.has_parts(&first.destination));
        let answers = Answers::new(messages.len());
        let now_ms = first.now_ms;
        let destinations = messages.iter().map(|message| message.destination.clone()).collect();
        let at = handle.clone();
        let into = answers.clone();
        // A future for each way: one for all would be as large as the largest.
        let mut delivering = match in_run {
            true => async move { at.deliver_run(messages, &into).await }.boxed(),
            false if look::is_needed(&at, &messages) => {
                async move { look::deliver(&at, messages, &into).await }.boxed()
            }
            false => async move { at.deliver_all(messages, &into).await }.boxed(),
        };
        let sent = Instant::now();
        // Unconstrained: the runtime would let only so many of them get anywhere.
        let is_over = tokio::task::unconstrained(&mut delivering).now_or_never().is_some();
        let delivering = (!is_over).then_some(delivering);
        Some(AtSink {
            route: place,
            elements,
            passes,
            answers,
            delivering,
            is_known_over: false,
            destinations,
            one,
            sent,
            now_ms,
        })
    }

    /// Completes once, when the last answer has come.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(delivering) = &mut self.delivering {
            std::task::ready!(delivering.poll_unpin(cx));
            self.delivering = None;
        }
        if std::mem::replace(&mut self.is_known_over, true) { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Returns whether no answer will come any more.
    pub(super) fn is_over(&self) -> bool {
        self.delivering.is_none()
    }

    /// Takes the answers that have come, by the places of the messages. The breakers see them as well.
    pub(super) fn take(&mut self, route: &SinkRoute) -> Answered {
        let answered = self.answers.take();
        if !answered.is_empty() {
            self.observe(route, &answered);
        }
        answered
    }

    /// Returns the element of the message at this place.
    pub(super) fn element(&self, at: usize) -> usize {
        self.elements.get(at).copied().unwrap_or(at)
    }

    /// Takes its place at its destination.
    pub(super) fn leaves(&mut self, at: usize) -> Option<Admitted> {
        self.passes.get_mut(at).and_then(Option::take)
    }

    /// Returns the time at which it was handed over, in Redis ms.
    pub(super) fn sent_ms(&self) -> i64 {
        self.now_ms
    }

    /// Returns the destination of the message at this place.
    pub(super) fn destination(&self, at: usize) -> &Destination {
        &self.destinations[at]
    }

    fn observe(&self, route: &SinkRoute, answered: &Answered) {
        let handle = &route.handle;
        let target = &*route.spec.target;
        let took = self.sent.elapsed();
        let metrics = handle.metrics();
        let at_ms = self.now_ms.saturating_add(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
        for _ in &answered.confirmed {
            metrics.answered(&Ok(()), took);
        }
        metrics.duplicates_avoided(answered.known);
        // Meanwhile some parts of it may fail, and what is confirmed is confirmed for its own part.
        let one = self.one.filter(|_| !handle.has_parts(self.destination(0)));
        match (one, answered.confirmed.is_empty()) {
            (_, true) => {}
            (Some(lane), false) => handle.confirmed_at(Some(lane), at_ms),
            (None, false) => {
                let lanes = answered.confirmed.iter().map(|at| handle.lane(self.destination(*at)));
                let lanes: HashSet<DestinationKey> = lanes.collect();
                lanes.into_iter().for_each(|lane| handle.confirmed_at(Some(lane), at_ms));
            }
        }
        // It says something about us, nothing about the sink.
        for (at, failure) in answered.failed.iter().filter(|(_, failure)| !failure.is_stale()) {
            let outcome = Err(failure.clone());
            metrics.answered(&outcome, took);
            handle.failed(self.destination(*at), target, failure);
        }
    }
}
