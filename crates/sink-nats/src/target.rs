//! Subjects as destinations: the key under `to:`, the target that it makes, and the subject of one element.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use self::destination::SUBJECT;
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
pub(super) const NAME: &str = "nats";

/// The keys of a destination as defaults on the sink.
pub(super) static ON_SINK: &[Group] = &[Group { of: None, keys: destination::OWN }];

/// A message of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsDestination {
    /// The subject.
    pub subject: Arc<str>,
}

impl SinkAddress for NatsDestination {
    fn lane(&self) -> [&str; 2] {
        [&self.subject, ""]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        vec![(SUBJECT.name.to_owned(), Bytes::copy_from_slice(self.subject.as_bytes()))]
    }

    fn carries_traces(&self) -> bool {
        true
    }
}

impl fmt::Display for NatsDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "subject {}", self.subject)
    }
}

/// A subject, with the template compiled.
#[derive(Debug, Clone, Serialize)]
pub struct NatsTarget {
    /// Template of the subject.
    pub subject: Template,
    /// The destination of every element, if there are no holes to fill.
    #[serde(skip)]
    constant: Option<Destination>,
}

impl NatsTarget {
    /// Creates the target for messages of this subject.
    pub fn new(subject: Template) -> NatsTarget {
        let fixed = subject.static_shared().cloned().filter(|subject| !subject.is_empty());
        NatsTarget { constant: fixed.map(|subject| NatsDestination { subject }.into()), subject }
    }
}

impl Target for NatsTarget {
    fn fill(&self, from: &Filler<'_>) -> Result<Destination, FillError> {
        if let Some(constant) = &self.constant {
            return Ok(constant.clone());
        }
        match from.fitting(&self.subject, SUBJECT.name, unfit_subject)? {
            subject if subject.is_empty() => Err(FillError::empty(SUBJECT.name)),
            subject => Ok(NatsDestination { subject }.into()),
        }
    }

    fn choosing(&self, _about: About) -> [Option<&Template>; 2] {
        [Some(&self.subject), None]
    }

    fn keys(&self) -> Map<String, Value> {
        shown::fields(self)
    }

    fn recognition(&self) -> Recognition {
        Recognition::Window
    }

    fn place(&self) -> Option<String> {
        Some(self.subject.source().to_owned())
    }

    fn fixed(&self) -> Option<Fixed> {
        let destination = self.constant.clone()?;
        Some(Fixed { name: destination.to_string(), destination })
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::NATS
    }

    fn check_headers(&self, headers: &RouteHeaders<'_, '_>) {
        headers.refuse("every message", headers::is_standard);
        headers.refuse("the server", |name| header_rules::NATS.steers(name));
        for (_, spot) in headers.names.iter().filter(|(name, _)| !header_rules::NATS.has_name(name)) {
            let message = "NATS has no header of this name";
            headers.section.cx.report.problem(spot, message, "write letters, digits and `-`");
        }
    }
}

/// The key as it was written; absent is what was not.
#[derive(Settings)]
#[settings(destination, at = "queues.NAME.to[]")]
pub(super) struct NatsKeys {
    /// Subject of a stream.
    #[key(Kind::Template, hidden)]
    subject: Option<(Template, Spot)>,
    /// Whether a subject was written, be it one that cannot be read.
    #[settings(has = SUBJECT)]
    written: bool,
}

impl NatsKeys {
    /// Returns the target, from the key of the route or that of its sink.
    pub(super) fn target(&self, at: &RouteSite<'_, '_>, sinks: &NatsKeys) -> Option<(Arc<dyn Target>, Spot)> {
        let keys = if self.written { self } else { sinks };
        if !keys.written {
            let message = format!("no destination: sink `{}` names no subject", at.sink);
            at.report().problem(&at.section.spot, message, "write `subject: NAME` here or on the sink");
        }
        let (subject, spot) = keys.subject.as_ref()?;
        (at.fits)(subject, spot);
        if let Some(problem) = subject.static_text().and_then(unfit_subject) {
            at.report().problem(spot, problem, "write words with dots between them, as `orders.eu`");
        }
        Some((Arc::new(NatsTarget::new(subject.clone())), spot.clone()))
    }
}

