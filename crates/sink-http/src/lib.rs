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

pub use config::{HttpProbe, HttpSpec, KIND, Method, Signature};
pub use target::{HttpDestination, HttpTarget};

pub use client::HttpSink;

pub(crate) use target::NAME;
