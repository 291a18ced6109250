//! `mode: shadow`: reads due elements and reports the outcome that delivery would have. Writes nothing, to Redis or a sink.
//!
//! Elements are looked at shortly before they fall due, because a live Redisson client takes them at that moment. One that
//! is offered with a shorter delay than the look ahead may be gone before it is seen.
//!
//! `QueueSpec::preview` says which delivery each element would get. Not even the sweep writes for such a queue. A job pool
//! has a shadow for each of its sorted sets.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::deliver::understand;
use crate::queue::Queue;
use crate::registry::QueueRegistry;
use crate::settle::verdict::Verdict;
use delaybridge_core::carried::Carried;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{About, Identity, lateness};
use delaybridge_core::template::ElementInfo;
use delaybridge_ledger::claims::Element;
use delaybridge_ledger::{NoPayload, StoreError};
use delaybridge_model::{Misfit, Mode, OnExpired, QueueSpec, RouteSpec, SKIPPED};
use delaybridge_sink::Destination;
use delaybridge_telemetry::labels::Fate;
use delaybridge_telemetry::status::Heartbeat;

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(250);
/// The time before its due time at which an element is looked at.
const AHEAD_MS: i64 = 1_000;
/// The time that a look goes back, for what was offered for a moment that had been looked at.
const BACK_MS: i64 = 2_000;
/// Elements of one queue in one read; the next read continues.
const MOST: usize = 5_000;
/// Time between two lines about what was seen.
const SUMMARY: Duration = Duration::from_secs(60);

/// Reads until the process stops.
pub async fn run(registry: Arc<QueueRegistry>, heartbeat: Heartbeat) {
    let process = registry.process().clone();
    let each =
        |queue: Arc<Queue>| (0..queue.store.schedules()).map(move |schedule| Shadow::new(queue.clone(), schedule));
    let mut shadows = Vec::<Shadow>::new();
    let mut seen = None;
    loop {
        let changes = registry.changes();
        if seen.replace(changes) != Some(changes) {
            let found = registry.find(|queue| queue.spec.mode == Mode::Shadow).into_iter();
            let queues: Vec<Arc<Queue>> = found.map(|active| active.queue.clone()).collect();
            shadows.retain(|shadow| queues.iter().any(|queue| Arc::ptr_eq(queue, &shadow.queue)));
            let is_new = |queue: &Arc<Queue>| shadows.iter().all(|shadow| !Arc::ptr_eq(queue, &shadow.queue));
            let new: Vec<_> = queues.into_iter().filter(is_new).collect();
            shadows.extend(new.into_iter().flat_map(each));
        }
        // Order: the end goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        heartbeat.beat();
        for shadow in &mut shadows {
            match shadow.look().await {
                Ok(()) => shadow.queue.events.resumed(),
                // The connection's state is reported elsewhere.
                Err(StoreError::NotSent { .. } | StoreError::Unknown { .. } | StoreError::Malformed(_)) => {}
                Err(error) => shadow.queue.events.look_failed(&error.to_string()),
            }
            shadow.sum_up();
        }
    }
}

/// The looks at one schedule of a queue.
struct Shadow {
    queue: Arc<Queue>,
    /// The number of the schedule among those of the queue.
    schedule: usize,
    /// Everything that falls due before this was shown, in Redis ms.
    shown_until: i64,
    /// Score and hash of what was shown from there on.
    shown: HashSet<(i64, u64)>,
    /// The place where the last look was cut short: how many elements of the millisecond `shown_until` were behind it. Counted from
    /// there, because clients take those before it.
    rest: Option<usize>,
    delivered: u64,
    failed: u64,
    summed_up: Instant,
}

impl Shadow {
    fn new(queue: Arc<Queue>, schedule: usize) -> Self {
        let shown_until = i64::MIN / 2;
        let summed_up = Instant::now();
        Shadow { queue, schedule, shown_until, shown: HashSet::new(), rest: None, delivered: 0, failed: 0, summed_up }
    }

