//! From facts to the explanation. Pure.

use serde::Deserialize;

use super::answer::{AtDaemon, ElementWhy, Obstacle, ObstacleKind, SeenAttempt, Whereabouts};
use super::facts::WhyFacts;
use super::remedies::remedies;
use crate::audit::OperatorChange;
use crate::element::Detail;
use crate::overview::{DestinationTrouble, SinkRow};
use crate::peek::PeekState;
use crate::plural::{clock, count, duration, number};
use delaybridge_core::clock::utc;

/// Destinations in trouble that are named one by one.
const DESTINATIONS: usize = 3;

pub(super) fn explain(facts: &WhyFacts<'_>) -> ElementWhy {
    let state = facts.whereabouts();
    let waits_for = facts.obstacles(state);
    let attempts_seen = facts.attempts();
    let detail = facts.detail;
    ElementWhy {
        queue: facts.queue.to_owned(),
        id: facts.id.to_owned(),
        now_ms: facts.now_ms,
        state,
        since_ms: facts.since(state),
        summary: facts.summary(state, &waits_for),
        next_attempt_ms: facts.next(state),
        attempts: detail.map_or(0, |detail| detail.attempts),
        max_attempts: facts.rules.max_attempts,
        events: facts.daemon.map(|daemon| daemon.events.clone()).unwrap_or_default(),
        remedies: remedies(facts, state, &waits_for),
        notes: facts.notes(state, attempts_seen.len()),
        waits_for,
        attempts_seen,
    }
}

