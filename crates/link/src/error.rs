//! The errors of commands and of connecting, as far as callers branch on them.
//!
//! The client library's errors are converted here only. Texts never contain a password or a payload.

use std::fmt;
use std::sync::Arc;

use super::words::server_code;

/// The reason why a command has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LinkError {
    /// Certainly not executed: there was no connection to send it on.
    #[error("not sent: Redis {address} is not connected")]
    NotSent {
        /// `host:port/db`.
        address: Arc<str>,
    },
    /// Sent, or about to be sent, without a reply: it may have run, may run later, or never.
    #[error("no answer of Redis {address}: {reason}")]
    Unknown {
        /// `host:port/db`.
        address: Arc<str>,
        /// Whether the time-out expired or the connection was lost.
        reason: NoAnswer,
    },
    /// The server replied with an error: the command did not run, or a script stopped at this error.
    #[error("Redis answered {code}: {message}")]
    Server {
        /// The error code if it is a known one, else `OTHER`; safe as a label.
        code: &'static str,
        /// The server's message, without the command's arguments.
        message: String,
    },
    /// The command ran, but its reply has another type than the caller expects: a defect of this program.
    #[error("Redis answered with an unexpected type: {0}")]
    Malformed(String),
}

impl LinkError {
    /// Returns the server's error code, if the server replied with one.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            LinkError::Server { code, .. } => Some(code),
            LinkError::NotSent { .. } | LinkError::Unknown { .. } | LinkError::Malformed(_) => None,
        }
    }

    /// Converts an error reply.
    pub fn server(error: &redis::ServerError) -> LinkError {
        let message = error.details().unwrap_or_default();
        let (code, message) = server_code(error.code(), message);
        LinkError::Server { code, message }
    }
}

/// The reason why there was no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The command's time-out expired.
    #[error("timed out after {0:?}")]
    TimedOut(std::time::Duration),
    /// The connection broke, or was replaced because its peer was silent.
    #[error("the connection broke ({0})")]
    Broken(String),
}

/// The reason why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectError {
    /// The kind, for callers that branch.
    pub kind: ConnectErrorKind,
    /// `host:port/db`.
    pub address: String,
    /// The problem and its remedy.
    pub message: String,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connect to Redis {}: {}", self.address, self.message)
    }
}

impl std::error::Error for ConnectError {}

/// The kinds of connection errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectErrorKind {
    /// The host name has no address.
    Name,
    /// The connection was refused, or there is no route to the host.
    Unreachable,
    /// The time-out expired.
    Timeout,
    /// A TLS problem: a certificate, a protocol version, a file.
    Tls,
    /// The password file cannot be read.
    Secret,
    /// The password or the user is wrong or missing.
    Auth,
    /// The user lacks a right that connecting needs.
    Permission,
    /// The database number does not exist.
    Database,
    /// The server is older than 6.2.
    TooOld,
    /// The server is neither Redis nor Valkey, and differs where elements would be lost or duplicated.
    Unsupported,
    /// The server is a replica.
    Replica,
    /// The server is loading its data.
    Loading,
    /// The server lets nobody in: it has as many clients as it may, or is in protected mode.
    Refused,
    /// The sentinels know no master of this name.
    NoMaster,
    /// Any other error reply.
    Server,
}

impl ConnectErrorKind {
    /// Returns whether waiting does not help: a setting, a right or a server has to change.
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
            | ConnectErrorKind::Refused
            | ConnectErrorKind::Server => false,
        }
    }

    /// Returns a short stable text, safe as a label.
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
            ConnectErrorKind::Refused => "refused",
            ConnectErrorKind::NoMaster => "no_master",
            ConnectErrorKind::Server => "server",
        }
    }
}
