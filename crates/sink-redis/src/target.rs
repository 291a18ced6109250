//! Lists and streams as destinations: the keys under `to:`, the target that they make, and the destination of one element.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use self::destination::{LIST, STREAM};
use delaybridge_core::message::About;
use delaybridge_core::template::{FillError, Filler, Template};
use delaybridge_link::{Side, hashed};
use delaybridge_settings::keys::Key;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;
use delaybridge_settings::{Setting, Settings, shown};
use delaybridge_sink::header_rules;
use delaybridge_sink::kind::RouteSite;
use delaybridge_sink::{
    Destination, Fixed, HeaderRules, Recognition, RedisCommand, RedisWrite, RouteHeaders, SinkAddress, Target,
};

/// The kind in the configuration.
pub(super) const NAME: &str = "redis";

/// The keys that dead letters may use; a stream is named on the sink.
pub(super) const DEAD_LETTER_KEYS: &[Key] = &[LIST];

/// A list or a stream in Redis, with its key filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisDestination {
    /// The bare payload is pushed to a list.
    List {
        /// The list's key.
        key: String,
        /// The end that the payload goes to.
        push: Side,
    },
    /// An entry is added to a stream.
    Stream {
        /// The stream's key.
        key: String,
        /// Approximate length that the stream is trimmed to (`MAXLEN ~`).
        max_len: Option<u64>,
    },
}

impl RedisDestination {
    /// Returns the key of the list or stream.
    pub fn key(&self) -> &str {
        let (RedisDestination::List { key, .. } | RedisDestination::Stream { key, .. }) = self;
        key
    }
}

impl SinkAddress for RedisDestination {
    fn lane(&self) -> [&str; 2] {
        [self.key(), ""]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        let name = match self {
            RedisDestination::List { .. } => LIST.name,
            RedisDestination::Stream { .. } => STREAM.name,
        };
        vec![(name.to_owned(), self.key().to_owned().into())]
    }
}

impl fmt::Display for RedisDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisDestination::List { key, .. } => write!(f, "list {key}"),
            RedisDestination::Stream { key, .. } => write!(f, "stream {key}"),
        }
    }
}

/// A list or a stream, with the template of its key compiled.
#[derive(Debug, Clone)]
pub struct KeyTarget {
    /// Template of the key.
    pub key: Template,
    /// The kind of value behind the key.
    pub value: KeyValue,
    /// The destination of every element, if there are no holes to fill.
    constant: Option<Destination>,
}

/// The kind of value that elements are added to.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum KeyValue {
    /// A list.
    List {
        /// The end that is pushed to.
        push: Side,
        /// Push and settle are one script; only a fixed list on the source's server and slot, as the only destination.
        exactly_once: bool,
    },
    /// A stream.
    Stream {
        /// Approximate length that the stream is trimmed to.
        #[serde(serialize_with = "shown::or_none")]
        max_len: Option<u64>,
    },
}

impl KeyTarget {
    /// Creates the target for values of this kind with this key.
    pub fn new(key: Template, value: KeyValue) -> KeyTarget {
        let fixed = key.static_text().filter(|key| !key.is_empty());
        let constant = fixed.map(|key| value.at(key.to_owned()).into());
        KeyTarget { key, value, constant }
    }

    /// Creates the target for a list with this key, pushed to at this end.
    pub fn list(key: Template, push: Side, exactly_once: bool) -> KeyTarget {
        KeyTarget::new(key, KeyValue::List { push, exactly_once })
    }

    /// Returns the name of the key in the configuration.
    fn name(&self) -> &'static str {
        match self.value {
            KeyValue::List { .. } => LIST.name,
            KeyValue::Stream { .. } => STREAM.name,
        }
    }
}

impl KeyValue {
    fn at(self, key: String) -> RedisDestination {
        match self {
            KeyValue::List { push, .. } => RedisDestination::List { key, push },
            KeyValue::Stream { max_len } => RedisDestination::Stream { key, max_len },
        }
    }
}

impl Target for KeyTarget {
    fn fill(&self, from: &Filler<'_>) -> Result<Destination, FillError> {
        if let Some(constant) = &self.constant {
            return Ok(constant.clone());
        }
        match from.text(&self.key, &self.name())? {
            key if key.is_empty() => Err(FillError::empty(self.name())),
            key => Ok(self.value.at(key).into()),
        }
    }

    fn choosing(&self, _about: About) -> [Option<&Template>; 2] {
        [Some(&self.key), None]
    }

