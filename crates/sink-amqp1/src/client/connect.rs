//! Connects to the broker: login (SASL), descriptions, and a first session that shows that we are let in.

use std::io;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;

use super::frames::{self, PeerFrame, PeerOpen, Performative};
use crate::{Amqp1Spec, codes, errors};
use delaybridge_core::message::{Class, Failure};
use delaybridge_dial::{Address, Attempt, DialError, DialStream, Phase, Tls};

/// The remedy of a connection that needs no TLS.
const PLAIN: &str = "write `amqp://`";

pub(super) struct Amqp1Connection {
    pub(super) stream: DialStream,
    /// Bytes that were read and not looked at yet.
    pub(super) input: BytesMut,
    pub(super) peer: PeerOpen,
    /// Our name in this connection.
    pub(super) container: String,
}

/// The first bytes of each part of the protocol.
const SASL: &[u8; 8] = b"AMQP\x03\x01\x00\x00";
const AMQP: &[u8; 8] = b"AMQP\x00\x01\x00\x00";

/// Connects and logs in, within the sink's `connect_timeout`.
pub(super) async fn connect(spec: &Arc<Amqp1Spec>) -> Result<Amqp1Connection, Failure> {
    let address = spec.shown_address();
    let attempt = ConnectAttempt { spec, address: &address, dial: Attempt::new(spec.tls.is_some(), PLAIN) };
    let connected = attempt.dial.within(spec.connect_timeout, attempt.run()).await;
    connected.unwrap_or_else(|late| Err(attempt.not_connected(&late)))
}

struct ConnectAttempt<'a> {
    spec: &'a Arc<Amqp1Spec>,
    address: &'a str,
    dial: Attempt,
}

