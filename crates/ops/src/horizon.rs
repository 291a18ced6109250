//! What falls due when: counts of a queue's schedule between points in time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Attempted, Error};
use super::session::Queue;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Bounds of the bars for overdue elements, in ms before now, the oldest first.
const OVERDUE: [i64; 6] = [DAY, HOUR, 10 * MINUTE, MINUTE, 10_000, 0];
/// Bounds of the bars for elements that are not due yet, in ms from now.
const AHEAD: [i64; 15] = [
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    4 * HOUR,
    6 * HOUR,
    8 * HOUR,
    12 * HOUR,
    18 * HOUR,
    DAY,
    7 * DAY,
    30 * DAY,
];

/// The schedule of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Schedule")]
pub struct Horizon {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// Elements that are due and not claimed, the oldest first.
    pub overdue: Vec<Bar>,
    /// Elements that are not due yet, the next first.
    pub ahead: Vec<Bar>,
}

/// Elements that fall due between two points in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// The first point in time; none for all times before.
    pub from_ms: Option<i64>,
    /// The second point in time; none for all times after.
    pub until_ms: Option<i64>,
    /// Elements that fall due in between.
    pub count: u64,
}

/// Counts the elements of each bar: a few counts by the index, however many elements there are.
pub async fn horizon(queue: &Queue) -> Result<Horizon, Error> {
    let what = format!("count what falls due in `{}`", queue.id());
    let (now_ms, all) = queue.ledger.due_before_each(&queue.conn, &offsets()).await.attempt(&what)?;
    Ok(bars(queue.id(), now_ms, &all))
}

/// Returns the bounds of all bars, in ms from now, in their order.
fn offsets() -> Vec<i64> {
    OVERDUE.iter().map(|ago| -ago).chain(AHEAD).collect()
}

/// Returns the bars between cumulative counts: one for each bound, and the count of everything.
fn bars(queue: &str, now_ms: i64, cumulative: &[u64]) -> Horizon {
    let bounds: Vec<i64> = offsets().into_iter().map(|offset| now_ms.saturating_add(offset)).collect();
    let bar = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| cumulative.get(before)).copied().unwrap_or(0);
        Bar {
            from_ms: at.checked_sub(1).map(|before| bounds[before]),
            until_ms: bounds.get(at).copied(),
            count: cumulative.get(at).copied().unwrap_or(0).saturating_sub(before),
        }
    };
    let overdue = 0..OVERDUE.len();
    let ahead = OVERDUE.len()..=bounds.len();
    Horizon { queue: queue.to_owned(), now_ms, overdue: overdue.map(bar).collect(), ahead: ahead.map(bar).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_is_in_one_bar() {
        let cumulative: Vec<u64> = (1..=22).collect();
        let found = bars("q", 10 * DAY, &cumulative);
        assert_eq!((found.overdue.len(), found.ahead.len()), (6, 16));
        let counts = found.overdue.iter().chain(&found.ahead).map(|bar| bar.count);
        assert_eq!(counts.sum::<u64>(), 22);
        assert_eq!((found.overdue[0].from_ms, found.overdue[5].until_ms), (None, Some(10 * DAY)));
        assert_eq!((found.ahead[0].from_ms, found.ahead[0].until_ms), (Some(10 * DAY), Some(10 * DAY + MINUTE)));
        assert_eq!(found.ahead[15].until_ms, None);
    }
}
