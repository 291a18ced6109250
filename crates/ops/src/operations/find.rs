//! `find`: elements by fields of their payload, or one by its id.

use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SHOWN, known_element};
use crate::dead::FieldIs;
use crate::element::{Whereabouts, search_part};
use crate::error::Error;
use crate::operation::{Explain, Operation, Route, Scene, route};
use crate::progress::{Progress, Until};
use crate::search::{Hits, Search, search};
use crate::session::find;
use crate::table::TextTable;
use crate::{plural, show};
use delaybridge_ledger::ScheduleCursor;
use delaybridge_model::Config;

/// Elements that one request looks at, at most.
const LOOKED_AT: u64 = 10_000;
/// Elements that one request answers, at most.
const MATCHES: usize = 100;
/// Fields of a request, at most.
const FIELDS: usize = 16;
/// The time of a request, less than clients wait for an answer.
const TIME: Duration = Duration::from_secs(5);
/// Characters of a payload in a row.
const PREVIEW: usize = 80;

fn looked_at() -> u64 {
    LOOKED_AT
}

fn matches() -> usize {
    20
}

/// Find elements by a field of their payload, by a part of it, or one by its id.
///
/// Reads the elements of the queue, decodes each with the queue's codec, and compares the field, or looks for the text: those that are scheduled, wait for
/// a retry, are in flight, on the ready list, and dead. It reads at most --limit elements, and says so if that was not all. Nothing
/// is changed. An element that moves meanwhile can be missed.
///
/// With --id the server compares ids until it has met the element, however many there are. `why`, `cancel` and the other commands on one
/// element find it at once when they are given its due time too.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = FIND)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Search", extend("required" = []))]
pub struct Find {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// A field of the decoded payload and its text: orderId=7, customer.name=Ann; given several times, all of them
    #[arg(long = "field", value_name = "PATH=VALUE", required_unless_present_any = ["text", "id"])]
    #[serde(default)]
    pub fields: Vec<FieldIs>,
    /// A text that is somewhere in the payload
    #[arg(long, value_name = "TEXT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The id of the element, as `peek` shows it
    #[arg(long, value_name = "ID", conflicts_with_all = ["fields", "text", "limit", "matches"])]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Elements to look at, at most; a daemon looks at 10,000 in a request
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    #[serde(default = "looked_at")]
    pub limit: u64,
    /// Elements to show, at most; a daemon answers 100 in a request
    #[arg(long, value_name = "COUNT", default_value_t = matches())]
    #[serde(default = "matches")]
    pub matches: usize,
    /// The `next` of the request before
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

const FIND: &str = "\
Examples:
  delaybridge find order_timeout --field orderId=7
  delaybridge find order_timeout --field customer.id=7 --matches 1 --limit 5000000
  delaybridge find order_timeout --text 'Ann Meyer'
  delaybridge find order_timeout --id 52414e444f4d3842

Exit codes: 0 done, also if there is none, 1 failed, 2 wrong arguments or configuration";

impl Operation for Find {
    type Answer = Hits;

    const NAME: &'static str = "find";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/queues/{queue}/search" search ToSee,
        "Find elements by fields or a part of their payload, or one by its id, in all states" => "The elements that fit",
        "Reads and decodes elements, 10,000 at most, for some seconds; `next` is there if some were not looked at. With `id`, ids are \
         compared instead, as many as can be in that time. The first 4096 bytes of each payload. Nothing is changed.")];
    const SEARCHES: bool = true;

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        if let Some(id) = &self.id {
            if !self.fields.is_empty() || self.text.is_some() {
                return Err(Error::invalid("read `id`: there are `fields` or `text` as well; an id names one element"));
            }
            self.schedule_cursor()?;
            return known_element(config, &self.queue, id);
        }
        match self.fields.len() {
            0 if self.text.as_deref().is_some_and(|text| !text.is_empty()) => {}
            0 => return Err(Error::invalid("read `fields`, `text` and `id`: there is none of them; write orderId=7")),
            1..=FIELDS => {}
            found => return Err(Error::invalid(format!("read `fields`: expected 1 to {FIELDS} items, found {found}"))),
        }
        if self.limit == 0 || self.matches == 0 {
            return Err(Error::invalid("read `limit` and `matches`: they are 1 or more"));
        }
        self.cursor()?;
        find(config, &self.queue).map(drop)
    }

    async fn run(&self, scene: &Scene) -> Result<Hits, Error> {
        if let Some(id) = &self.id {
            return self.by_id(scene, id).await;
        }
        let Find { fields, text: part, limit, matches, .. } = self.portion();
        let ask = Search { fields, part, limit, matches, after: self.cursor()? };
        let mut hits = search(&scene.queue(&self.queue).await?, &ask, &mut Until::after(TIME)).await?;
        shorten(scene, &mut hits);
        Ok(hits)
    }

    fn text(&self, hits: &Hits, _: Explain) -> String {
        if self.id.is_some() { words_by_id(hits) } else { words(hits) }
    }

    fn portion(&self) -> Find {
        Find { limit: self.limit.min(LOOKED_AT), matches: self.matches.min(MATCHES), ..self.clone() }
    }

    fn rest(&self, hits: &Hits) -> Option<Find> {
        if self.id.is_some() {
            return Some(Find { after: Some(hits.next.clone()?), ..self.clone() });
        }
        let limit = self.limit.checked_sub(hits.examined)?;
        let matches = self.matches.checked_sub(hits.elements.len())?;
        let after = hits.next.clone().filter(|_| limit > 0 && matches > 0)?;
        Some(Find { limit, matches, after: Some(after), ..self.clone() })
    }

    fn add_rest(all: &mut Hits, rest: Hits) {
        all.add(rest);
    }

    fn progress(&self, hits: &Hits) -> Progress {
        let of = Some(if self.id.is_some() { hits.total } else { hits.total.min(self.limit) });
        Progress { done: hits.examined, of, acted: hits.elements.len() as u64 }
    }
}

