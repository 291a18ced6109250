//! One attempt to connect, which knows the phase that it is in.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::socket::{Socket, WriteGate};
use crate::{Address, DialError, DialStream, Phase, Proxy, Tls, tcp};

/// The options of a socket.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Time for which data may stay unacknowledged before the kernel closes the connection. `None` for servers that may stop reading
    /// for longer and are well.
    pub user_timeout: Option<Duration>,
    /// Asked before each write.
    pub gate: Option<Arc<dyn WriteGate>>,
    /// The proxy that the server is reached through.
    pub proxy: Option<Arc<Proxy>>,
}

/// An attempt to connect.
#[derive(Debug)]
pub struct Attempt {
    phase: Mutex<Phase>,
    encrypted: bool,
    plain: &'static str,
}

impl Attempt {
    /// Creates an attempt that has not begun. `encrypted` is whether the connection is to have TLS, `plain` what to do
    /// for one without it, as "write `redis://`".
    pub fn new(encrypted: bool, plain: &'static str) -> Attempt {
        Attempt { phase: Mutex::new(Phase::Resolve), encrypted, plain }
    }

    /// Begins a phase.
    pub fn enter(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        *self.phase.lock()
    }

    /// Runs the work within a limit.
    ///
    /// # Errors
    ///
    /// It took longer; the error says in which phase it stood.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Result<T, DialError> {
        let done = tokio::time::timeout(limit, work).await;
        done.map_err(|_elapsed| DialError::timed_out(self.phase(), limit, self.encrypted))
    }

    /// Converts an error of reading or writing in the current phase.
    pub fn io(&self, error: &std::io::Error) -> DialError {
        DialError::io(self.phase(), error, self.encrypted, self.plain)
    }

    /// Opens a connection, with TLS if it is given. All addresses of a name are tried, until one answers.
    ///
    /// # Errors
    ///
    /// What failed, and what to do about it.
    pub async fn open(&self, to: &Address, tls: Option<&Tls>) -> Result<DialStream, DialError> {
        self.open_with(to, tls, Options::default()).await
    }

    /// Opens a connection with these options.
    ///
    /// # Errors
    ///
    /// As for [`open`](Attempt::open).
    pub async fn open_with(&self, to: &Address, tls: Option<&Tls>, options: Options) -> Result<DialStream, DialError> {
        let stream = self.socket(to, options).await?;
        match tls {
            None => Ok(stream),
            Some(tls) => self.encrypt(tls, stream, to).await,
        }
    }

    /// Begins TLS on a connection to this address.
    ///
    /// # Errors
    ///
    /// A file that cannot be used, or a handshake that failed.
    pub async fn encrypt(&self, tls: &Tls, stream: DialStream, to: &Address) -> Result<DialStream, DialError> {
        self.enter(Phase::Tls);
        tls.over(stream, to.host()).await?.map_err(|error| self.io(&error))
    }

    async fn socket(&self, to: &Address, options: Options) -> Result<DialStream, DialError> {
        match options.proxy.clone() {
            None => self.direct(to, options).await,
            Some(proxy) => {
                let opened = self.direct(proxy.address(), options).await;
                let stream = opened.map_err(|error| error.within(format_args!("connect through proxy {proxy}")))?;
                proxy.tunnel(stream, to).await
            }
        }
    }

    async fn direct(&self, to: &Address, options: Options) -> Result<DialStream, DialError> {
        let socket = match to {
            Address::Tcp { host, port } => {
                self.enter(Phase::Resolve);
                let addresses = tcp::resolve(host, *port).await?;
                self.enter(Phase::Connect);
                Socket::tcp(tcp::first_to_answer(addresses, options.user_timeout).await?, options.gate)
            }
            Address::Unix(path) => {
                self.enter(Phase::Connect);
                let stream = tokio::net::UnixStream::connect(path).await;
                Socket::unix(stream.map_err(|error| DialError::connect_unix(path, &error))?, options.gate)
            }
        };
        Ok(DialStream::plain(socket))
    }
}
