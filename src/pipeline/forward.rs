//! Moves dead letters on to the sink that `dead_letter` names. A letter stays in the stream until that sink has confirmed
//! it (R1), so whatever ends in between leaves it there, and it is sent again.
//!
//! One daemon at a time does this for a queue, under a lease; two would send each letter twice. What the sink refuses for
//! good (a letter too large for it) stays in the stream and does not stand in the way of the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::circuit::Allow;
use super::queue::{Onward, Queue};
use crate::clock::Instant;
use crate::decode::Payload;
use crate::link::Conn;
use crate::message::{Class, Failure, MessageId, Outbound};
use crate::route::{self, ElementInfo};
use crate::source::redisson::{DeadLetter, Order, SourceError};

/// Time between two looks at a stream that nobody announced anything for: another daemon may have stored a letter.
const LOOK: Duration = Duration::from_secs(5);
/// Letters that are at the sink at once.
const PAGE: usize = 100;
/// First and longest wait after a failure.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long a letter that was refused for good is left alone.
const REFUSED: Duration = Duration::from_secs(600);
/// Most refused letters that are remembered; more are tried again early.
const REMEMBERED: usize = 10_000;

/// Moves the letters of a queue on until the process stops.
pub async fn run(queue: Arc<Queue>) {
    let Some(onward) = &queue.dead_letter_to else { return };
    let mut forwarder = Forwarder { queue: &queue, onward, refused: HashMap::new(), failures: 0 };
    let stopping = &queue.process.stopping;
    loop {
        let conn = tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            conn = queue.process.link.ready() => conn,
        };
        // Order: what a sink has confirmed is removed, even if the drain's time is up. What is given up in the middle
        // stays in the stream.
        let ended = tokio::select! {
            biased;
            ended = forwarder.round(&conn) => ended,
            () = queue.process.abandon.cancelled() => break,
        };
        let wait = match ended {
            Ended::Empty => {
                forwarder.failures = 0;
                LOOK
            }
            Ended::Failed => {
                forwarder.failures = forwarder.failures.saturating_add(1);
                WAIT.0.saturating_mul(2u32.saturating_pow(forwarder.failures - 1)).min(WAIT.1)
            }
        };
        // Order: the end goes first. A knock that is left behind is kept by `Notify`.
        tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            () = queue.dead_letters.notified(), if ended == Ended::Empty => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    if let Some(conn) = queue.process.link.current() {
        // Another daemon need not wait for the lease to end; if this fails, it does.
        let give_back = queue.source.forwarded(&conn, Duration::ZERO, &[]);
        drop(tokio::time::timeout(Duration::from_millis(500), give_back).await);
    }
}

/// How a look at the stream ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Nothing is left that could be moved on now, or another daemon does it.
    Empty,
    /// The sink or Redis does not take part; later.
    Failed,
}

struct Forwarder<'a> {
    queue: &'a Queue,
    onward: &'a Onward,
    /// Letters that the sink refused for good, and when to try them again.
    refused: HashMap<String, Instant>,
    failures: u32,
}

