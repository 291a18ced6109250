//! The keys of `sinks.NAME.http`, and the requests that they describe.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::target::{self, PathKey};
use super::url::{self, HttpOrigin};
use super::{NAME, names, secrets};
use delaybridge_link::Redis;
use delaybridge_settings::keys::{Key, tables};
use delaybridge_settings::reader::Section;
use delaybridge_settings::units::show_duration;
use delaybridge_settings::words::words;
use delaybridge_settings::{TlsFiles, shown, tls};
use delaybridge_sink::kind::{self, SinkSettings};
use delaybridge_sink::{Connector, Sink};

tables! {
    mod sink_http at "sinks.NAME.http", "A webhook: one request per element, over HTTP/2 if the server offers it. A status from 200 to 299 confirms the element. The body is the payload in its envelope; the headers are `delaybridge-id`, `delaybridge-queue`, `delaybridge-due-ms`, `delaybridge-attempt`, `Idempotency-Key` with the id, and then the route's." {
        URL = key("url", Kind::Template, "`https://host[:port]/path?query`, or `http://`. Path and query may have `${...}` holes; their values are percent-encoded, so a value cannot add a path segment or a parameter. Host and port are fixed. A route may override path and query with `path`.").required();
        METHOD = key("method", word::<Method>(), "Method of the request.").default("POST");
        HEADERS = key("headers", Kind::Scalars, "Headers of every request. Values are never shown. `content-type` is sent only if it is here or in the route's `headers`, or with `envelope: cloudevents`.");
        TLS = key("tls", Kind::Section(&tls::TABLE), "Certificates for `https://`.");
        BEARER_TOKEN_FILE = key("bearer_token_file", Kind::File, "File whose first line is sent as `Authorization: Bearer`. Changes apply within a second.");
        SIGNATURE = key("signature", Kind::Section(&signature::TABLE), "Signatures by the Standard Webhooks scheme, in the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`.");
        CONNECT_TIMEOUT = key("connect_timeout", duration(1), "Timeout for host name, TCP and TLS together; at most four fifths of `timeout`.").default("5s");
        MAX_CONCURRENCY = key("max_concurrency", count(1, 10_000), "Concurrent requests: connections with HTTP/1.1, streams of one connection with HTTP/2. The server may set a lower limit.").default("64");
        PROBE = key("probe", word::<HttpProbe>(), "Probe of the server at start and while there is nothing to send: a request `OPTIONS /` or `HEAD /` without credentials, or only a connection. Any status but 502, 503 and 504 means that the server is up.").default("options");
        TIMEOUT = kind::TIMEOUT;
        MAX_RATE = kind::MAX_RATE;
    }
    mod signature at "sinks.NAME.http.signature", "Secrets of the signatures." {
        SECRET_FILE = key("secret_file", Kind::File, "File with one secret per line, `whsec_` and 24 to 64 bytes in base64. Each secret adds a signature. To rotate a secret, add the new one above the old one, give it to the receiver, and remove the old one. Changes apply within a second.").required();
    }
}

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

/// The settings of the requests to one server.
#[derive(Clone)]
pub struct HttpSpec {
    /// Scheme, host and port of every URL of the sink.
    pub origin: HttpOrigin,
    /// The method of every request.
    pub method: Method,
    /// Headers of every request; the values may be secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Certificates, for `https`.
    pub tls: Option<TlsFiles>,
    /// File whose first line is sent as `Authorization: Bearer`.
    pub bearer_token_file: Option<PathBuf>,
    /// File with the secrets that requests are signed with, one a line.
    pub secret_file: Option<PathBuf>,
    /// Time allowed for the name, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Requests that may be under way at once.
    pub max_concurrency: usize,
    /// The way in which the server is probed.
    pub probe: HttpProbe,
}

impl fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.settings()).finish()
    }
}

