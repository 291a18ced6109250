//! Topics as destinations: the keys under `to:`, the target that they make, and the topic of one element.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use self::destination::{KEY, TOPIC};
use delaybridge_core::message::About;
use delaybridge_core::template::{FillError, Filler, Template};
use delaybridge_settings::keys::Group;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::{Settings, shown};
use delaybridge_sink::header_rules;
use delaybridge_sink::headers;
use delaybridge_sink::kind::RouteSite;
use delaybridge_sink::{Destination, Fixed, HeaderRules, Recognition, RouteHeaders, SinkAddress, Target};

/// The kind in the configuration.
pub(super) const NAME: &str = "kafka";

/// The keys of a destination as defaults on the sink.
pub(super) static ON_SINK: &[Group] = &[Group { of: None, keys: destination::OWN }];

/// A record of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaDestination {
    /// The topic.
    pub topic: Arc<str>,
    /// The record's key, which decides the partition; without one partitions take turns.
    pub key: Option<String>,
}

impl SinkAddress for KafkaDestination {
    /// Returns the topic. The sink knows the partitions.
    fn lane(&self) -> [&str; 2] {
        [&self.topic, ""]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        let topic = (TOPIC.name.to_owned(), Bytes::copy_from_slice(self.topic.as_bytes()));
        let key = self.key.iter().map(|key| (KEY.name.to_owned(), key.clone().into()));
        std::iter::once(topic).chain(key).collect()
    }

    fn carries_traces(&self) -> bool {
        true
    }

    fn record_key(&self) -> Option<&[u8]> {
        self.key.as_deref().map(str::as_bytes)
    }
}

impl fmt::Display for KafkaDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {}", self.topic)
    }
}

/// A topic, with the templates compiled.
#[derive(Debug, Clone, Serialize)]
pub struct KafkaTarget {
    /// Template of the topic.
    pub topic: Template,
    /// Template of the record's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Template>,
    /// The destination of every element, if there are no holes to fill.
    #[serde(skip)]
    constant: Option<Destination>,
}

impl KafkaTarget {
    /// Creates the target for records of this topic with this key.
    pub fn new(topic: Template, key: Option<Template>) -> KafkaTarget {
        let fixed_key = match &key {
            Some(key) => key.static_text().map(|key| Some(key.to_owned())),
            None => Some(None),
        };
        let fixed = topic.static_shared().cloned().zip(fixed_key);
        let constant =
            fixed.filter(|(topic, _)| !topic.is_empty()).map(|(topic, key)| KafkaDestination { topic, key }.into());
        KafkaTarget { topic, key, constant }
    }
}

impl Target for KafkaTarget {
    fn fill(&self, from: &Filler<'_>) -> Result<Destination, FillError> {
        if let Some(constant) = &self.constant {
            return Ok(constant.clone());
        }
        let topic = match from.fitting(&self.topic, TOPIC.name, unfit_topic)? {
            topic if topic.is_empty() => return Err(FillError::empty(TOPIC.name)),
            topic => topic,
        };
        let key = self.key.as_ref().map(|key| from.text(key, &KEY.name)).transpose()?;
        Ok(KafkaDestination { topic, key }.into())
    }

    fn choosing(&self, _about: About) -> [Option<&Template>; 2] {
        // The key of a record chooses among the partitions of one topic.
        [Some(&self.topic), None]
    }

    fn keys(&self) -> Map<String, Value> {
        shown::fields(self)
    }

    fn recognition(&self) -> Recognition {
        Recognition::Lookup
    }

    fn place(&self) -> Option<String> {
        Some(self.topic.source().to_owned())
    }

    fn fixed(&self) -> Option<Fixed> {
        let destination = KafkaDestination { topic: self.topic.usual_text()?, key: None };
        Some(Fixed { name: destination.to_string(), destination: destination.into() })
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::KAFKA
    }

    fn check_headers(&self, headers: &RouteHeaders<'_, '_>) {
        headers.refuse("every record", headers::is_standard);
    }
}

