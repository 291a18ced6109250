//! The reason why there is no connection, with the phase in which it ended.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use delaybridge_core::message::{Class, Failure};

use crate::socket::is_gone;
use crate::tls;

/// The phases of making a connection, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The host name becomes addresses.
    Resolve,
    /// TCP, or a Unix socket.
    Connect,
    /// Certificates and the handshake.
    Tls,
    /// The first words of the protocol.
    Greeting,
    /// The login.
    Login,
    /// The questions after the login.
    Ready,
}

impl Phase {
    /// Returns the phase as a step that is being done.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Resolve => "looking up the host name",
            Phase::Connect => "connecting",
            Phase::Tls => "opening the TLS connection",
            Phase::Greeting => "waiting for the greeting",
            Phase::Login => "logging in",
            Phase::Ready => "waiting for the first answers",
        }
    }

    /// Returns the likely cause of a time-out in this phase. `encrypted` is whether the connection has TLS.
    fn remedy(self, encrypted: bool) -> &'static str {
        match (self, encrypted) {
            (Phase::Resolve, _) => "check the resolver of this host",
            (Phase::Connect, _) => "check that host and port are right and reachable",
            (Phase::Tls, _) => "check that host and port are right, and that the port speaks TLS",
            (Phase::Greeting, true) => "check that the port is for this protocol, and that the server is well",
            (Phase::Greeting, false) => "check that the port is for this protocol, and that it does not ask for TLS",
            (Phase::Login | Phase::Ready, true) => "check that the server is well",
            (Phase::Login | Phase::Ready, false) => {
                "check that the server is well, and that the port does not ask for TLS"
            }
        }
    }
}

/// The reason why there is no connection: what was attempted, what happened, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialError {
    phase: Phase,
    kind: Option<io::ErrorKind>,
    needs_a_person: bool,
    text: String,
}

impl DialError {
    /// Builds an error that a person has to repair: a setting, a certificate, a server.
    pub fn permanent(phase: Phase, text: impl Into<String>) -> DialError {
        DialError { phase, kind: None, needs_a_person: true, text: text.into() }
    }

    /// Builds an error that may go away by itself.
    pub fn passing(phase: Phase, text: impl Into<String>) -> DialError {
        DialError { phase, kind: None, needs_a_person: false, text: text.into() }
    }

    /// Builds an error of reading or writing in this phase. One of TLS is of the phase [`Phase::Tls`] whenever it
    /// shows: a server refuses a client certificate after the handshake.
    pub(crate) fn io(phase: Phase, error: &io::Error, encrypted: bool, plain: &str) -> DialError {
        if let Some(error) = tls::rustls_error(error) {
            return DialError::permanent(Phase::Tls, tls::explain(error, plain));
        }
        let closed = is_gone(error) || error.kind() == io::ErrorKind::UnexpectedEof;
        let doing = phase.as_str();
        let text = match (closed, phase, encrypted) {
            (true, Phase::Tls, _) => format!(
                "the server closed the connection within the TLS handshake ({error}): check that the port speaks TLS, and whether \
                 it asks for a client certificate (`cert_file`, `key_file`)"
            ),
            (true, Phase::Greeting | Phase::Login, true) => format!(
                "the server closed the connection while {doing} ({error}): see its log, and whether it asks for a client \
                 certificate (`cert_file`, `key_file`)"
            ),
            (true, Phase::Greeting | Phase::Login, false) => format!(
                "the server closed the connection while {doing} ({error}): see its log, and whether the port asks for TLS"
            ),
            (true, ..) => format!("the server closed the connection while {doing} ({error}): see its log"),
            (false, ..) => format!("{doing}: {error}"),
        };
        DialError { kind: Some(error.kind()), ..DialError::passing(phase, text) }
    }

    /// Returns the error of a server that did not accept our certificate, or asks for one, if that is what this error
    /// is. In TLS 1.3 the server says so when we already write; it has looked at nothing of that.
    pub fn refused_client(error: &(dyn std::error::Error + 'static)) -> Option<DialError> {
        tls::client_refusal(error).map(|refusal| DialError::permanent(Phase::Tls, tls::explain(&refusal, "")))
    }

    pub(crate) fn resolve(host: &str, error: &io::Error) -> DialError {
        let text = format!("look up the host name `{host}`: {error}: check the name, and the resolver of this host");
        DialError { kind: Some(error.kind()), ..DialError::passing(Phase::Resolve, text) }
    }

    /// Builds the error of a failed connection. `at` is the address as it was tried.
    pub(crate) fn connect(at: impl fmt::Display, error: &io::Error) -> DialError {
        let text = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("{at}: the connection was refused: check host and port, and that the server runs")
            }
            _ => format!("{at}: {error}: check that host and port are right and reachable"),
        };
        DialError { kind: Some(error.kind()), ..DialError::passing(Phase::Connect, text) }
    }

    pub(crate) fn connect_unix(path: &Path, error: &io::Error) -> DialError {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "check the path, and that the server runs",
            io::ErrorKind::PermissionDenied => {
                "allow this process to write to the socket, and to enter its directories"
            }
            io::ErrorKind::ConnectionRefused => "nothing listens at it: check that the server runs",
            _ => "check the path",
        };
        let text = format!("open the socket {}: {error}: {advice}", path.display());
        DialError { kind: Some(error.kind()), ..DialError::passing(Phase::Connect, text) }
    }

    pub(crate) fn timed_out(phase: Phase, limit: Duration, encrypted: bool) -> DialError {
        let text = format!("timed out after {limit:?} while {}: {}", phase.as_str(), phase.remedy(encrypted));
        DialError { kind: Some(io::ErrorKind::TimedOut), ..DialError::passing(phase, text) }
    }

    /// Puts the error into the words of a larger attempt.
    pub(crate) fn within(self, attempted: impl fmt::Display) -> DialError {
        DialError { text: format!("{attempted}: {self}"), ..self }
    }

    /// Builds the failure of a sink that has no connection. `attempted` is what it tried.
    pub fn failure(&self, attempted: impl fmt::Display) -> Failure {
        let class = if self.needs_a_person { Class::TargetPermanent } else { Class::Transient };
        let code = match self.phase {
            _ if self.is_timeout() => "connect_timeout",
            Phase::Tls if self.needs_a_person => "tls",
            _ => "unreachable",
        };
        Failure::new(class, code, format!("{attempted}: {self}"))
    }

    /// Returns the phase that it ended in.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns whether waiting does not help.
    pub fn needs_a_person(&self) -> bool {
        self.needs_a_person
    }

    /// Returns whether a step took too long.
    pub fn is_timeout(&self) -> bool {
        self.kind == Some(io::ErrorKind::TimedOut)
    }

    /// Returns whether the address cannot be reached: no name, no TCP, no socket.
    pub fn is_unreachable(&self) -> bool {
        self.phase <= Phase::Connect && !self.is_timeout()
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for DialError {}
