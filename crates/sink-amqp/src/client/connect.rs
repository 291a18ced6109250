//! Connects to one node, and logs in.
//!
//! The library opens the socket on a thread of its own and has no time-outs; a broker that accepts and then is silent
//! would hold that thread for ever. So the socket is opened here, with a second handle that shuts it down.

use std::io;
use std::sync::Arc;

use lapin::tcp::AsyncTcpStream;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use lapin::{Connection, ConnectionProperties, ErrorKind};
use parking_lot::Mutex;
use secrecy::ExposeSecret;

use super::session::{AmqpSession, Socket};
use crate::wire::{self, Arriving, ReadableStream, Violation};
use crate::{AmqpLogin, AmqpSpec};
use crate::{codes, errors};
use delaybridge_core::message::{Class, Failure};
use delaybridge_dial::{Address, Attempt, Phase, ReadBudget, Tls};

/// Returns `host:port`, and the vhost, for messages to a person; never with a password.
pub(super) fn address(spec: &AmqpSpec, node: usize) -> String {
    let (host, port) = &spec.nodes[node];
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    format!("{host}:{port}, vhost {}", spec.vhost)
}

/// Connects to a node and logs in, within the sink's `connect_timeout`.
pub(super) async fn connect(
    spec: &Arc<AmqpSpec>,
    reads: &Arc<ReadBudget>,
    node: usize,
) -> Result<AmqpSession, Failure> {
    let dial = Attempt::new(spec.tls.is_some(), "write `amqp://`");
    let attempt = AmqpAttempt { spec, reads, node, dial };
    let socket = Socket::default();
    let arriving = Arc::<Arriving>::default();
    let opening = attempt.dial.within(spec.connect_timeout, attempt.run(&socket, &arriving));
    match opening.await.unwrap_or_else(|late| Err(late.failure(attempt.attempted()))) {
        Ok(connection) => Ok(AmqpSession::new(connection, socket, arriving)),
        Err(failure) => {
            socket.shut();
            Err(failure)
        }
    }
}

struct AmqpAttempt<'a> {
    spec: &'a Arc<AmqpSpec>,
    reads: &'a Arc<ReadBudget>,
    node: usize,
    dial: Attempt,
}

impl AmqpAttempt<'_> {
    fn attempted(&self) -> String {
        format!("connect to AMQP {}", address(self.spec, self.node))
    }

    fn failed(&self, class: Class, code: &'static str, text: &str) -> Failure {
        Failure::new(class, code, format!("{}: {text}", self.attempted()))
    }

    async fn run(&self, socket: &Socket, arriving: &Arc<Arriving>) -> Result<Connection, Failure> {
        let spec = self.spec.clone();
        let node = self.node;
        // Files may lie on a slow disk.
        let uri = match tokio::task::spawn_blocking(move || uri(&spec, node)).await {
            Ok(Ok(uri)) => uri,
            Ok(Err(text)) => return Err(self.failed(Class::TargetPermanent, "secret", &text)),
            Err(_) => return Err(self.failed(Class::Transient, "unreachable", "reading the file was interrupted")),
        };
        let tls = self.spec.tls.clone().map(Tls::new);
        let to = Address::tcp(&uri.authority.host, uri.authority.port);
        let opened = self.dial.open(&to, tls.as_ref()).await;
        let stream = opened.map_err(|error| error.failure(self.attempted()))?;
        self.dial.enter(Phase::Login);
        socket.keep(&stream).map_err(|error| self.dial.io(&error).failure(self.attempted()))?;
        let stream = ReadableStream::new(stream, self.spec.frame_max(), arriving.clone(), self.reads.clone());
        let stream = Mutex::new(Some(stream));
        let properties = ConnectionProperties::default()
            .with_client_property("product".into(), "delaybridge".into())
            .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into())
            .with_connection_name("delaybridge".into());
        let opening = Connection::connector(
            uri,
            wire::runtime(),
            async move |_, _| {
                let stream = stream.lock().take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
                stream.map(AsyncTcpStream::Plain).map_err(lapin::Error::from)
            },
            properties,
        );
        opening.await.map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &lapin::Error) -> Failure {
        match error.kind() {
            ErrorKind::ProtocolError(error) => {
                let code = error.get_id();
                let (class, advice) = match code {
                    errors::ACCESS_REFUSED => {
                        (Class::TargetPermanent, "check user and password (`password_file` is read at every connect)")
                    }
                    530 => (Class::TargetPermanent, "check that the vhost exists and that the user may use it"),
                    320 => (Class::Transient, "the broker is stopping, or an operator closed the connection"),
                    _ => (Class::Transient, "the broker refused the connection"),
                };
                self.failed(class, errors::name(code), &format!("{code} {}: {advice}", error.get_message()))
            }
            ErrorKind::IOError(error) => self.io(error),
            ErrorKind::InvalidProtocolVersion(_) => {
                self.failed(codes::PROTOCOL.class, codes::PROTOCOL.code, "the port does not speak AMQP 0-9-1")
            }
            ErrorKind::ParsingError(_) => {
                self.failed(codes::PROTOCOL.class, codes::PROTOCOL.code, "the port does not speak AMQP")
            }
            _ => self.failed(Class::Transient, "unreachable", &error.to_string()),
        }
    }

    fn io(&self, error: &io::Error) -> Failure {
        if let Some(violation) = error.get_ref().and_then(|inner| inner.downcast_ref::<Violation>()) {
            return self.failed(codes::PROTOCOL.class, codes::PROTOCOL.code, &violation.to_string());
        }
        let error = self.dial.io(error);
        match self.spec.login {
            AmqpLogin::External if !error.needs_a_person() => {
                let text = format!("{error}; the broker may not offer EXTERNAL, or not know the certificate");
                self.failed(Class::Transient, "unreachable", &text)
            }
            _ => error.failure(self.attempted()),
        }
    }
}

fn uri(spec: &AmqpSpec, node: usize) -> Result<AMQPUri, String> {
    let (host, port) = spec.nodes[node].clone();
    let (userinfo, mechanism) = match &spec.login {
        AmqpLogin::Plain { username, password } => {
            let password = password.read("password_file")?.expose_secret().to_owned();
            (AMQPUserInfo { username: username.clone(), password }, SASLMechanism::Plain)
        }
        AmqpLogin::External => {
            (AMQPUserInfo { username: String::new(), password: String::new() }, SASLMechanism::External)
        }
    };
    let heartbeat = u16::try_from(spec.heartbeat.as_secs()).unwrap_or(u16::MAX);
    Ok(AMQPUri {
        // TLS is ours: the library would trust the system's CAs beside the one in `ca_file`.
        scheme: AMQPScheme::AMQP,
        authority: AMQPAuthority { userinfo, host, port },
        vhost: spec.vhost.clone(),
        query: AMQPQueryString {
            heartbeat: Some(heartbeat),
            auth_mechanism: Some(mechanism),
            // The library takes the smaller one of this and the broker's, and zero of the broker for no limit.
            frame_max: Some(spec.frame_max()),
            ..AMQPQueryString::default()
        },
    })
}
