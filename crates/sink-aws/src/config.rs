//! The keys of `sinks.NAME.sqs` and `sinks.NAME.sns`, and the server that they describe: where it is, the login, the pace.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::codes;
use super::service::AwsService;
use super::target::{self, AwsKeys};
use delaybridge_aws::spec as aws;
use delaybridge_aws::{AwsLoginSpec, host_of};
use delaybridge_core::codes::Codes;
use delaybridge_dial::ProxyChoice;
use delaybridge_http_client::{HttpOrigin, read_proxy, shown_proxy, split};
use delaybridge_settings::keys::{Group, Key, Kind, count, duration, key, tables};
use delaybridge_settings::reader::Section;
use delaybridge_settings::units::show_duration;
use delaybridge_settings::{TlsFiles, shown, tls};
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Connector, Sink, SinkStart};

/// The `sqs` kind.
pub static SQS: SinkKind = SinkKind {
    key: key("sqs", Kind::Section(&sink_sqs::TABLE), "Queues of AWS's SQS."),
    title: "SQS",
    tables: &[&sink_sqs::TABLE],
    to: target::SQS_KEYS,
    dead_letter: target::SQS_KEYS,
    read: Ok(read_sqs),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

/// The `sns` kind. Its codes are those of `sqs`.
pub static SNS: SinkKind = SinkKind {
    key: key("sns", Kind::Section(&sink_sns::TABLE), "Topics of AWS's SNS."),
    title: "SNS",
    tables: &[&sink_sns::TABLE],
    to: target::SNS_KEYS,
    dead_letter: target::SNS_KEYS,
    read: Ok(read_sns),
    codes: || Codes::of("", "", &[]),
};

const ENDPOINT: Key = key(
    "endpoint",
    Kind::Text,
    "Server of the API, as `https://host`: a VPC endpoint, or one like AWS. Default: that in `queue_url` or of the region.",
);
const TLS: Key = key("tls", Kind::Section(&tls::TABLE), "Certificates for an endpoint of `https://`.");
const PROXY: Key = key(
    "proxy",
    Kind::Secret,
    "HTTP proxy, as `http://[user:password@]host[:port]`, or `none`. Default for `https://`: the variables `HTTPS_PROXY` and `NO_PROXY`.",
);
const CONNECT_TIMEOUT: Key =
    key("connect_timeout", duration(1), "Timeout for host name, TCP and TLS together.").default("5s");
const MAX_CONCURRENCY: Key = key("max_concurrency", count(1, 1_000), "Concurrent requests.").default("16");

/// The keys of the server, which are the same for both services.
const SERVER: &[Key] = &[
    ENDPOINT,
    aws::REGION,
    aws::ROLE_ARN,
    aws::PROFILE,
    aws::CREDENTIALS_FILE,
    TLS,
    PROXY,
    CONNECT_TIMEOUT,
    MAX_CONCURRENCY,
    kind::TIMEOUT,
    kind::MAX_RATE,
];
static OF_SQS: &[Group] = &[Group { of: None, keys: target::ON_SQS }, Group { of: None, keys: SERVER }];
static OF_SNS: &[Group] = &[Group { of: None, keys: target::ON_SNS }, Group { of: None, keys: SERVER }];

tables! {
    mod sink_sqs at "sinks.NAME.sqs",
        "SQS in one region. A message is delivered when SQS has answered for it; up to ten are in one request. The body is the payload; one that SQS does not take as a text is in base64, and the attribute `delaybridge-encoding` says so. Headers are attributes, ten at most; further ones, and those that SQS does not take, are JSON in `delaybridge-headers`."
    {} + OF_SQS
    mod sink_sns at "sinks.NAME.sns",
        "SNS in one region. A message is delivered when SNS has answered for it; up to ten, of 256 KiB together, are in one request. Body and attributes are as in SQS; a subscription with `RawMessageDelivery` leaves them so."
    {} + OF_SNS
}

/// The settings of a sink of either service.
#[derive(Debug, Clone)]
pub struct AwsSpec {
    /// The service.
    pub service: AwsService,
    /// The server of the API.
    pub origin: HttpOrigin,
    /// The login.
    pub login: AwsLoginSpec,
    /// Certificates.
    pub tls: Option<TlsFiles>,
    /// The proxy in front of it.
    pub proxy: ProxyChoice,
    /// Time to connect in.
    pub connect_timeout: Duration,
    /// Requests at once.
    pub max_concurrency: usize,
}

/// Reads a sink of SQS.
pub(super) fn read_sqs(section: &Section<'_>) -> SinkSettings {
    let keys = AwsKeys::of_sink(AwsService::Sqs, section);
    // The server of the queue, wherever it is. Queues of long ago have a name of a server that speaks no JSON.
    let origin = keys.place().and_then(|url| split(url).ok()).map(|(origin, _path)| origin);
    let origin = origin.filter(|origin| !origin.host.ends_with("queue.amazonaws.com"));
    settings(section, AwsService::Sqs, keys, origin)
}

pub(super) fn read_sns(section: &Section<'_>) -> SinkSettings {
    settings(section, AwsService::Sns, AwsKeys::of_sink(AwsService::Sns, section), None)
}

fn settings(section: &Section<'_>, service: AwsService, keys: AwsKeys, own: Option<HttpOrigin>) -> SinkSettings {
    let login = AwsLoginSpec::in_region(section, keys.region());
    let of_region = || HttpOrigin { tls: true, host: host_of(service.kind(), &login.region), port: 443 };
    let origin = endpoint(section).or(own).unwrap_or_else(of_region);
    let tls = section.opt_section(&TLS).map(|section| tls::settings(&section));
    if tls.is_some() && !origin.tls {
        let message = "there is `tls`, and the endpoint begins with `http://`";
        section.cx.report.problem(&section.spot(&TLS), message, "write `https://`, or remove `tls`");
    }
    if !origin.tls && !is_here(&origin.host) {
        let message = "without `https://` the network sees the messages, and their signatures";
        section.cx.report.warning(&section.spot, message, "write `https://`");
    }
    let spec = AwsSpec {
        service,
        origin,
        tls,
        proxy: read_proxy(section, &PROXY),
        connect_timeout: section.duration(&CONNECT_TIMEOUT),
        max_concurrency: section.count(&MAX_CONCURRENCY).and_then(|count| usize::try_from(count).ok()).unwrap_or(1),
        login: login.clone(),
    };
    SinkSettings::new(section, Some(section.duration(&kind::TIMEOUT)), spec, move |at| keys.target(at, &login.region))
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn endpoint(section: &Section<'_>) -> Option<HttpOrigin> {
    let text = section.text(&ENDPOINT)?;
    match split(&text.value) {
        Ok((origin, path)) if path == "/" => Some(origin),
        Ok(_) => {
            section.cx.report.problem(&text.spot, "an endpoint has no path", "write `https://host`");
            None
        }
        Err((message, help)) => {
            section.cx.report.problem(&text.spot, message, help);
            None
        }
    }
}

impl Connector for AwsSpec {
    fn kind(&self) -> &'static str {
        self.service.kind()
    }

    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        Arc::new(super::client::AwsSink::new(self.clone(), start.timeout))
    }

    fn settings(&self) -> Map<String, Value> {
        let tls = self.tls.as_ref().and_then(shown::value).map(|tls| (TLS.name, tls));
        let own = [
            (CONNECT_TIMEOUT.name, show_duration(self.connect_timeout).into()),
            (MAX_CONCURRENCY.name, self.max_concurrency.into()),
        ];
        let proxy = shown_proxy(&self.proxy).map(|proxy| (PROXY.name, proxy));
        let own = tls.into_iter().chain(proxy).chain(own).map(|(name, value)| (name.to_owned(), value));
        let endpoint = (ENDPOINT.name.to_owned(), Value::from(self.origin.to_string()));
        std::iter::once(endpoint).chain(shown::fields(&self.login)).chain(own).collect()
    }

    fn descriptors(&self) -> u64 {
        // One for each request, and that of the login.
        self.max_concurrency as u64 + 1
    }

    fn address(&self) -> String {
        self.origin.to_string()
    }
}
