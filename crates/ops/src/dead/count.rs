//! How many dead letters there are, and of what.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::filter::Filter;
use super::selection::Selection;
use super::which::Letters;
use crate::error::{Attempted, Error};
use crate::progress::ProgressWatch;
use crate::session::Queue;
use delaybridge_ledger::{Order, redis_now_ms};

/// Kinds of letters that are counted. Daemons write far fewer; another program may write anything.
const KINDS: usize = 1_000;

/// The letters that fit, by what they died of.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct Counted {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// Letters that fit.
    pub matched: u64,
    /// Letters that were examined.
    pub examined: u64,
    /// Whether it was ended early.
    pub stopped: bool,
    /// The letters by what they died of, the most frequent first.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub totals: Vec<Total>,
}

/// Letters that died of the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// Why.
    pub reason: String,
    /// Class of the last failure.
    pub class: String,
    /// Code of the last failure.
    pub code: String,
    /// The sink that decided.
    pub sink: String,
    /// The number of letters.
    pub count: u64,
    /// The time at which the first of them died.
    pub oldest_ms: Option<i64>,
    /// The time at which the last of them died.
    pub newest_ms: Option<i64>,
}

/// Counts the letters that fit.
///
/// # Errors
///
/// When the filter cannot be, and when Redis cannot be asked.
pub async fn count(queue: &Queue, filter: &Filter, watch: &mut dyn ProgressWatch) -> Result<Counted, Error> {
    let what = format!("count the dead letters of `{}`", queue.id());
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let which = Letters { filter: filter.clone(), ..Letters::default() };
    let mut selection = Selection::open(queue, &which, Order::Oldest).await?;
    let (mut kinds, mut matched) = (BTreeMap::<[String; 4], Total>::new(), 0);
    while let Some(page) = selection.next(usize::MAX, watch).await? {
        for letter in page.letters {
            matched += 1;
            let mut kind = ["reason", "class", "code", "sink"].map(|name| letter.text(name).to_owned());
            if !kinds.contains_key(&kind) && kinds.len() == KINDS {
                kind = ["others", "", "", ""].map(str::to_owned);
            }
            let total = kinds.entry(kind).or_default();
            total.count += 1;
            let died = letter.number("died_ms");
            total.oldest_ms = [total.oldest_ms, died].into_iter().flatten().min();
            total.newest_ms = [total.newest_ms, died].into_iter().flatten().max();
        }
        selection.step.acted = matched;
    }
    let named =
        |([reason, class, code, sink], total): ([String; 4], Total)| Total { reason, class, code, sink, ..total };
    let mut totals: Vec<_> = kinds.into_iter().map(named).collect();
    totals.sort_by_key(|total| std::cmp::Reverse(total.count));
    let (examined, stopped) = (selection.step.done, watch.is_stopped());
    Ok(Counted { queue: queue.id().to_owned(), now_ms, matched, examined, stopped, totals })
}
