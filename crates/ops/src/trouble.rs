//! The queues that need a person before those that do not: what is wrong with a queue, and lists by that and by other orders. Pure.

use std::cmp::Reverse;

use super::overview::{DestinationTrouble, InputRow, QueueRow, SinkList, SinkRow};
use super::plural::{count, duration, number};
use super::queue_order::{QueueFilter, QueueOrder};

/// Lateness from which a queue counts as overdue.
const LATE_MS: u64 = 10_000;

/// The strongest reason why a queue needs a person, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueTrouble {
    /// A daemon claims nothing from it.
    Held,
    /// A sink of it is down or blocked.
    Sink,
    /// The input takes no messages, or holds some.
    Input,
    /// Elements are overdue.
    Overdue,
    /// Attempts fail.
    Failing,
    /// The queue, or a sink of it, is paused.
    Paused,
    /// Elements have due times that are hardly meant.
    DueTimes,
    /// The queue has dead letters.
    Dead,
    /// None.
    None,
}

/// The facts about a queue that lists are ordered by.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Standing {
    /// Whether a daemon holds it.
    pub held: bool,
    /// Whether a sink of it is down or blocked.
    pub sink: bool,
    /// Whether its input takes no messages, or holds some.
    pub input: bool,
    /// Whether it, or a sink of it, is paused.
    pub paused: bool,
    /// Time since the oldest element was due.
    pub overdue_ms: u64,
    /// Elements that are due and not claimed.
    pub due: u64,
    /// Elements with due times that are hardly meant.
    pub absurd: u64,
    /// Dead letters.
    pub dead: u64,
    /// Delivered elements per second.
    pub delivered_per_second: f64,
    /// Failed attempts per second.
    pub failed_per_second: f64,
}

impl Standing {
    /// Returns the standing of a queue that was read.
    pub fn of(row: &QueueRow, sinks: Option<&SinkList>) -> Standing {
        let state = &row.state;
        let here = row.here.as_ref();
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        Standing {
            held: here.is_some_and(|here| here.held.is_some()),
            sink: sinks.is_some_and(|sinks| sinks.trouble(&state.sinks)),
            input: here.and_then(|here| here.input.as_ref()).is_some_and(InputRow::is_in_trouble),
            paused: !state.paused.is_empty(),
            overdue_ms: state.oldest_overdue_ms.unwrap_or(0),
            due: count(state.due),
            absurd: state.absurd_due,
            dead: count(state.dead),
            delivered_per_second: here.map_or(0.0, |here| here.delivered_per_second),
            failed_per_second: here.map_or(0.0, |here| here.failed_per_second),
        }
    }

    /// The strongest reason why the queue needs a person.
    pub fn trouble(&self) -> QueueTrouble {
        match self {
            Standing { held: true, .. } => QueueTrouble::Held,
            Standing { sink: true, .. } => QueueTrouble::Sink,
            Standing { input: true, .. } => QueueTrouble::Input,
            // What waits for a person's pause is not the queue's fault.
            Standing { paused: true, .. } => QueueTrouble::Paused,
            Standing { overdue_ms: LATE_MS.., .. } => QueueTrouble::Overdue,
            Standing { failed_per_second, .. } if *failed_per_second > 0.0 => QueueTrouble::Failing,
            Standing { absurd: 1.., .. } => QueueTrouble::DueTimes,
            Standing { dead: 1.., .. } => QueueTrouble::Dead,
            _ => QueueTrouble::None,
        }
    }
}

impl QueueRow {
    /// Returns the words for a queue whose elements are overdue; none if they are not, and where a pause explains it.
    pub fn behind(&self) -> Option<String> {
        let overdue_ms = self.state.oldest_overdue_ms.filter(|ms| *ms >= LATE_MS)?;
        if !self.state.paused.is_empty() {
            return None;
        }
        let limit = self.state.max_rate.map(|rate| format!("; its max_rate lets {rate}/s out at each daemon"));
        Some(format!(
            "{} due and not delivered, the oldest for {}{}",
            number(self.state.backlog),
            duration(overdue_ms),
            limit.unwrap_or_default()
        ))
    }

    /// Returns the words for elements with due times that are hardly meant; none if there are none.
    pub fn absurd(&self) -> Option<String> {
        let n = i64::try_from(self.state.absurd_due).unwrap_or(i64::MAX);
        (n > 0).then(|| format!("{} due before 2001, or more than a year ahead, which is hardly meant", number(n)))
    }
}

impl SinkList {
    /// Returns whether one of these sinks is down or blocked.
    pub fn trouble(&self, names: &[String]) -> bool {
        self.sinks.iter().any(|sink| sink.is_in_trouble() && names.contains(&sink.sink))
    }
}

