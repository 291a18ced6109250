//! Explanations for operators why a connection could not be made: the server refused something, or the transport
//! failed.

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use super::error::ConnectErrorKind;
use super::tls;
use super::words::server_code;
use crate::RedisEndpoint;

/// The questions of the greeting, in the order in which they are sent.
pub(super) enum Question {
    Auth,
    Select,
    Name,
    Ping,
    Info,
    Load(String),
    /// Another command, without arguments.
    Other(&'static str),
}

/// Explains an error reply to a question.
pub(super) fn refusal(
    question: &Question,
    error: &redis::ServerError,
    endpoint: &RedisEndpoint,
) -> (ConnectErrorKind, String) {
    let (code, words) = server_code(error.code(), error.details().unwrap_or_default());
    let user = endpoint.username.as_deref().unwrap_or("default");
    let asked = match question {
        Question::Auth => "AUTH",
        Question::Select => "SELECT",
        Question::Name => "CLIENT SETNAME",
        Question::Ping => "PING",
        Question::Info => "INFO",
        Question::Load(_) => "SCRIPT LOAD",
        Question::Other(words) => words,
    };
    let answer = format!("({code} {words})");
    match (code, question) {
        ("LOADING", _) => {
            (ConnectErrorKind::Loading, format!("the server is loading its data {answer}: waiting until it is done"))
        }
        // Such a replica answers nothing else, not even what it is.
        ("MASTERDOWN", _) => (
            ConnectErrorKind::Replica,
            format!(
                "the server is a read-only replica without its master {answer}: connect to the master; waiting for it to \
                 be promoted"
            ),
        ),
        ("NOAUTH", _) => (
            ConnectErrorKind::Auth,
            format!("the server asks for a password and none is configured: set `password_file` {answer}"),
        ),
        (_, Question::Auth) if words.contains("without any password configured") => (
            ConnectErrorKind::Auth,
            format!("a password is configured but the server has none: remove it, or set it on the server {answer}"),
        ),
        ("WRONGPASS", _) | (_, Question::Auth) => (
            ConnectErrorKind::Auth,
            format!(
                "the password of user `{user}` is wrong, or the user does not exist or is disabled: check `username` and `password_file` {answer}"
            ),
        ),
        ("NOPERM", _) => (
            ConnectErrorKind::Permission,
            format!(
                "user `{user}` may not run {asked} {answer}: grant it with `ACL SETUSER {user} +{}`",
                asked.to_lowercase().replace(' ', "|")
            ),
        ),
        (_, Question::Select) => (
            ConnectErrorKind::Database,
            format!(
                "database {} cannot be selected {answer}: check the number in the URL and `databases` on the server",
                endpoint.database
            ),
        ),
        (_, Question::Load(name)) => {
            (ConnectErrorKind::Server, format!("the server refuses the script `{name}` {answer}"))
        }
        (_, Question::Other(_)) if words.contains("cluster support disabled") => (
            ConnectErrorKind::Server,
            format!("the server is not in cluster mode: write its address as `url` {answer}"),
        ),
        (_, Question::Name | Question::Ping | Question::Info | Question::Other(_)) => {
            (ConnectErrorKind::Server, format!("the server answered {asked} with an error {answer}"))
        }
    }
}

/// Explains an error of the transport.
pub(super) fn explain(error: &RedisError, tls: bool) -> (ConnectErrorKind, String) {
    let io = io_error(error);
    if let Some(handshake) = io.and_then(|io| io.get_ref()).and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return (ConnectErrorKind::Tls, tls::explain(handshake, "server", "redis://"));
    }
    let text = error.to_string();
    if text.contains("failed to lookup address") {
        return (ConnectErrorKind::Name, format!("the host name has no address: check the URL and the DNS ({text})"));
    }
    match (error.kind(), io.map(io::Error::kind)) {
        (ErrorKind::AuthenticationFailed, _) => {
            (ConnectErrorKind::Auth, "the login was refused: check `username` and `password_file`".to_owned())
        }
        (ErrorKind::Parse, _) => (
            ConnectErrorKind::Server,
            format!("the peer does not speak the Redis protocol: check host and port ({text})"),
        ),
        (_, Some(io::ErrorKind::ConnectionRefused)) => (
            ConnectErrorKind::Unreachable,
            "the connection was refused: check host and port, and that Redis runs".to_owned(),
        ),
        (_, Some(io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof)) => {
            let hint = if tls {
                "does the port speak TLS, and does it ask for a client certificate (`cert_file`, `key_file`)?"
            } else {
                "does the port ask for TLS (`rediss://`)?"
            };
            (ConnectErrorKind::Unreachable, format!("the server closed the connection at once ({text}): {hint}"))
        }
        (ErrorKind::Io, _) => (ConnectErrorKind::Unreachable, text),
        (ErrorKind::Server(_) | ErrorKind::Extension, _) => {
            (ConnectErrorKind::Server, format!("the server answered with an error ({text})"))
        }
        _ if tls => (ConnectErrorKind::Tls, text),
        _ => (ConnectErrorKind::Server, text),
    }
}

/// The I/O error inside; the client library keeps it in an `Arc`, which it shows as the source.
fn io_error(error: &RedisError) -> Option<&io::Error> {
    let source = error.source()?;
    match source.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>() {
        Some(shared) => shared.downcast_ref(),
        None => source.downcast_ref(),
    }
}
