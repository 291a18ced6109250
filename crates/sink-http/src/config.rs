//! The keys of `sinks.NAME.http`, and the requests that they describe.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::codes;
use super::target::{self, NAME, PathKey};
use super::{names, secrets};
use delaybridge_core::codes::Codes;
use delaybridge_dial::ProxyChoice;
use delaybridge_http_client::{self as url, HttpOrigin, read_proxy, shown_proxy};
use delaybridge_settings::keys::{Key, Kind, Table, key};
use delaybridge_settings::reader::{STAND_IN, Section};
use delaybridge_settings::words::words;
use delaybridge_settings::{Settings, TlsFiles, tls};
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Connector, Sink, SinkStart};

/// The `http` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&sink_http::TABLE), "Webhooks."),
    title: "HTTP",
    tables: TABLES,
    to: target::KEYS,
    dead_letter: target::KEYS,
    read: Ok(read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

/// Every table, in the order of the reference.
pub(super) static TABLES: &[&Table] = &[&sink_http::TABLE, &signature::TABLE];

words! {
    /// Methods that carry a body and may be repeated under an idempotency key.
    pub enum Method {
        /// `POST`.
        Post = "POST",
        /// `PUT`.
        Put = "PUT",
        /// `PATCH`.
        Patch = "PATCH",
    }
}

words! {
    /// The way in which the server is probed.
    pub enum HttpProbe {
        /// `OPTIONS /`.
        Options = "options",
        /// `HEAD /`.
        Head = "head",
        /// A connection without a request.
        Connect = "connect",
    }
}

/// A webhook: one request per element, over HTTP/2 if the server offers it. A status from 200 to 299 confirms the
/// element. The body is the payload in its envelope; `Idempotency-Key` has the id.
#[derive(Clone, Settings)]
#[settings(sink_http, at = "sinks.NAME.http", offered = kind::COMMON)]
pub struct HttpSpec {
    /// `https://host[:port]/path?query`, or `http://`. Path and query may be templates, whose values are
    /// percent-encoded; `path` of a route replaces them.
    #[key(
        Kind::Template,
        required,
        name = "url",
        later = HttpOrigin { tls: true, host: String::new(), port: 0 },
        show = shown_origin,
    )]
    pub origin: HttpOrigin,
    /// Method of the request.
    #[key(word::<Method>(), default = "POST")]
    pub method: Method,
    /// Headers of every request, never shown. `content-type` is sent only from here, from the route's `headers`, or
    /// with `envelope: cloudevents`.
    #[key(Kind::Scalars, later = Vec::new(), show = hidden)]
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Certificates for `https://`.
    #[key(Kind::Section(&tls::TABLE))]
    pub tls: Option<TlsFiles>,
    /// HTTP proxy, as `http://[user:password@]host[:port]`, or `none`. Default for `https://`: the variables
    /// `HTTPS_PROXY` and `NO_PROXY`.
    #[key(Kind::Secret, read = read_proxy, show = shown_proxy)]
    pub proxy: ProxyChoice,
    /// File whose first line is sent as `Authorization: Bearer`; changes apply within a second.
    #[key(Kind::File, read = token_file)]
    pub bearer_token_file: Option<PathBuf>,
    /// Signatures by Standard Webhooks, in the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    #[key(Kind::Section(&signature::TABLE))]
    pub signature: Option<Signature>,
    /// Timeout for host name, TCP and TLS together; at most four fifths of `timeout`.
    #[key(duration(1), default = "5s")]
    pub connect_timeout: Duration,
    /// Concurrent requests; the server may set a lower limit with HTTP/2.
    #[key(count(1, 10_000), default = "64")]
    pub max_concurrency: usize,
    /// Whether a success counts only with its whole body. Otherwise its end is awaited for 5 s at most.
    #[key(Kind::Flag, default = "false")]
    pub read_body: bool,
    /// Probe at start and while nothing is sent: a request `OPTIONS /` or `HEAD /` without credentials, or only a
    /// connection. Any status but 502, 503 and 504 means up.
    #[key(word::<HttpProbe>(), default = "options")]
    pub probe: HttpProbe,
}

/// Secrets of the signatures.
#[derive(Clone, Settings)]
#[settings(signature, at = "sinks.NAME.http.signature")]
pub struct Signature {
    /// File with one secret per line, `whsec_` and 24 to 64 bytes in base64. Each adds a signature. To rotate, add the
    /// new one above the old one, give it to the receiver, and remove the old one. Changes apply within a second.
    #[key(Kind::File, required, read = secret_file)]
    pub secret_file: PathBuf,
}

impl fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.settings()).finish()
    }
}

pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let (origin, path) = url(section);
    let spec = spec(section, origin);
    let headers: Arc<[HeaderName]> = spec.headers.iter().map(|(name, _)| name.clone()).collect();
    SinkSettings::new(section, Some(section.duration(&kind::TIMEOUT)), spec, move |at| {
        target::read(at, path.as_ref(), &headers)
    })
}

impl Connector for HttpSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        Arc::new(super::client::HttpSink::new(self.clone(), start.timeout))
    }

    fn settings(&self) -> Map<String, Value> {
        self.shown()
    }

    fn address(&self) -> String {
        self.origin.to_string()
    }

    fn descriptors(&self) -> u64 {
        // One for each request, and that of the probe.
        self.max_concurrency as u64 + 1
    }

    fn looks_for_destinations(&self) -> bool {
        // Only a request would tell, and even a HEAD may do something there.
        false
    }
}

/// Shows the origin only: the path of a URL is a route's, see the queues.
fn shown_origin(origin: &HttpOrigin) -> Option<Value> {
    Some(origin.to_string().into())
}

/// Returns the names of the headers; the values may be secrets.
fn hidden(headers: &[(HeaderName, HeaderValue)]) -> Option<Value> {
    let shown = headers.iter().map(|(name, _)| (name.to_string(), "(hidden)".into()));
    (!headers.is_empty()).then(|| shown.collect::<Map<_, _>>().into())
}

fn token_file(section: &Section<'_>, key: &Key) -> Option<PathBuf> {
    checked_file(section, key, |text| secrets::token(text).map(drop))
}

fn secret_file(section: &Section<'_>, key: &Key) -> PathBuf {
    checked_file(section, key, secrets::keys).unwrap_or_default()
}

fn spec(section: &Section<'_>, origin: Option<HttpOrigin>) -> HttpSpec {
    let report = &section.cx.report;
    let spec = HttpSpec::of(section);
    let origin = origin.unwrap_or_else(|| spec.origin.clone());
    if spec.tls.is_some() && !origin.tls {
        let message = "there is `tls`, and the URL begins with `http://`";
        report.problem(&section.spot(&sink_http::TLS), message, "write `https://`, or remove `tls`");
    }
    let token = spec.bearer_token_file.is_some();
    let headers = headers(section, token);
    let proof = token || headers.iter().any(|(name, _)| name == hyper::header::AUTHORIZATION);
    if proof && !origin.tls {
        let message = "without `https://` the network sees who sends, and can do the same";
        report.warning(&section.spot(&sink_http::URL), message, "write `https://`");
    }
    HttpSpec { origin, headers, ..spec }
}

/// Reads the server and the default path of the sink.
fn url(section: &Section<'_>) -> (Option<HttpOrigin>, Option<PathKey>) {
    let Some(text) = section.text(&sink_http::URL) else { return (None, None) };
    match url::split(&text.value) {
        Ok((origin, path)) => (Some(origin), target::compile(section, &path, !text.is_plain(), text.spot)),
        Err((message, help)) => {
            section.cx.report.problem(&text.spot, message, help);
            (None, None)
        }
    }
}

/// Reads the path of a file whose content passes `check`.
fn checked_file<T, E: fmt::Display>(
    section: &Section<'_>,
    key: &Key,
    check: impl Fn(&str) -> Result<T, E>,
) -> Option<PathBuf> {
    let (path, content) = section.file(key)?;
    // It was not read, which a command that has no use for the sink does not need.
    if content == STAND_IN {
        return Some(path);
    }
    let problem = match std::str::from_utf8(&content) {
        Ok(text) => check(text).err().map(|error| error.to_string()),
        Err(_) => Some("it is not UTF-8 text".to_owned()),
    };
    if let Some(problem) = problem {
        section.cx.report.problem(&section.spot(key), format!("the file cannot be used: {problem}"), key.help);
    }
    Some(path)
}

fn headers(section: &Section<'_>, token: bool) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::new();
    for (name, scalar) in section.scalars(&sink_http::HEADERS) {
        let problem = if !names::is_name(&name) {
            Some("HTTP has no header of this name")
        } else if names::is_framing(&name) {
            Some("the header belongs to the connection")
        } else if names::is_ours(&name) {
            Some("every request has this header already")
        } else if token && name.eq_ignore_ascii_case("authorization") {
            Some("`bearer_token_file` makes this header")
        } else {
            None
        };
        if let Some(problem) = problem {
            section.cx.report.problem(&scalar.spot, problem, "remove it");
            continue;
        }
        match (HeaderName::try_from(name), HeaderValue::from_bytes(scalar.value.as_bytes())) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.push((name, value));
            }
            _ => {
                let message = "the value has a line break or another control character";
                section.cx.report.problem(&scalar.spot, message, "write it on one line");
            }
        }
    }
    headers
}
