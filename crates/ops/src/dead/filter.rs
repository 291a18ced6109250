//! The filter of dead letters, by their fields: the same filter for everything that is done with them. Pure.

use bytes::Bytes;
use clap::Args;
use schemars::JsonSchema;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::element::KILLED;
use crate::error::Error;
use crate::operation::Need;
use crate::plural::similar;
use crate::session::Queue;
use crate::time::Length;
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

/// A filter of letters. Of several values of one kind one must fit, of several kinds all must: options of a command, parts of a query,
/// and an object in a body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LetterFilter", extend("required" = []))]
pub struct Filter {
    /// Only those with this reason: max_attempts, message_permanent, expired, undecodable, ...
    #[arg(long, value_name = "REASON")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reason: Vec<String>,
    /// Only those with this class of the last failure: transient, ambiguous, ...
    #[arg(long, value_name = "CLASS")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<String>,
    /// Only those with this code of the last failure
    #[arg(long, value_name = "CODE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<String>,
    /// Only those about which this sink decided
    #[arg(long, value_name = "SINK")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sink: Vec<String>,
    /// Only those that died longer ago, as 2h, by Redis's clock
    #[arg(long, value_name = "DURATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Length>,
    /// Only those that died later than so long ago
    #[arg(long, value_name = "DURATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_than: Option<Length>,
    /// Only those of elements with ids that begin so
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_prefix: Option<String>,
    /// Only those with this field in the decoded payload, as orderId=7; given several times, all of them
    #[arg(long, value_name = "PATH=VALUE")]
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "fields_of")]
    pub field: Vec<FieldIs>,
}

/// The names of the parts of a filter.
pub const FILTER_NAMES: [&str; 8] =
    ["reason", "class", "code", "sink", "older_than", "newer_than", "id_prefix", "field"];

/// Reads fields of a payload: a list of them, or one, whose value may have commas in it.
fn fields_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FieldIs>, D::Error> {
    /// Reads one or several.
    struct OneOrSeveral;

    impl<'de> Visitor<'de> for OneOrSeveral {
        type Value = Vec<FieldIs>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a text, or a list of texts")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<FieldIs>, E> {
            Ok(vec![text.parse().map_err(E::custom)?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<FieldIs>, A::Error> {
            let mut all = Vec::new();
            while let Some(field) = list.next_element()? {
                all.push(field);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(OneOrSeveral)
}

/// A field of a decoded payload, and its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String")]
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
        if path.iter().any(String::is_empty) || path.len() > 32 {
            Err(help())
        } else {
            Ok(FieldIs { path, value: value.to_owned() })
        }
    }
}

impl TryFrom<String> for FieldIs {
    type Error = String;

    /// Does not quote the text: it has a value of a payload in it.
    fn try_from(text: String) -> Result<FieldIs, String> {
        text.parse()
    }
}

impl From<FieldIs> for String {
    fn from(field: FieldIs) -> String {
        field.to_string()
    }
}

impl std::fmt::Display for FieldIs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.path.join("."), self.value)
    }
}

impl FieldIs {
    /// Returns whether the payload, as the codec of the queue reads it, has this.
    pub fn fits(&self, spec: &QueueSpec, payload: &Bytes) -> bool {
        spec.field_of(payload, &self.path).is_some_and(|value| value == self.value)
    }
}