    fn keys(&self) -> Map<String, Value> {
        let mut keys = Map::from_iter([(self.name().to_owned(), Value::from(self.key.source()))]);
        keys.extend(shown::fields(&self.value));
        keys
    }

    fn recognition(&self) -> Recognition {
        match self.value {
            KeyValue::List { exactly_once: true, .. } => Recognition::None,
            KeyValue::List { .. } | KeyValue::Stream { .. } => Recognition::Window,
        }
    }

    fn place(&self) -> Option<String> {
        Some(format!("{} {}", self.name(), self.key.source()))
    }

    fn fixed(&self) -> Option<Fixed> {
        let destination = self.constant.clone()?;
        Some(Fixed { name: destination.to_string(), destination })
    }

    fn header_rules(&self) -> &'static HeaderRules {
        match self.value {
            KeyValue::List { .. } => &header_rules::REDIS_LIST,
            KeyValue::Stream { .. } => &header_rules::REDIS_STREAM,
        }
    }

    fn check_headers(&self, headers: &RouteHeaders<'_, '_>) {
        let report = &headers.section.cx.report;
        match self.value {
            KeyValue::Stream { .. } => {
                headers.refuse("every stream entry", |name| header_rules::REDIS_STREAM.control.contains(&name))
            }
            KeyValue::List { .. } => {
                let written = (!headers.names.is_empty()).then_some(&headers.spot);
                let envelope = headers.envelope.iter().filter(|_| headers.needs_headers);
                for spot in written.into_iter().chain(envelope) {
                    let message = "a list holds bare payloads, without headers";
                    report.problem(spot, message, "use a stream, or `envelope: json`");
                }
            }
        }
    }

    fn redis_write(&self) -> Option<RedisWrite<'_>> {
        let (command, with_verdict) = match self.value {
            KeyValue::List { push, exactly_once } => (RedisCommand::Push(push), exactly_once),
            KeyValue::Stream { .. } => (RedisCommand::Add, false),
        };
        Some(RedisWrite { key: &self.key, command, with_verdict })
    }
}

/// The keys as they were written; absent is what was not.
#[derive(Settings)]
#[settings(destination, at = "queues.NAME.to[]")]
pub(super) struct RedisKeys {
    /// Key of the list that payloads are pushed to.
    #[key(Kind::Template, hidden)]
    list: Option<(Template, Spot)>,
    /// Key of the stream. Entries have `payload`, `id`, `queue`, `due_ms`, `attempt` and the headers.
    #[key(Kind::Template, later = None, hidden)]
    stream: Option<(Template, Spot)>,
    /// End of the list. Redisson's consumers expect `right`.
    #[key(word::<Side>(), default = "right", hidden)]
    push: Option<(Side, Spot)>,
    /// Approximate length to which the stream is trimmed.
    #[key(count_or("none", 1, u64::MAX), default = "none", hidden)]
    max_len: Option<(Option<u64>, Spot)>,
    /// Push to the list and settle the element in one script. Only for a list that is the queue's only destination, on its
    /// Redis, with a fixed key with its hash tag.
    #[key(Kind::Flag, default = "false", hidden)]
    exactly_once: Option<(bool, Spot)>,
    /// Whether a list or a stream was written, be it one that cannot be read.
    #[settings(has = LIST)]
    written: bool,
}

impl RedisKeys {
    /// Reads the keys of a sink or a route. Without `streams` the name `stream` means something else there.
    pub(super) fn read(section: &Section<'_>, streams: bool) -> RedisKeys {
        let mut keys = RedisKeys::of(section);
        if streams && section.has(&STREAM) {
            keys.stream = Setting::read(section, &STREAM);
            if keys.written {
                let help = "an element goes to one of them; for both, use two sinks";
                let spot = section.spot(&STREAM);
                section.cx.report.problem(&spot, "there is both `list` and `stream`", help);
            }
            keys.written = true;
        }
        keys
    }

