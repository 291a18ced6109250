//! Connects to a name server or a broker, with a first question that shows that we are let in.

use std::io;

use bytes::{Bytes, BytesMut};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::wire::NotRemoting;
use crate::wire::code;
use crate::wire::frame::{RemotingAnswer, RemotingRequest, take};
use crate::wire::sign::RemotingSigner;
use crate::{RocketMqSpec, codes, errors};
use delaybridge_core::message::{Class, Failure};
use delaybridge_dial::{Address, Attempt, DialStream, Phase, Tls};

/// The remedy of a connection that needs no TLS.
const PLAIN: &str = "remove `tls`";

pub(super) struct RemotingConnection {
    /// The kind and the address of the server, for messages.
    pub(super) server: String,
    pub(super) stream: DialStream,
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

    /// Returns a question that every server of the kind answers, and that costs it little. A broker learns by it that
    /// we are a producer.
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
pub(super) async fn connect(
    spec: &RocketMqSpec,
    (kind, sign_of_life): (ServerKind, &RemotingRequest),
    address: &str,
) -> Result<RemotingConnection, Failure> {
    let dial = Attempt::new(spec.tls.is_some(), PLAIN);
    let attempt = RemotingAttempt { spec, kind, sign_of_life, address, dial };
    let connected = attempt.dial.within(spec.connect_timeout, attempt.run()).await;
    connected.unwrap_or_else(|late| Err(late.failure(attempt.place())))
}

/// Parses the address of a server as a route has it, in which an IPv6 address may be without brackets.
fn server_at(address: &str) -> Option<Address> {
    let (host, port) = address.rsplit_once(':')?;
    Some(Address::tcp(host.trim_matches(['[', ']']), port.parse().ok()?))
}

struct RemotingAttempt<'a> {
    spec: &'a RocketMqSpec,
    kind: ServerKind,
    sign_of_life: &'a RemotingRequest,
    address: &'a str,
    dial: Attempt,
}

impl RemotingAttempt<'_> {
    fn server(&self) -> String {
        format!("{} {}", self.kind.word(), self.address)
    }

    fn place(&self) -> String {
        format!("connect to {}", self.server())
    }

    fn failed(&self, class: Class, code: &'static str, text: &str) -> Failure {
        Failure::new(class, code, format!("{}: {text}", self.place()))
    }

    fn io(&self, error: &io::Error) -> Failure {
        self.dial.io(error).failure(self.place())
    }

    async fn run(&self) -> Result<RemotingConnection, Failure> {
        let signer = self.signer().await?;
        let to = server_at(self.address).ok_or_else(|| {
            let text = "the address is not `host:port`: check `brokerIP1`";
            codes::PROTOCOL.failure(format!("{}: {text}", self.place()))
        })?;
        let tls = self.spec.tls.as_ref().map(|files| Tls::new(files.clone()));
        let opened = self.dial.open(&to, tls.as_ref()).await;
        let mut stream = opened.map_err(|error| error.failure(self.place()))?;
        self.dial.enter(Phase::Greeting);
        let mut input = BytesMut::new();
        let mut out = BytesMut::new();
        self.sign_of_life.clone().put(0, signer.as_ref(), &mut out);
        stream.ask(&out).await.map_err(|error| self.io(&error))?;
        let answer = self.answer(&mut stream, &mut input).await?;
        match answer.code {
            0 => Ok(RemotingConnection { server: self.server(), stream, input, signer }),
            _ => Err(errors::at_connect(&self.place(), &answer)),
        }
    }

    /// Reads the answer to the first question.
    async fn answer(&self, stream: &mut DialStream, input: &mut BytesMut) -> Result<RemotingAnswer, Failure> {
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
                    return Err(codes::PROTOCOL.failure(format!("{}: {text}", self.place())));
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
}
