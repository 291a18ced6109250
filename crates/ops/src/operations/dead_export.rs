//! `dead export`: dead letters as lines of JSON.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dead::export::object;
use crate::dead::selection::Selection;
use crate::dead::{Filter, LOOKED_AT, Letters, check_after};
use crate::error::Error;
use crate::operation::{Operation, Route, Scene, route};
use crate::session::find;
use delaybridge_ledger::Order;
use delaybridge_model::Config;

/// Bytes of the letters of a page, after which it ends.
const PAGE_BYTES: usize = 4 << 20;
/// The largest letter that a daemon answers: what is larger is exported over Redis.
const LARGEST: usize = 40 << 20;

/// A page of dead letters with everything that they keep.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[group(skip)]
#[serde(deny_unknown_fields)]
pub struct ExportDead {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// Only those behind this stream id, or behind the place that an export has named which was ended
    #[arg(long, value_name = "PLACE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The filter of the letters
    #[command(flatten)]
    #[serde(default, serialize_with = "Filter::in_query")]
    #[schemars(flatten)]
    pub filter: Filter,
}

/// Some letters as an export has them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExportedLetters", extend("additionalProperties" = true))]
pub struct ExportPage {
    /// The queue.
    pub queue: String,
    /// Letters that were examined.
    pub examined: u64,
    /// Letters that are to be examined in all, as far as that is known.
    pub total: Option<u64>,
    /// The letters, the oldest first, each with all of its fields.
    pub dead_letters: Vec<Map<String, Value>>,
    /// The `after` of the next page. None at the end.
    pub next: Option<String>,
    /// Sinks of the filter that neither the configuration has nor a letter that was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_sinks: Vec<String>,
}

impl ExportPage {
    /// Returns the letters as lines of a file.
    pub fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for letter in &self.dead_letters {
            // A map of texts can always be written.
            let _ = serde_json::to_writer(&mut lines, letter);
            lines.push(b'\n');
        }
        lines
    }
}

impl Operation for ExportDead {
    type Answer = ExportPage;

    const NAME: &'static str = "dead export";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues/{queue}/dead/export" export ToSee,
        "Read dead letters with everything that they keep, the oldest first" => "The letters",
        "`next` is there unless these are the last: ask for those after it. A page ends at 4 MiB. Several values of a part of the \
         filter have commas between them; `field` has one.")];

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        self.filter.check()?;
        check_after(self.after.as_deref())?;
        find(config, &self.queue).map(drop)
    }

    /// Reads letters until there are 4 MiB of them, or as many were looked at as a page of a list may.
    async fn run(&self, scene: &Scene) -> Result<ExportPage, Error> {
        let queue = scene.queue(&self.queue).await?;
        let which = Letters { filter: self.filter.clone(), after: self.after.clone(), ..Letters::default() };
        let mut selection = Selection::open(&queue, &which, Order::Oldest).await?;
        let queue = self.queue.clone();
        let total = Some(selection.total);
        let mut page = ExportPage { queue, total, ..ExportPage::default() };
        let largest = scene.live().map_or(usize::MAX, |_| LARGEST);
        let mut bytes = 0;
        while let Some(some) = selection.next(usize::MAX).await? {
            let mut behind = None;
            let mut full = false;
            for letter in some.letters {
                let size: usize = letter.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
                if size > largest && page.dead_letters.is_empty() {
                    return Err(Error::invalid(format!(
                        "export dead letters of `{}`: letter {} has {size} bytes, more than a daemon answers at once; export it over \
                         Redis, without --daemon, or go on behind it with --after {}",
                        page.queue,
                        letter.stream_id,
                        selection.after(&letter.stream_id)
                    )));
                }
                // The next page begins with a large one, and says so.
                full = size > largest;
                if full {
                    break;
                }
                bytes += size;
                page.dead_letters.push(object(&letter));
                behind = Some(letter.stream_id);
                full = bytes >= PAGE_BYTES;
                if full {
                    break;
                }
            }
            page.examined = selection.examined;
            let last = if full { behind } else { some.last };
            page.next = last.map(|last| selection.after(&last)).or(page.next);
            if full || page.examined >= LOOKED_AT {
                page.unknown_sinks = selection.unknown_sinks(scene.config());
                return Ok(page);
            }
        }
        page.next = None;
        page.unknown_sinks = selection.unknown_sinks(scene.config());
        Ok(page)
    }

    fn rest(&self, page: &ExportPage) -> Option<ExportDead> {
        Some(ExportDead { after: Some(page.next.clone()?), ..self.clone() })
    }
}
