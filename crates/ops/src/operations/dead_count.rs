//! `dead count`: how many dead letters there are, and of what.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::content::escaped;
use crate::dead::selection::Selection;
use crate::dead::{Filter, LOOKED_AT, Letters, SweepPlace, check_after, still_unknown, unknown_sinks};
use crate::error::{Attempted, Error};
use crate::operation::{Explain, Need, Operation, Route, Scene, route};
use crate::progress::Progress;
use crate::session::find;
use crate::table::TextTable;
use crate::{plural, show};
use delaybridge_ledger::{DeadLetter, Order, redis_now_ms};
use delaybridge_model::Config;

/// Kinds of letters that are counted. Daemons write far fewer; another program may write anything.
const KINDS: usize = 1_000;

/// Count the dead letters of a queue by what they died of.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = COUNT)]
#[serde(deny_unknown_fields)]
pub struct CountDead {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// Letters to count, at most, of at most 10,000 that are looked at; all if it is left out
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The `next` of the part before
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The filter of the letters
    #[command(flatten)]
    #[serde(default, serialize_with = "Filter::in_query")]
    #[schemars(flatten)]
    pub filter: Filter,
}

const COUNT: &str = "\
Examples:
  delaybridge dead count order_timeout
  delaybridge dead count order_timeout --newer-than 1h --output json";

/// The letters that fit, by what they died of.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
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
    /// The place that it has come to, if the request has a `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<SweepPlace>,
    /// Sinks of the filter that neither the configuration has nor a letter that was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_sinks: Vec<String>,
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

impl Operation for CountDead {
    type Answer = Counted;

    const NAME: &'static str = "dead count";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues/{queue}/dead/count" dead_count ToSearch,
        "Count dead letters by reason" => "The totals",
        "Several values of a part of the filter have commas between them; `field` has one.")];
    const LONG: bool = true;

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    fn need(&self) -> Option<Need> {
        self.filter.need()
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        self.filter.check()?;
        check_after(self.after.as_deref())?;
        find(config, &self.queue).map(drop)
    }

    async fn run(&self, scene: &Scene) -> Result<Counted, Error> {
        let queue = scene.queue(&self.queue).await?;
        let now_ms = redis_now_ms(&queue.conn).await.attempt("count dead letters")?;
        let filter = self.filter.clone();
        let after = self.after.clone();
        let limit = self.limit;
        let which = Letters { filter, after, limit, ..Letters::default() };
        let mut selection = Selection::open(&queue, &which, Order::Oldest).await?;
        let mut counted = Counted { queue: self.queue.clone(), now_ms, ..Counted::default() };
        while let Some(page) = selection.next(usize::MAX).await? {
            counted.matched += page.letters.len() as u64;
            counted.add(page.letters.iter().map(Total::of));
        }
        (counted.examined, counted.part) = (selection.examined, selection.place());
        counted.unknown_sinks = selection.unknown_sinks(scene.config());
        Ok(counted)
    }

    fn text(&self, counted: &Counted, _: Explain) -> String {
        words(counted)
    }

    fn missed(counted: &Counted) -> Option<String> {
        let stopped = || "count dead letters: ended before all were looked at".to_owned();
        counted.stopped.then(stopped).or_else(|| unknown_sinks(&counted.queue, &counted.unknown_sinks))
    }

    fn portion(&self) -> CountDead {
        CountDead { limit: Some(self.limit.unwrap_or(LOOKED_AT)), ..self.clone() }
    }

    fn rest(&self, counted: &Counted) -> Option<CountDead> {
        let after = Some(counted.part.as_ref()?.next.clone()?);
        Some(CountDead { after, ..self.clone() })
    }

    fn add_rest(all: &mut Counted, rest: Counted) {
        all.matched += rest.matched;
        all.examined += rest.examined;
        all.add(rest.totals.into_iter());
        still_unknown(&mut all.unknown_sinks, &rest.unknown_sinks);
    }

    fn end(all: &mut Counted, stopped: bool) {
        (all.stopped, all.part) = (stopped, None);
    }

    fn progress(&self, counted: &Counted) -> Progress {
        let of = counted.part.as_ref().map(|part| part.total);
        Progress { done: counted.examined, of, acted: counted.matched }
    }
}

impl Counted {
    /// Adds totals, and sorts all.
    fn add(&mut self, more: impl Iterator<Item = Total>) {
        let mut kinds = BTreeMap::<[String; 4], Total>::new();
        for mut total in std::mem::take(&mut self.totals).into_iter().chain(more) {
            if !kinds.contains_key(&total.kind()) && kinds.len() >= KINDS {
                let reason = "others".to_owned();
                let Total { count, oldest_ms, newest_ms, .. } = total;
                total = Total { reason, count, oldest_ms, newest_ms, ..Total::default() };
            }
            let kind = kinds.entry(total.kind()).or_insert_with(|| Total { count: 0, ..total.clone() });
            kind.count += total.count;
            kind.oldest_ms = [kind.oldest_ms, total.oldest_ms].into_iter().flatten().min();
            kind.newest_ms = kind.newest_ms.max(total.newest_ms);
        }
        self.totals = kinds.into_values().collect();
        self.totals.sort_by_key(|total| Reverse(total.count));
    }
}

impl Total {
    fn of(letter: &DeadLetter) -> Total {
        let [reason, class, code, sink] = ["reason", "class", "code", "sink"].map(|name| letter.text(name).to_owned());
        let died_ms = letter.number("died_ms");
        Total { reason, class, code, sink, count: 1, oldest_ms: died_ms, newest_ms: died_ms }
    }

    fn kind(&self) -> [String; 4] {
        [&self.reason, &self.class, &self.code, &self.sink].map(String::clone)
    }
}

fn words(counted: &Counted) -> String {
    let mut table = TextTable::new(">COUNT|REASON|CLASS|CODE|SINK|OLDEST|NEWEST");
    let time = |ms: Option<i64>| ms.map(|ms| show::relative(ms, counted.now_ms)).unwrap_or_default();
    for total in &counted.totals {
        let words = total.kind().map(|word| escaped(&word));
        let row = std::iter::once(total.count.to_string()).chain(words);
        table.row(row.chain([time(total.oldest_ms), time(total.newest_ms)]));
    }
    let table = if counted.totals.is_empty() { String::new() } else { table.render() + "\n" };
    format!("{table}{} in {}\n", plural::count(counted.matched, "dead letter"), counted.queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_parts_are_those_of_the_whole() {
        let total = |code: &str, count, ms| Total {
            code: code.to_owned(),
            count,
            oldest_ms: Some(ms),
            newest_ms: Some(ms),
            ..Total::default()
        };
        let mut all = Counted { matched: 3, examined: 5, ..Counted::default() };
        all.add([total("a", 2, 30), total("b", 1, 20)].into_iter());
        let mut rest = Counted { matched: 2, examined: 5, ..Counted::default() };
        rest.add([total("b", 1, 10), total("b", 1, 40)].into_iter());
        CountDead::add_rest(&mut all, rest);
        let expected = [Total { oldest_ms: Some(10), newest_ms: Some(40), ..total("b", 3, 0) }, total("a", 2, 30)];
        assert_eq!((all.matched, all.examined, &all.totals[..]), (5, 10, &expected[..]));
        // Another program may write any number of kinds.
        all.add((0..2_000).map(|n| total(&n.to_string(), 1, 50)));
        assert_eq!((all.totals.len(), &*all.totals[0].reason), (KINDS + 1, "others"));
        assert_eq!(all.totals.iter().map(|total| total.count).sum::<u64>(), 2_005);
    }
}