impl WhyFacts<'_> {
    fn whereabouts(&self) -> Whereabouts {
        let Some(detail) = self.detail else { return Whereabouts::Gone };
        Whereabouts::of(detail.state, detail.due_ms, self.now_ms)
    }

    fn since(&self, state: Whereabouts) -> Option<i64> {
        let detail = self.detail?;
        match state {
            Whereabouts::Due => detail.due_ms,
            Whereabouts::Retry => detail.last_attempt_ms,
            Whereabouts::Dead => detail.died_ms,
            Whereabouts::Scheduled | Whereabouts::InFlight | Whereabouts::Ready | Whereabouts::Gone => None,
        }
    }

    fn next(&self, state: Whereabouts) -> Option<i64> {
        let detail = self.detail?;
        match state {
            Whereabouts::Scheduled | Whereabouts::Due => detail.due_ms,
            Whereabouts::Retry => detail.next_attempt_ms,
            Whereabouts::InFlight => detail.lease_ends_ms,
            Whereabouts::Ready | Whereabouts::Dead | Whereabouts::Gone => None,
        }
    }

    /// `5m`, from then until now or from now until then.
    fn gap(&self, ms: i64) -> String {
        duration(ms.abs_diff(self.now_ms))
    }

    fn summary(&self, state: Whereabouts, waits_for: &[Obstacle]) -> String {
        let none = Detail::default();
        let detail = self.detail.unwrap_or(&none);
        let due_ms = detail.due_ms.unwrap_or(self.now_ms);
        let own = [ObstacleKind::DueTime, ObstacleKind::BackOff, ObstacleKind::Claim];
        let first = waits_for.iter().find(|obstacle| !own.contains(&obstacle.kind));
        let place = match state {
            Whereabouts::Scheduled => {
                format!("It is scheduled, and falls due in {} ({}).", self.gap(due_ms), utc(due_ms))
            }
            Whereabouts::Due => format!("It is due for {}, and no daemon has claimed it.", self.gap(due_ms)),
            Whereabouts::Retry => return self.retry(detail, first),
            Whereabouts::InFlight => self.in_flight(detail),
            Whereabouts::Ready => "It is on the ready list, where a client of the source has moved it.".to_owned(),
            Whereabouts::Dead => return self.dead(detail),
            Whereabouts::Gone => return self.gone(),
        };
        match first {
            Some(first) if state == Whereabouts::InFlight => {
                format!("{place} Whatever comes back would wait: {}.", first.detail)
            }
            Some(first) => format!("{place} In the way: {}.", first.detail),
            None if state == Whereabouts::Due => format!("{place} Nothing is in the way: it is claimed next."),
            None => place,
        }
    }

    /// Returns an element that waits for another attempt, and the first thing in its way.
    fn retry(&self, detail: &Detail, way: Option<&Obstacle>) -> String {
        let used = format!("{} of {} attempts used", detail.attempts, self.rules.max_attempts);
        let cause = match detail.code.as_str() {
            "" => String::new(),
            code => format!(" after {code}"),
        };
        let ahead = detail.next_attempt_ms.filter(|at_ms| *at_ms > self.now_ms);
        let place = match (ahead, way) {
            (None, Some(way)) if way.kind == ObstacleKind::Sink => {
                return format!("It waits for {}. It is tried again as soon as the sink answers; {used}.", way.detail);
            }
            (Some(at_ms), _) => format!("It is tried again in {}{cause}; {used}.", self.gap(at_ms)),
            (None, _) => format!("It is tried again as soon as it is claimed{cause}; {used}."),
        };
        match way {
            Some(way) => format!("{place} In the way: {}.", way.detail),
            None => place,
        }
    }

    fn in_flight(&self, detail: &Detail) -> String {
        let whose =
            detail.held_by.as_ref().map_or_else(String::new, |holder| format!(" with daemon {}", holder.daemon));
        match detail.lease_ends_ms {
            Some(end) if end <= self.now_ms => format!(
                "It was in flight{whose}, whose lease ended {} ago: that daemon died or lost Redis. The next daemon that claims \
                 from the queue takes it over.",
                self.gap(end)
            ),
            Some(end) => format!(
                "It is in flight{whose}, and may be delivered right now. The lease ends in {} unless it is extended.",
                self.gap(end)
            ),
            None => format!("It is in flight{whose}, and may be delivered right now."),
        }
    }

    fn dead(&self, detail: &Detail) -> String {
        let since = detail.died_ms.map(|at| format!(" for {}", self.gap(at))).unwrap_or_default();
        let mut cause = match (detail.code.as_str(), detail.sink.as_str()) {
            ("", _) => String::new(),
            (code, "") => format!(" ({code})"),
            (code, sink) => format!(" ({code} at {sink})"),
        };
        if !detail.message.is_empty() {
            cause.push_str(&format!(": {}", detail.message));
        }
        let attempts = count(u64::from(detail.attempts), "attempt");
        let end = if cause.ends_with('.') { "" } else { "." };
        format!(
            "It is dead{since}, by `{}` after {attempts}{cause}{end} It is not tried again by itself.",
            detail.reason
        )
    }

    fn gone(&self) -> String {
        let place = "It is not among the scheduled, retried, in-flight and dead elements of the queue";
        if let Some(OperatorChange { what, by, at_ms, problem: None, .. }) = self.change {
            return format!("{place}. The last change of an operator: `{what}` by {by}, {} ago.", self.gap(*at_ms));
        }
        match self.daemon.and_then(|daemon| daemon.events.last()) {
            Some(event) => {
                let sink = event.sink.as_ref().map(|sink| format!(" ({sink})")).unwrap_or_default();
                format!("{place}. This daemon last saw it {} ago: {}{sink}.", self.gap(event.at_ms), event.fate)
            }
            None => format!(
                "{place}: it was delivered or removed, or never was there. Nothing more is known of it: what was delivered \
                 leaves nothing in Redis."
            ),
        }
    }

    /// Everything in the way of the element, the strongest first.
    fn obstacles(&self, state: Whereabouts) -> Vec<Obstacle> {
        let Some(detail) = self.detail else { return Vec::new() };
        let mut all = Vec::new();
        let mut add = |kind, detail: String, until_ms| all.push(Obstacle { kind, detail, until_ms, element: None });
        let ahead = |ms: Option<i64>| ms.filter(|ms| *ms > self.now_ms);
        match state {
            Whereabouts::Dead => {
                add(ObstacleKind::Redrive, "a dead letter stays until someone redrives or removes it".to_owned(), None);
                return all;
            }
            Whereabouts::Scheduled => add(ObstacleKind::DueTime, "it is not due yet".to_owned(), ahead(detail.due_ms)),
            Whereabouts::Retry => {
                if let Some(next) = ahead(detail.next_attempt_ms) {
                    add(ObstacleKind::BackOff, format!("it is tried again in {}", self.gap(next)), Some(next));
                }
            }
            Whereabouts::InFlight => match detail.lease_ends_ms {
                Some(end) if end <= self.now_ms => {
                    add(ObstacleKind::Claim, format!("the lease of its claim ended {} ago", self.gap(end)), None);
                }
                end => add(ObstacleKind::Claim, "a daemon has it under a lease".to_owned(), end),
            },
            Whereabouts::Due | Whereabouts::Ready | Whereabouts::Gone => {}
        }
        if self.daemons == Some(0) {
            add(ObstacleKind::NoDaemon, "no daemon serves the queue".to_owned(), None);
        }
        if !self.rules.delivers() {
            add(ObstacleKind::Mode, format!("the mode of the queue is `{}`", self.rules.mode), None);
        }
        for pause in self.paused {
            let what = if pause.sink.is_some() { "" } else { "the queue is " };
            add(ObstacleKind::Pause, format!("{what}{}", pause.line(self.now_ms)), pause.until_ms);
        }
        if let Some(daemon) = self.daemon {
            at_daemon(daemon, detail, self.now_ms, &mut add);
        }
        let waits = !matches!(state, Whereabouts::Scheduled | Whereabouts::InFlight);
        if let Some(rate) = self.rules.max_rate.filter(|_| waits && self.before > 0) {
            let detail = format!("`max_rate` of the queue lets {rate} elements a second out at each daemon");
            add(ObstacleKind::MaxRate, detail, None);
        }
        if waits && self.before > 0 {
            let sinks = self.daemon.iter().flat_map(|daemon| &daemon.sinks);
            for sink in sinks.filter(|sink| detail.outstanding.contains(&sink.sink)) {
                if let Some(rate) = sink.max_rate {
                    let sink = &sink.sink;
                    let detail = format!("`max_rate` of sink {sink} lets {rate} elements a second out at each daemon");
                    add(ObstacleKind::MaxRate, detail, None);
                }
            }
            add(ObstacleKind::Before, self.before(), None);
        }
        if let Some(order) = self.rules.order.filter(|_| waits) {
            // Before the other reasons of the queue: it is this element, and no other, that has to move.
            let at = all.iter().position(|found| found.kind == ObstacleKind::Before).unwrap_or(all.len());
            all.insert(at, self.order(order));
        }
        all
    }

    /// Returns the order, and the element in it that comes before.
    fn order(&self, order: &str) -> Obstacle {
        let of = if order == "key" { "elements with its key" } else { "elements of the queue" };
        let detail = format!("{of} are delivered one after the other, also those that are retried");
        let Some(before) = self.predecessor else {
            return Obstacle { kind: ObstacleKind::Order, detail, until_ms: None, element: None };
        };
        let where_it_is = match (before.state, before.next_attempt_ms) {
            (PeekState::Retry, Some(next)) if next > self.now_ms => {
                let code = if before.code.is_empty() { "a failure" } else { &before.code };
                format!("is tried again in {} after {code}", self.gap(next))
            }
            (PeekState::Retry, _) => "is due for another attempt".to_owned(),
            (PeekState::InFlight, _) => "is in flight".to_owned(),
            _ => "is not claimed yet".to_owned(),
        };
        let since = self.gap(before.due_ms);
        Obstacle {
            kind: ObstacleKind::Order,
            detail: format!("{detail}; {} is before it, due for {since}, and {where_it_is}", before.id),
            until_ms: before.next_attempt_ms.filter(|next| *next > self.now_ms),
            element: Some(before.id.clone()),
        }
    }

    fn before(&self) -> String {
        let rate = self.daemon.map_or(0.0, |daemon| daemon.delivered_per_second);
        let verb = if self.before == 1 { "element is" } else { "elements are" };
        let wait = if rate > 0.0 {
            let ms = self.before as f64 / rate * 1_000.0;
            format!(", about {} at the rate of the last minute", duration(ms as u64))
        } else {
            String::new()
        };
        format!("{} {verb} due before it{wait}", number(i128::from(self.before)))
    }

    /// Returns the failed attempts that are known: those that a daemon saw, and the last one as Redis has it.
    fn attempts(&self) -> Vec<SeenAttempt> {
        let Some(detail) = self.detail else {
            return self.daemon.map(|daemon| daemon.attempts.clone()).unwrap_or_default();
        };
        let of_letter = detail.attempts_seen.as_ref().and_then(|seen| Vec::deserialize(seen).ok());
        let all = of_letter.or_else(|| self.daemon.map(|daemon| daemon.attempts.clone())).unwrap_or_default();
        let last = detail.last_attempt_ms.filter(|_| !detail.code.is_empty()).map(|at_ms| SeenAttempt {
            at_ms,
            sink: detail.sink.clone(),
            class: detail.class.clone(),
            code: detail.code.clone(),
        });
        SeenAttempt::with_last(all, last)
    }

    fn notes(&self, state: Whereabouts, known: usize) -> Vec<String> {
        let mut notes = Vec::new();
        let (attempts, due_ms) = self.detail.map_or((0, None), |detail| (detail.attempts, detail.due_ms));
        let missing = u64::from(attempts).saturating_sub(known as u64);
        if missing > 0 {
            let (verb, rest) = if missing == 1 { ("is", "attempt") } else { ("are", "attempts") };
            notes.push(format!(
                "{missing} earlier {rest} {verb} not known here: Redis keeps the number and the last failure; the daemon that made \
                 them knows more, for up to 10 of each element."
            ));
        }
        let waits = matches!(state, Whereabouts::Scheduled | Whereabouts::Due | Whereabouts::Retry);
        if let (true, Some(after), Some(due_ms)) = (waits, self.rules.expires_after_ms, due_ms) {
            let end = due_ms.saturating_add(after);
            let when = if end > self.now_ms { format!("in {}", self.gap(end)) } else { "already".to_owned() };
            notes.push(format!(
                "By `max_lateness` it expires {when}: instead of a delivery it becomes a dead letter then."
            ));
        }
        if self.daemon.is_none() && !matches!(state, Whereabouts::Dead) {
            notes.push(
                "Only Redis was asked: holds, the state of sinks and recent attempts are known to the daemons (`--daemon URL`)."
                    .to_owned(),
            );
        }
        if self.daemons.is_none() {
            notes.push("Whether a daemon serves the queue is not known: a right to PUBSUB is missing.".to_owned());
        }
        notes
    }
}

