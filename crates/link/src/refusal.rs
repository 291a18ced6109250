//! Explanations for operators why a connection could not be made: the server refused something, or the transport
//! failed.

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use delaybridge_dial::{Attempt, DialError, Phase};

use super::endpoint::RedisEndpoint;
use super::error::ConnectErrorKind;
use super::words::server_code;

/// The questions of the greeting, in the order in which they are sent.
pub(super) enum Question {
    Auth,
    Select,
    Name,
    Info,
    Load(String),
    /// The first command, which a server that lets nobody in answers before it closes the connection.
    First,
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
        Question::Info => "INFO",
        Question::Load(_) => "SCRIPT LOAD",
        Question::First => "PING",
        Question::Other(words) => words,
    };
    let answer = format!("({code} {words})");
    if let Some(closed) = lets_nobody_in(code, &words) {
        return closed;
    }
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
        (_, Question::First | Question::Name | Question::Info | Question::Other(_)) => {
            (ConnectErrorKind::Server, format!("the server answered {asked} with an error {answer}"))
        }
    }
}

/// Explains the words of a server that lets nobody in, which it says in place of the first answer.
pub(super) fn lets_nobody_in(code: &str, words: &str) -> Option<(ConnectErrorKind, String)> {
    let advice = match code {
        "ERR" if words.contains("max number of clients") => {
            "the server has as many clients as it may have: raise `maxclients` there, or end other clients"
        }
        "DENIED" => {
            "the server lets in only clients of its own machine: give its users passwords and set `password_file`, or switch \
             `protected-mode` off where no stranger reaches it"
        }
        _ => return None,
    };
    // The server goes on with several sentences of advice.
    let words = words.split_inclusive(". ").next().unwrap_or_default().trim_end();
    Some((ConnectErrorKind::Refused, format!("{advice} ({code} {words})")))
}

/// Returns the kind and the text of an error of the transport.
pub(super) fn not_connected(error: &DialError) -> (ConnectErrorKind, String) {
    let kind = match error.phase() {
        _ if error.is_timeout() => ConnectErrorKind::Timeout,
        Phase::Resolve => ConnectErrorKind::Name,
        Phase::Tls if error.needs_a_person() => ConnectErrorKind::Tls,
        _ => ConnectErrorKind::Unreachable,
    };
    (kind, error.to_string())
}

/// Explains an error of the client library.
pub(super) fn explain(error: &RedisError, dial: &Attempt) -> (ConnectErrorKind, String) {
    if let Some(io) = io_error(error) {
        return not_connected(&dial.io(io));
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            (ConnectErrorKind::Auth, "the login was refused: check `username` and `password_file`".to_owned())
        }
        ErrorKind::Parse => (
            ConnectErrorKind::Server,
            format!("the peer does not speak the Redis protocol: check host and port ({error})"),
        ),
        ErrorKind::Io => (ConnectErrorKind::Unreachable, error.to_string()),
        ErrorKind::Server(_) | ErrorKind::Extension => {
            (ConnectErrorKind::Server, format!("the server answered with an error ({error})"))
        }
        _ => (ConnectErrorKind::Server, error.to_string()),
    }
}

/// Returns the I/O error inside; the client library keeps it in an `Arc`, which it shows as the source.
fn io_error(error: &RedisError) -> Option<&io::Error> {
    let source = error.source()?;
    match source.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>() {
        Some(shared) => shared.downcast_ref(),
        None => source.downcast_ref(),
    }
}
