//! The catalogue of error codes: what each means and what to do. `docs/errors.md` is written from it.
//!
//! Collects what link, sinks, templates and the pipeline's verdicts offer. A code is in one list only, whoever gives it;
//! where places differ, the cause says so.

mod table;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use delaybridge_config::sink_kinds;
use delaybridge_core::codes::{Code, Codes};
use delaybridge_core::template;
use delaybridge_link as link;

/// Returns the entry of a code; of a long one, its first 16 bytes are enough, which is what an entry in Redis keeps.
pub fn explain(code: &str) -> Option<Code> {
    let means = |entry: &Code| entry.code == code || code.len() == 16 && entry.code.starts_with(code);
    sections().iter().flat_map(|section| section.list.iter()).find(|entry| means(entry)).cloned()
}

/// Returns every section, in the order of the page.
fn sections() -> Vec<Codes> {
    let payloads = table::PAYLOADS.iter().chain(template::codes::CODES).cloned().collect::<Vec<_>>();
    let payloads = Codes { title: table::PAYLOADS_TITLE, text: table::PAYLOADS_TEXT, list: payloads.into() };
    let mut sections = vec![table::DEAD];
    sections.extend(link::codes::CODES);
    sections.push(delaybridge_sink::codes::EVERY_SINK);
    // A kind that this binary was built without has no codes.
    sections.extend(sink_kinds::KINDS.iter().map(|kind| (kind.codes)()).filter(|codes| !codes.list.is_empty()));
    sections.push(payloads);
    sections
}

/// The page, as it is in `docs/errors.md`.
pub fn reference() -> String {
    let mut page = String::from(table::HEAD);
    for Codes { title, text, list } in sections() {
        let (common, own): (Vec<_>, Vec<_>) = list.iter().partition(|code| has_common_cure(code, &list));
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {title}\n\n{text}\n\n| code | cause | cure |\n|---|---|---|\n");
        for Code { code, cause, cure } in own {
            let _ = writeln!(page, "| `{code}` | {cause} | {cure} |");
        }
        let cures: BTreeSet<_> = common.iter().map(|code| &code.cure).collect();
        for cure in cures {
            let _ = write!(page, "\n{cure}\n\n");
            for Code { code, cause, .. } in common.iter().filter(|code| &code.cure == cure) {
                let _ = writeln!(page, "- `{code}`: {cause}");
            }
        }
    }
    page
}

/// Returns whether several codes of the section share the cure of this one, which is then printed once above them.
fn has_common_cure(code: &Code, section: &[Code]) -> bool {
    section.iter().filter(|other| other.cure == code.cure).count() > 2
}

#[cfg(test)]
mod tests;
