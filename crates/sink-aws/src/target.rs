//! Queues and topics as destinations: the keys under `to:`, the target that they make, and the destination of one element.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::service::AwsService;
use delaybridge_aws::region_of_host;
use delaybridge_core::message::About;
use delaybridge_core::template::{FillError, Filler, Template};
use delaybridge_http_client::split;
use delaybridge_settings::Settings;
use delaybridge_settings::keys::Key;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;
use delaybridge_sink::header_rules;
use delaybridge_sink::headers::{IdText, is_standard};
use delaybridge_sink::kind::RouteSite;
use delaybridge_sink::{Destination, Fixed, HeaderRules, Recognition, RouteHeaders, SinkAddress, Target};

/// The destination in SQS, here or on the sink.
#[derive(Settings)]
#[settings(queue, at = "queues.NAME.to[]", hidden)]
pub(super) struct QueueKey {
    /// URL of the queue.
    #[key(Kind::Text, read = queue_url)]
    pub(super) queue_url: AwsPlace,
}

/// The destination in SNS, here or on the sink.
#[derive(Settings)]
#[settings(topic, at = "queues.NAME.to[]", hidden)]
pub(super) struct TopicKey {
    /// ARN of the topic.
    #[key(Kind::Text, read = topic_arn)]
    pub(super) topic_arn: AwsPlace,
}

/// What is the same for all routes of a sink.
#[derive(Settings)]
#[settings(ids, at = "sinks.NAME.sqs", hidden)]
pub(super) struct IdKeys {
    /// Group whose messages keep their order. Default with FIFO: `order_key` of the queue, else the element's id; without
    /// FIFO, none. It is the key of `order: key` without `order_key`.
    #[key(Kind::Template, read = id)]
    group_id: Option<(Template, Spot)>,
    /// Text by which FIFO drops repeats for five minutes. Default: made of id, due time, queue and destination.
    #[key(Kind::Template, read = id)]
    deduplication_id: Option<(Template, Spot)>,
}

/// A queue or a topic, and how a message of it is grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsDestination {
    /// The service.
    pub service: AwsService,
    /// URL of the queue, or ARN of the topic.
    pub place: Arc<str>,
    /// The group, where the configuration names one.
    pub group: Option<Arc<str>>,
    /// The text by which repeats are dropped, where the configuration names one.
    pub deduplication: Option<Arc<str>>,
}

impl AwsDestination {
    /// Returns whether it keeps the order of each group, and drops repeats.
    pub fn is_fifo(&self) -> bool {
        is_fifo(&self.place)
    }
}

fn is_fifo(place: &str) -> bool {
    place.ends_with(".fifo")
}

impl SinkAddress for AwsDestination {
    fn lane(&self) -> [&str; 2] {
        [&self.place, ""]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        let place = (place_key(self.service), Some(&self.place));
        let all = [place, (&ids::GROUP_ID, self.group.as_ref()), (&ids::DEDUPLICATION_ID, self.deduplication.as_ref())];
        let all = all.into_iter().filter_map(|(key, value)| Some((key.name.to_owned(), value?)));
        all.map(|(name, value)| (name, Bytes::copy_from_slice(value.as_bytes()))).collect()
    }

    fn carries_traces(&self) -> bool {
        true
    }

    fn record_key(&self) -> Option<&[u8]> {
        self.group.as_deref().map(str::as_bytes)
    }
}

impl fmt::Display for AwsDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.service {
            AwsService::Sqs => write!(f, "queue {}", self.place),
            AwsService::Sns => write!(f, "topic {}", self.place),
        }
    }
}

fn place_key(service: AwsService) -> &'static Key {
    match service {
        AwsService::Sqs => &queue::QUEUE_URL,
        AwsService::Sns => &topic::TOPIC_ARN,
    }
}

/// A queue or a topic, with the templates compiled.
#[derive(Debug, Clone)]
pub struct AwsTarget {
    service: AwsService,
    place: Arc<str>,
    group_id: Option<Template>,
    deduplication_id: Option<Template>,
    /// The destination of every element, if there are no holes to fill.
    constant: Option<Destination>,
}

impl AwsTarget {
    /// Creates the target for messages to this queue or topic.
    pub fn new(
        service: AwsService,
        place: Arc<str>,
        group_id: Option<Template>,
        deduplication_id: Option<Template>,
    ) -> AwsTarget {
        let fixed = |template: &Option<Template>| template.as_ref().is_none_or(|text| text.static_text().is_some());
        let shared = |template: &Option<Template>| template.as_ref().and_then(|text| text.static_shared().cloned());
        let constant = (fixed(&group_id) && fixed(&deduplication_id)).then(|| {
            let group = shared(&group_id);
            let deduplication = shared(&deduplication_id);
            AwsDestination { service, place: place.clone(), group, deduplication }.into()
        });
        AwsTarget { service, place, group_id, deduplication_id, constant }
    }
}