impl Find {
    /// Creates a search of a queue for what a person wrote: `orderId=7` is a field, anything else a part of the payload.
    pub fn written(queue: &str, text: &str, after: Option<String>) -> Find {
        let Search { fields, part, .. } = Search::of(text, LOOKED_AT, matches(), None);
        Find { queue: queue.to_owned(), fields, text: part, id: None, limit: LOOKED_AT, matches: matches(), after }
    }

    /// Compares ids with this one, for as long as a request may take.
    async fn by_id(&self, scene: &Scene, id: &str) -> Result<Hits, Error> {
        let queue = scene.queue(&self.queue).await?;
        let part = search_part(&queue, id, self.schedule_cursor()?, &mut Until::after(TIME)).await?;
        let mut hits = Hits {
            queue: self.queue.clone(),
            now_ms: part.now_ms,
            total: part.of,
            examined: part.compared,
            incomplete: part.next.is_some(),
            next: part.next.map(|next| next.to_string()),
            ..Hits::default()
        };
        hits.elements.extend(part.found.map(Into::into));
        shorten(scene, &mut hits);
        Ok(hits)
    }

    fn schedule_cursor(&self) -> Result<Option<ScheduleCursor>, Error> {
        let cursor = self.after.as_deref().map(str::parse).transpose();
        cursor.map_err(|problem| Error::invalid(format!("read `after`: {problem}")))
    }

    fn cursor(&self) -> Result<Option<crate::search::Cursor>, Error> {
        let after = self.after.as_deref().filter(|after| !after.is_empty());
        let cursor = after.map(str::parse).transpose();
        cursor.map_err(|problem| Error::invalid(format!("read `after`: {problem}")))
    }
}

/// Leaves the beginning of each payload in the answer of a daemon.
fn shorten(scene: &Scene, hits: &mut Hits) {
    if scene.live().is_some() {
        for element in &mut hits.elements {
            element.content = std::mem::take(&mut element.content).shortened(SHOWN);
        }
    }
}

/// Returns the elements, a row for each.
pub(super) fn table(hits: &Hits) -> TextTable {
    let mut table = TextTable::new("ID|STATE|DUE||>ATTEMPTS|PAYLOAD");
    let none = || "-".to_owned();
    for element in &hits.elements {
        let state = Whereabouts::of(element.state, element.due_ms, hits.now_ms).words();
        table.row([
            element.id.as_ref().map_or_else(none, ToString::to_string),
            state.to_owned(),
            element.due_ms.map_or_else(none, show::absolute),
            element.due_ms.map_or_else(String::new, |ms| show::relative(ms, hits.now_ms)),
            element.attempts.to_string(),
            element.content.preview(PREVIEW),
        ]);
    }
    table
}

fn words(hits: &Hits) -> String {
    let table = if hits.elements.is_empty() { String::new() } else { table(hits).render() + "\n" };
    let found = plural::count(hits.elements.len(), "element");
    let rest = if hits.incomplete {
        format!(
            "; {} of {} were not looked at: --limit and --matches bound the search",
            hits.total.saturating_sub(hits.examined),
            plural::count(hits.total, "element")
        )
    } else {
        String::new()
    };
    format!("{table}{found} found in {} looked at{rest}\n", plural::count(hits.examined, "element"))
}

fn words_by_id(hits: &Hits) -> String {
    let of = plural::count(hits.total, "scheduled element");
    match hits.elements.is_empty() {
        false => table(hits).render(),
        true if hits.incomplete => format!("not met among {} of {of}; the search was ended\n", hits.examined),
        true => "not found among the scheduled, retried, in-flight and dead elements\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_looked_at_is_said() {
        let hits = Hits { queue: "q".to_owned(), total: 30, examined: 10, incomplete: true, ..Hits::default() };
        assert_eq!(
            words(&hits),
            "0 elements found in 10 elements looked at; 20 of 30 elements were not looked at: --limit and --matches bound the \
             search\n"
        );
        assert!(words(&Hits { incomplete: false, examined: 30, ..hits }).ends_with("in 30 elements looked at\n"));
    }
}
