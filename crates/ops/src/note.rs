//! What a person did to a queue over Redis, as the daemons that serve it log it: one that is asked over its API logs it itself.

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::session::Queue;

/// Bytes of a note that is read.
const LARGEST: usize = 16 << 10;
/// Characters of each text.
const LONGEST: usize = 500;

/// A change that a person made, or tried to make, over Redis. No payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorNote {
    /// The command.
    pub what: String,
    /// The subject in the queue: an element's id, or the filter of dead letters.
    pub which: String,
    /// The person, and the host.
    pub by: String,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The problem, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl OperatorNote {
    /// Creates a note of a change, with each text bounded and on one line.
    pub fn of(what: &str, which: &str, by: &str, outcome: Result<&str, &str>) -> OperatorNote {
        OperatorNote {
            what: line(what),
            which: line(which),
            by: line(by),
            result: outcome.ok().map(line),
            problem: outcome.err().map(line),
        }
    }

    /// Reads a note. Whoever may publish can write one, so that it is bounded, and has one line a text.
    pub fn read(bytes: &[u8]) -> Option<OperatorNote> {
        let note: OperatorNote = (bytes.len() <= LARGEST).then(|| serde_json::from_slice(bytes).ok())??;
        Some(OperatorNote {
            what: line(&note.what),
            which: line(&note.which),
            by: line(&note.by),
            result: note.result.as_deref().map(line),
            problem: note.problem.as_deref().map(line),
        })
    }
}

/// Returns the name that everybody sees where a caller names a person: `ann (uid 0@vm)`. The name is a claim, and the
/// other one is known: a caller may not act under another's name. A blank name stays as it is, and is refused.
pub fn on_behalf_of(known: &str, person: Option<&str>) -> String {
    // A caller of the command line has the host behind the name.
    let is_known =
        |person: &str| known.strip_prefix(person).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'));
    match person {
        Some(person) if person.trim().is_empty() => person.to_owned(),
        Some(person) if !is_known(person) => format!("{person} ({known})"),
        _ => known.to_owned(),
    }
}

/// Returns the text on one line, and not too long.
fn line(text: &str) -> String {
    text.chars().take(LONGEST).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

impl Queue {
    /// Tells the daemons that serve the queue what came of a command, and returns that. Nothing is sent where no person is
    /// behind it, and it is no failure if no daemon listens.
    pub async fn tell<T>(
        &self,
        what: &str,
        which: &str,
        result: Result<T, Error>,
        words: impl FnOnce(&T) -> String,
    ) -> Result<T, Error> {
        if let Some(by) = &self.by {
            let told = result.as_ref().map(words).map_err(|error| error.message.as_str());
            let note = OperatorNote::of(what, which, by, told.as_deref().map_err(|problem| *problem));
            self.keep_change(&note, "").await;
            self.publish(&note).await;
        }
        result
    }

    /// Tells the daemons that serve the queue of a change. Best effort: it is done.
    pub(super) async fn publish(&self, note: &OperatorNote) {
        let _ = self.ledger.publish_note(&self.conn, &serde_json::to_vec(note).unwrap_or_default()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_named_with_the_caller_who_is_known() {
        for (known, person, expected) in [
            ("uid 0@vm", Some("ann"), "ann (uid 0@vm)"),
            ("ann@vm", Some("ann"), "ann@vm"),
            ("ann2@vm", Some("ann"), "ann (ann2@vm)"),
            ("local", Some("local"), "local"),
            ("local", None, "local"),
            ("local", Some(" "), " "),
        ] {
            assert_eq!(on_behalf_of(known, person), expected);
        }
    }

    #[test]
    fn a_note_is_bounded_and_has_one_line_a_text() {
        let read = |text: String| OperatorNote::read(text.as_bytes());
        let forged = format!(r#"{{"what":"a\nb","which":"{}","by":"ann","result":"1 \u001b[31m"}}"#, "x".repeat(1_000));
        let note = read(forged).unwrap();
        assert_eq!((note.what.as_str(), note.which.len(), note.result.as_deref()), ("a b", LONGEST, Some("1  [31m")));
        assert_eq!(read(format!(r#"{{"what":"a","which":"","by":"{}"}}"#, "x".repeat(LARGEST))), None);
        assert_eq!((read("[]".to_owned()), read("{".to_owned())), (None, None));
    }
}