/// Reads the sink.
pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let (origin, path) = url(section);
    SinkSettings::new(section, Some(section.duration(&sink_http::TIMEOUT)), spec(section, origin), move |at| {
        target::read(at, path.as_ref())
    })
}

impl Connector for HttpSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, timeout: Duration, _source: &Redis) -> Arc<dyn Sink> {
        Arc::new(super::HttpSink::new(self.clone(), timeout))
    }

    fn settings(&self) -> Map<String, Value> {
        let path = |path: &PathBuf| json!(path.display().to_string());
        let headers = self.headers.iter().map(|(name, _)| (name.to_string(), json!("(hidden)")));
        let headers = headers.collect::<Map<_, _>>();
        let fields = [
            // The path is a route's: see the queues.
            (&sink_http::URL, Some(json!(self.origin.to_string()))),
            (&sink_http::METHOD, Some(json!(self.method.as_str()))),
            (&sink_http::HEADERS, (!headers.is_empty()).then(|| headers.into())),
            (&sink_http::TLS, self.tls.as_ref().map(|files| shown::fields(files).into())),
            (&sink_http::BEARER_TOKEN_FILE, self.bearer_token_file.as_ref().map(path)),
            (
                &sink_http::SIGNATURE,
                self.secret_file.as_ref().map(|file| json!({ signature::SECRET_FILE.name: path(file) })),
            ),
            (&sink_http::CONNECT_TIMEOUT, Some(json!(show_duration(self.connect_timeout)))),
            (&sink_http::MAX_CONCURRENCY, Some(json!(self.max_concurrency))),
            (&sink_http::PROBE, Some(json!(self.probe.as_str()))),
        ];
        let fields = fields.into_iter();
        fields.filter_map(|(key, value): (&Key, _)| Some((key.name.to_owned(), value?))).collect()
    }

    fn address(&self) -> String {
        self.origin.to_string()
    }

    fn looks_for_destinations(&self) -> bool {
        // Only a request would tell, and even a HEAD may do something there.
        false
    }
}

fn spec(section: &Section<'_>, origin: Option<HttpOrigin>) -> HttpSpec {
    let report = &section.cx.report;
    let origin = origin.unwrap_or(HttpOrigin { tls: true, host: String::new(), port: 0 });
    let tls = section.opt_section(&sink_http::TLS).map(|section| tls::files(&section));
    if tls.is_some() && !origin.tls {
        let message = "there is `tls`, and the URL begins with `http://`";
        report.problem(&section.spot(&sink_http::TLS), message, "write `https://`, or remove `tls`");
    }
    let token = checked_file(section, &sink_http::BEARER_TOKEN_FILE, |text| secrets::token(text).map(drop));
    let signature = section.opt_section(&sink_http::SIGNATURE);
    let headers = headers(section, token.is_some());
    let proof = token.is_some() || headers.iter().any(|(name, _)| name == hyper::header::AUTHORIZATION);
    if proof && !origin.tls {
        let message = "without `https://` the network sees who sends, and can do the same";
        report.warning(&section.spot(&sink_http::URL), message, "write `https://`");
    }
    HttpSpec {
        origin,
        method: section.one_of::<Method>(&sink_http::METHOD).unwrap_or(Method::Post),
        headers,
        tls,
        bearer_token_file: token,
        secret_file: signature.and_then(|section| checked_file(&section, &signature::SECRET_FILE, secrets::keys)),
        connect_timeout: section.duration(&sink_http::CONNECT_TIMEOUT),
        max_concurrency: section.count(&sink_http::MAX_CONCURRENCY).and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
        probe: section.one_of::<HttpProbe>(&sink_http::PROBE).unwrap_or(HttpProbe::Options),
    }
}

/// Server and default path of the sink.
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

/// The path of a file whose content passes `check`.
fn checked_file<T, E: fmt::Display>(
    section: &Section<'_>,
    key: &Key,
    check: impl Fn(&str) -> Result<T, E>,
) -> Option<PathBuf> {
    let (path, content) = section.file(key)?;
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
