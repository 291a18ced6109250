//! The `http` sink: webhooks, one request an element.
//!
//! `config` has the keys and the settings of requests, `path` the half of a URL that elements may choose, `target` the paths as
//! destinations, `names` the headers that are not the user's, `secrets` the content of the files of secrets, `codes` the
//! error codes, `client` the sink itself, on hyper's connections.

mod client;
mod codes;
mod config;
mod names;
mod path;
mod secrets;
mod target;

pub use config::{HttpProbe, HttpSpec, Method, Signature};
pub use target::{HttpDestination, HttpTarget};

pub use client::HttpSink;

use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

/// The kind in the configuration.
const NAME: &str = "http";

/// The `http` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&config::sink_http::TABLE), "Webhooks."),
    title: "HTTP",
    tables: config::TABLES,
    to: target::KEYS,
    dead_letter: target::KEYS,
    read: Ok(config::read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};
