//! The configuration keys under `tracing`.

use std::time::Duration;

use delaybridge_settings::keys::{Key, Table};
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::words;
use delaybridge_settings::{Settings, url};

/// [Traces](tracing.md) of elements for an OpenTelemetry collector.
#[derive(Settings)]
#[settings(tracing, at = "tracing", hidden)]
pub struct TracingKeys {
    /// The collector.
    #[key(Kind::Section(&otlp::TABLE), required, read = collector)]
    pub otlp: Option<OtlpSpec>,
}

/// Both tables, in the order of the reference.
pub static ALL: &[&Table] = &[&tracing::TABLE, &otlp::TABLE];

/// A collector that takes OTLP.
#[derive(Debug, Clone, PartialEq, Settings)]
#[settings(otlp, at = "tracing.otlp")]
pub struct OtlpSpec {
    /// `http://host:port` of the collector, without TLS: run it beside the daemon.
    #[key(Kind::Text, required)]
    pub endpoint: String,
    /// The host of the endpoint.
    #[settings(later = String::new())]
    pub host: String,
    /// The port of the endpoint.
    #[settings(later = 0)]
    pub port: u16,
    /// The path of requests.
    #[settings(later = String::new())]
    pub path: String,
    /// OTLP/gRPC (usually port 4317), or OTLP/HTTP with protobuf (4318). `auto`: `http` at port 4318 or with a path,
    /// else `grpc`.
    #[key(word::<Wanted>(), default = "auto", later = Protocol::Grpc)]
    pub protocol: Protocol,
    /// Fraction of elements that are traced. One with a `traceparent` from its payload follows its producer's decision.
    #[key(Kind::Factor { min: 0.0, max: 1.0 }, default = "0.01")]
    pub sample: f64,
    /// Time limit of a request to the collector.
    #[key(duration(1), default = "10s")]
    pub timeout: Duration,
}

words! {
    /// The protocol of a collector.
    pub enum Protocol {
        /// OTLP/gRPC.
        Grpc = "grpc",
        /// OTLP/HTTP with protobuf.
        Http = "http",
    }
}

words! {
    /// The protocol of a collector, or the one that its endpoint suggests.
    list Wanted of Option<Protocol> {
        "auto" => None,
        Protocol::Grpc.as_str() => Some(Protocol::Grpc),
        Protocol::Http.as_str() => Some(Protocol::Http),
    }
}

fn collector(section: &Section<'_>, key: &Key) -> Option<OtlpSpec> {
    let section = section.section(key);
    let protocol = section.one_of::<Wanted>(&otlp::PROTOCOL);
    let spec = OtlpSpec::of(&section);
    // Without one, that was reported.
    let endpoint = Some(&spec.endpoint).filter(|endpoint| !endpoint.is_empty())?;
    let spot = section.spot(&otlp::ENDPOINT);
    let report = |message: &str, help: &str| section.cx.report.problem(&spot, message, help);
    let Some(rest) = endpoint.strip_prefix("http://") else {
        report("the endpoint does not begin with `http://`", "write `http://collector:4317`, a collector without TLS");
        return None;
    };
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    if address.contains('@') || path.contains(['?', '#', ' ']) {
        report("the endpoint has more than a host, a port and a path", "write `http://collector:4317`");
        return None;
    }
    let (host, port) = match url::host_and_port(address, 4317) {
        Ok(both) => both,
        Err(message) => {
            report(message, "write `http://collector:4317`");
            return None;
        }
    };
    let path = path.trim_end_matches('/');
    let guessed = if port == 4318 || !path.is_empty() { Protocol::Http } else { Protocol::Grpc };
    let protocol = protocol?.unwrap_or(guessed);
    let path = match (protocol, path) {
        (Protocol::Grpc, "") => "/opentelemetry.proto.collector.trace.v1.TraceService/Export".to_owned(),
        (Protocol::Grpc, _) => {
            report("an endpoint of gRPC has no path", "remove it, or write `protocol: http`");
            return None;
        }
        (Protocol::Http, "") => "/v1/traces".to_owned(),
        (Protocol::Http, path) => format!("/{path}"),
    };
    Some(OtlpSpec { host, port, path, protocol, ..spec })
}