    async fn look(&mut self) -> Result<(), StoreError> {
        let queue = self.queue.clone();
        let schedule = self.schedule;
        let began_at = self.shown_until;
        let resumed = self.rest;
        let mut first = match resumed {
            Some(rest) => queue.store.due_before(schedule, began_at + 1).await?.saturating_sub(rest),
            None => queue.store.due_before(schedule, began_at).await?,
        };
        let mut seen = 0;
        let mut last = began_at;
        let mut fresh = HashSet::new();
        loop {
            let page = queue.store.scheduled(schedule, first).await?;
            let horizon = page.now_ms.saturating_add(AHEAD_MS);
            let read = page.elements.len();
            let mut due = page.elements;
            due.truncate(due.iter().take_while(|element| element.score_ms <= horizon).count());
            let count = due.len();
            due.retain(|element| {
                let due_ms = element.score_ms;
                last = last.max(due_ms);
                let key = (due_ms, xxhash_rust::xxh3::xxh3_64(&element.member));
                fresh.insert(key) && !self.shown.contains(&key)
            });
            self.show_all(due, page.now_ms).await?;
            (first, seen) = (first + count, seen + count);
            let whole = count < read || read == 0;
            if whole || seen >= MOST {
                // Where it was cut short, the next look continues there. A millisecond that took several looks is not looked
                // at again: not all of it is known any more.
                let until = match (whole, resumed) {
                    (true, None) => page.now_ms.saturating_sub(BACK_MS),
                    (true, Some(_)) => page.now_ms.saturating_sub(BACK_MS).max(began_at + 1),
                    (false, _) => last,
                };
                self.rest = if whole {
                    None
                } else {
                    Some(queue.store.due_before(schedule, last + 1).await?.saturating_sub(first))
                };
                if !whole && last == began_at {
                    self.shown.clear();
                }
                self.shown_until = self.shown_until.max(until);
                self.shown.extend(fresh);
                self.shown.retain(|(due_ms, _)| *due_ms >= self.shown_until);
                return Ok(());
            }
        }
    }

    /// Shows these elements, with the bodies that are elsewhere: page by page, as there is room for them.
    async fn show_all(&mut self, mut elements: Vec<Element>, now_ms: i64) -> Result<(), StoreError> {
        while !elements.is_empty() {
            self.queue.store.read_bodies(&mut elements).await?;
            // At least one was read.
            elements.retain(|element| {
                let (id, payload) = self.queue.store.open_element(element);
                let waits = payload == Err(NoPayload::NoRoom);
                if !waits {
                    self.show(element, &id, payload, now_ms);
                }
                waits
            });
        }
        Ok(())
    }

    fn show(&mut self, element: &Element, id: &Identity, payload: Result<Bytes, NoPayload>, now_ms: i64) {
        let queue = &self.queue;
        let due_ms = element.score_ms;
        let events = &queue.events;
        // Where none was ever met, the configuration may look for them in the wrong place.
        let buries = queue.spec.source.buries_without_body() || !queue.store.has_met_bodies();
        match payload {
            Err(NoPayload::Missing) if !buries => {
                return events.would_pass(id, due_ms, Fate::Gone, "its job was deleted");
            }
            Err(NoPayload::NotDue(at_ms)) => {
                return events.would_pass(id, due_ms, Fate::NotDue, &format!("its record says {at_ms}"));
            }
            _ => {}
        }
        match fate(&queue.spec, id, payload, (queue.store.topic(element), queue.store.carried(element)), due_ms, now_ms)
        {
            Ok(destinations) => {
                self.delivered += 1;
                events.would_deliver(id, due_ms, element.weight(), &destinations.join(", "));
            }
            Err((fate, reason)) => {
                self.failed += 1;
                events.would_fail(id, due_ms, fate, &reason);
            }
        }
    }

    fn sum_up(&mut self) {
        if self.summed_up.elapsed() < SUMMARY || self.delivered + self.failed == 0 {
            return;
        }
        self.queue.events.shadow_summary(self.delivered, self.failed, self.summed_up.elapsed());
        (self.delivered, self.failed, self.summed_up) = (0, 0, Instant::now());
    }
}

/// Decides what would become of an element: where it would go (`sink: destination`), or what else, and why. The rules
/// are those of a [delivery](crate::deliver).
fn fate(
    spec: &QueueSpec,
    id: &Identity,
    payload: Result<Bytes, NoPayload>,
    (topic, carried): (Option<Arc<str>>, Option<Arc<Carried>>),
    due_ms: i64,
    now_ms: i64,
) -> Result<Vec<String>, (Fate, String)> {
    let payload = payload.map_err(|junk| (Fate::DeadLetter, junk.to_string()))?;
    if let (Some(limit), OnExpired::DeadLetter, Some(late)) =
        (spec.max_lateness, spec.on_expired, lateness(due_ms, now_ms))
        && late > limit
    {
        return Err((Fate::DeadLetter, format!("{} ms late, more than max_lateness", late.as_millis())));
    }
    match understand::absurd(spec, due_ms) {
        Some(Verdict::Dead(_)) => return Err((Fate::DeadLetter, ABSURD.to_owned())),
        Some(_) => return Err((Fate::Hold, ABSURD.to_owned())),
        None => {}
    }
    let info = ElementInfo {
        id,
        queue: &spec.id,
        due_ms: Some(due_ms),
        attempt: 1,
        topic: topic.as_deref(),
        carried: carried.as_deref(),
    };
    match spec.preview(&info, &payload) {
        Ok(destinations) => Ok(destinations.into_iter().map(|(to, destination)| describe(to, &destination)).collect()),
        Err(Misfit::DeadLetter(reason)) => Err((Fate::DeadLetter, reason)),
        Err(Misfit::Hold(reason)) => Err((Fate::Hold, reason)),
        Err(Misfit::Skipped) => Err((Fate::Skipped, SKIPPED.to_owned())),
    }
}

