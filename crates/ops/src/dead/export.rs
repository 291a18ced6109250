//! Dead letters as lines of JSON: everything that they keep, byte for byte, so that an import makes the same letters of them.

use std::io::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Letters;
use super::selection::Selection;
use crate::content::base64;
use crate::error::Error;
use crate::progress::{ProgressWatch, Unwatched};
use crate::session::Queue;
use delaybridge_ledger::{DeadLetter, Order};

/// The end of a field's name with bytes as its value.
pub(super) const BASE64: &str = "_base64";

/// The outcome of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The queue.
    pub queue: String,
    /// Lines.
    pub exported: u64,
    /// Letters that were looked at.
    pub examined: u64,
    /// Whether it was ended before it was done.
    pub stopped: bool,
    /// The last letter that was looked at: a later export of what is behind it goes on there.
    pub last: Option<String>,
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
    /// The last letter that was examined: the next page begins behind it. None at the end.
    pub next: Option<String>,
}

impl ExportPage {
    /// The letters as lines of a file.
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

/// Bytes of the letters of a page, after which it ends.
const PAGE_BYTES: usize = 4 << 20;
/// The largest letter of a page: what is larger is exported over Redis.
const LARGEST: usize = 40 << 20;

/// Reads the letters that are meant, the oldest first, until there are 4 MiB of them, or as many were looked at as a page of a list may.
///
/// # Errors
///
/// When the filter cannot be, when Redis cannot be asked, and for a letter above 40 MiB, which no page can have.
pub async fn export_page(queue: &Queue, which: &Letters) -> Result<ExportPage, Error> {
    let mut selection = Selection::open(queue, which, Order::Oldest).await?;
    let mut page = ExportPage { queue: queue.id().to_owned(), total: selection.step.of, ..ExportPage::default() };
    let mut bytes = 0;
    while let Some(some) = selection.next(usize::MAX, &mut Unwatched).await? {
        let (mut behind, mut full) = (None, false);
        for letter in some.letters {
            let size: usize = letter.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
            if size > LARGEST && page.dead_letters.is_empty() {
                return Err(Error::invalid(format!(
                    "export dead letters of `{}`: letter {} has {size} bytes, more than a daemon answers at once; export it over Redis, \
                     without --daemon, or go on behind it with --after {}",
                    page.queue, letter.stream_id, letter.stream_id
                )));
            }
            // The next page begins with a large one, and says so.
            full = size > LARGEST;
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
        page.examined = selection.step.done;
        page.next = if full { behind } else { some.last }.or(page.next);
        if full || page.examined >= super::LOOKED_AT {
            return Ok(page);
        }
    }
    page.next = None;
    Ok(page)
}

/// Writes the letters that are meant, the oldest first, one object a line. They stay where they are.
///
/// # Errors
///
/// When the filter cannot be, when Redis cannot be asked, and when nothing can be written; the message says how to go on.
pub async fn export(
    queue: &Queue,
    which: &Letters,
    watch: &mut dyn ProgressWatch,
    out: &mut (dyn Write + Send),
) -> Result<Exported, Error> {
    let mut done = Exported { queue: queue.id().to_owned(), ..Exported::default() };
    let mut selection = Selection::open(queue, which, Order::Oldest).await?;
    while let Some(page) = selection.next(usize::MAX, watch).await? {
        for letter in page.letters {
            let line = serde_json::to_vec(&object(&letter)).unwrap_or_default();
            out.write_all(&line).and_then(|()| out.write_all(b"\n")).map_err(|error| {
                let after = done.last.as_ref().map(|last| format!(" --after {last}")).unwrap_or_default();
                Error::failed(format!(
                    "export dead letters of `{}`: {error}; {} lines were written before: to go on, run it again with{after}",
                    done.queue, done.exported
                ))
            })?;
            done.exported += 1;
            done.last = Some(letter.stream_id);
        }
        done.last = page.last.or(done.last);
        selection.step.acted = done.exported;
    }
    out.flush().map_err(|error| Error::failed(format!("export dead letters of `{}`: {error}", done.queue)))?;
    (done.examined, done.stopped) = (selection.step.done, watch.is_stopped());
    Ok(done)
}

/// `stream_id`, then every field: text where it is text, else as `NAME_base64`. The element and the body always are bytes.
pub(super) fn object(letter: &DeadLetter) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("stream_id".to_owned(), letter.stream_id.clone().into());
    for (name, bytes) in &letter.fields {
        match std::str::from_utf8(bytes) {
            Ok(text) if !matches!(name.as_str(), "element" | "body") => object.insert(name.clone(), text.into()),
            _ => object.insert(format!("{name}{BASE64}"), base64(bytes).into()),
        };
    }
    object
}
