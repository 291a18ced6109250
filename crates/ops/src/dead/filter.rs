//! The filter of dead letters, by their fields: the same filter for everything that is done with them. Pure.

use std::time::Duration;

use bytes::Bytes;

use crate::element::KILLED;
use crate::error::Error;
use crate::plural::similar;
use crate::session::Queue;
use delaybridge_core::message::Class;
use delaybridge_ledger::DeadLetter;
use delaybridge_model::QueueSpec;

/// Why letters died: the reasons of the daemon, and that of an operator.
pub const REASONS: [&str; 10] = [
    "max_attempts",
    "message_permanent",
    "expired",
    "lease_expired",
    "absurd_due",
    "undecodable",
    "unroutable",
    "junk",
    "skipped",
    KILLED,
];

/// Filters of the payload, of reasons, codes and so on, each at most.
const MOST: usize = 100;

/// A filter of letters. Of several values of one kind one must fit, of several kinds all must.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Why it died.
    pub reasons: Vec<String>,
    /// Class of the last failure.
    pub classes: Vec<String>,
    /// Code of the last failure.
    pub codes: Vec<String>,
    /// The sink that decided.
    pub sinks: Vec<String>,
    /// Dead for longer than this, by Redis's clock.
    pub older_than: Option<Duration>,
    /// Dead for less than this.
    pub newer_than: Option<Duration>,
    /// The beginning of the element's id.
    pub id_prefix: Option<String>,
    /// Fields of the decoded payload: all of them.
    pub fields: Vec<FieldIs>,
}

/// A field of a decoded payload, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldIs {
    path: Vec<String>,
    value: String,
}

impl std::str::FromStr for FieldIs {
    type Err = String;

    /// `orderId=7`, `customer.id=a`, `items.0.sku=x`: as `${payload.orderId}` in a template.
    fn from_str(text: &str) -> Result<Self, String> {
        let help = || "write PATH=VALUE, as orderId=7 or customer.name=Ann".to_owned();
        let (path, value) = text.split_once('=').ok_or_else(help)?;
        let path = path.strip_prefix("payload.").unwrap_or(path);
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        match path.iter().any(String::is_empty) || path.len() > 32 {
            true => Err(help()),
            false => Ok(FieldIs { path, value: value.to_owned() }),
        }
    }
}

impl std::fmt::Display for FieldIs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.path.join("."), self.value)
    }
}

impl FieldIs {
    /// Whether the payload, as the codec of the queue reads it, has this.
    pub fn fits(&self, spec: &QueueSpec, payload: &Bytes) -> bool {
        spec.field_of(payload, &self.path).is_some_and(|value| value == self.value)
    }
}

