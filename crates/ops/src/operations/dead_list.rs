//! `dead ls`: the dead letters of a queue, the latest first.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dead::selection::Selection;
use crate::dead::{Filter, Letters, Summary, is_place, still_unknown, unknown_sinks};
use crate::error::{Attempted, Error};
use crate::operation::{Explain, Need, Operation, Route, Scene, route};
use crate::progress::Progress;
use crate::session::find;
use crate::table::TextTable;
use crate::{plural, show};
use delaybridge_ledger::{Order, redis_now_ms};
use delaybridge_model::Config;

/// Letters of an answer that does not say how many.
const PAGE: u64 = 50;
/// Letters that one request answers, at most.
const MOST: u64 = 200;

fn page() -> u64 {
    PAGE
}

/// List the dead letters of a queue, latest first.
///
/// One line each: time, reason and sink. `dead show` has the rest.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = LIST)]
#[serde(deny_unknown_fields)]
pub struct ListDead {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// Maximum number of dead letters
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    #[serde(default = "page")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: u64,
    /// The `next` of the page before
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The filter of the letters
    #[command(flatten)]
    #[serde(default, serialize_with = "Filter::in_query")]
    #[schemars(flatten)]
    pub filter: Filter,
}

const LIST: &str = "\
Examples:
  delaybridge dead ls order_timeout
  delaybridge dead ls order_timeout --code timeout --older-than 1d
  delaybridge dead ls order_timeout --field customer.id=7
  delaybridge dead ls order_timeout --limit 1000 --output json";

/// Some dead letters of a queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct LetterList {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// Letters of the queue in all.
    pub total: u64,
    /// Letters that were examined.
    pub examined: u64,
    /// The letters, the latest first.
    #[schemars(skip)]
    pub dead_letters: Vec<Summary>,
    /// The cursor of the next page; none at the end.
    pub next: Option<String>,
    /// Sinks of the filter that neither the configuration has nor a letter that was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_sinks: Vec<String>,
}

impl Operation for ListDead {
    type Answer = LetterList;

    const NAME: &'static str = "dead ls";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues/{queue}/dead" dead ToLook,
        "List dead letters, the latest first" => "The letters",
        "`next` is there if there are more: ask for those after it. A filter needs a token; several values of a part of it have \
         commas between them, and `field` has one.")];
    const LONG: bool = true;

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    fn need(&self) -> Option<Need> {
        self.filter.need()
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        self.filter.check()?;
        if self.after.as_deref().is_some_and(|after| !after.is_empty() && !is_place(after)) {
            return Err(Error::invalid("read `after`: it is the `next` of the page before"));
        }
        find(config, &self.queue).map(drop)
    }

    async fn run(&self, scene: &Scene) -> Result<LetterList, Error> {
        if scene.live().is_some() && !(1..=MOST).contains(&self.limit) {
            return Err(Error::invalid(format!("read `limit`: it is 1 to {MOST}")));
        }
        let queue = scene.queue(&self.queue).await?;
        let what = format!("list the dead letters of `{}`", self.queue);
        let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
        let filter = self.filter.clone();
        let after = self.after.clone();
        let which = Letters { filter, after, limit: Some(self.limit), ..Letters::default() };
        let mut selection = Selection::open(&queue, &which, Order::Newest).await?;
        let mut dead_letters = Vec::new();
        while let Some(page) = selection.next(usize::MAX).await? {
            // The elements are not kept: a thousand letters may hold gigabytes.
            dead_letters.extend(page.letters.iter().map(|letter| Summary::of(&queue.ledger, letter)));
        }
        let examined = selection.examined;
        let total = selection.total;
        let unknown_sinks = selection.unknown_sinks(scene.config());
        let next = selection.last;
        Ok(LetterList { queue: self.queue.clone(), now_ms, total, examined, dead_letters, next, unknown_sinks })
    }

    fn text(&self, found: &LetterList, _: Explain) -> String {
        words(found)
    }

    fn missed(found: &LetterList) -> Option<String> {
        // Before the end, a later letter may have it.
        unknown_sinks(&found.queue, &found.unknown_sinks).filter(|_| found.next.is_none())
    }

    fn portion(&self) -> ListDead {
        ListDead { limit: self.limit.min(MOST), ..self.clone() }
    }

    fn rest(&self, found: &LetterList) -> Option<ListDead> {
        let limit = self.limit.saturating_sub(found.dead_letters.len() as u64);
        let after = found.next.clone().filter(|_| limit > 0)?;
        Some(ListDead { limit, after: Some(after), ..self.clone() })
    }

    fn add_rest(all: &mut LetterList, rest: LetterList) {
        all.examined += rest.examined;
        all.dead_letters.extend(rest.dead_letters);
        all.next = rest.next;
        still_unknown(&mut all.unknown_sinks, &rest.unknown_sinks);
    }

    fn progress(&self, found: &LetterList) -> Progress {
        Progress { done: found.examined, of: Some(found.total), acted: found.dead_letters.len() as u64 }
    }
}

fn words(found: &LetterList) -> String {
    if found.dead_letters.is_empty() {
        return format!("no dead letters in {}\n", found.queue);
    }
    let mut table = TextTable::new("STREAM ID|ID|DIED|REASON|ATTEMPTS|CODE|SINK|MESSAGE");
    for letter in &found.dead_letters {
        let died = letter.died_ms.map(|ms| show::relative(ms, found.now_ms)).unwrap_or_default();
        let attempts = letter.attempts.map(|attempts| attempts.to_string()).unwrap_or_default();
        let fields = [&letter.reason, &attempts, &letter.code, &letter.sink, &letter.message];
        let fields = fields.map(|field| field.replace(char::is_control, " "));
        table.row([letter.stream_id.clone(), letter.id.clone(), died].into_iter().chain(fields));
    }
    let shown = found.dead_letters.len();
    let more = if found.next.is_some() && (shown as u64) < found.total {
        format!("\n{shown} of {}; --limit shows more\n", plural::count(found.total, "dead letter"))
    } else {
        String::new()
    };
    table.render() + &more
}
