//! Topics as destinations: the keys under `to:`, the target that they make, and the topic of one element.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use self::destination::{KEYS, SHARDING_KEY, TAGS, TOPIC};
use delaybridge_core::message::About;
use delaybridge_core::template::{FillError, Filler, Template};
use delaybridge_settings::keys::{Group, Key};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::{Settings, shown};
use delaybridge_sink::header_rules;
use delaybridge_sink::headers;
use delaybridge_sink::kind::RouteSite;
use delaybridge_sink::{Destination, Fixed, HeaderRules, RouteHeaders, SinkAddress, Target};

/// The kind in the configuration.
pub(super) const NAME: &str = "rocketmq";

/// The keys of a destination as defaults on the sink.
pub(super) static ON_SINK: &[Group] = &[Group { of: None, keys: destination::OWN }];

/// A message of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RocketMqDestination {
    /// The topic.
    pub topic: Arc<str>,
    /// The tag.
    pub tags: Option<Arc<str>>,
    /// The text that chooses the queue; without one they take turns.
    pub sharding_key: Option<Arc<str>>,
    /// The keys, if they are others than the id.
    pub keys: Option<Arc<str>>,
}

impl SinkAddress for RocketMqDestination {
    fn lane(&self) -> [&str; 2] {
        [&self.topic, ""]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        let all = [
            (TOPIC, Some(&self.topic)),
            (TAGS, self.tags.as_ref()),
            (SHARDING_KEY, self.sharding_key.as_ref()),
            (KEYS, self.keys.as_ref()),
        ];
        let all = all.into_iter().filter_map(|(key, value)| Some((key.name.to_owned(), value?)));
        all.map(|(name, value)| (name, Bytes::copy_from_slice(value.as_bytes()))).collect()
    }

    fn carries_traces(&self) -> bool {
        true
    }

    fn record_key(&self) -> Option<&[u8]> {
        self.sharding_key.as_deref().map(str::as_bytes)
    }
}

impl fmt::Display for RocketMqDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {}", self.topic)
    }
}

/// A topic, with the templates compiled.
#[derive(Debug, Clone, Serialize)]
pub struct RocketMqTarget {
    /// Template of the topic.
    pub topic: Template,
    /// Template of the tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Template>,
    /// Template of the text that chooses the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharding_key: Option<Template>,
    /// Template of the keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Template>,
    /// The destination of every element, if there are no holes to fill.
    #[serde(skip)]
    constant: Option<Destination>,
}

impl RocketMqTarget {
    /// Creates the target for messages of this topic, with these tags, sharding key and keys.
    pub fn new(topic: Template, [tags, sharding_key, keys]: [Option<Template>; 3]) -> RocketMqTarget {
        let fixed = |template: &Option<Template>| match template {
            Some(template) => template.static_shared().cloned().filter(|text| !text.is_empty()).map(Some),
            None => Some(None),
        };
        let constant = topic.static_shared().cloned().filter(|topic| !topic.is_empty()).and_then(|topic| {
            let tags = fixed(&tags)?;
            let sharding_key = fixed(&sharding_key)?;
            let keys = fixed(&keys)?;
            Some(RocketMqDestination { topic, tags, sharding_key, keys }.into())
        });
        RocketMqTarget { topic, tags, sharding_key, keys, constant }
    }
}

impl Target for RocketMqTarget {
    fn fill(&self, from: &Filler<'_>) -> Result<Destination, FillError> {
        if let Some(constant) = &self.constant {
            return Ok(constant.clone());
        }
        let topic = match from.fitting(&self.topic, TOPIC.name, unfit_topic)? {
            topic if topic.is_empty() => return Err(FillError::empty(TOPIC.name)),
            topic => topic,
        };
        let filled = |template: &Option<Template>, key: &Key| {
            let Some(template) = template else { return Ok(None) };
            match from.fitting(template, key.name, unfit_text)? {
                text if text.is_empty() => Err(FillError::empty(key.name)),
                text => Ok(Some(text)),
            }
        };
        let destination = RocketMqDestination {
            topic,
            tags: filled(&self.tags, &TAGS)?,
            sharding_key: filled(&self.sharding_key, &SHARDING_KEY)?,
            keys: filled(&self.keys, &KEYS)?,
        };
        Ok(destination.into())
    }

    fn choosing(&self, _about: About) -> [Option<&Template>; 2] {
        // The sharding key chooses among the queues of one topic.
        [Some(&self.topic), None]
    }

    fn keys(&self) -> Map<String, Value> {
        shown::fields(self)
    }

    fn place(&self) -> Option<String> {
        Some(self.topic.source().to_owned())
    }

    fn fixed(&self) -> Option<Fixed> {
        let topic = self.topic.static_shared()?.clone();
        let destination = RocketMqDestination { topic, tags: None, sharding_key: None, keys: None };
        Some(Fixed { name: destination.to_string(), destination: destination.into() })
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::ROCKETMQ
    }

    fn check_headers(&self, headers: &RouteHeaders<'_, '_>) {
        headers.refuse("every message", headers::is_standard);
        headers.refuse("RocketMQ", |name| header_rules::ROCKETMQ.steers(name));
        for (_, spot) in headers.names.iter().filter(|(name, _)| !header_rules::ROCKETMQ.has_name(name)) {
            let message = "RocketMQ has no property of this name";
            headers.section.cx.report.problem(spot, message, "write letters, digits and `-`");
        }
    }
}

