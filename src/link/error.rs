//! What can go wrong with a command and with a connect, as far as a caller branches on it.
//!
//! Turns the client library's errors into ours in one place. Texts never hold a password or a payload.

use std::fmt;
use std::sync::Arc;

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

/// Codes that callers may branch on or count by; everything else is `OTHER`.
const CODES: [&str; 28] = [
    "ERR",
    "OOM",
    "LOADING",
    "BUSY",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "NOREPLICAS",
    "READONLY",
    "MOVED",
    "ASK",
    "NOSCRIPT",
    "WRONGTYPE",
    "WRONGKEY",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "CROSSSLOT",
    "EXECABORT",
    "NOPROTO",
    "NOTBUSY",
    "MISCONF",
    "UNKILLABLE",
    "UNBLOCKED",
    "DENIED",
    "BUSYKEY",
    "BUSYGROUP",
    "NOGROUP",
];

/// The code and the text of a server's error reply, as all versions mean it.
///
/// 6.2 wraps the error of a command inside a script as `ERR Error running script ...: -OOM ...`, 7.0 reports missing
/// rights inside a script as `ERR The user executing the script can't run this command`; both get the code they mean.
pub fn server_code(code: &str, message: &str) -> (&'static str, String) {
    let mut code = code.trim_start_matches('-');
    let mut message = message;
    if code == "ERR" && message.starts_with("Error running script") {
        if let Some((inner, rest)) = message.split_once(": -").and_then(|(_, reply)| reply.split_once(' '))
            && inner.bytes().all(|byte| byte.is_ascii_uppercase())
        {
            (code, message) = (inner, rest);
        }
    } else if code == "ERR" && message.starts_with("The user executing the script can't") {
        code = "NOPERM";
    }
    // "unknown command 'X', with args beginning with: ..." repeats the payload.
    let message = message.split(", with args beginning with").next().unwrap_or_default();
    let known = CODES.iter().find(|known| **known == code);
    match known {
        Some(known) => (known, message.to_owned()),
        None => ("OTHER", format!("{code} {message}")),
    }
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
            | ConnectErrorKind::TooOld => true,
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
            ConnectErrorKind::Replica => "replica",
            ConnectErrorKind::Loading => "LOADING",
            ConnectErrorKind::NoMaster => "no_master",
            ConnectErrorKind::Server => "server",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_get_the_code_that_they_mean() {
        fn check(code: &str, message: &str, expected: (&str, &str)) {
            let got = server_code(code, message);
            assert_eq!((got.0, got.1.as_str()), expected, "{code} {message}");
        }
        check("OOM", "command not allowed", ("OOM", "command not allowed"));
        check("-OOM", "command not allowed", ("OOM", "command not allowed"));
        check("ERR", "value is not an integer", ("ERR", "value is not an integer"));
        check("NEWCODE", "of a later version", ("OTHER", "NEWCODE of a later version"));
        check(
            "ERR",
            "Error running script (call to f_e0e1): @user_script:1: @user_script: 1: -WRONGTYPE Operation against a key",
            ("WRONGTYPE", "Operation against a key"),
        );
        check(
            "ERR",
            "Error running script (call to f_e0e1): user_script:1: some -other thing",
            ("ERR", "Error running script (call to f_e0e1): user_script:1: some -other thing"),
        );
        check(
            "ERR",
            "The user executing the script can't run this command or subcommand script: e0e1, on @user_script:1.",
            (
                "NOPERM",
                "The user executing the script can't run this command or subcommand script: e0e1, on @user_script:1.",
            ),
        );
        check("ERR", "unknown command 'XAD', with args beginning with: 'secret' ", ("ERR", "unknown command 'XAD'"));
    }
}