impl Filter {
    /// The filter in words, for the log and for a question; without values of payloads.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        let mut add = |name: &str, values: &[String]| {
            if !values.is_empty() {
                parts.push(format!("{name} {}", values.join(" or ")));
            }
        };
        add("reason", &self.reasons);
        add("class", &self.classes);
        add("code", &self.codes);
        add("sink", &self.sinks);
        let time = |time: Duration| humantime::format_duration(time).to_string();
        parts.extend(self.older_than.map(|age| format!("older than {}", time(age))));
        parts.extend(self.newer_than.map(|age| format!("newer than {}", time(age))));
        parts.extend(self.id_prefix.as_ref().map(|_| "an id that begins so".to_owned()));
        parts.extend((!self.fields.is_empty()).then(|| "a field of the payload".to_owned()));
        if parts.is_empty() { "all dead letters".to_owned() } else { format!("dead letters with {}", parts.join(", ")) }
    }

    /// Whether every letter fits.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Refuses what could never be compared.
    ///
    /// # Errors
    ///
    /// For too many values, for a reason or a class that no letter has, and for times that exclude each other. Sinks and codes
    /// may be those of an earlier configuration.
    pub fn check(&self) -> Result<(), Error> {
        let counts = [self.reasons.len(), self.classes.len(), self.codes.len(), self.sinks.len(), self.fields.len()];
        if counts.iter().any(|count| *count > MOST) {
            return Err(Error::invalid(format!("filter dead letters: more than {MOST} values of one kind")));
        }
        known("reason", &self.reasons, &REASONS)?;
        known("class", &self.classes, &Class::ALL.map(|class| class.as_str()))?;
        match (self.older_than, self.newer_than) {
            (Some(older), Some(newer)) if older >= newer => Err(Error::invalid(
                "filter dead letters: nothing is older than one time and newer than a shorter one; exchange the two",
            )),
            _ => Ok(()),
        }
    }

    /// The range of the stream that has letters of that age: its ids begin with the time in ms at which Redis stored
    /// them.
    pub(super) fn range(&self, now_ms: i64) -> (Option<String>, Option<String>) {
        let before = |age: Duration| now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)).max(0);
        let oldest = self.newer_than.map(|age| before(age).to_string());
        let newest = self.older_than.map(|age| before(age).to_string());
        (oldest, newest)
    }

    /// Whether a letter at the right place of the stream fits in everything else.
    pub(super) fn fits(&self, queue: &Queue, letter: &DeadLetter) -> bool {
        let one = |wanted: &[String], name: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted == letter.text(name))
        };
        let plain = one(&self.reasons, "reason")
            && one(&self.classes, "class")
            && one(&self.codes, "code")
            && one(&self.sinks, "sink")
            && self.id_prefix.as_ref().is_none_or(|prefix| letter.text("id").starts_with(prefix.as_str()));
        if !plain || self.fields.is_empty() {
            return plain;
        }
        let payload = queue.ledger.dead_payload(letter).unwrap_or_default();
        self.fields.iter().all(|field| field.fits(&queue.spec, &payload))
    }
}

/// Refuses a word that is none of these. It would match nothing, and look like an answer.
fn known(what: &str, given: &[String], words: &[&str]) -> Result<(), Error> {
    let Some(unknown) = given.iter().find(|given| !words.contains(&given.as_str())) else { return Ok(()) };
    let help = match similar(unknown, words.iter().copied()).first() {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are: {}", words.join(", ")),
    };
    Err(Error::invalid(format!("filter dead letters: no letter has the {what} `{unknown}`; {help}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_no_letter_has_is_refused() {
        let reason = |reason: &str| Filter { reasons: vec![reason.to_owned()], ..Filter::default() }.check();
        let class = |class: &str| Filter { classes: vec![class.to_owned()], ..Filter::default() }.check();
        assert!(reason("expired").is_ok() && reason("killed").is_ok() && class("transient").is_ok());
        assert!(reason("max_atempts").unwrap_err().message.contains("did you mean `max_attempts`?"));
        assert!(class("x").unwrap_err().message.contains("there are: backpressure"));
    }

    #[test]
    fn a_field_is_a_path_and_a_text() {
        let field = |text: &str| text.parse::<FieldIs>();
        assert_eq!(field("orderId=7"), field("payload.orderId=7"));
        assert_eq!(
            field("a.b=c=d").unwrap(),
            FieldIs { path: vec!["a".to_owned(), "b".to_owned()], value: "c=d".to_owned() }
        );
        for bad in ["orderId", "=7", "a..b=7", ""] {
            assert!(field(bad).unwrap_err().contains("PATH=VALUE"), "{bad}");
        }
    }

    #[test]
    fn ages_are_places_in_the_stream() {
        let age = |older: u64, newer: u64| Filter {
            older_than: Some(Duration::from_secs(older)),
            newer_than: Some(Duration::from_secs(newer)),
            ..Filter::default()
        };
        assert_eq!(age(60, 3_600).range(3_700_000), (Some("100000".to_owned()), Some("3640000".to_owned())));
        assert!(age(60, 3_600).check().is_ok() && age(60, 60).check().is_err());
        assert_eq!(age(u64::MAX, u64::MAX).range(5), (Some("0".to_owned()), Some("0".to_owned())));
    }
}
