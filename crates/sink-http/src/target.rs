//! Paths as destinations: the key under `to:`, the target that it makes, and the path of one element.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::HeaderName;
use serde_json::{Map, Value, json};

use super::names;
use super::path::{self, Path, PathError};
use delaybridge_core::message::About;
use delaybridge_core::template::{FillError, Filler, Template};
use delaybridge_settings::keys::{Key, Kind, key};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::{Section, meant, warn_of_constants};
use delaybridge_sink::header_rules;
use delaybridge_sink::kind::RouteSite;
use delaybridge_sink::{Destination, Fixed, HeaderRules, RouteHeaders, SinkAddress, Target};

/// The kind in the configuration.
pub(super) const NAME: &str = "http";

const PATH: Key = key(
    path::KEY,
    Kind::Template,
    "Path and query, in place of those of the sink's `url`. Values are percent-encoded.",
);

/// The keys of a destination.
pub(super) const KEYS: &[Key] = &[PATH];

/// A path that was written, and where.
pub(super) type PathKey = (Path, Spot);

/// A request to a path of the sink's server.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpDestination {
    /// Path and query.
    pub path: String,
    /// Nothing of it may be shown.
    pub secret: bool,
}

impl SinkAddress for HttpDestination {
    fn lane(&self) -> [&str; 2] {
        [&self.path, ""]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        let path = (!self.secret).then(|| (PATH.name.to_owned(), Bytes::copy_from_slice(self.path.as_bytes())));
        path.into_iter().collect()
    }

    fn carries_traces(&self) -> bool {
        true
    }
}

impl fmt::Display for HttpDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path {}", path::shown(&self.path, self.secret))
    }
}

impl fmt::Debug for HttpDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A path, with its holes compiled.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    /// Template of path and query.
    path: Path,
    /// The names of the sink's own headers.
    headers: Arc<[HeaderName]>,
    /// The destination of every element, if the path has no holes to fill.
    constant: Option<Destination>,
}

impl HttpTarget {
    fn new(path: Path, headers: Arc<[HeaderName]>) -> HttpTarget {
        let secret = path.is_secret();
        let constant = path.constant().map(|path| HttpDestination { path, secret }.into());
        HttpTarget { path, headers, constant }
    }
}

impl Target for HttpTarget {
    fn fill(&self, from: &Filler<'_>) -> Result<Destination, FillError> {
        if let Some(constant) = &self.constant {
            return Ok(constant.clone());
        }
        let path = self.path.fill(from)?;
        Ok(HttpDestination { path, secret: self.path.is_secret() }.into())
    }

    fn choosing(&self, _about: About) -> [Option<&Template>; 2] {
        [Some(self.path.template()), None]
    }

    fn chosen<'a>(&'a self, destination: &'a Destination) -> Vec<(&'a str, &'a str)> {
        let template = self.path.template();
        if !template.uses_payload() {
            return Vec::new();
        }
        let before_query = |text: &'a str| text.split('?').next().unwrap_or_default();
        let shown = if self.path.is_secret() { "/(hidden)" } else { before_query(template.source()) };
        let [path, _] = destination.lane();
        vec![(before_query(path), shown)]
    }

    fn keys(&self) -> Map<String, Value> {
        [(PATH.name.to_owned(), json!(self.path))].into_iter().collect()
    }

    fn place(&self) -> Option<String> {
        Some(self.path.template().source().to_owned())
    }

    fn fixed(&self) -> Option<Fixed> {
        let destination = self.constant.clone()?;
        Some(Fixed { name: destination.to_string(), destination })
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::HTTP
    }

    fn has_header(&self, name: &str) -> bool {
        // Programs behind CGI see one name, whichever of both is in it.
        let spelled = |name: &str| name.to_ascii_lowercase().replace('_', "-");
        self.headers.iter().any(|own| spelled(own.as_str()) == spelled(name))
    }

    fn check_headers(&self, headers: &RouteHeaders<'_, '_>) {
        headers.refuse("every request", names::is_ours);
        headers.refuse("the connection", names::is_framing);
        for (name, spot) in headers.names.iter().filter(|(name, _)| !names::is_name(name)) {
            let message = format!("HTTP has no header `{name}`");
            headers.section.cx.report.problem(spot, message, "write letters, digits and `-`");
        }
    }
}

/// Compiles a path; what is wrong with it is reported.
pub(super) fn compile(section: &Section<'_>, text: &str, secret: bool, spot: Spot) -> Option<PathKey> {
    if !secret {
        warn_of_constants(section.cx, text, &spot);
    }
    match Path::compile(text, secret) {
        Ok(path) => Some((path, spot)),
        Err(error) => {
            let help = match &error {
                PathError::Template(error) => meant(error),
                PathError::Unfit(_) => String::new(),
            };
            let example = "write a path such as `/orders/${payload.id}`".to_owned();
            let help = Some(help).filter(|help| !help.is_empty()).unwrap_or(example);
            section.cx.report.problem(&spot, error.to_string(), help);
            None
        }
    }
}

/// Reads the target of a route: its own path, or else that of the sink's URL. `headers`: the names of the sink's own
/// headers.
pub(super) fn read(
    at: &RouteSite<'_, '_>,
    sinks: Option<&PathKey>,
    headers: &Arc<[HeaderName]>,
) -> Option<(Arc<dyn Target>, Spot)> {
    let own = match at.section.text(&PATH) {
        Some(text) => Some(compile(at.section, &text.value, !text.is_plain(), text.spot)?),
        None if at.section.has(&PATH) => return None,
        None => None,
    };
    let (path, spot) = own.as_ref().or(sinks)?;
    (at.fits)(path.template(), spot);
    let spot = if own.is_some() { spot } else { at.sink_spot };
    Some((Arc::new(HttpTarget::new(path.clone(), headers.clone())), spot.clone()))
}
