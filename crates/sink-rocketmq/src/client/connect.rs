//! Connects to a name server or a broker: TCP, TLS, and a first question that shows that we are let in.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::wire::NotRemoting;
use crate::wire::code;
use crate::wire::frame::{RemotingAnswer, RemotingRequest, take};
use crate::wire::sign::RemotingSigner;
use crate::{RocketMqSpec, errors};
use delaybridge_core::message::{Class, Failure};

/// A socket, with or without TLS.
pub(super) trait RemotingStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> RemotingStream for T {}

/// A connection to a server that answers.
pub(super) struct RemotingConnection {
    pub(super) stream: Box<dyn RemotingStream>,
    /// Bytes that were read and not looked at yet.
    pub(super) input: BytesMut,
    /// Signs requests, with a login.
    pub(super) signer: Option<RemotingSigner>,
}

/// The kind of a server, with the word for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    NameServer,
    Broker,
}

impl ServerKind {
    fn word(self) -> &'static str {
        match self {
            ServerKind::NameServer => "RocketMQ name server",
            ServerKind::Broker => "RocketMQ broker",
        }
    }

    /// A question that every server of the kind answers, and that costs it little. A broker learns by it that we are a producer.
    pub(super) fn sign_of_life(self, group: &str) -> RemotingRequest {
        match self {
            ServerKind::NameServer => RemotingRequest { code: code::CLUSTER, ..RemotingRequest::default() },
            ServerKind::Broker => {
                let client = format!("delaybridge-{:016x}", fastrand::u64(..));
                let body = json!({
                    "clientID": client,
                    "consumerDataSet": [],
                    "producerDataSet": [{ "groupName": group }],
                });
                let body = Bytes::from(body.to_string());
                RemotingRequest { code: code::HEARTBEAT, body, ..RemotingRequest::default() }
            }
        }
    }
}

/// Connects to a server at this address, within the sink's `connect_timeout`.
///
/// # Errors
/// What failed, where, and what to do about it.
pub(super) async fn connect(
    spec: &RocketMqSpec,
    (kind, sign_of_life): (ServerKind, &RemotingRequest),
    address: &str,
) -> Result<RemotingConnection, Failure> {
    let attempt = RemotingAttempt { spec, kind, sign_of_life, address };
    match tokio::time::timeout(spec.connect_timeout, attempt.run()).await {
        Ok(connected) => connected,
        Err(_) => {
            let text = format!(
                "no answer within {:?}: check host and port, and that the server is well",
                spec.connect_timeout
            );
            Err(attempt.failed(Class::Transient, "connect_timeout", &text))
        }
    }
}

struct RemotingAttempt<'a> {
    spec: &'a RocketMqSpec,
    kind: ServerKind,
    sign_of_life: &'a RemotingRequest,
    address: &'a str,
}

impl RemotingAttempt<'_> {
    fn place(&self) -> String {
        format!("connect to {} {}", self.kind.word(), self.address)
    }

    fn failed(&self, class: Class, code: &'static str, text: &str) -> Failure {
        Failure::new(class, code, format!("{}: {text}", self.place()))
    }

    fn io(&self, error: &io::Error) -> Failure {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls {
            Some(error) => {
                let why = delaybridge_link::tls::explain(error, "server", "no `tls`");
                self.failed(Class::TargetPermanent, "tls", &why)
            }
            None => self.failed(Class::Transient, "unreachable", &error.to_string()),
        }
    }

    async fn run(&self) -> Result<RemotingConnection, Failure> {
        let signer = self.signer().await?;
        let stream = TcpStream::connect(self.address).await.map_err(|error| self.io(&error))?;
        // Frames are written whole. An error only means that the connection is gone already.
        drop(stream.set_nodelay(true));
        let mut stream: Box<dyn RemotingStream> = Box::new(stream);
        if self.spec.tls.is_some() {
            stream = self.encrypt(stream).await?;
        }
        let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
        self.sign_of_life.clone().put(0, signer.as_ref(), &mut out);
        stream.write_all(&out).await.map_err(|error| self.io(&error))?;
        stream.flush().await.map_err(|error| self.io(&error))?;
        let answer = self.answer(&mut stream, &mut input).await?;
        match answer.code {
            0 => Ok(RemotingConnection { stream, input, signer }),
            _ => Err(errors::at_connect(&self.place(), &answer)),
        }
    }

    /// The answer to the first question.
    async fn answer(
        &self,
        stream: &mut Box<dyn RemotingStream>,
        input: &mut BytesMut,
    ) -> Result<RemotingAnswer, Failure> {
        loop {
            match take(input) {
                Ok(Some(command)) if command.answers == Some(0) => return Ok(command.answer),
                Ok(Some(_)) => {}
                Ok(None) => match stream.read_buf(input).await {
                    Ok(0) => return Err(self.io(&io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => {}
                    Err(error) => return Err(self.io(&error)),
                },
                Err(NotRemoting(why)) => {
                    let text = format!("the port does not speak the remoting protocol ({why}): check it, and `tls`");
                    return Err(self.failed(Class::TargetPermanent, "rocketmq_protocol", &text));
                }
            }
        }
    }

    async fn signer(&self) -> Result<Option<RemotingSigner>, Failure> {
        let Some(login) = self.spec.login.clone() else { return Ok(None) };
        let read = move || login.read_secret().map(|secret| RemotingSigner::new(&login.access_key, &secret));
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(signer)) => Ok(Some(signer)),
            Ok(Err(why)) => Err(self.failed(Class::TargetPermanent, "secret", &why)),
            Err(_) => Err(self.failed(Class::Transient, "unreachable", "reading the file was interrupted")),
        }
    }

    async fn encrypt(&self, stream: Box<dyn RemotingStream>) -> Result<Box<dyn RemotingStream>, Failure> {
        let files = self.spec.tls.clone().unwrap_or_default();
        let tls = |why: &str| self.failed(Class::TargetPermanent, "tls", why);
        // Files may lie on a slow disk, and are rotated.
        let made = tokio::task::spawn_blocking(move || delaybridge_link::tls::config(&files)).await;
        let config = made.map_err(|_| tls("reading the files was interrupted"))?.map_err(|why| tls(&why))?;
        let host = self.address.rsplit_once(':').map_or(self.address, |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| tls("no certificate can be for this host"))?;
        let stream =
            TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| self.io(&error))?;
        Ok(Box::new(stream))
    }
}
