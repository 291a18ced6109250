//! The configuration keys under `tracing`.

use std::time::Duration;

use serde::Serialize;

use delaybridge_settings::keys::tables;
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::words;
use delaybridge_settings::{shown, url};

tables! {
    mod tracing at "tracing", "Traces of elements for an OpenTelemetry collector. See [tracing.md](tracing.md)." {
        OTLP = key("otlp", Kind::Section(&otlp::TABLE), "The collector.").required();
    }
    mod otlp at "tracing.otlp", "A collector that takes OTLP." {
        ENDPOINT = key("endpoint", Kind::Text, "`http://host:port` of the collector. TLS is not supported: run the collector beside the daemon.").required();
        PROTOCOL = key("protocol", word::<Wanted>(), "`grpc`: OTLP/gRPC, usually at port 4317. `http`: OTLP/HTTP with protobuf, usually at port 4318. `auto`: `http` at port 4318 or if the endpoint has a path, else `grpc`.").default("auto");
        SAMPLE = key("sample", Kind::Factor { min: 0.0, max: 1.0 }, "Fraction of elements that are traced. An element whose `traceparent` header comes from its payload follows its producer's decision.").default("0.01");
        TIMEOUT = key("timeout", duration(1), "Longest duration of one request to the collector.").default("10s");
    }
}

/// The settings of a collector.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtlpSpec {
    /// The endpoint as it was configured.
    pub endpoint: String,
    /// The host of the endpoint.
    #[serde(skip)]
    pub host: String,
    /// The port of the endpoint.
    #[serde(skip)]
    pub port: u16,
    /// The path of requests.
    #[serde(skip)]
    pub path: String,
    /// The protocol of requests.
    pub protocol: Protocol,
    /// The sampled fraction of elements, `0.0..=1.0`.
    pub sample: f64,
    /// The time-out of a request.
    #[serde(serialize_with = "shown::duration")]
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

/// Reads the section `tracing`.
pub fn read(section: &Section<'_>) -> Option<OtlpSpec> {
    let section = section.section(&tracing::OTLP);
    let protocol = section.one_of::<Wanted>(&otlp::PROTOCOL);
    let (sample, timeout) = (section.factor(&otlp::SAMPLE), section.duration(&otlp::TIMEOUT));
    let endpoint = section.text(&otlp::ENDPOINT)?;
    let report = |message: &str, help: &str| section.cx.report.problem(&endpoint.spot, message, help);
    let Some(rest) = endpoint.value.strip_prefix("http://") else {
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
    let endpoint = endpoint.value.clone();
    Some(OtlpSpec { endpoint, host, port, path, protocol, sample, timeout })
}