impl SinkRow {
    /// Returns whether it is down or blocked.
    pub fn is_in_trouble(&self) -> bool {
        matches!(self.state.as_str(), "down" | "blocked")
    }

    /// Returns whether it, or a destination of it, needs a person: the trouble of its destinations is its trouble.
    pub fn has_trouble(&self) -> bool {
        self.is_in_trouble() || self.hold.is_some() || !self.destinations.is_empty()
    }

    /// Returns the state in a word: `partly up` where it answers, and something of it does not.
    pub fn word(&self) -> &str {
        if self.state == "up" && self.has_trouble() { "partly up" } else { &self.state }
    }

    /// Returns the present troubles in words, each with its age, the worst first.
    pub fn troubles(&self) -> Vec<String> {
        let lasts = |seconds: u64| duration(seconds.saturating_mul(1_000));
        let own = self.reason.iter().map(|reason| format!("{reason} (for {})", lasts(self.seconds)));
        let hold = self.hold.iter().map(|hold| {
            let queues = count(self.held_queues, "queue");
            format!("{} (holds {queues}, for {})", hold.reason, lasts(hold.seconds))
        });
        let destinations = self.destinations.iter().map(|found| {
            let several = if found.count == 1 { String::new() } else { format!(" ({} of them)", found.count) };
            let DestinationTrouble { destination, reason, seconds, .. } = found;
            format!("{destination}{several}: {reason} (for {})", lasts(*seconds))
        });
        own.chain(hold).chain(destinations).collect()
    }
}

impl QueueFilter {
    /// Returns whether a queue belongs to the list.
    pub fn takes(self, standing: &Standing) -> bool {
        match self {
            QueueFilter::All => true,
            QueueFilter::Trouble => standing.trouble() != QueueTrouble::None,
            QueueFilter::Paused => standing.paused,
            QueueFilter::Overdue => standing.overdue_ms >= LATE_MS,
            QueueFilter::Dead => standing.dead > 0,
        }
    }
}

