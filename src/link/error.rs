//! What can go wrong with a command and with a connect, as far as a caller branches on it.
//!
//! Turns the client library's errors into ours in one place. Texts never hold a password or a payload.

use std::fmt;
use std::sync::Arc;

use super::words::server_code;

/// Why a command has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LinkError {
    /// Certainly not executed: there was no connection to send it on.
    #[error("not sent: Redis {address} is not connected")]
    NotSent {
        /// `host:port/db`.
        address: Arc<str>,
    },
    /// Sent, or about to be sent, and no answer came: it may have run, may run later, or never.
    #[error("no answer of Redis {address}: {reason}")]
    Unknown {
        /// `host:port/db`.
        address: Arc<str>,
        /// Whether the time expired or the connection was lost.
        reason: NoAnswer,
    },
    /// The server answered with an error; the command did not run, or a script stopped at this error.
    #[error("Redis answered {code}: {message}")]
    Server {
        /// The error's code if it is one of the known ones, else `OTHER`: safe as a label.
        code: &'static str,
        /// The server's message, without arguments of the command.
        message: String,
    },
    /// The command ran, but its answer has another shape than the caller asked for: a defect of ours.
    #[error("Redis answered with an unexpected type: {0}")]
    Malformed(String),
}

impl LinkError {
    /// The server's error code, if the server answered with one.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            LinkError::Server { code, .. } => Some(code),
            LinkError::NotSent { .. } | LinkError::Unknown { .. } | LinkError::Malformed(_) => None,
        }
    }

    /// An error reply of the server.
    pub(super) fn server(error: &redis::ServerError) -> LinkError {
        let message = error.details().unwrap_or_default();
        let (code, message) = server_code(error.code(), message);
        LinkError::Server { code, message }
    }
}

/// Why no answer came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The command's time-out expired.
    #[error("timed out after {0:?}")]
    TimedOut(std::time::Duration),
    /// The connection broke, or was replaced because its peer was silent.
    #[error("the connection broke ({0})")]
    Broken(String),
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectError {
    /// What a caller branches on.
    pub kind: ConnectErrorKind,
    /// `host:port/db`.
    pub address: String,
    /// What happened and what to do.
    pub message: String,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connect to Redis {}: {}", self.address, self.message)
    }
}

impl std::error::Error for ConnectError {}

/// The kinds of reasons for which there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectErrorKind {
    /// The host name has no address.
    Name,
    /// The connection was refused, or there is no route to the host.
    Unreachable,
    /// The time-out expired.
    Timeout,
    /// TLS: a certificate, a protocol, a file.
    Tls,
    /// The password file cannot be read.
    Secret,
    /// The password or user is wrong or missing.
    Auth,
    /// The user may not run what connecting needs.
    Permission,
    /// The database number does not exist.
    Database,
    /// The server is older than what is supported.
    TooOld,
    /// The server is not Redis or Valkey, and differs where elements would be lost or doubled.
    Unsupported,
    /// The server is a replica.
    Replica,
    /// The server is loading its data.
    Loading,
    /// The sentinels know no master of this name.
    NoMaster,
    /// Anything else that the server answered.
    Server,
}

impl ConnectErrorKind {
    /// True if waiting does not help: a configuration, a right or a server has to change.
    pub fn needs_a_person(self) -> bool {
        match self {
            ConnectErrorKind::Tls
            | ConnectErrorKind::Secret
            | ConnectErrorKind::Auth
            | ConnectErrorKind::Permission
            | ConnectErrorKind::Database
            | ConnectErrorKind::NoMaster
            | ConnectErrorKind::TooOld
            | ConnectErrorKind::Unsupported => true,
            ConnectErrorKind::Name
            | ConnectErrorKind::Unreachable
            | ConnectErrorKind::Timeout
            | ConnectErrorKind::Replica
            | ConnectErrorKind::Loading
            | ConnectErrorKind::Server => false,
        }
    }

    /// A short stable text, safe as a label.
    pub fn as_str(self) -> &'static str {
        match self {
            ConnectErrorKind::Name => "name",
            ConnectErrorKind::Unreachable => "unreachable",
            ConnectErrorKind::Timeout => "connect_timeout",
            ConnectErrorKind::Tls => "tls",
            ConnectErrorKind::Secret => "password_file",
            ConnectErrorKind::Auth => "auth",
            ConnectErrorKind::Permission => "NOPERM",
            ConnectErrorKind::Database => "database",
            ConnectErrorKind::TooOld => "too_old",
            ConnectErrorKind::Unsupported => "unsupported_server",
            ConnectErrorKind::Replica => "replica",
            ConnectErrorKind::Loading => "LOADING",
            ConnectErrorKind::NoMaster => "no_master",
            ConnectErrorKind::Server => "server",
        }
    }
}
