//! Moves dead letters on to the sink that `dead_letter` names. A letter stays in the stream until that sink has confirmed
//! it (R1), so whatever ends in between leaves it there, and it is sent again.
//!
//! One daemon at a time does this for a queue, under a lease; two would send each letter twice. What the sink refuses for
//! good (a letter too large for it) stays in the stream and does not block the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use crate::deliver::destinations::DestinationKey;
use crate::deliver::outbound::count_left_out;
use crate::limits::circuit::Allow;
use crate::queue::{DeadLetterTarget, Queue};
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::carried::Carried;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{About, Class, Failure, Outcome};
use delaybridge_core::template::ElementInfo;
use delaybridge_ledger::{CAUSES, DeadLetter, DeadPages, Forwarder as Owner, Order, StoreError};
use delaybridge_link::History;
use delaybridge_model::{LeftOut, Payload};
use delaybridge_sink::Outbound;
use delaybridge_sink::header_rules::EACH;

/// Time between two reads of a stream without an announcement: another daemon may have stored a letter.
const LOOK: Duration = Duration::from_secs(5);
/// Letters that are at the sink at once.
const PAGE: usize = 100;
/// Waits after failures. Only one daemon forwards a queue's dead letters, so there is no jitter.
const WAIT: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30), Jitter::None);
/// The time for which a letter that was refused for good is left alone.
const REFUSED: Duration = Duration::from_secs(600);
/// Pause of a letter that failed otherwise, so that it does not block the letters after it.
const FAILED: Duration = Duration::from_secs(10);
/// Most letters that are left alone at a time; more are tried again early.
const REMEMBERED: usize = 10_000;
/// Pages in a row of which the sink took nothing, before it is left alone for a while.
const STRIKES: u32 = 2;

/// Moves the letters of a queue on until it stops.
pub async fn run(queue: Arc<Queue>) {
    let Some(target) = &queue.dead_letter_to else { return };
    let at_sink = AtomicU64::new(0);
    let mut forwarder = LetterForwarder {
        queue: &queue,
        target,
        confirmed: Vec::new(),
        history: None,
        aside: HashMap::new(),
        bare: HashSet::new(),
        count: 0,
        at_sink: &at_sink,
        failures: 0,
        only: None,
    };
    let stopping = &queue.stopping;
    loop {
        // Order: the end goes first.
        tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            () = queue.home().ready() => {}
        }
        // Order: what a sink has confirmed is removed, even if the drain's time is up. What is given up in the middle
        // stays in the stream.
        let ended = tokio::select! {
            biased;
            ended = forwarder.round() => ended,
            () = queue.abandon.cancelled() => {
                queue.events.metrics().possible_duplicates(at_sink.load(Ordering::Relaxed));
                break;
            }
        };
        let wait = forwarder.pause(ended);
        // Order: the end goes first. A knock that is left behind is kept by `Notify`.
        tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            () = queue.dead_letters.notified(), if ended == PassEnd::Idle => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    forwarder.forget_if_changed();
    // Another daemon need not wait for the lease to end; if this fails, it does.
    let give_back = queue.store.forwarded(Duration::ZERO, &forwarder.confirmed);
    let _ = tokio::time::timeout(Duration::from_millis(500), give_back).await;
}

/// The end of a look at the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PassEnd {
    /// Nothing is left to forward now, or another daemon does it.
    Idle,
    /// There is more to do.
    Again,
    /// The sink or Redis does not take part; later.
    Failed,
}

/// Name and value of a header.
type LetterHeader = (Arc<str>, String);

/// A letter as it is sent.
struct LetterMessage {
    message: Outbound,
    /// Headers of its own message that the sink does not get.
    left_out: LeftOut,
    /// Whether it has others of them.
    has_headers: bool,
}

struct LetterForwarder<'a> {
    queue: &'a Queue,
    target: &'a DeadLetterTarget,
    /// Letters that the sink has, while Redis has not answered that they are out of the stream: they are not sent again.
    confirmed: Vec<String>,
    /// The history of the server from which they were read: in another one their ids may be those of other letters.
    history: Option<History>,
    /// Letters that failed, and when to try them again.
    aside: HashMap<String, Instant>,
    /// Letters that the sink refused with the headers of their messages, and gets without.
    bare: HashSet<String>,
    /// The number of letters at the last look.
    count: usize,
    /// Letters at the sink without an answer.
    at_sink: &'a AtomicU64,
    failures: u32,
    /// The one destination of all letters, if there is one and a letter was routed.
    only: Option<DestinationKey>,
}

