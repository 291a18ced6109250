//! The settings of a connection to one Redis server.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::key_space::KeyPrefix;
use delaybridge_dial::Address;
use delaybridge_settings::words::words;
use delaybridge_settings::{Secret, TlsFiles, shown};

/// The settings of a connection to one Redis server.
#[derive(Debug, Clone, Serialize)]
pub struct RedisEndpoint {
    /// Host name or IP address.
    #[serde(skip)]
    pub host: String,
    /// TCP port.
    #[serde(skip)]
    pub port: u16,
    /// The Unix socket that the server is reached by, in place of host and port.
    #[serde(skip)]
    pub socket: Option<PathBuf>,
    /// The certificates; present for `rediss://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// Database number.
    #[serde(skip)]
    pub database: u32,
    /// The prefix of our keys and channels.
    #[serde(skip_serializing_if = "KeyPrefix::is_default")]
    pub key_prefix: KeyPrefix,
    /// ACL user; `None` is the default user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The source of the password.
    #[serde(flatten)]
    pub password: Option<Secret>,
    /// Time-out of TCP, TLS and AUTH together.
    #[serde(serialize_with = "shown::duration")]
    pub connect_timeout: Duration,
    /// Time-out of one command or script.
    #[serde(serialize_with = "shown::duration")]
    pub command_timeout: Duration,
}

impl RedisEndpoint {
    /// Copies the settings to another address.
    pub fn at(&self, host: &str, port: u16) -> RedisEndpoint {
        RedisEndpoint { host: host.to_owned(), port, socket: None, ..self.clone() }
    }

    /// Returns the address of the server.
    pub(crate) fn server(&self) -> Address {
        match &self.socket {
            Some(path) => Address::Unix(path.clone()),
            None => Address::tcp(&self.host, self.port),
        }
    }

    /// Returns `host:port`, with brackets around IPv6 addresses, or `unix:PATH`.
    pub fn host_and_port(&self) -> String {
        self.server().to_string()
    }

    /// Returns `host:port/db` or `unix:PATH?db=DB`, for logs and for comparing endpoints; never with a password.
    pub fn address(&self) -> String {
        let between = if self.socket.is_some() { "?db=" } else { "/" };
        format!("{}{between}{}", self.host_and_port(), self.database)
    }

    /// Returns the effective settings, in the shape and the units of the YAML, without secrets.
    pub fn settings(&self) -> Map<String, Value> {
        let text = match (&self.socket, &self.tls) {
            (Some(path), _) => format!("unix://{}?db={}", path.display(), self.database),
            (None, Some(_)) => format!("rediss://{}", self.address()),
            (None, None) => format!("redis://{}", self.address()),
        };
        let url = ("url".to_owned(), text.into());
        std::iter::once(url).chain(shown::fields(self)).collect()
    }

    /// Returns whether both are the same server, whatever the database. The usual names of this machine count as equal.
    pub fn same_server(&self, other: &RedisEndpoint) -> bool {
        let host = |endpoint: &RedisEndpoint| match endpoint.host.to_ascii_lowercase() {
            host if matches!(host.as_str(), "localhost" | "::1") => "127.0.0.1".to_owned(),
            host => host,
        };
        match (&self.socket, &other.socket) {
            (Some(one), Some(other)) => one == other,
            (None, None) => host(self) == host(other) && self.port == other.port,
            _ => false,
        }
    }
}

words! {
    /// The end of a list that a push adds to.
    pub enum Side {
        /// `RPUSH`, as Redisson consumers of the list expect.
        Right = "right",
        /// `LPUSH`.
        Left = "left",
    }
}