impl ConnectAttempt<'_> {
    fn failed(&self, class: Class, code: &'static str, text: &str) -> Failure {
        Failure::new(class, code, self.text(text))
    }

    fn text(&self, text: &str) -> String {
        format!("connect to AMQP 1.0 broker {}: {text}", self.address)
    }

    fn not_connected(&self, error: &DialError) -> Failure {
        error.failure(format_args!("connect to AMQP 1.0 broker {}", self.address))
    }

    fn io(&self, error: &io::Error) -> Failure {
        self.not_connected(&self.dial.io(error))
    }

    fn not_amqp(&self, why: &str) -> Failure {
        let text = format!("the port does not speak AMQP 1.0 ({why}): check it, and whether it needs amqps://");
        codes::PROTOCOL.failure(self.text(&text))
    }

    fn hostname(&self) -> &str {
        self.spec.hostname.as_deref().unwrap_or(&self.spec.server.0)
    }

    async fn run(&self) -> Result<Amqp1Connection, Failure> {
        let (host, port) = &self.spec.server;
        let to = Address::tcp(host, *port);
        let tls = self.spec.tls.as_ref().map(|files| Tls::new(files.clone()));
        let mut stream = self.dial.open(&to, tls.as_ref()).await.map_err(|error| self.not_connected(&error))?;
        self.dial.enter(Phase::Login);
        let mut input = BytesMut::new();
        self.log_in(&mut stream, &mut input).await?;
        self.dial.enter(Phase::Ready);
        self.begin_with(&mut stream, &mut input, AMQP).await?;
        let container = format!("delaybridge-{:016x}", fastrand::u64(..));
        let mut out = BytesMut::new();
        frames::open(&mut out, &container, self.hostname(), self.spec.heartbeat);
        self.write(&mut stream, &out).await?;
        let peer = match self.performative(&mut stream, &mut input).await? {
            Performative::Open(peer) => peer,
            _ => return Err(self.not_amqp("it does not describe itself")),
        };
        // A broker that does not let us in says so only after its description. The end is not sent together with the
        // beginning: RabbitMQ 3 may answer neither then.
        out.clear();
        frames::begin(&mut out, 0);
        self.write(&mut stream, &out).await?;
        while !matches!(self.performative(&mut stream, &mut input).await?, Performative::Begin { .. }) {}
        out.clear();
        frames::end(&mut out, 0);
        self.write(&mut stream, &out).await?;
        while !matches!(self.performative(&mut stream, &mut input).await?, Performative::End(_)) {}
        Ok(Amqp1Connection { stream, input, peer, container })
    }

    async fn log_in(&self, stream: &mut DialStream, input: &mut BytesMut) -> Result<(), Failure> {
        let login = self.spec.login.clone();
        let mechanism = login.mechanism();
        let response = match tokio::task::spawn_blocking(move || login.response()).await {
            Ok(Ok(response)) => response,
            Ok(Err(why)) => return Err(self.failed(Class::TargetPermanent, "secret", &why)),
            Err(_) => return Err(self.failed(Class::Transient, "unreachable", "reading the file was interrupted")),
        };
        self.begin_with(stream, input, SASL).await?;
        let offered = match self.frame(stream, input).await? {
            PeerFrame::Mechanisms(offered) => offered,
            _ => return Err(self.not_amqp("it offers no login")),
        };
        if !offered.iter().any(|name| name == mechanism) {
            let text = format!("the broker offers no login {mechanism}, only {}: change `login`", offered.join(", "));
            return Err(codes::AUTH.failure(self.text(&text)));
        }
        let mut out = BytesMut::new();
        frames::sasl_init(&mut out, mechanism, &response, self.hostname());
        self.write(stream, &out).await?;
        match self.frame(stream, input).await? {
            PeerFrame::LoginOutcome(0) => Ok(()),
            PeerFrame::LoginOutcome(outcome) => Err(errors::login(self.address, outcome)),
            PeerFrame::Challenge => {
                Err(codes::AUTH.failure(self.text("the broker asks for more than the mechanism has")))
            }
            _ => Err(self.not_amqp("the login has no outcome")),
        }
    }

    /// Sends the first bytes of a part of the protocol, and expects the same.
    async fn begin_with(&self, stream: &mut DialStream, input: &mut BytesMut, first: &[u8; 8]) -> Result<(), Failure> {
        self.write(stream, first).await?;
        while input.len() < first.len() {
            self.read(stream, input).await?;
        }
        let same = input[..first.len()] == *first;
        let other = String::from_utf8_lossy(&input[..first.len()]).escape_debug().to_string();
        input.advance(first.len());
        if same {
            return Ok(());
        }
        // RabbitMQ without its plugin answers with the version that it does speak.
        Err(self.not_amqp(&format!("it begins with `{other}`")))
    }

    async fn write(&self, stream: &mut DialStream, bytes: &[u8]) -> Result<(), Failure> {
        stream.ask(bytes).await.map_err(|error| self.io(&error))
    }

    async fn read(&self, stream: &mut DialStream, input: &mut BytesMut) -> Result<(), Failure> {
        match stream.read_buf(input).await {
            Ok(0) => Err(self.io(&io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(self.io(&error)),
        }
    }

    async fn frame(&self, stream: &mut DialStream, input: &mut BytesMut) -> Result<PeerFrame, Failure> {
        loop {
            match frames::take(input) {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => self.read(stream, input).await?,
                Err(why) => return Err(self.not_amqp(why.0)),
            }
        }
    }

    /// Reads the next performative; one that ends the connection is the failure.
    async fn performative(&self, stream: &mut DialStream, input: &mut BytesMut) -> Result<Performative, Failure> {
        loop {
            match self.frame(stream, input).await? {
                PeerFrame::Empty => {}
                PeerFrame::Of(_, Performative::Close(error)) => return Err(errors::at_connect(self.address, &error)),
                PeerFrame::Of(_, what) => return Ok(what),
                _ => return Err(self.not_amqp("a frame of a login after it")),
            }
        }
    }
}
