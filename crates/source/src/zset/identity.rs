//! Ids of members: a hash, or a text that the payload brings.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use delaybridge_core::message::{Identity, MessageId};
use delaybridge_core::template::{ElementInfo, Filler, Template};

/// The origin of the ids of a queue's elements.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Naming {
    /// A hash of the member and its score: the same payload at another time is another element.
    #[serde(serialize_with = "hash")]
    Hash,
    /// A text of the payload; where it has none, the hash.
    Text(Template),
}

fn hash<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("hash")
}

impl Naming {
    /// Returns the identity of a member. `given` has its score, as the claim keeps it.
    pub fn identity(&self, given: MessageId, member: &Bytes) -> Identity {
        let named = match self {
            Naming::Hash => None,
            Naming::Text(template) => filled(template, member).and_then(|text| Identity::named(&text)),
        };
        named.unwrap_or_else(|| hash_of(given, member).into())
    }
}

/// Computes 64 bits of a hash over the member and its score.
fn hash_of(given: MessageId, member: &[u8]) -> MessageId {
    MessageId(xxh3_64_with_seed(member, xxh3_64(&given.0)).to_be_bytes())
}

/// Returns the text that a template makes of a member that is JSON; `None` if it has nothing to put in.
pub(super) fn filled(template: &Template, member: &[u8]) -> Option<String> {
    let json: Value = serde_json::from_slice(member).ok()?;
    let none = MessageId([0; 8]).into();
    let element = ElementInfo { id: &none, queue: "", due_ms: None, attempt: 1, topic: None, carried: None };
    Filler::new(&element, &json, None).text(template, &"source").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(template: &str, member: &str) -> String {
        let naming = Naming::Text(Template::compile(template).expect("a template"));
        naming.identity(MessageId([0; 8]), &Bytes::from(member.to_owned())).to_string()
    }

    #[test]
    fn a_text_of_the_payload_is_the_id_and_else_the_hash() {
        let job = r#"{"jid":"b4a577edbccf1d805744efa9","n":7,"bad":"a b","deep":{"id":["x"]}}"#;
        let hash = Naming::Hash.identity(MessageId([0; 8]), &Bytes::from(job)).to_string();
        assert_eq!(named("${payload.jid}", job), "b4a577edbccf1d805744efa9");
        assert_eq!(named("job-${payload.n}", job), "job-7");
        assert_eq!(named("${payload.deep.id.0}", job), "x");
        for missing in ["${payload.none}", "${payload.deep}", "${payload.bad}", "${payload}"] {
            assert_eq!(named(missing, job), hash, "{missing}");
        }
        let serialised = "O:8:\"stdClass\":0:{}";
        assert_eq!(
            named("${payload.jid}", serialised),
            Naming::Hash.identity(MessageId([0; 8]), &Bytes::from(serialised)).to_string()
        );
    }

    #[test]
    fn the_same_payload_at_another_time_is_another_element() {
        let one = Bytes::from_static(b"remind 7");
        let two = Bytes::from_static(b"remind 8");
        let id = |given: u8, member: &Bytes| Naming::Hash.identity(MessageId([given; 8]), member);
        assert_eq!(id(1, &one), id(1, &one));
        assert_ne!(id(1, &one), id(2, &one));
        assert_ne!(id(1, &one), id(1, &two));
    }
}
