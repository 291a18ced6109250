//! The keys of `sinks.NAME.sqs` and `sinks.NAME.sns`, and the server that they describe: where it is, the login, the pace.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::codes;
use super::service::AwsService;
use super::target::{AwsKeys, IdKeys, QueueKey, TopicKey, ids, queue, topic};
use delaybridge_aws::spec::login;
use delaybridge_aws::{AwsLoginSpec, host_of};
use delaybridge_core::codes::Codes;
use delaybridge_dial::ProxyChoice;
use delaybridge_http_client::{HttpOrigin, read_proxy, shown_proxy, split};
use delaybridge_settings::keys::{Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::{Settings, TlsFiles, tls};
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Connector, Sink, SinkStart};

/// The `sqs` kind.
pub static SQS: SinkKind = SinkKind {
    key: key("sqs", Kind::Section(&sink_sqs::TABLE), "Queues of AWS's SQS."),
    title: "SQS",
    tables: &[&sink_sqs::TABLE],
    to: queue::OWN,
    dead_letter: queue::OWN,
    read: Ok(read_sqs),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

/// The `sns` kind. Its codes are those of `sqs`.
pub static SNS: SinkKind = SinkKind {
    key: key("sns", Kind::Section(&sink_sns::TABLE), "Topics of AWS's SNS."),
    title: "SNS",
    tables: &[&sink_sns::TABLE],
    to: topic::OWN,
    dead_letter: topic::OWN,
    read: Ok(read_sns),
    codes: || Codes::of("", "", &[]),
};

/// SQS in one region. A message is delivered when SQS has answered for it; up to ten are in one request. The body is the
/// payload; one that SQS does not take as a text is in base64, and the attribute `delaybridge-encoding` says so. Headers
/// are attributes, ten at most; further ones, and those that SQS does not take, are JSON in `delaybridge-headers`.
#[derive(Settings)]
#[settings(sink_sqs, at = "sinks.NAME.sqs", offered = kind::COMMON, hidden)]
struct SqsKeys {
    #[settings(group = queue::OWN)]
    place: QueueKey,
    #[settings(group = ids::OWN)]
    ids: IdKeys,
    #[settings(group = server::OWN)]
    spec: AwsSpec,
}

/// SNS in one region. A message is delivered when SNS has answered for it; up to ten, of 256 KiB together, are in one
/// request. Body and attributes are as in SQS; a subscription with `RawMessageDelivery` leaves them so.
#[derive(Settings)]
#[settings(sink_sns, at = "sinks.NAME.sns", offered = kind::COMMON, hidden)]
struct SnsKeys {
    #[settings(group = topic::OWN)]
    place: TopicKey,
    #[settings(group = ids::OWN)]
    ids: IdKeys,
    #[settings(group = server::OWN)]
    spec: AwsSpec,
}

/// The settings of a sink of either service.
#[derive(Debug, Clone, Settings)]
#[settings(server, at = "sinks.NAME.sqs")]
pub struct AwsSpec {
    /// The service.
    #[settings(later = AwsService::Sqs)]
    pub service: AwsService,
    /// Server of the API, as `https://host`: a VPC endpoint, or one like AWS. Default: that in `queue_url` or of the
    /// region.
    #[key(Kind::Text, name = "endpoint", later = NO_ORIGIN, show = shown_origin)]
    pub origin: HttpOrigin,
    /// The login.
    #[settings(group = login::OWN, later = AwsLoginSpec::default(), flatten)]
    pub login: AwsLoginSpec,
    /// Certificates for an endpoint of `https://`.
    #[key(Kind::Section(&tls::TABLE))]
    pub tls: Option<TlsFiles>,
    /// HTTP proxy, as `http://[user:password@]host[:port]`, or `none`. Default for `https://`: the variables `HTTPS_PROXY`
    /// and `NO_PROXY`.
    #[key(Kind::Secret, read = read_proxy, show = shown_proxy)]
    pub proxy: ProxyChoice,
    /// Timeout for host name, TCP and TLS together.
    #[key(duration(1), default = "5s")]
    pub connect_timeout: Duration,
    /// Concurrent requests.
    #[key(count(1, 1_000), default = "16")]
    pub max_concurrency: usize,
}

/// The server in place of one that is chosen after the keys were read.
const NO_ORIGIN: HttpOrigin = HttpOrigin { tls: true, host: String::new(), port: 443 };

fn shown_origin(origin: &HttpOrigin) -> Option<Value> {
    Some(origin.to_string().into())
}

/// Reads a sink of SQS.
pub(super) fn read_sqs(section: &Section<'_>) -> SinkSettings {
    let SqsKeys { place, ids, spec } = SqsKeys::of(section);
    let keys = AwsKeys::new(AwsService::Sqs, place.queue_url, ids);
    // The server of the queue, wherever it is. Queues of long ago have a name of a server that speaks no JSON.
    let origin = keys.place().and_then(|url| split(url).ok()).map(|(origin, _path)| origin);
    let origin = origin.filter(|origin| !origin.host.ends_with("queue.amazonaws.com"));
    settings(section, keys, AwsSpec { service: AwsService::Sqs, ..spec }, origin)
}

pub(super) fn read_sns(section: &Section<'_>) -> SinkSettings {
    let SnsKeys { place, ids, spec } = SnsKeys::of(section);
    let keys = AwsKeys::new(AwsService::Sns, place.topic_arn, ids);
    settings(section, keys, AwsSpec { service: AwsService::Sns, ..spec }, None)
}

fn settings(section: &Section<'_>, keys: AwsKeys, spec: AwsSpec, own: Option<HttpOrigin>) -> SinkSettings {
    let login = AwsLoginSpec::in_region(section, keys.region());
    let of_region = || HttpOrigin { host: host_of(spec.service.kind(), &login.region), ..NO_ORIGIN };
    let origin = endpoint(section).or(own).unwrap_or_else(of_region);
    if spec.tls.is_some() && !origin.tls {
        let message = "there is `tls`, and the endpoint begins with `http://`";
        section.cx.report.problem(&section.spot(&server::TLS), message, "write `https://`, or remove `tls`");
    }
    if !origin.tls && !is_here(&origin.host) {
        let message = "without `https://` the network sees the messages, and their signatures";
        section.cx.report.warning(&section.spot, message, "write `https://`");
    }
    let region = login.region.clone();
    let timeout = section.duration(&kind::TIMEOUT);
    SinkSettings::new(section, Some(timeout), AwsSpec { origin, login, ..spec }, move |at| keys.target(at, &region))
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn endpoint(section: &Section<'_>) -> Option<HttpOrigin> {
    let text = section.text(&server::ENDPOINT)?;
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
        self.shown()
    }

    fn descriptors(&self) -> u64 {
        // One for each request, and that of the login.
        self.max_concurrency as u64 + 1
    }

    fn address(&self) -> String {
        self.origin.to_string()
    }
}
