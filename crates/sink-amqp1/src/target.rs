//! Addresses as destinations: the key under `to:`, the target that it makes, and the address of one element.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use self::destination::ADDRESS;
use delaybridge_core::message::About;
use delaybridge_core::template::{FillError, Filler, Template};
use delaybridge_settings::keys::Group;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::{Settings, shown};
use delaybridge_sink::header_rules;
use delaybridge_sink::headers;
use delaybridge_sink::kind::RouteSite;
use delaybridge_sink::{Destination, Fixed, HeaderRules, RouteHeaders, SinkAddress, Target};

/// The kind in the configuration.
pub(super) const NAME: &str = "amqp1";

/// The keys of a destination as defaults on the sink.
pub(super) static ON_SINK: &[Group] = &[Group { of: None, keys: destination::OWN }];

/// A message to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amqp1Destination {
    /// The address.
    pub address: Arc<str>,
    /// Media type of the body, if the envelope says it.
    pub content_type: Option<&'static str>,
}

impl SinkAddress for Amqp1Destination {
    fn lane(&self) -> [&str; 2] {
        [&self.address, ""]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        vec![(ADDRESS.name.to_owned(), Bytes::copy_from_slice(self.address.as_bytes()))]
    }

    fn carries_traces(&self) -> bool {
        true
    }
}

impl fmt::Display for Amqp1Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address {}", self.address)
    }
}

/// An address, with the template compiled.
#[derive(Debug, Clone, Serialize)]
pub struct Amqp1Target {
    /// Template of the address.
    pub address: Template,
    /// The destination of every element without a media type of its own, if there are no holes to fill.
    #[serde(skip)]
    constant: Option<Destination>,
}

impl Amqp1Target {
    /// Creates the target for messages to this address.
    pub fn new(address: Template) -> Amqp1Target {
        let fixed = address.static_shared().cloned().filter(|address| !address.is_empty());
        let constant = fixed.map(|address| Amqp1Destination { address, content_type: None }.into());
        Amqp1Target { address, constant }
    }
}

impl Target for Amqp1Target {
    fn fill(&self, from: &Filler<'_>) -> Result<Destination, FillError> {
        if let (Some(constant), None) = (&self.constant, from.content_type()) {
            return Ok(constant.clone());
        }
        match from.fitting(&self.address, ADDRESS.name, unfit_address)? {
            address if address.is_empty() => Err(FillError::empty(ADDRESS.name)),
            address => Ok(Amqp1Destination { address, content_type: from.content_type() }.into()),
        }
    }

    fn choosing(&self, _about: About) -> [Option<&Template>; 2] {
        [Some(&self.address), None]
    }

    fn keys(&self) -> Map<String, Value> {
        shown::fields(self)
    }

    fn place(&self) -> Option<String> {
        Some(self.address.source().to_owned())
    }

    fn fixed(&self) -> Option<Fixed> {
        let destination = self.constant.clone()?;
        Some(Fixed { name: destination.to_string(), destination })
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::AMQP1
    }

    fn check_headers(&self, headers: &RouteHeaders<'_, '_>) {
        headers.refuse("every message", headers::is_standard);
    }
}

/// The key as it was written; absent is what was not.
#[derive(Settings)]
#[settings(destination, at = "queues.NAME.to[]")]
pub(super) struct Amqp1Keys {
    /// Address in the broker, such as a queue or a topic.
    #[key(Kind::Template, hidden)]
    address: Option<(Template, Spot)>,
    /// Whether an address was written, be it one that cannot be read.
    #[settings(has = ADDRESS)]
    written: bool,
}

impl Amqp1Keys {
    /// Returns the target, from the key of the route or that of its sink.
    pub(super) fn target(&self, at: &RouteSite<'_, '_>, sinks: &Amqp1Keys) -> Option<(Arc<dyn Target>, Spot)> {
        let keys = if self.written { self } else { sinks };
        if !keys.written {
            let message = format!("no destination: sink `{}` names no address", at.sink);
            at.report().problem(&at.section.spot, message, "write `address: NAME` here or on the sink");
        }
        let (address, spot) = keys.address.as_ref()?;
        (at.fits)(address, spot);
        if let Some(problem) = address.static_text().and_then(unfit_address) {
            at.report().problem(spot, problem, "write the name of a queue or a topic");
        }
        Some((Arc::new(Amqp1Target::new(address.clone())), spot.clone()))
    }
}

/// Longest address, in bytes: it must fit into the smallest frame that a broker may ask for, 512 bytes.
const MAX_ADDRESS: usize = 255;

/// Explains what is wrong with an address. Applied to a fixed text when it is configured, and to a filled template for every
/// element.
pub(super) fn unfit_address(address: &str) -> Option<&'static str> {
    match () {
        () if address.len() > MAX_ADDRESS => Some("the address is longer than 255 bytes"),
        () if address.contains(char::is_control) => Some("the address has a control character"),
        // Management of the broker itself, which takes messages as commands.
        () if address.starts_with('$') => Some("the address belongs to the broker: it begins with `$`"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{filled, template};

    #[test]
    fn an_address_is_filled() {
        fn check(address: &str, expected: Result<&str, &str>) {
            let expected = expected
                .map(|address| Destination::from(Amqp1Destination { address: address.into(), content_type: None }))
                .map_err(|error| error.replace('!', " fill template of address: "));
            assert_eq!(filled(&Amqp1Target::new(template(address))), expected);
        }
        check("orders", Ok("orders"));
        check("/queue/${payload.orderId}", Ok("/queue/A-7"));
        check("${payload.empty}", Err("template_result_empty!the result is empty"));
        let server = "the address belongs to the broker: it begins with `$`";
        check("${payload.items:-$management}${id}", Err(&format!("template_result_unfit!{server}")));
    }

    #[test]
    fn what_no_message_can_be_sent_to_is_explained() {
        for fits in ["a", "/exchange/x/key", "größe", "a::b", "queue://x y"] {
            assert_eq!(unfit_address(fits), None, "{fits}");
        }
        for unfit in ["$cbs", "$management", "a\nb", &"a".repeat(256)] {
            assert!(unfit_address(unfit).is_some(), "{unfit:?}");
        }
    }
}
