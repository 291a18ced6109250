//! Dead letters as lines of JSON: everything that they keep, byte for byte, so that an import makes the same letters of them.

use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Letters;
use super::selection::Selection;
use crate::content::base64;
use crate::error::Error;
use crate::progress::ProgressWatch;
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