/// Why an element with an absurd due time would not be delivered.
const ABSURD: &str = "its due time is an overflow, or in seconds (`on_absurd_due`)";

/// Returns a destination for the log: one that the payload chose has words of the payload in it.
fn describe(to: &RouteSpec, destination: &Destination) -> String {
    if to.target.is_chosen_by_payload(About::Route) {
        format!("{}: chosen by the payload", to.sink)
    } else {
        format!("{}: {destination}", to.sink)
    }
}

#[cfg(test)]
mod tests {
    use delaybridge_core::template::Template;
    use delaybridge_link::Side;
    use delaybridge_model::{Mode, OnDecodeError, OnExpired};
    use delaybridge_sink_redis::KeyTarget;
    use redisson_codecs::Codec;

    use super::*;
    use crate::tests;
    use crate::tests::world::World;

    /// Returns a queue to a list that the payload names, and to standard output.
    fn queue() -> QueueSpec {
        let fix = tests::route("fix");
        let list = Template::compile("l:${payload.a:-none}").expect("a template");
        let out = RouteSpec {
            sink: "out".into(),
            target: Arc::new(KeyTarget::list(list, Side::Right, false)),
            ..fix.clone()
        };
        QueueSpec {
            codec: Codec::Json.into(),
            mode: Mode::Shadow,
            on_expired: OnExpired::DeadLetter,
            to: vec![out, fix].into(),
            ..tests::spec(&[])
        }
    }

    /// A look ends after this many elements; the next one continues, also within one millisecond.
    #[tokio::test(start_paused = true)]
    async fn more_elements_of_one_millisecond_than_a_look_takes_are_all_shown_once() {
        let world = World::new();
        let queue = world.idle_queue().queue.clone();
        let ids = 2 * MOST as u64 + 1_234;
        world.offer_in(Duration::from_millis(500), 0..ids);
        world.offer_in(Duration::from_millis(501), ids..ids + 10);
        let mut shadow = Shadow::new(queue, 0);
        for looks in 1..=6 {
            shadow.look().await.unwrap();
            assert!(shadow.shown.len() <= 2 * MOST, "after {looks} looks {} are kept", shadow.shown.len());
        }
        assert_eq!((shadow.delivered, shadow.failed), (ids + 10, 0));
        // Offered for a moment that has been looked at.
        world.offer_in(Duration::from_millis(501), ids + 10..ids + 15);
        shadow.look().await.unwrap();
        assert_eq!(shadow.delivered, ids + 15);
    }

    #[test]
    fn the_fate_is_what_delivery_would_have_made_of_it() {
        let element = |payload: &str| Ok(Bytes::from(payload.to_owned()));
        let check = |queue: QueueSpec, element: Result<Bytes, NoPayload>, expected: Result<&str, Fate>| {
            let got = fate(
                &queue,
                &delaybridge_core::message::MessageId(*b"RANDOM8B").into(),
                element,
                (None, None),
                1_000,
                9_000,
            );
            assert_eq!(got.map(|all| all.join(", ")).map_err(|(fate, _)| fate), expected.map(str::to_owned));
        };
        check(queue(), element("{\"a\":\"x\"}"), Ok("out: chosen by the payload, fix: stdout"));
        check(queue(), element("{}"), Ok("out: chosen by the payload, fix: stdout"));
        check(queue(), element("oops"), Err(Fate::DeadLetter));
        check(QueueSpec { on_decode_error: OnDecodeError::Hold, ..queue() }, element("oops"), Err(Fate::Hold));
        check(
            QueueSpec { on_decode_error: OnDecodeError::ForwardRaw, ..queue() },
            element("oops"),
            Ok("out: chosen by the payload, fix: stdout"),
        );
        check(queue(), Err(NoPayload::Missing), Err(Fate::DeadLetter));
        check(
            QueueSpec { max_lateness: Some(Duration::from_secs(7)), ..queue() },
            element("{}"),
            Err(Fate::DeadLetter),
        );
        check(
            QueueSpec { max_lateness: Some(Duration::from_secs(9)), ..queue() },
            element("{}"),
            Ok("out: chosen by the payload, fix: stdout"),
        );
    }
}
