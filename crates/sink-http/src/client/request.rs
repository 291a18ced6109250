//! Turns an element into a request: the headers, checked before a byte leaves. Pure.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Uri, Version};

use super::super::{HttpSpec, Method, codes, names};
use super::body::Slices;
use super::credentials::Credentials;
use super::errors::attempt;
use delaybridge_core::message::Failure;
use delaybridge_sink::Outbound;
use delaybridge_sink::headers::Standard;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("delaybridge/", env!("CARGO_PKG_VERSION")));
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Builds the request that delivers this element. `version` is that of the connection. An error is one for ever.
pub(super) fn build(
    spec: &HttpSpec,
    message: &Outbound,
    path: &str,
    credentials: &Credentials,
    version: Version,
) -> Result<Request<Slices>, Failure> {
    let mut request = Request::new(Slices::new(message.body.clone()));
    *request.method_mut() = match spec.method {
        Method::Post => hyper::Method::POST,
        Method::Put => hyper::Method::PUT,
        Method::Patch => hyper::Method::PATCH,
    };
    *request.uri_mut() = uri(spec, path, version)?;
    *request.version_mut() = version;
    *request.headers_mut() = all_headers(spec, message, credentials, version)?;
    Ok(request)
}

/// Builds a request that asks for nothing: no path of the user's, no credentials, no body.
pub(super) fn probe(spec: &HttpSpec, method: hyper::Method, version: Version) -> Result<Request<Slices>, Failure> {
    let mut request = Request::new(Slices::new(Bytes::new()));
    *request.method_mut() = method;
    *request.uri_mut() = uri(spec, "/", version)?;
    *request.version_mut() = version;
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, AGENT);
    if version != Version::HTTP_2 {
        headers.insert(HOST, checked(spec, "host", &spec.origin.authority())?);
    }
    Ok(request)
}

/// Builds the URI. In HTTP/2 the host is a part of it, in HTTP/1.1 a header.
fn uri(spec: &HttpSpec, path: &str, version: Version) -> Result<Uri, Failure> {
    let text = if version == Version::HTTP_2 { format!("{}{path}", spec.origin) } else { path.to_owned() };
    Uri::try_from(text).map_err(|error| {
        let text = format!("{}: the path or the query of the URL cannot be sent: {error}", attempt(spec));
        codes::BAD_PATH.failure(text)
    })
}

fn all_headers(
    spec: &HttpSpec,
    message: &Outbound,
    credentials: &Credentials,
    version: Version,
) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::with_capacity(16 + spec.headers.len() + message.headers.len());
    headers.insert(USER_AGENT, AGENT);
    headers.extend(spec.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    for (name, value) in &message.headers {
        let (name, value) = own(spec, name, value)?;
        headers.insert(name, value);
    }
    if version != Version::HTTP_2 {
        headers.insert(HOST, checked(spec, "host", &spec.origin.authority())?);
    }
    headers.insert(CONTENT_LENGTH, message.body.len().into());
    for (name, value) in Standard::of(message).iter() {
        headers.insert(HeaderName::from_static(name), checked(spec, name, value)?);
    }
    let id = message.id.to_string();
    headers.insert(names::IDEMPOTENCY_KEY, checked(spec, names::IDEMPOTENCY_KEY, &id)?);
    if let Some(authorization) = &credentials.authorization {
        headers.insert(AUTHORIZATION, authorization.clone());
    }
    if let Some(signer) = &credentials.signer {
        // Redis's time: the only clock that all daemons share.
        let timestamp = message.now_ms.div_euclid(1000).to_string();
        let signature = signer.sign(&id, &timestamp, &message.body);
        headers.insert(WEBHOOK_ID, checked(spec, "webhook-id", &id)?);
        headers.insert(WEBHOOK_TIMESTAMP, checked(spec, "webhook-timestamp", &timestamp)?);
        headers.insert(WEBHOOK_SIGNATURE, checked(spec, "webhook-signature", &signature)?);
    }
    Ok(headers)
}

/// Builds a header of the user's, of the envelope or of a dead letter. One that every request has is put in afterwards
/// and wins; the configuration check refuses such a name.
fn own(spec: &HttpSpec, name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    let bad = |why: &str| {
        let text = format!("{}: header {name}: {why}", attempt(spec));
        codes::BAD_HEADER.failure(text)
    };
    let written = sent(name);
    if names::is_framing(&written) {
        return Err(bad("it belongs to the connection"));
    }
    let value = if name.starts_with("ce_") { encoded(value) } else { value.into() };
    let name = HeaderName::try_from(&*written).map_err(|_| bad("HTTP has no header of this name"))?;
    Ok((name, checked(spec, &written, &value)?))
}

/// Returns the name that is sent. In HTTP the attributes of CloudEvents are written with a hyphen; many servers drop
/// names with `_`.
fn sent(name: &str) -> Cow<'_, str> {
    match name.strip_prefix("ce_") {
        Some(attribute) => format!("ce-{attribute}").into(),
        None => name.into(),
    }
}

/// Returns the value of an attribute of CloudEvents: in HTTP all but printable ASCII is percent-encoded, and so are `"`
/// and `%`.
fn encoded(value: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'%');
    if value.bytes().all(plain) {
        return value.into();
    }
    let mut text = String::with_capacity(value.len() + 8);
    for byte in value.bytes() {
        if plain(byte) { text.push(char::from(byte)) } else { text.push_str(&format!("%{byte:02X}")) }
    }
    text.into()
}

fn checked(spec: &HttpSpec, name: &str, value: &str) -> Result<HeaderValue, Failure> {
    // Bytes, since a value may be UTF-8; control characters are refused.
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
        let text = format!("{}: header {name}: its value has a line break or another control character", attempt(spec));
        codes::BAD_HEADER.failure(text)
    })
}