impl LetterForwarder<'_> {
    fn allows(&self) -> Allow {
        self.target.handle.allows(self.only)
    }

    fn pause(&mut self, ended: PassEnd) -> Duration {
        self.failures = if ended == PassEnd::Failed { self.failures.saturating_add(1) } else { 0 };
        match ended {
            PassEnd::Idle => LOOK,
            PassEnd::Again => Duration::ZERO,
            PassEnd::Failed => WAIT.bound(self.failures - 1),
        }
    }

    /// Returns the lease of the route: four times what a page takes at most, because letters are sent only in its first
    /// half.
    fn lease(&self) -> Duration {
        self.target.handle.longest().saturating_mul(4).max(Duration::from_secs(60))
    }

    async fn round(&mut self) -> PassEnd {
        match self.pages().await {
            Ok(ended) => ended,
            // Nothing is lost by a lost answer: the letters stay, or they are gone because they were confirmed.
            Err(problem) => {
                if let StoreError::Reply(_) = problem {
                    self.queue.events.dead_letter_stays("", &problem.to_string());
                }
                PassEnd::Failed
            }
        }
    }

    async fn pages(&mut self) -> Result<PassEnd, StoreError> {
        let now = Instant::now();
        self.aside.retain(|_, until| *until > now);
        let count = self.queue.store.dead_count().await?;
        let changed = std::mem::replace(&mut self.count, count) != count;
        // What was put aside is not read again and again.
        if count == 0 || !changed && count <= self.aside.len() {
            self.confirmed.clear();
            return Ok(PassEnd::Idle);
        }
        // The lease before the letters: a letter read under another's lease may have been forwarded when it is sent.
        let mut taken_over = false;
        let Some(mut send_before) = self.renew(&mut taken_over).await? else { return Ok(PassEnd::Idle) };
        self.queue.learn_pauses().await;
        let store = &self.queue.store;
        let newest = store.dead_range(Order::Newest, "+", "-", 1).await?.pop().map(|letter| letter.stream_id);
        let mut pages = DeadPages::new(Order::Oldest, newest);
        let mut strikes = 0;
        loop {
            let Some((order, from, until, count)) = pages.next(PAGE) else { return Ok(PassEnd::Idle) };
            self.history = self.queue.home().history();
            let mut page = store.dead_range(order, &from, &until, count).await?;
            pages.read(&page);
            if page.is_empty() {
                return Ok(PassEnd::Idle);
            }
            page.retain(|letter| !self.aside.contains_key(&letter.stream_id));
            if page.is_empty() {
                continue;
            }
            if self.queue.stopping.is_cancelled() {
                return Ok(PassEnd::Failed);
            }
            // A paused queue forwards its letters, a paused sink gets none.
            if self.queue.has_paused(&self.target.spec.sink) {
                return Ok(PassEnd::Idle);
            }
            if std::mem::take(&mut taken_over) {
                // The former lease holder died or stalled with letters at the sink.
                self.queue.events.metrics().possible_duplicates(page.len() as u64);
            }
            let all = page.len();
            let sent = self.deliver(page, send_before).await;
            let arrived = self.confirmed.len();
            let Some(next) = self.renew(&mut taken_over).await? else { return Ok(PassEnd::Idle) };
            send_before = next;
            strikes = if arrived > 0 { 0 } else { strikes + 1 };
            if strikes >= STRIKES || self.allows() != Allow::Free {
                return Ok(PassEnd::Failed);
            }
            if sent < all {
                return Ok(PassEnd::Again);
            }
        }
    }

    /// Forgets what is confirmed if the server has another history than when it was read. Its letters are there again, or others
    /// under the same ids, and are forwarded once more.
    fn forget_if_changed(&mut self) {
        if !self.confirmed.is_empty() && self.history != self.queue.home().history() {
            self.queue.events.metrics().possible_duplicates(self.confirmed.len() as u64);
            self.confirmed.clear();
        }
    }

    /// Removes what is confirmed and renews the lease; until when letters may be sent under it, `None` if another daemon
    /// has it.
    async fn renew(&mut self, taken_over: &mut bool) -> Result<Option<Instant>, StoreError> {
        self.forget_if_changed();
        let before = Instant::now();
        let owner = self.queue.store.forwarded(self.lease(), &self.confirmed).await?;
        self.confirmed.clear();
        *taken_over |= owner == Owner::TakenOver;
        Ok((owner != Owner::Another).then(|| before.after(self.lease() / 2)))
    }

    /// Hands letters to the sink, as many as its rate and its breaker allow; answers how many have been dealt with.
    async fn deliver(&mut self, page: Vec<DeadLetter>, send_before: Instant) -> usize {
        let mut messages = Vec::with_capacity(page.len());
        let mut dealt_with = 0;
        for letter in page {
            match self.message(&letter, send_before) {
                Ok(message) => messages.push((letter.stream_id, message)),
                Err(failure) => {
                    dealt_with += 1;
                    self.answered(letter.stream_id, Err(failure), false);
                }
            }
        }
        if messages.is_empty() {
            return dealt_with;
        }
        let handle = &self.target.handle;
        let granted = handle.grant(u32::try_from(messages.len()).unwrap_or(u32::MAX)).await;
        messages.truncate(granted as usize);
        // A sink that is down is asked with one letter. The probe is taken last, when there is a letter that will ask.
        let varies = self.target.spec.target.varies(About::Route);
        self.only = messages
            .first()
            .filter(|_| !varies)
            .map(|(_, letter)| DestinationKey::of(&letter.message.destination, None));
        let probe = match self.allows() {
            Allow::Free => None,
            Allow::Probe => match handle.start_probe(self.only) {
                Some(started) => Some(started),
                None => return dealt_with,
            },
            Allow::No { .. } => return dealt_with,
        };
        if probe.is_some() {
            messages.truncate(1);
        }
        self.at_sink.store(messages.len() as u64, Ordering::Relaxed);
        let deliveries = messages.into_iter().map(async |(stream_id, letter)| {
            let LetterMessage { message, left_out, has_headers } = letter;
            let outcome = handle.deliver(message, &*self.target.spec.target).await;
            self.at_sink.fetch_sub(1, Ordering::Relaxed);
            if outcome.is_ok() {
                // Once for each letter, however often it was sent.
                count_left_out(self.queue, &self.target.spec.sink, left_out);
            }
            (stream_id, outcome, has_headers)
        });
        let outcomes = join_all(deliveries).await;
        let stale = outcomes.iter().any(|(_, outcome, _)| matches!(outcome, Err(failure) if failure.is_stale()));
        if let Some(started) = probe.filter(|_| stale) {
            // Not asked after all, and no breaker has seen it.
            handle.abandon_probe(started);
        }
        dealt_with += outcomes.len();
        for (stream_id, outcome, has_headers) in outcomes {
            self.answered(stream_id, outcome, has_headers);
        }
        dealt_with
    }

    /// Records the sink's answer about a letter. `has_headers`: the letter was sent with headers of its message.
    fn answered(&mut self, stream_id: String, outcome: Outcome, has_headers: bool) {
        let metrics = self.queue.events.metrics();
        metrics.dead_letter_forwarded(&self.target.spec.sink, &outcome);
        let failure = match outcome {
            Ok(()) => {
                self.bare.remove(&stream_id);
                return self.confirmed.push(stream_id);
            }
            Err(failure) => failure,
        };
        if failure.class == Class::Ambiguous {
            metrics.possible_duplicates(1);
        }
        self.queue.events.dead_letter_stays(&stream_id, &failure.to_string());
        let alone = match failure.class {
            // Headers that a sink took with the message may be too many with the causes of a letter: it would stay for ever.
            Class::MessagePermanent if has_headers && self.bare.len() < REMEMBERED => {
                self.bare.insert(stream_id.clone());
                FAILED
            }
            Class::MessagePermanent => REFUSED,
            // The sink is down: it is not the letter's fault.
            _ if self.allows() != Allow::Free => return,
            _ => FAILED,
        };
        if self.aside.len() < REMEMBERED {
            self.aside.insert(stream_id, Instant::now().after(alone));
        }
    }

    fn message(&self, letter: &DeadLetter, send_before: Instant) -> Result<LetterMessage, Failure> {
        let spec = &self.target.spec;
        let unreadable = |text: String| Failure::new(Class::MessagePermanent, "not_a_letter", text);
        let mut carried = None;
        let open = |element: &_| {
            carried = self.queue.store.carried(element);
            self.queue.store.open_element(element).1.ok()
        };
        let body = letter.payload(open).map_err(|problem| unreadable(problem.to_string()))?;
        let id = letter.identity().ok_or_else(|| unreadable("the letter has no id".to_owned()))?;
        let attempt = letter.number("attempts").and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let due_ms = letter.number("due_ms");
        let queue = &self.queue.spec.id;
        let of_message = carried.as_deref();
        let element = ElementInfo { id: &id, queue, due_ms, attempt, topic: None, carried: of_message };
        let mut routed = spec
            .fill(&element, &Payload::opaque(body))
            .map_err(|error| Failure::new(Class::MessagePermanent, error.code(), error.to_string()))?;
        let carried = carried.as_ref().map(|carried| kept(routed.carried(carried)));
        let room = if self.bare.contains(&letter.stream_id) { 0 } else { spec.target.header_rules().room };
        let mut left_out = routed.left_out;
        let (headers, carried, has_headers) =
            within(room, causes(letter), (routed.message.headers, carried), &mut left_out);
        let message = Outbound {
            id,
            queue: self.queue.spec.id.clone(),
            due_ms,
            attempt,
            now_ms: self.queue.home().now_ms(),
            send_before,
            destination: routed.destination,
            body: routed.message.body,
            headers,
            carried,
            mark: None,
        };
        Ok(LetterMessage { message, left_out, has_headers })
    }
}