/// Brings queues into an order; those that are equal in it stay in theirs.
pub fn arrange<T>(queues: &mut [T], order: QueueOrder, of: impl Fn(&T) -> (&str, Standing)) {
    let standing = |queue: &T| of(queue).1;
    match order {
        QueueOrder::File => {}
        QueueOrder::Trouble => queues.sort_by_key(|queue| {
            let standing = standing(queue);
            (standing.trouble(), Reverse(standing.overdue_ms), Reverse(standing.dead))
        }),
        QueueOrder::Name => queues.sort_by(|a, b| of(a).0.cmp(of(b).0)),
        QueueOrder::Due => queues.sort_by_key(|queue| Reverse(standing(queue).due)),
        QueueOrder::Overdue => queues.sort_by_key(|queue| Reverse(standing(queue).overdue_ms)),
        QueueOrder::Dead => queues.sort_by_key(|queue| Reverse(standing(queue).dead)),
        QueueOrder::Rate => {
            let rate = |queue: &T| standing(queue).delivered_per_second;
            queues.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::{Here, Hold};
    use crate::pause::PauseState;
    use crate::queue_state::QueueState;

    fn listed(order: QueueOrder, only: QueueFilter) -> String {
        let calm = Standing::default();
        let mut all = vec![
            ("calm", calm),
            ("dead", Standing { dead: 9, delivered_per_second: 5.0, ..calm }),
            ("odd", Standing { absurd: 1, ..calm }),
            ("late", Standing { overdue_ms: 60_000, due: 3, ..calm }),
            ("later", Standing { overdue_ms: 90_000, due: 2, ..calm }),
            ("soon", Standing { overdue_ms: 900, due: 1, ..calm }),
            ("fails", Standing { failed_per_second: 0.1, ..calm }),
            ("paused", Standing { paused: true, overdue_ms: 99_000, dead: 1, ..calm }),
            ("down", Standing { sink: true, ..calm }),
            ("held", Standing { held: true, paused: true, ..calm }),
        ];
        all.retain(|(_, standing)| only.takes(standing));
        arrange(&mut all, order, |(name, standing)| (name, *standing));
        all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn those_in_trouble_are_first_the_worst_before_the_others() {
        for (order, expected) in [
            (QueueOrder::File, "calm dead odd late later soon fails paused down held"),
            (QueueOrder::Trouble, "held down later late fails paused odd dead soon calm"),
            (QueueOrder::Name, "calm dead down fails held late later odd paused soon"),
            (QueueOrder::Due, "late later soon calm dead odd fails paused down held"),
            (QueueOrder::Overdue, "paused later late soon calm dead odd fails down held"),
            (QueueOrder::Dead, "dead paused calm odd late later soon fails down held"),
            (QueueOrder::Rate, "dead calm odd late later soon fails paused down held"),
        ] {
            assert_eq!(listed(order, QueueFilter::All), expected, "{order:?}");
        }
    }

    #[test]
    fn a_filter_leaves_what_it_says() {
        for (only, expected) in [
            (QueueFilter::Trouble, "dead odd late later fails paused down held"),
            (QueueFilter::Paused, "paused held"),
            (QueueFilter::Overdue, "late later paused"),
            (QueueFilter::Dead, "dead paused"),
        ] {
            assert_eq!(listed(QueueOrder::File, only), expected, "{only:?}");
        }
    }

    #[test]
    fn the_standing_of_a_queue_is_read_from_its_row_and_its_sinks() {
        let state = QueueState {
            sinks: vec!["a".to_owned()],
            paused: vec![PauseState::default()],
            oldest_overdue_ms: Some(7),
            due: 2,
            absurd_due: 4,
            dead: 3,
            ..QueueState::default()
        };
        let input = |state: &str| Some(InputRow { state: state.to_owned(), ..InputRow::default() });
        let here = Here {
            held: Some(Hold::default()),
            delivered_per_second: 1.5,
            failed_per_second: 0.5,
            input: input("waiting"),
            ..Here::default()
        };
        let mut row = QueueRow { state, here: Some(here) };
        let sink =
            |name: &str, state: &str| SinkRow { sink: name.to_owned(), state: state.to_owned(), ..SinkRow::default() };
        let sinks = |a: &str| SinkList { sinks: vec![sink("a", a), sink("b", "down")] };
        let found = Standing::of(&row, Some(&sinks("blocked")));
        let expected = Standing {
            held: true,
            sink: true,
            input: true,
            paused: true,
            overdue_ms: 7,
            due: 2,
            absurd: 4,
            dead: 3,
            delivered_per_second: 1.5,
            failed_per_second: 0.5,
        };
        assert_eq!(found, expected);
        assert!(!Standing::of(&row, Some(&sinks("up"))).sink && !Standing::of(&row, None).sink);
        row.here = Some(Here { input: input("up"), ..Here::default() });
        assert!(!Standing::of(&row, None).input);
        assert_eq!(Standing { input: true, ..Standing::default() }.trouble(), QueueTrouble::Input);
    }

    #[test]
    fn the_trouble_of_a_destination_is_that_of_its_sink() {
        let up = SinkRow { sink: "shop".to_owned(), state: "up".to_owned(), ..SinkRow::default() };
        assert_eq!((up.word(), up.has_trouble(), up.troubles()), ("up", false, Vec::new()));
        let hold = Some(Hold { reason: "NOT_FOUND: no exchange `orders`".to_owned(), seconds: 240 });
        let destination = DestinationTrouble {
            destination: "exchange ${payload.shop}".to_owned(),
            count: 3,
            reason: "NOT_FOUND".to_owned(),
            seconds: 60,
        };
        let partly = SinkRow { held_queues: 1, hold, destinations: vec![destination], ..up };
        assert_eq!((partly.word(), partly.is_in_trouble(), partly.has_trouble()), ("partly up", false, true));
        let expected = [
            "NOT_FOUND: no exchange `orders` (holds 1 queue, for 4m)",
            "exchange ${payload.shop} (3 of them): NOT_FOUND (for 1m)",
        ];
        assert_eq!(partly.troubles(), expected);
        let down = SinkRow { state: "down".to_owned(), reason: Some("no broker".to_owned()), seconds: 3, ..partly };
        assert_eq!((down.word(), &down.troubles()[0][..]), ("down", "no broker (for 3s)"));
    }

    #[test]
    fn a_queue_says_how_far_it_is_behind() {
        let state = QueueState {
            due: 3_586,
            retry: 1,
            backlog: 3_587,
            oldest_overdue_ms: Some(43_000),
            max_rate: Some(5.0),
            absurd_due: 50,
            ..QueueState::default()
        };
        let mut row = QueueRow { state, here: None };
        let limited = "3,587 due and not delivered, the oldest for 43s; its max_rate lets 5/s out at each daemon";
        assert_eq!(row.behind().as_deref(), Some(limited));
        assert_eq!(
            row.absurd().as_deref(),
            Some("50 due before 2001, or more than a year ahead, which is hardly meant")
        );
        row.state.max_rate = None;
        assert_eq!(row.behind().as_deref(), Some("3,587 due and not delivered, the oldest for 43s"));
        row.state.paused = vec![PauseState::default()];
        assert_eq!(row.behind(), None, "the pause says why");
        row.state = QueueState { oldest_overdue_ms: Some(9_999), ..QueueState::default() };
        assert_eq!((row.behind(), row.absurd()), (None, None));
    }
}