impl Forwarder<'_> {
    /// Twice what a page takes at most.
    fn lease(&self) -> Duration {
        self.onward.outlet.longest().saturating_mul(2).max(Duration::from_secs(30))
    }

    async fn round(&mut self, conn: &Conn) -> Ended {
        match self.pages(conn).await {
            Ok(ended) => ended,
            // Nothing is lost by a lost answer: the letters stay, or they are gone because they were confirmed.
            Err(SourceError::Link(_)) => Ended::Failed,
            Err(problem) => {
                self.queue.events.dead_letter_stays("", &problem.to_string());
                Ended::Failed
            }
        }
    }

    async fn pages(&mut self, conn: &Conn) -> Result<Ended, SourceError> {
        let now = Instant::now();
        self.refused.retain(|_, until| *until > now);
        let mut letters = self.queue.source.dead_letters(conn, Order::Oldest).await?;
        let mut mine = false;
        loop {
            let mut page = letters.next(conn, PAGE).await?;
            if page.is_empty() {
                return Ok(Ended::Empty);
            }
            page.retain(|letter| !self.refused.contains_key(&letter.stream_id));
            if page.is_empty() {
                continue;
            }
            if self.queue.process.stopping.is_cancelled() {
                return Ok(Ended::Failed);
            }
            mine = mine || self.queue.source.forwarded(conn, self.lease(), &[]).await?;
            if !mine {
                return Ok(Ended::Empty);
            }
            let (confirmed, all_well) = self.deliver(page).await;
            mine = self.queue.source.forwarded(conn, self.lease(), &confirmed).await?;
            if !all_well {
                return Ok(Ended::Failed);
            }
        }
    }

    /// Hands a page to the sink; answers which letters it confirmed, and whether it is worth going on.
    async fn deliver(&mut self, page: Vec<DeadLetter>) -> (Vec<String>, bool) {
        let send_before = Instant::now().after(self.lease() / 2);
        // A sink that is down is asked with one letter.
        let most = match self.onward.outlet.allows() {
            Allow::Free => page.len(),
            Allow::Probe if self.onward.outlet.start_probe() => 1,
            _ => return (Vec::new(), false),
        };
        let attempts = page.into_iter().take(most).map(async |letter| {
            let outcome = match self.message(&letter, send_before) {
                Ok(message) => self.onward.outlet.deliver(message).await,
                Err(failure) => Err(failure),
            };
            (letter.stream_id, outcome)
        });
        let (mut confirmed, mut all_well) = (Vec::new(), true);
        let metrics = self.queue.events.metrics();
        for (stream_id, outcome) in join_all(attempts).await {
            metrics.dead_letter_forwarded(&self.onward.spec.sink, &outcome);
            match outcome {
                Ok(()) => confirmed.push(stream_id),
                Err(failure) if failure.class == Class::MessagePermanent => {
                    self.queue.events.dead_letter_stays(&stream_id, &failure.to_string());
                    if self.refused.len() < REMEMBERED {
                        self.refused.insert(stream_id, Instant::now().after(REFUSED));
                    }
                }
                Err(failure) => {
                    if failure.class == Class::Ambiguous {
                        metrics.possible_duplicates(1);
                    }
                    self.queue.events.dead_letter_stays(&stream_id, &failure.to_string());
                    all_well = false;
                }
            }
        }
        (confirmed, all_well)
    }

    fn message(&self, letter: &DeadLetter, send_before: Instant) -> Result<Outbound, Failure> {
        let spec = &self.onward.spec;
        let unreadable = |text: String| Failure::new(Class::MessagePermanent, "not_a_letter", text);
        let body = letter.payload().map_err(|problem| unreadable(problem.to_string()))?;
        let id: MessageId = letter.text("id").parse().map_err(|_| unreadable("the letter has no id".to_owned()))?;
        let attempt = letter.number("attempts").and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let due_ms = letter.number("due_ms");
        let element = ElementInfo { id, queue: &self.queue.spec.id, due_ms, attempt };
        let routed = route::route(spec, &element, &Payload::opaque(body))
            .map_err(|error| Failure::new(Class::MessagePermanent, error.code(), error.to_string()))?;
        Ok(Outbound {
            id,
            queue: self.queue.spec.id.clone(),
            due_ms,
            attempt,
            now_ms: self.queue.process.clock.now_ms(),
            send_before,
            destination: routed.destination,
            body: routed.body,
            headers: causes(letter).chain(routed.headers).collect(),
        })
    }
}

/// Fields of a letter that say why it died, with the headers that carry them.
const CAUSES: [(&str, &str); 13] = [
    ("reason", "delaybridge-dead-reason"),
    ("class", "delaybridge-dead-class"),
    ("code", "delaybridge-dead-code"),
    ("message", "delaybridge-dead-message"),
    ("sink", "delaybridge-dead-sink"),
    ("destination", "delaybridge-dead-destination"),
    ("confirmed", "delaybridge-dead-confirmed"),
    ("died_ms", "delaybridge-dead-at-ms"),
    ("origin", "delaybridge-dead-origin"),
    ("codec", "delaybridge-dead-codec"),
    ("expiries", "delaybridge-dead-expiries"),
    ("first_attempt_ms", "delaybridge-dead-first-attempt-ms"),
    ("last_attempt_ms", "delaybridge-dead-last-attempt-ms"),
];

fn causes(letter: &DeadLetter) -> impl Iterator<Item = (Arc<str>, String)> {
    let known = CAUSES.iter().map(|(field, header)| (*header, letter.text(field)));
    known.filter(|(_, value)| !value.is_empty()).map(|(header, value)| (header.into(), value.to_owned()))
}