/// The keys as they were written; absent is what was not.
#[derive(Settings)]
#[settings(destination, at = "queues.NAME.to[]")]
pub(super) struct KafkaKeys {
    /// Topic.
    #[key(Kind::Template, hidden)]
    topic: Option<(Template, Spot)>,
    /// Key of the record, which decides the partition. Without one, partitions take turns.
    #[key(Kind::Template, hidden)]
    key: Option<(Template, Spot)>,
    /// Whether a topic was written, be it one that cannot be read.
    #[settings(has = TOPIC)]
    written: bool,
}

impl KafkaKeys {
    /// Returns the target, from these keys of the route and those of its sink.
    pub(super) fn target(&self, at: &RouteSite<'_, '_>, sinks: &KafkaKeys) -> Option<(Arc<dyn Target>, Spot)> {
        let keys = if self.written { self } else { sinks };
        if !keys.written && !at.carried {
            let message = format!("no destination: sink `{}` names no topic", at.sink);
            at.report().problem(&at.section.spot, message, "write `topic: NAME` here or on the sink");
        }
        let key = self.key.as_ref().or(sinks.key.as_ref());
        if let Some((key, spot)) = key {
            (at.fits)(key, spot);
        }
        let addressed = (at.carried && !(keys.written && keys.topic.is_none())).then(|| match &keys.topic {
            Some((topic, spot)) => (topic.clone().addressed(), spot.clone()),
            None => (Template::original_key().addressed(), at.section.spot.clone()),
        });
        let (topic, spot) = addressed.as_ref().or(keys.topic.as_ref())?;
        (at.fits)(topic, spot);
        if let Some(problem) = topic.static_text().and_then(unfit_topic) {
            at.report().problem(spot, problem, "topics have letters (a to z), digits, `.`, `_` and `-`");
        }
        let target = KafkaTarget::new(topic.clone(), key.map(|(key, _)| key.clone()));
        Some((Arc::new(target), spot.clone()))
    }
}

/// Explains what is wrong with the name of a topic; the brokers have the same rules. Applied to a fixed text when it is
/// configured, and to a filled template for every element, so that the client never meets a name that the protocol cannot carry.
pub(super) fn unfit_topic(name: &str) -> Option<&'static str> {
    match name {
        "." | ".." => Some("`.` and `..` are no names of topics"),
        _ if name.len() > 249 => Some("the topic's name is longer than 249 characters"),
        _ if name.bytes().any(|byte| !byte.is_ascii_alphanumeric() && !b"._-".contains(&byte)) => {
            Some("the topic's name has characters that it cannot have")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{filled, template};

    #[test]
    fn a_topic_and_its_key_are_filled() {
        fn check(topic: &str, key: Option<&str>, expected: Result<(&str, Option<&str>), &str>) {
            let target = KafkaTarget::new(template(topic), key.map(template));
            let expected = expected.map_err(str::to_owned).map(|(topic, key)| {
                Destination::from(KafkaDestination { topic: topic.into(), key: key.map(str::to_owned) })
            });
            assert_eq!(filled(&target), expected);
        }
        check("t", None, Ok(("t", None)));
        check("o.${payload.orderId}", Some("${id}"), Ok(("o.A-7", Some("52414e444f4d3842"))));
        check("t", Some("${payload.empty}"), Ok(("t", Some(""))));
        check("${payload.empty}", None, Err("template_result_empty fill template of topic: the result is empty"));
        check(
            "${payload.empty:-x}.",
            None,
            Err("template_result_unfit fill template of topic: `.` and `..` are no names of topics"),
        );
        check(
            "a ${id}",
            None,
            Err("template_result_unfit fill template of topic: the topic's name has characters that it cannot have"),
        );
        check(
            "t",
            Some("${payload.items}"),
            Err(
                "template_field_missing fill template of key: the element has no text, number or boolean `payload.items`; a default is written `${payload.items:-...}`",
            ),
        );
    }
}
