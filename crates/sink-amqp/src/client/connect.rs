//! Connects to one node: TCP, TLS, login.
//!
//! The library opens the socket on a thread of its own and has no time-outs; a broker that accepts and then is silent
//! would hold that thread for ever. So the socket is opened here, with a second handle that shuts it down.

use std::io;
use std::path::Path;
use std::sync::Arc;

use lapin::tcp::{AMQPUriTcpExt, AsyncTcpStream, RustlsConnector, RustlsConnectorConfig};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use lapin::{Connection, ConnectionProperties, ErrorKind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::ExposeSecret;

use super::session::{AmqpSession, Socket};
use crate::errors;
use crate::wire::{self, Arriving, ReadableStream, Violation};
use crate::{AmqpLogin, AmqpSpec};
use delaybridge_core::message::{Class, Failure};
use delaybridge_link::tls;
use delaybridge_settings::TlsFiles;

/// `host:port/vhost`, for messages to a person; never with a password.
pub(super) fn address(spec: &AmqpSpec, node: usize) -> String {
    let (host, port) = &spec.nodes[node];
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    format!("{host}:{port}, vhost {}", spec.vhost)
}

/// Connects to a node and logs in, within the sink's `connect_timeout`.
///
/// # Errors
///
/// What failed, where, and what to do about it.
pub(super) async fn connect(spec: &Arc<AmqpSpec>, node: usize) -> Result<AmqpSession, Failure> {
    let address = address(spec, node);
    let failed = |class, code, text: &str| Failure::new(class, code, format!("connect to AMQP {address}: {text}"));
    let prepared = {
        let spec = spec.clone();
        // Files may lie on a slow disk.
        tokio::task::spawn_blocking(move || (uri(&spec, node), tls(spec.tls.as_ref()))).await
    };
    let (uri, tls) = match prepared {
        Ok((Ok(uri), Ok(tls))) => (uri, tls),
        Ok((Err(text), _)) => return Err(failed(Class::TargetPermanent, "secret", &text)),
        Ok((_, Err(text))) => return Err(failed(Class::TargetPermanent, "tls", &text)),
        Err(_) => return Err(failed(Class::Transient, "unreachable", "reading the files was interrupted")),
    };
    let (socket, arriving) = (Socket::default(), Arc::<Arriving>::default());
    let opening = open(uri, tls, socket.clone(), arriving.clone(), spec);
    match tokio::time::timeout(spec.connect_timeout, opening).await {
        Ok(Ok(connection)) => Ok(AmqpSession::new(connection, socket, arriving)),
        Ok(Err(error)) => {
            socket.shut();
            let (class, code, text) = explain(&error, spec);
            Err(failed(class, code, &text))
        }
        Err(_) => {
            socket.shut();
            let hint = if spec.tls.is_some() { "speaks TLS" } else { "does not ask for TLS" };
            let text = format!(
                "timed out after {:?}: check that host and port are right and reachable, and that the port {hint}",
                spec.connect_timeout
            );
            Err(failed(Class::Transient, "timeout", &text))
        }
    }
}

async fn open(
    uri: AMQPUri,
    tls: Option<RustlsConnector>,
    socket: Socket,
    arriving: Arc<Arriving>,
    spec: &AmqpSpec,
) -> lapin::Result<Connection> {
    let (time, frame_max) = (spec.connect_timeout, spec.frame_max());
    let properties = ConnectionProperties::default()
        .with_client_property("product".into(), "delaybridge".into())
        .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into())
        .with_connection_name("delaybridge".into());
    let tokio = lapin::runtime::default_runtime()?;
    let host = uri.authority.host.clone();
    Connection::connector(
        uri,
        wire::runtime(),
        // Runs on the library's thread, which only this time-out lets go of an address that never answers.
        async move |uri, _| {
            let opened = tokio::time::timeout(time, async {
                let stream = uri.connect_async(&tokio).await?;
                if let AsyncTcpStream::Plain(stream) = &stream {
                    socket.keep(stream.get_ref())?;
                }
                let stream = match &tls {
                    None => stream,
                    Some(tls) => stream.into_rustls(tls, &host).await?,
                };
                Ok(AsyncTcpStream::Plain(ReadableStream::new(stream, frame_max, arriving.clone())))
            });
            let timed_out = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
            opened.await.unwrap_or_else(timed_out).map_err(lapin::Error::from)
        },
        properties,
    )
    .await
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

/// The files are read at every connect, because certificates are rotated. The crypto provider is the process's.
fn tls(files: Option<&TlsFiles>) -> Result<Option<RustlsConnector>, String> {
    let Some(files) = files else { return Ok(None) };
    delaybridge_link::tls::init();
    let mut config = RustlsConnectorConfig::default();
    match &files.ca_file {
        // Only this CA: a configured CA replaces the system's.
        Some(path) => config.add_parsable_certificates(certificates(path, "ca_file")?),
        None => config = config.with_native_certs().map_err(|error| format!("read the system's CAs: {error}"))?,
    }
    let connector = match &files.client {
        None => config.connector_with_no_client_auth(),
        Some((cert, key)) => {
            let chain = certificates(cert, "cert_file")?;
            let private = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("read key_file {}: {error}", key.display()))?;
            config.connector_with_single_cert(chain, private)
        }
    };
    connector.map(Some).map_err(|error| format!("use the TLS files: {error}"))
}

fn certificates(path: &Path, key: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(format!("read {key} {}: it holds no PEM section `CERTIFICATE`", path.display())),
        Err(error) => Err(format!("read {key} {}: {error}", path.display())),
    }
}

/// Explains a failed attempt: its class, its code, and the advice.
fn explain(error: &lapin::Error, spec: &AmqpSpec) -> (Class, &'static str, String) {
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
            (class, errors::name(code), format!("{code} {}: {advice}", error.get_message()))
        }
        ErrorKind::IOError(error) => unreachable(error, spec),
        ErrorKind::InvalidProtocolVersion(_) => {
            (Class::TargetPermanent, "protocol", "the port does not speak AMQP 0-9-1".to_owned())
        }
        ErrorKind::ParsingError(_) => (Class::TargetPermanent, "protocol", "the port does not speak AMQP".to_owned()),
        _ => (Class::Transient, "unreachable", error.to_string()),
    }
}

fn unreachable(error: &io::Error, spec: &AmqpSpec) -> (Class, &'static str, String) {
    if let Some(violation) = error.get_ref().and_then(|inner| inner.downcast_ref::<Violation>()) {
        return (Class::TargetPermanent, "protocol", violation.to_string());
    }
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(error) = tls {
        return (Class::TargetPermanent, "tls", tls::explain(error, "broker", "amqp://"));
    }
    let closed = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
    );
    let hint = match &spec.login {
        AmqpLogin::External if closed => ": the broker may not offer EXTERNAL, or not know the certificate",
        _ if closed && spec.tls.is_none() => ": the broker may be stopping, or the port may ask for TLS",
        _ => "",
    };
    (Class::Transient, "unreachable", format!("{error}{hint}"))
}
