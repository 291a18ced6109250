//! Clients of the job queues over a network: one connection each, one request after the other, with the least of each protocol.

mod beanstalkd;
mod faktory;
mod http;
mod lmstfy;
mod ours;

use std::io::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::BODY;
use super::servers::Peer;

/// The time for which a consumer waits for a job; that of faktory cannot be changed.
const WAIT_SECONDS: u64 = 2;
/// The time to run in seconds: the least that faktory has.
pub(super) const TTR_SECONDS: u64 = 60;
/// The number of times that a job is handed out.
const TRIES: usize = 10;
/// Time-out of an answer. A server that was killed answers at once, by closing its connections.
const PATIENCE: Duration = Duration::from_secs(30);

/// A job that a consumer has.
pub(super) struct Taken {
    /// The number that the producer gave it.
    pub(super) number: usize,
    /// The name by which it is finished.
    name: String,
}

/// A connection to a job queue.
pub(super) struct Client {
    peer: Peer,
    stream: BufReader<TcpStream>,
    line: String,
    /// faktory: the name of this worker, and its last sign of life.
    worker: String,
    beat: Instant,
}

impl Client {
    /// Connects, with the greeting of the protocol.
    pub(super) async fn connect(peer: Peer, port: u16) -> Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let stream = BufReader::new(stream);
        let worker = format!("{:016x}", fastrand::u64(..));
        let mut client = Client { peer, stream, line: String::new(), worker, beat: Instant::now() };
        if peer == Peer::Faktory {
            client.in_time(async |client| faktory::greet(client).await).await?;
        }
        Ok(client)
    }

    /// Adds a job with this number in its body, due after so many seconds.
    pub(super) async fn add(&mut self, number: usize, delay: u64) -> Result<()> {
        self.in_time(async |client| match client.peer {
            Peer::Ours => ours::add(client, number, delay).await,
            Peer::Lmstfy => lmstfy::add(client, number, delay).await,
            Peer::Faktory => faktory::add(client, number, delay).await,
            Peer::Beanstalkd => beanstalkd::add(client, number, delay).await,
        })
        .await
    }

    /// Takes a job; `None` if there was none for [`WAIT_SECONDS`].
    pub(super) async fn take(&mut self) -> Result<Option<Taken>> {
        self.in_time(async |client| match client.peer {
            Peer::Ours => ours::take(client).await,
            Peer::Lmstfy => lmstfy::take(client).await,
            Peer::Faktory => faktory::take(client).await,
            Peer::Beanstalkd => beanstalkd::take(client).await,
        })
        .await
    }

    /// Finishes a job; `false` if the server says that it was not this consumer's any more.
    pub(super) async fn finish(&mut self, job: &Taken) -> Result<bool> {
        self.in_time(async |client| match client.peer {
            Peer::Ours => ours::finish(client, job).await,
            Peer::Lmstfy => lmstfy::finish(client, job).await,
            Peer::Faktory => faktory::finish(client, job).await,
            Peer::Beanstalkd => beanstalkd::finish(client, job).await,
        })
        .await
    }

    async fn in_time<T>(&mut self, call: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
        let late = |_| Error::new(ErrorKind::TimedOut, "no answer");
        tokio::time::timeout(PATIENCE, call(self)).await.map_err(late)?
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes).await
    }

    /// Reads a line, without its end.
    async fn line(&mut self) -> Result<&str> {
        self.line.clear();
        if self.stream.read_line(&mut self.line).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(self.line.trim_end())
    }

    async fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    }
}

/// The body of a job: its number, with zeros in front.
fn body(number: usize) -> String {
    format!("{number:0width$}", width = BODY)
}

/// The number in a body.
fn number(body: &str) -> Result<usize> {
    body.parse().map_err(|_| unexpected(body))
}

fn unexpected(said: impl std::fmt::Display) -> Error {
    Error::other(format!("unexpected answer: {said}"))
}
