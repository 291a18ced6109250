//! Connects to one server: its description, TLS, login, and the subject that answers come to.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use tokio::io::AsyncReadExt;

use super::wire::{self, ServerOp};
use crate::login::{self, NatsProof};
use crate::{NatsSpec, codes, errors};
use delaybridge_core::json::Json;
use delaybridge_core::message::{Class, Failure};
use delaybridge_dial::{Address, Attempt, DialError, DialStream, Phase, Tls};

/// The remedy of a connection that needs no TLS.
const PLAIN: &str = "remove `tls`";

/// The server's description of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NatsServerInfo {
    /// Largest message that it takes, with headers.
    pub(super) max_payload: usize,
    /// The server is about to stop, and asks its clients to leave.
    pub(super) leaving: bool,
    nonce: Option<String>,
    tls_required: bool,
    tls_available: bool,
    headers: bool,
}

impl NatsServerInfo {
    /// Reads what follows `INFO`.
    pub(super) fn read(text: Bytes) -> Option<NatsServerInfo> {
        let members = errors::members(text)?;
        let find = |name| errors::member(&members, name);
        let flag = |name| find(name).and_then(Json::flag).unwrap_or(false);
        let nonce = find("nonce").and_then(Json::text);
        Some(NatsServerInfo {
            max_payload: find("max_payload").and_then(Json::number).map_or(1 << 20, |bytes| bytes as usize),
            leaving: flag("ldm"),
            nonce: nonce.map(|nonce| String::from_utf8_lossy(&nonce).into_owned()),
            tls_required: flag("tls_required"),
            tls_available: flag("tls_available"),
            headers: flag("headers"),
        })
    }
}

/// A connection that is logged in and listens to its own inbox.
pub(super) struct NatsConnection {
    pub(super) stream: DialStream,
    /// Bytes that were read and not looked at yet.
    pub(super) input: BytesMut,
    pub(super) info: NatsServerInfo,
    /// Answers come to this subject, a dot and the number of the question.
    pub(super) inbox: String,
    pub(super) address: String,
}

/// The fields of `CONNECT`.
#[derive(Serialize)]
struct Hello {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    name: &'static str,
    lang: &'static str,
    version: &'static str,
    protocol: u8,
    echo: bool,
    headers: bool,
    no_responders: bool,
    #[serde(flatten)]
    proof: NatsProof,
}

/// Connects to a server and logs in, within the sink's `connect_timeout`.
pub(super) async fn connect(spec: &Arc<NatsSpec>, server: usize) -> Result<NatsConnection, Failure> {
    let Some((host, port)) = spec.servers.get(server) else {
        return Err(Failure::new(Class::TargetPermanent, "settings", "connect to NATS: no server is given"));
    };
    let to = Address::tcp(host, *port);
    let attempt =
        NatsAttempt { spec, address: &to.to_string(), to: &to, dial: Attempt::new(spec.tls.is_some(), PLAIN) };
    let connected = attempt.dial.within(spec.connect_timeout, attempt.run()).await;
    connected.unwrap_or_else(|late| Err(attempt.not_connected(&late)))
}

struct NatsAttempt<'a> {
    spec: &'a Arc<NatsSpec>,
    to: &'a Address,
    address: &'a str,
    dial: Attempt,
}