impl Target for AwsTarget {
    fn fill(&self, from: &Filler<'_>) -> Result<Destination, FillError> {
        if let Some(constant) = &self.constant {
            return Ok(constant.clone());
        }
        let filled = |template: &Option<Template>, key: &Key, unfit: fn(&str) -> Option<&'static str>| {
            let Some(template) = template else { return Ok(None) };
            match from.fitting(template, key.name, unfit)? {
                text if text.is_empty() => Err(FillError::empty(key.name)),
                text => Ok(Some(text)),
            }
        };
        // Only equality matters in a group, so that a text of any kind has one.
        let group = filled(&self.group_id, &ids::GROUP_ID, |_| None)?.map(|text| match unfit_id(&text) {
            Some(_) => format!("{:016x}", xxh3_64(text.as_bytes())).into(),
            None => text,
        });
        let deduplication = filled(&self.deduplication_id, &ids::DEDUPLICATION_ID, unfit_id)?;
        Ok(AwsDestination { service: self.service, place: self.place.clone(), group, deduplication }.into())
    }

    fn choosing(&self, _about: About) -> [Option<&Template>; 2] {
        [None, None]
    }

    fn keys(&self) -> Map<String, Value> {
        let templates = [(&ids::GROUP_ID, &self.group_id), (&ids::DEDUPLICATION_ID, &self.deduplication_id)];
        let templates = templates.into_iter().filter_map(|(key, template)| Some((key, template.as_ref()?.source())));
        let place = (place_key(self.service), &*self.place);
        std::iter::once(place).chain(templates).map(|(key, text)| (key.name.to_owned(), text.into())).collect()
    }

    fn recognition(&self) -> Recognition {
        if is_fifo(&self.place) { Recognition::Window } else { Recognition::None }
    }

    fn place(&self) -> Option<String> {
        Some(self.place.to_string())
    }

    fn fixed(&self) -> Option<Fixed> {
        let place = self.place.clone();
        let destination = AwsDestination { service: self.service, place, group: None, deduplication: None };
        Some(Fixed { name: destination.to_string(), destination: destination.into() })
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::AWS
    }

    fn check_headers(&self, headers: &RouteHeaders<'_, '_>) {
        headers.refuse("every message", is_standard);
    }
}

/// The longest id of a group, or of a message for deduplication.
pub(super) const LONGEST_ID: usize = 128;

/// Explains what is wrong with the id of a group, or of a message for deduplication.
fn unfit_id(text: &str) -> Option<&'static str> {
    match () {
        () if text.len() > LONGEST_ID => Some("the result is longer than 128 characters"),
        () if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Some("the result has a character other than letters, digits and punctuation of ASCII")
        }
        () => None,
    }
}

/// Returns the text of an id, if it can be that of a group; else its digits.
pub(super) fn group_of_id(id: &delaybridge_core::message::Identity) -> String {
    match IdText::of(id).as_str() {
        text if unfit_id(text).is_none() => text.to_owned(),
        _ => id.id.to_string(),
    }
}

/// A place as it was written.
pub(super) struct AwsPlace {
    place: Option<(Arc<str>, Spot)>,
    /// Whether a place was written, be it one that cannot be read.
    written: bool,
}

impl AwsPlace {
    fn of(service: AwsService, section: &Section<'_>, key: &Key) -> AwsPlace {
        let place = section.text(key).and_then(|text| match unfit_place(service, &text.value) {
            None => Some((Arc::from(text.value), text.spot)),
            Some((problem, help)) => {
                section.cx.report.problem(&text.spot, problem, help);
                None
            }
        });
        AwsPlace { place, written: section.has(key) }
    }
}

fn queue_url(section: &Section<'_>, key: &Key) -> AwsPlace {
    AwsPlace::of(AwsService::Sqs, section, key)
}

fn topic_arn(section: &Section<'_>, key: &Key) -> AwsPlace {
    AwsPlace::of(AwsService::Sns, section, key)
}

fn id(section: &Section<'_>, key: &Key) -> Option<(Template, Spot)> {
    let template = section.template(key)?;
    if let Some(problem) = template.static_text().and_then(unfit_id) {
        let help = "write a template, as `${payload.customer}`";
        section.cx.report.problem(&section.spot(key), problem, help);
    }
    Some((template, section.spot(key)))
}

/// The keys of a destination on its sink.
pub(super) struct AwsKeys {
    service: AwsService,
    place: AwsPlace,
    ids: IdKeys,
}

impl AwsKeys {
    /// Creates the keys of a sink.
    pub(super) fn new(service: AwsService, place: AwsPlace, ids: IdKeys) -> AwsKeys {
        AwsKeys { service, place, ids }
    }

    /// Returns the region that the place names.
    pub(super) fn region(&self) -> Option<&str> {
        region_of(self.service, self.place()?)
    }

    /// Returns the URL of the queue, or the ARN of the topic.
    pub(super) fn place(&self) -> Option<&str> {
        self.place.place.as_ref().map(|(place, _)| &**place)
    }