impl Filter {
    /// Returns the filter in words, for the log and for a question; without values of payloads.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        let mut add = |name: &str, values: &[String]| {
            if !values.is_empty() {
                parts.push(format!("{name} {}", values.join(" or ")));
            }
        };
        add("reason", &self.reason);
        add("class", &self.class);
        add("code", &self.code);
        add("sink", &self.sink);
        parts.extend(self.older_than.map(|age| format!("older than {age}")));
        parts.extend(self.newer_than.map(|age| format!("newer than {age}")));
        parts.extend(self.id_prefix.as_ref().map(|_| "an id that begins so".to_owned()));
        parts.extend((!self.field.is_empty()).then(|| "a field of the payload".to_owned()));
        if parts.is_empty() { "all dead letters".to_owned() } else { format!("dead letters with {}", parts.join(", ")) }
    }

    /// Returns whether every letter fits.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Returns the right that it needs beyond that to list letters.
    pub fn need(&self) -> Option<Need> {
        // To find what fits, all letters are read. A filter on a field reveals what payloads contain.
        if self.field.is_empty() { (!self.is_empty()).then_some(Need::ToSearch) } else { Some(Need::ToSee) }
    }

    /// Writes it as fields of a query.
    ///
    /// # Errors
    ///
    /// For what only a body can have.
    pub fn in_query<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let named = [("reason", &self.reason), ("class", &self.class), ("code", &self.code), ("sink", &self.sink)];
        let refused = match named.iter().find(|(_, values)| values.iter().any(|value| value.contains(','))) {
            Some((name, _)) => format!("a value of --{name} with a comma"),
            None if self.field.len() > 1 => "more than one --field".to_owned(),
            None => return self.serialize(to),
        };
        Err(serde::ser::Error::custom(format!(
            "ask a daemon for dead letters: it takes no filter with {refused}; run the command without --daemon"
        )))
    }

    /// Refuses what could never be compared.
    ///
    /// # Errors
    ///
    /// For too many values, for a reason or a class that no letter has, and for times that exclude each other. Sinks and codes
    /// may be those of an earlier configuration: a sink that no letter has either is reported behind the search.
    pub fn check(&self) -> Result<(), Error> {
        let counts = [self.reason.len(), self.class.len(), self.code.len(), self.sink.len(), self.field.len()];
        if counts.iter().any(|count| *count > MOST) {
            return Err(Error::invalid(format!("filter dead letters: more than {MOST} values of one kind")));
        }
        known("reason", &self.reason, &REASONS)?;
        known("class", &self.class, &Class::ALL.map(|class| class.as_str()))?;
        match (self.older_than, self.newer_than) {
            (Some(Length(older)), Some(Length(newer))) if older >= newer => Err(Error::invalid(
                "filter dead letters: nothing is older than one time and newer than a shorter one; exchange the two",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the times in ms at which Redis stored letters of that age, the oldest and the newest: ids of the stream
    /// begin with them.
    pub(super) fn range(&self, now_ms: i64) -> (Option<i64>, Option<i64>) {
        let before =
            |Length(age): Length| now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)).max(0);
        (self.newer_than.map(before), self.older_than.map(before))
    }

    /// Returns whether a letter at the right place of the stream fits in everything else.
    pub(super) fn fits(&self, queue: &Queue, letter: &DeadLetter) -> bool {
        let one = |wanted: &[String], name: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted == letter.text(name))
        };
        let plain = one(&self.reason, "reason")
            && one(&self.class, "class")
            && one(&self.code, "code")
            && one(&self.sink, "sink")
            && self.id_prefix.as_ref().is_none_or(|prefix| letter.text("id").starts_with(prefix.as_str()));
        if !plain || self.field.is_empty() {
            return plain;
        }
        let payload = queue.ledger.dead_payload(letter).unwrap_or_default();
        self.field.iter().all(|field| field.fits(&queue.spec, &payload))
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
    use std::time::Duration;

    use super::*;
    use crate::operation::RequestFields;

    #[test]
    fn a_word_that_no_letter_has_is_refused() {
        let reason = |reason: &str| Filter { reason: vec![reason.to_owned()], ..Filter::default() }.check();
        let class = |class: &str| Filter { class: vec![class.to_owned()], ..Filter::default() }.check();
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
            older_than: Some(Length(Duration::from_secs(older))),
            newer_than: Some(Length(Duration::from_secs(newer))),
            ..Filter::default()
        };
        assert_eq!(age(60, 3_600).range(3_700_000), (Some(100_000), Some(3_640_000)));
        assert!(age(60, 3_600).check().is_ok() && age(60, 60).check().is_err());
        assert_eq!(age(u64::MAX, u64::MAX).range(5), (Some(0), Some(0)));
    }

    #[test]
    fn query_and_json_mean_the_same() {
        let query = |texts: &[(&str, &str)]| {
            let mut fields = RequestFields::default();
            texts.iter().for_each(|(name, text)| fields.add_text(name, text));
            fields.read::<Filter>().unwrap()
        };
        let texts = [("reason", "expired, junk"), ("older_than", "1h"), ("field", "a.b=7,8"), ("sink", "")];
        let object = r#"{"reason":["expired","junk"],"older_than":"1h","field":"a.b=7,8"}"#;
        let read: Filter = serde_json::from_str(object).unwrap();
        assert_eq!(query(&texts), read);
        assert_eq!(read.words(), "dead letters with reason expired or junk, older than 1h, a field of the payload");
        assert_eq!(query(&[]).words(), "all dead letters");
    }

    #[test]
    fn a_query_says_so_if_it_cannot_have_a_filter() {
        let refused = |filter: Filter| filter.in_query(serde_json::value::Serializer).unwrap_err().to_string();
        let two = Filter { field: vec!["a=1".parse().unwrap(), "b=2".parse().unwrap()], ..Filter::default() };
        assert!(refused(two).contains("without --daemon"));
        assert!(refused(Filter { code: vec!["a,b".to_owned()], ..Filter::default() }).contains("--code"));
    }

    #[test]
    fn mistakes_are_explained_and_no_value_of_a_payload_is_quoted() {
        #[derive(Debug, Deserialize)]
        struct Body {
            #[expect(dead_code, reason = "it is never read")]
            filter: Filter,
        }
        let bad = |filter: &str| {
            let mut fields = RequestFields::default();
            fields.add_body(Bytes::from(format!(r#"{{"filter":{filter}}}"#))).unwrap();
            fields.read::<Body>().unwrap_err().message
        };
        assert!(bad(r#"{"reasn":"x"}"#).contains("did you mean `reason`?"));
        assert!(bad(r#"{"older_than":"soon"}"#).contains("read `filter.older_than`"));
        assert_eq!(bad(r#"{"code":[7]}"#), "read `filter.code`: expected a text, found a number");
        let field = bad(r#"{"field":"secret"}"#);
        assert!(field.contains("PATH=VALUE") && !field.contains("secret"), "{field}");
    }
}