impl NatsAttempt<'_> {
    fn failed(&self, class: Class, code: &'static str, text: &str) -> Failure {
        Failure::new(class, code, format!("connect to NATS {}: {text}", self.address))
    }

    fn not_connected(&self, error: &DialError) -> Failure {
        error.failure(format_args!("connect to NATS {}", self.address))
    }

    fn io(&self, error: &io::Error) -> Failure {
        self.not_connected(&self.dial.io(error))
    }

    fn not_nats(&self, why: &str) -> Failure {
        codes::PROTOCOL.with_cure(format_args!("connect to NATS {}: it does not speak NATS ({why})", self.address))
    }

    async fn run(&self) -> Result<NatsConnection, Failure> {
        let mut stream = self.dial.open(self.to, None).await.map_err(|error| self.not_connected(&error))?;
        self.dial.enter(Phase::Greeting);
        let mut input = BytesMut::new();
        let info = match self.next(&mut stream, &mut input).await? {
            ServerOp::Info(text) => {
                NatsServerInfo::read(text).ok_or_else(|| self.not_nats("its description is no JSON"))?
            }
            ServerOp::Refused(words) => return Err(errors::at_connect(self.address, &words)),
            _ => return Err(self.not_nats("it does not describe itself")),
        };
        if !info.headers {
            let text = "the server knows no headers: it needs NATS 2.2";
            return Err(codes::TOO_OLD.failure(format!("connect to NATS {}: {text}", self.address)));
        }
        if let Some(files) = &self.spec.tls {
            if !info.tls_required && !info.tls_available {
                let text = "the server has no TLS: remove `tls`, or give it certificates";
                return Err(self.failed(Class::TargetPermanent, "tls", text));
            }
            if !input.is_empty() {
                return Err(self.not_nats("bytes between description and TLS"));
            }
            let tls = Tls::new(files.clone());
            stream = self.dial.encrypt(&tls, stream, self.to).await.map_err(|error| self.not_connected(&error))?;
        } else if info.tls_required {
            let text = "the server asks for TLS: write `tls: {}`";
            return Err(self.failed(Class::TargetPermanent, "tls", text));
        }
        self.dial.enter(Phase::Login);
        self.log_in(stream, input, info).await
    }

    async fn log_in(
        &self,
        mut stream: DialStream,
        mut input: BytesMut,
        mut info: NatsServerInfo,
    ) -> Result<NatsConnection, Failure> {
        let login = self.spec.login.clone();
        let nonce = info.nonce.clone();
        let proof = tokio::task::spawn_blocking(move || login::prove(&login, nonce.as_deref())).await;
        let proof = match proof {
            Ok(Ok(proof)) => proof,
            Ok(Err(why)) => return Err(self.failed(Class::TargetPermanent, "secret", &why)),
            Err(_) => return Err(self.failed(Class::Transient, "unreachable", "reading the files was interrupted")),
        };
        let hello = Hello {
            verbose: false,
            pedantic: false,
            tls_required: self.spec.tls.is_some(),
            name: "delaybridge",
            lang: "rust",
            version: env!("CARGO_PKG_VERSION"),
            protocol: 1,
            echo: false,
            headers: true,
            no_responders: true,
            proof,
        };
        let hello = serde_json::to_string(&hello).map_err(|error| self.io(&error.into()))?;
        let inbox = format!("{}.{:016x}{:016x}", self.spec.inbox_prefix, fastrand::u64(..), fastrand::u64(..));
        let lines = format!("CONNECT {hello}\r\nSUB {inbox}.* 1\r\nPING\r\n");
        stream.ask(lines.as_bytes()).await.map_err(|error| self.io(&error))?;
        loop {
            match self.next(&mut stream, &mut input).await? {
                ServerOp::Pong => break,
                ServerOp::Refused(words) => return Err(errors::at_connect(self.address, &words)),
                ServerOp::Info(text) => info = NatsServerInfo::read(text).unwrap_or(info),
                ServerOp::Ping => stream.ask(b"PONG\r\n").await.map_err(|error| self.io(&error))?,
                ServerOp::Message(_) | ServerOp::Nothing => {}
            }
        }
        Ok(NatsConnection { stream, input, info, inbox, address: self.address.to_owned() })
    }

    async fn next(&self, stream: &mut DialStream, input: &mut BytesMut) -> Result<ServerOp, Failure> {
        loop {
            match wire::take(input) {
                Ok(Some(op)) => return Ok(op),
                Ok(None) => {}
                Err(why) => return Err(self.not_nats(why.0)),
            }
            match stream.read_buf(input).await {
                Ok(0) => return Err(self.io(&io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Err(self.io(&error)),
            }
        }
    }
}
