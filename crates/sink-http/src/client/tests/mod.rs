//! The sink against real servers that the tests start: well-behaved ones, and ones that break every rule.

mod alerts;
mod contract;
mod goaway;
mod misbehaving;
mod raw;
mod requests;
mod reuse;
mod server;
mod statuses;
mod tls;
mod urls;

use std::time::Duration;

use super::super::{HttpDestination, HttpProbe, HttpSpec, Method};
use super::HttpSink;
use delaybridge_core::message::{About, Class, Failure, Outcome};
use delaybridge_dial::ProxyChoice;
use delaybridge_http_client::HttpOrigin;
use delaybridge_settings::TlsFiles;
use delaybridge_sink::{Destination, Outbound, Sink};
use delaybridge_testing::sink::outbound;

/// A path of the sink's server.
fn to(path: &str) -> Destination {
    HttpDestination { path: path.into(), secret: false }.into()
}

/// Requests to a port of this machine, without TLS.
fn plain(port: u16) -> HttpSpec {
    HttpSpec {
        origin: HttpOrigin { tls: false, host: "127.0.0.1".to_owned(), port },
        method: Method::Post,
        headers: Vec::new(),
        tls: None,
        proxy: ProxyChoice::Direct,
        bearer_token_file: None,
        signature: None,
        connect_timeout: Duration::from_secs(2),
        max_concurrency: 64,
        read_body: false,
        probe: HttpProbe::Options,
    }
}

fn sink(spec: HttpSpec) -> HttpSink {
    HttpSink::new(spec, Duration::from_secs(3))
}

/// A sink that gives up soon.
fn impatient(spec: HttpSpec) -> HttpSink {
    HttpSink::new(spec, Duration::from_millis(600))
}

async fn deliver(sink: &HttpSink, path: &str) -> Outcome {
    sink.deliver(outbound(7, to(path), "body")).await
}

async fn failure(sink: &HttpSink, path: &str) -> Failure {
    deliver(sink, path).await.expect_err("the server does not confirm it")
}

#[track_caller]
fn assert_failed(failure: &Failure, class: Class, code: &str, words: &str) {
    assert_eq!((failure.class, failure.code), (class, code), "{failure}");
    assert!(failure.message.contains(words), "`{words}` in {failure}");
}