    /// Creates the target from these keys of the route and those of its sink.
    pub(super) fn target(
        &self,
        at: &RouteSite<'_, '_>,
        sinks: &RedisKeys,
        own_server: bool,
    ) -> Option<(Arc<dyn Target>, Spot)> {
        let report = at.report();
        // A list or stream under `to:` replaces both of the sink's.
        let keys = if self.written { self } else { sinks };
        if !keys.written {
            let message = format!("no destination: sink `{}` names no list or stream", at.sink);
            let help = if at.dead {
                "write `list: KEY` here, or `list: KEY` or `stream: KEY` on the sink"
            } else {
                "write `list: KEY` or `stream: KEY` here or on the sink"
            };
            report.problem(&at.section.spot, message, help);
        }
        let push = self.push.as_ref().or(sinks.push.as_ref());
        let max_len = self.max_len.as_ref().or(sinks.max_len.as_ref());
        let exactly_once = self.exactly_once.as_ref().or(sinks.exactly_once.as_ref());
        // A default of the sink for many routes does not affect a route of the other kind.
        let disturbs = |spot: &Spot, on_sink: bool, other: &str| {
            if !on_sink || !self.written {
                let name = spot.path.rsplit('.').next().unwrap_or_default();
                report.problem(spot, format!("`{name}` means nothing to a {other}"), "remove it");
            }
        };
        match (&keys.list, &keys.stream) {
            (Some((key, spot)), None) => {
                (at.fits)(key, spot);
                check_key(at, key, spot);
                if let Some((_, spot)) = max_len {
                    disturbs(spot, self.max_len.is_none(), "list");
                }
                let exactly_once = exactly_once.filter(|(asked, _)| *asked);
                if let Some((_, spot)) = exactly_once {
                    exactly_once_works(at, spot, key, own_server);
                }
                let push = push.map_or(Side::Right, |(side, _)| *side);
                let target = KeyTarget::list(key.clone(), push, exactly_once.is_some());
                Some((Arc::new(target), spot.clone()))
            }
            (None, Some((key, spot))) => {
                (at.fits)(key, spot);
                check_key(at, key, spot);
                if let Some((_, spot)) = push {
                    disturbs(spot, self.push.is_none(), "stream");
                }
                if let Some((true, spot)) = exactly_once {
                    disturbs(spot, self.exactly_once.is_none(), "stream");
                }
                let max_len = max_len.and_then(|(max_len, _)| *max_len);
                Some((Arc::new(KeyTarget::new(key.clone(), KeyValue::Stream { max_len })), spot.clone()))
            }
            // Both, or one that cannot be read: reported where it was read.
            _ => None,
        }
    }
}

fn check_key(at: &RouteSite<'_, '_>, key: &Template, spot: &Spot) {
    if key.static_text() == Some("") {
        at.report().problem(spot, "the key is empty", "write the name of a list or stream");
    }
    // As `acl` has it: the pattern begins with a star.
    if matches!(key.outline("queue").next(), Some(None)) {
        let message =
            "elements choose the key, so that whoever offers one can write to any key that the daemon may write to";
        at.report().warning(spot, message, "begin the key with a text, as in `due:${payload.shop}`");
    }
}

fn exactly_once_works(at: &RouteSite<'_, '_>, spot: &Spot, key: &Template, own_server: bool) {
    let refuse = |message: &str, help: String| at.report().problem(spot, message, help);
    if at.dead {
        let help = "name a sink without it; a dead letter may come twice".to_owned();
        return refuse("exactly_once is for elements, and dead letters go to this sink", help);
    }
    if own_server {
        let help = "remove `url` from the sink, so that it uses the Redis that holds the queues".to_owned();
        refuse("exactly_once needs the Redis that holds the queues, over the same connection", help);
    }
    if !at.alone {
        let help = "leave the other destinations out, or let `exactly_once` be false".to_owned();
        refuse("exactly_once needs a queue with this destination only", help);
    }
    match key.static_text() {
        None => refuse("exactly_once needs a fixed key", "write the list's key without `${...}`".to_owned()),
        Some(key) if !at.slot.is_empty() && hashed(key) != at.slot => {
            let help = format!("write the queue's hash tag into the key, as in `{{{}}}:ready`", at.slot);
            refuse("exactly_once needs a list in the queue's hash slot", help);
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{filled, template};

    fn list(key: &str) -> KeyTarget {
        KeyTarget::list(template(key), Side::Right, false)
    }

    #[test]
    fn elements_share_the_destination_with_a_fixed_key() {
        let target = list("ready");
        let [a, b] = [(); 2].map(|()| filled(&target).unwrap());
        let [a, b] = [&a, &b].map(|filled| filled.of_kind::<RedisDestination>(NAME).unwrap().key());
        assert_eq!((a.as_ptr(), a), (b.as_ptr(), "ready"));
    }

    #[test]
    fn a_key_that_cannot_be_filled_names_the_field_and_not_the_value() {
        let error = |key| filled(&list(key)).unwrap_err();
        assert_eq!(
            error("o:${payload.items}"),
            "template_field_missing fill template of list: the element has no text, number or boolean `payload.items`; a default is written `${payload.items:-...}`"
        );
        assert_eq!(error("${payload.empty}"), "template_result_empty fill template of list: the result is empty");
    }
}