/// Selects the headers of a letter: its causes and those of the route, then those of its message as far as there is
/// room for them. Says whether any of these is there.
fn within(
    mut room: usize,
    causes: impl Iterator<Item = LetterHeader>,
    (routed, carried): (Vec<LetterHeader>, Option<Arc<Carried>>),
    left_out: &mut LeftOut,
) -> (Vec<LetterHeader>, Option<Arc<Carried>>, bool) {
    let of_message: HashSet<(&str, &str)> = match &carried {
        Some(carried) => carried.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        None => HashSet::new(),
    };
    let (of_message, own): (Vec<_>, Vec<_>) =
        routed.into_iter().partition(|(name, value)| of_message.contains(&(&**name, value.as_str())));
    let size = |name: &str, value: usize| name.len() + value + EACH;
    let mut headers: Vec<_> = causes.chain(own).collect();
    room = room.saturating_sub(headers.iter().map(|(name, value)| size(name, value.len())).sum());
    let mut passed = 0;
    let mut passes = |name: &str, value: usize| {
        let fits = size(name, value) <= room;
        if fits {
            room -= size(name, value);
            passed += 1;
        } else {
            left_out.unfit += 1;
        }
        fits
    };
    headers.extend(of_message.into_iter().filter(|(name, value)| passes(name, value.len())));
    let carried = carried.map(|mut carried| {
        let others: Vec<_> = carried.others.iter().filter(|(name, value)| passes(name, value.len())).cloned().collect();
        if others.len() != carried.others.len() {
            Arc::make_mut(&mut carried).others = others;
        }
        carried
    });
    (headers, carried, passed > 0)
}