/// Obstacles that a daemon knows, for an element that is to go to these sinks.
fn at_daemon(daemon: &AtDaemon, detail: &Detail, now_ms: i64, add: &mut impl FnMut(ObstacleKind, String, Option<i64>)) {
    let lasts = |seconds: u64| duration(seconds.saturating_mul(1_000));
    let since = |seconds: u64| {
        let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        clock(now_ms.saturating_sub(ms), now_ms)
    };
    if let Some(hold) = &daemon.held {
        add(
            ObstacleKind::Hold,
            format!("this daemon holds the queue for {}: {}", lasts(hold.seconds), hold.reason),
            None,
        );
    }
    for sink in daemon.sinks.iter().filter(|sink| detail.outstanding.contains(&sink.sink)) {
        if matches!(sink.state.as_str(), "down" | "blocked") {
            let why = sink.reason.as_deref().unwrap_or("no reason given");
            let detail = format!("sink {}, {} since {}: {why}", sink.sink, sink.state, since(sink.seconds));
            add(ObstacleKind::Sink, detail, None);
        }
        let (own, others) = destinations(sink, &detail.routes);
        let doubt = if others { ", if the element goes there" } else { "" };
        for found in own.iter().take(DESTINATIONS) {
            let name = &found.destination;
            let since = lasts(found.seconds);
            let detail = format!("{name} of sink {} is in trouble for {since}{doubt}: {}", sink.sink, found.reason);
            add(ObstacleKind::Destination, detail, None);
        }
        if own.len() > DESTINATIONS {
            let more = count(own.len() - DESTINATIONS, "further destination");
            add(ObstacleKind::Destination, format!("{more} of sink {} in trouble{doubt}", sink.sink), None);
        }
    }
}

/// Returns the destinations in trouble that an element with these routes goes to; where none of them is one of its
/// routes, those that may be, and that it is not known.
fn destinations<'a>(sink: &'a SinkRow, routes: &[String]) -> (Vec<&'a DestinationTrouble>, bool) {
    let routes: Vec<_> =
        routes.iter().filter_map(|route| route.strip_prefix(&*sink.sink)?.strip_prefix(": ")).collect();
    let is_own = |found: &&DestinationTrouble| routes.contains(&&*found.destination);
    // `path /a` is another place than `path /b`, but a template may be either.
    let kind = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    let may_be = |found: &&DestinationTrouble| {
        let name = &found.destination;
        name.contains("${") || routes.iter().all(|route| !route.contains(' ') || kind(route) != kind(name))
    };
    let own: Vec<_> = sink.destinations.iter().filter(is_own).collect();
    if own.is_empty() { (sink.destinations.iter().filter(may_be).collect(), true) } else { (own, false) }
}
