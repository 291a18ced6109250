//! An HTTP server that keeps what it gets, and a bare client of it.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use harness::fill::payload;
use harness::oracle::Delivery;

/// Connections of the bare client: as many as the sink has by default.
const CONNECTIONS: usize = 64;

/// A server on a free port that answers 204 to each request.
pub struct Webhook {
    /// Its port on 127.0.0.1.
    pub port: u16,
    kept: Arc<Mutex<Vec<Delivery>>>,
}

impl Webhook {
    /// Starts it; it runs on a thread and a runtime of its own until the program ends.
    pub fn start() -> Result<Webhook> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("listen")?;
        listener.set_nonblocking(true)?;
        let webhook = Webhook { port: listener.local_addr()?.port(), kept: Arc::default() };
        let kept = Arc::clone(&webhook.kept);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        std::thread::spawn(move || runtime.block_on(accept(listener, kept)));
        Ok(webhook)
    }

    /// Takes what has arrived since the last call.
    pub fn take(&self) -> Vec<Delivery> {
        std::mem::take(&mut *self.kept.lock())
    }

    /// Measures the requests/s of a client that does nothing else.
    pub async fn bare(&self, count: usize, size: usize) -> Result<f64> {
        let began = Instant::now();
        let mut clients = JoinSet::new();
        for first in 0..CONNECTIONS {
            clients.spawn(post(self.port, (first..count).step_by(CONNECTIONS), size));
        }
        while let Some(client) = clients.join_next().await {
            client??;
        }
        let seconds = began.elapsed().as_secs_f64();
        ensure!(self.take().len() == count, "not every request arrived");
        Ok(count as f64 / seconds)
    }
}

async fn post(port: u16, elements: impl Iterator<Item = usize>, size: usize) -> Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
    stream.get_ref().set_nodelay(true)?;
    for n in elements {
        let body = payload(n, size);
        let request = format!("POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.get_mut().write_all(request.as_bytes()).await?;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            ensure!(stream.read_line(&mut line).await? > 0, "the server closed the connection");
        }
    }
    Ok(())
}

async fn accept(listener: std::net::TcpListener, kept: Arc<Mutex<Vec<Delivery>>>) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let kept = Arc::clone(&kept);
        // A connection that breaks costs its requests an answer, and the daemon sends them again.
        tokio::spawn(async move { serve(BufReader::new(stream), &kept).await });
    }
}

async fn serve(mut stream: BufReader<TcpStream>, kept: &Mutex<Vec<Delivery>>) -> Result<()> {
    loop {
        let mut length = 0;
        let mut id = None;
        let mut is_element = false;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            // The probe of the daemon's start is a HEAD.
            is_element |= line.starts_with("POST ");
            if let Some((name, value)) = line.trim_end().split_once(": ") {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().context("read the length")?,
                    "delaybridge-id" => id = Some(value.to_owned()),
                    "transfer-encoding" => bail!("a body in chunks is not read here"),
                    _ => {}
                }
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        if is_element {
            kept.lock().push(Delivery { id, payload: body, ..Delivery::default() });
        }
        stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
}