/// Returns the message without its time to live, as brokers take it from what they dead-letter: a letter is for a
/// person.
fn kept(mut carried: Arc<Carried>) -> Arc<Carried> {
    let is_expiry = |(name, _): &(String, String)| name == EXPIRATION;
    if carried.properties.iter().any(is_expiry) {
        Arc::make_mut(&mut carried).properties.retain(|property| !is_expiry(property));
    }
    carried
}

/// The property of AMQP with the time to live.
const EXPIRATION: &str = "expiration";

fn causes(letter: &DeadLetter) -> impl Iterator<Item = LetterHeader> {
    let known = CAUSES.iter().map(|(field, header)| (*header, letter.text(field)));
    known.filter(|(_, value)| !value.is_empty()).map(|(header, value)| (header.into(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_message_have_the_room_that_the_causes_leave() {
        let header = |name: &str, length: usize| (name.to_owned(), "x".repeat(length));
        let carried = Arc::new(Carried {
            headers: vec![header("a", 50), header("b", 200), header("d", 30)],
            others: [40, 300].map(|length| ("o".to_owned(), vec![0; length].into())).into(),
            ..Carried::default()
        });
        let of = |room: usize| {
            let mut left_out = LeftOut::default();
            let shared = |(name, value): (String, String)| (Arc::from(name), value);
            let causes = [shared(header("c", 100))].into_iter();
            let routed = [header("r", 10)].into_iter().chain(carried.headers.clone()).map(shared).collect();
            let (headers, carried, any) = within(room, causes, (routed, Some(carried.clone())), &mut left_out);
            let names: Vec<_> = headers.iter().map(|(name, _)| name.to_string()).collect();
            (names.concat(), carried.unwrap().others.len(), left_out.unfit, any)
        };
        let each = 1 + EACH;
        let all = 100 + 10 + 50 + 200 + 30 + 40 + 300 + 7 * each;
        assert_eq!(of(all), ("crabd".to_owned(), 2, 0, true));
        assert_eq!(of(all - 1), ("crabd".to_owned(), 1, 1, true));
        assert_eq!(of(100 + 10 + 50 + 30 + 40 + 5 * each), ("crad".to_owned(), 1, 2, true));
        // The causes and the headers of the route go, whatever else does not.
        assert_eq!(of(0), ("cr".to_owned(), 0, 5, false));
    }

    #[test]
    fn a_letter_does_not_expire() {
        let property = |name: &str| (name.to_owned(), "1".to_owned());
        let of = |properties| Arc::new(Carried { properties, ..Carried::default() });
        let whole = of(vec![property("priority"), property("expiration"), property("type")]);
        assert_eq!(kept(whole), of(vec![property("priority"), property("type")]));
    }
}