/// Longest subject, in bytes: the server's limit for a line is 4 KiB, which the address of the answer is in too.
const MAX_SUBJECT: usize = 2048;

/// First words of subjects that are commands to the server, or answers.
const RESERVED: &[&str] = &["$JS", "$SYS", "$SRV", "_INBOX"];

/// Explains what is wrong with a subject. Applied to a fixed text when it is configured, and to a filled template for every
/// element: a payload can neither name a wildcard nor a command of the server.
pub(super) fn unfit_subject(subject: &str) -> Option<&'static str> {
    let mut words = subject.split('.');
    match () {
        () if subject.len() > MAX_SUBJECT => Some("the subject is longer than 2048 bytes"),
        () if subject.contains(['*', '>']) => Some("the subject has a wildcard, `*` or `>`"),
        () if subject.contains(|c: char| c.is_whitespace() || c.is_control()) => {
            Some("the subject has a space or a control character")
        }
        () if !subject.is_empty() && words.clone().any(str::is_empty) => {
            Some("the subject begins or ends with a dot, or has two in a row")
        }
        () if words.next().is_some_and(|first| RESERVED.contains(&first)) => {
            Some("the subject belongs to the server: it begins with `$JS`, `$SYS`, `$SRV` or `_INBOX`")
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{filled, template};

    #[test]
    fn a_subject_is_filled() {
        fn check(subject: &str, expected: Result<&str, &str>) {
            let expected = expected
                .map(|subject| Destination::from(NatsDestination { subject: subject.into() }))
                .map_err(|error| error.replace('!', " fill template of subject: "));
            assert_eq!(filled(&NatsTarget::new(template(subject))), expected);
        }
        check("orders", Ok("orders"));
        check("orders.${payload.orderId}.${queue}", Ok("orders.A-7.orders"));
        check("${payload.empty}", Err("template_result_empty!the result is empty"));
        let dots = "the subject begins or ends with a dot, or has two in a row";
        check("a.${payload.empty:-}.b${id}", Err(&format!("template_result_unfit!{dots}")));
        let wildcard = "the subject has a wildcard, `*` or `>`";
        check("a.${payload.items:->}", Err(&format!("template_result_unfit!{wildcard}")));
        let server = "the subject belongs to the server: it begins with `$JS`, `$SYS`, `$SRV` or `_INBOX`";
        check("${payload.items:-_INBOX}.${id}", Err(&format!("template_result_unfit!{server}")));
    }

    #[test]
    fn what_no_message_can_be_published_to_is_explained() {
        let rows = [
            ("a", true),
            ("a.b-c.d_e", true),
            ("größe.x", true),
            ("$KV.bucket.key", true),
            ("$JSX.a", true),
            (".a", false),
            ("a.", false),
            ("a..b", false),
            ("a b", false),
            ("a\r\nPUB b 0\r\n", false),
            ("a\tb", false),
            ("a.*", false),
            ("a.>", false),
            ("a>b", false),
            ("$JS.API.STREAM.DELETE.a", false),
            ("$SYS.x", false),
            ("_INBOX.x", false),
        ];
        for (subject, fits) in rows {
            assert_eq!(unfit_subject(subject).is_none(), fits, "{subject:?}");
        }
        assert!(unfit_subject(&"a".repeat(2049)).is_some());
    }

    #[test]
    fn names_that_nats_does_not_have_are_known() {
        for (name, fits) in [("a b", false), ("a:", false), ("", false), ("ä", false), ("x-a_b", true)] {
            assert_eq!(header_rules::NATS.has_name(name), fits, "{name:?}");
        }
    }
}