    /// Returns the target of a route in the sink with these keys, and in this region.
    pub(super) fn target(&self, at: &RouteSite<'_, '_>, region: &str) -> Option<(Arc<dyn Target>, Spot)> {
        let own = match self.service {
            AwsService::Sqs => QueueKey::of(at.section).queue_url,
            AwsService::Sns => TopicKey::of(at.section).topic_arn,
        };
        let keys = if own.written { &own } else { &self.place };
        let key = place_key(self.service).name;
        if !keys.written {
            let message = format!("no destination: sink `{}` names no `{key}`", at.sink);
            at.report().problem(&at.section.spot, message, format!("write `{key}: ...` here or on the sink"));
        }
        let (place, spot) = keys.place.as_ref()?;
        if region_of(self.service, place).is_some_and(|other| other != region) {
            let message = format!("it is in another region than its sink, `{region}`");
            at.report().problem(spot, message, "write a sink for each region");
        }
        let IdKeys { group_id, deduplication_id } = &self.ids;
        for (template, spot) in group_id.iter().chain(deduplication_id) {
            (at.fits)(template, spot);
        }
        let [group, deduplication] = [group_id, deduplication_id].map(|id| Some(id.as_ref()?.0.clone()));
        let group = group.or_else(|| at.order_key.filter(|_| is_fifo(place)).cloned());
        let deduplication = deduplication.filter(|_| is_fifo(place));
        Some((Arc::new(AwsTarget::new(self.service, place.clone(), group, deduplication)), spot.clone()))
    }
}

fn region_of(service: AwsService, place: &str) -> Option<&str> {
    match service {
        AwsService::Sqs => {
            let host = place.split_once("://")?.1.split(['/', ':']).next()?;
            region_of_host(host)
        }
        AwsService::Sns => place.split(':').nth(3),
    }
}

/// Explains what is wrong with the URL of a queue, or the ARN of a topic.
fn unfit_place(service: AwsService, place: &str) -> Option<(&'static str, &'static str)> {
    match service {
        AwsService::Sqs => match split(place) {
            Err((problem, _)) => Some((problem, "write `https://sqs.REGION.amazonaws.com/ACCOUNT/NAME`")),
            Ok((_, path))
                if path.len() < 2 || !path.bytes().all(|b| b.is_ascii_graphic()) || path.contains(['?', '$']) =>
            {
                Some(("the URL names no queue", "write `https://sqs.REGION.amazonaws.com/ACCOUNT/NAME`"))
            }
            Ok(_) => None,
        },
        AwsService::Sns => {
            let parts: Vec<_> = place.split(':').collect();
            let fits = matches!(parts[..], ["arn", _, "sns", region, account, name]
                if delaybridge_aws::is_region(region) && !account.is_empty() && !name.is_empty())
                && place.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'$');
            (!fits).then_some(("it is no ARN of a topic", "write `arn:aws:sns:REGION:ACCOUNT:NAME`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{filled, template};

    const URL: &str = "https://sqs.eu-west-1.amazonaws.com/1/orders.fifo";

    #[test]
    fn a_group_is_filled() {
        let check = |group: &str, expected: Result<&str, &str>| {
            let expected = expected.map(|group| {
                Destination::from(AwsDestination {
                    service: AwsService::Sqs,
                    place: URL.into(),
                    group: Some(group.into()),
                    deduplication: None,
                })
            });
            let target = AwsTarget::new(AwsService::Sqs, URL.into(), Some(template(group)), None);
            let expected = expected.map_err(|error| error.replace('!', " fill template of group_id: "));
            assert_eq!(filled(&target), expected);
        };
        check("all", Ok("all"));
        check("${payload.orderId}-${queue}", Ok("A-7-orders"));
        check("${payload.empty}", Err("template_result_empty!the result is empty"));
        // What SQS does not take as an id.
        check("${payload.orderId} ${queue}", Ok(&format!("{:016x}", xxh3_64(b"A-7 orders"))));
    }

    #[test]
    fn a_place_names_its_region() {
        let rows = [
            (AwsService::Sqs, URL, Some("eu-west-1"), true),
            (AwsService::Sqs, "http://127.0.0.1:9324/000000000000/q", None, true),
            (AwsService::Sqs, "https://sqs.eu-west-1.amazonaws.com", Some("eu-west-1"), false),
            (AwsService::Sqs, "https://sqs.eu-west-1.amazonaws.com/1/${queue}", Some("eu-west-1"), false),
            (AwsService::Sqs, "orders", None, false),
            (AwsService::Sns, "arn:aws:sns:eu-west-1:1:orders", Some("eu-west-1"), true),
            (AwsService::Sns, "arn:aws:sns:eu-west-1:1:orders:sub", Some("eu-west-1"), false),
            (AwsService::Sns, "arn:aws:sqs:eu-west-1:1:orders", Some("eu-west-1"), false),
            (AwsService::Sns, "orders", None, false),
        ];
        for (service, place, region, fits) in rows {
            assert_eq!((region_of(service, place), unfit_place(service, place).is_none()), (region, fits), "{place}");
        }
    }

    #[test]
    fn an_id_that_is_no_group_has_its_digits() {
        use delaybridge_core::message::Identity;
        let long = Identity::named(&"x".repeat(129)).unwrap();
        assert_eq!(group_of_id(&long), long.id.to_string());
        assert_eq!(group_of_id(&Identity::named("A-7").unwrap()), "A-7");
    }
}