/// The keys as they were written; absent is what was not.
#[derive(Settings)]
#[settings(destination, at = "queues.NAME.to[]")]
pub(super) struct RocketMqKeys {
    /// Topic, which must exist.
    #[key(Kind::Template, hidden)]
    topic: Option<(Template, Spot)>,
    /// Tag of the message, by which consumers filter.
    #[key(Kind::Template, hidden)]
    tags: Option<(Template, Spot)>,
    /// Text that chooses the topic's queue, as in the Java client: messages of one text stay in order. Default: queues take
    /// turns.
    #[key(Kind::Template, hidden)]
    sharding_key: Option<(Template, Spot)>,
    /// Keys by which the broker finds the message, separated by spaces. Default: the id.
    #[key(Kind::Template, hidden)]
    keys: Option<(Template, Spot)>,
    /// Whether a topic was written, be it one that cannot be read.
    #[settings(has = TOPIC)]
    written: bool,
}

impl RocketMqKeys {
    /// Returns the target, from these keys of the route and those of its sink.
    pub(super) fn target(&self, at: &RouteSite<'_, '_>, sinks: &RocketMqKeys) -> Option<(Arc<dyn Target>, Spot)> {
        let keys = if self.written { self } else { sinks };
        if !keys.written {
            let message = format!("no destination: sink `{}` names no topic", at.sink);
            at.report().problem(&at.section.spot, message, "write `topic: NAME` here or on the sink");
        }
        let others = [(&self.tags, &sinks.tags), (&self.sharding_key, &sinks.sharding_key), (&self.keys, &sinks.keys)];
        let others = others.map(|(own, of_sink)| own.as_ref().or(of_sink.as_ref()));
        for (template, spot) in others.into_iter().flatten() {
            (at.fits)(template, spot);
            if let Some(problem) = template.static_text().and_then(unfit_text) {
                at.report().problem(spot, problem, "write a text without control characters");
            }
        }
        let (topic, spot) = keys.topic.as_ref()?;
        (at.fits)(topic, spot);
        if let Some(problem) = topic.static_text().and_then(unfit_topic) {
            at.report().problem(spot, problem, "topics have letters (a to z), digits, `_`, `-`, `%` and `|`");
        }
        let [tags, sharding_key, keys] = others.map(|key| key.map(|(template, _)| template.clone()));
        // The order of a key is that of its queue.
        let sharding_key = sharding_key.or_else(|| at.order_key.cloned());
        Some((Arc::new(RocketMqTarget::new(topic.clone(), [tags, sharding_key, keys])), spot.clone()))
    }
}

/// Returns whether brokers take no topic or group of this name.
pub(super) fn unfit_name(name: &str) -> bool {
    name.bytes().any(|byte| !byte.is_ascii_alphanumeric() && !b"_-%|".contains(&byte))
}

/// Beginnings of topics that brokers keep for themselves: what is sent there is delayed, retried or dead.
const OF_BROKER: &[&str] = &["%RETRY%", "%DLQ%", "SCHEDULE_TOPIC_", "RMQ_SYS_", "rmq_sys_", "TBW102"];

/// Explains what is wrong with the name of a topic. Applied to a fixed text when it is configured, and to a filled template for
/// every element.
pub(super) fn unfit_topic(name: &str) -> Option<&'static str> {
    match name {
        _ if name.len() > 127 => Some("the topic's name is longer than 127 characters"),
        _ if unfit_name(name) => Some("the topic's name has characters that it cannot have"),
        _ if OF_BROKER.iter().any(|begin| name.starts_with(begin)) => Some("the topic belongs to the broker"),
        _ => None,
    }
}

/// Explains what is wrong with a tag, a sharding key or keys.
fn unfit_text(text: &str) -> Option<&'static str> {
    text.contains(char::is_control).then_some("the result has a control character")
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{filled, template};

    #[test]
    fn a_topic_and_its_keys_are_filled() {
        fn check(topic: &str, others: [Option<&str>; 3], expected: Result<(&str, [Option<&str>; 3]), &str>) {
            let expected = expected.map_err(|error| error.replace('!', " fill template of ")).map(|(topic, others)| {
                let [tags, sharding_key, keys] = others.map(|text| text.map(Arc::from));
                Destination::from(RocketMqDestination { topic: topic.into(), tags, sharding_key, keys })
            });
            assert_eq!(filled(&RocketMqTarget::new(template(topic), others.map(|text| text.map(template)))), expected);
        }
        let none = [None; 3];
        check("orders", none, Ok(("orders", none)));
        check("orders", [Some("paid"), None, None], Ok(("orders", [Some("paid"), None, None])));
        let others = ["${payload.vip}", "${payload.orderId}", "${id} x"];
        let filled = ["true", "A-7", "52414e444f4d3842 x"];
        check("o-${queue}", others.map(Some), Ok(("o-orders", filled.map(Some))));
        check("${payload.empty}", none, Err("template_result_empty!topic: the result is empty"));
        check("t", [Some("${payload.empty}"), None, None], Err("template_result_empty!tags: the result is empty"));
        check("%DLQ%${id}", none, Err("template_result_unfit!topic: the topic belongs to the broker"));
        let control = "template_result_unfit!keys: the result has a control character";
        check("t", [None, None, Some("a\u{1}${id}")], Err(control));
    }

    #[test]
    fn what_is_no_topic_is_explained() {
        for fits in ["a", "Orders_1-2", "MQ_INST_1%orders", "a|b"] {
            assert_eq!(unfit_topic(fits), None, "{fits}");
        }
        for unfit in ["a.b", "größe", "a b", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", &"a".repeat(128)]
        {
            assert!(unfit_topic(unfit).is_some(), "{unfit:?}");
        }
    }
}
