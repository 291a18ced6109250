//! A server that says exactly what a script says, byte by byte.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// The server; it ends with this handle.
pub(super) struct Raw {
    pub(super) port: u16,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    _running: AbortOnDropHandle<()>,
}

/// One connection, as the script sees it.
pub(super) struct Talk {
    stream: TcpStream,
    requests: Arc<AtomicUsize>,
    /// The number of this connection, from 0.
    pub(super) number: usize,
}

impl Raw {
    /// Runs the script for each connection; the connection is closed when the script ends.
    pub(super) async fn start<F, S>(script: F) -> Raw
    where
        F: Fn(Talk) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let made = connections.clone();
        let running = tokio::spawn(async move {
            let mut talks = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = made.fetch_add(1, Ordering::Relaxed);
                talks.spawn(script(Talk { stream, requests: counted.clone(), number }));
            }
        });
        Raw { port, requests, connections, _running: AbortOnDropHandle::new(running) }
    }

    /// Answers one request of each connection with this text and closes the connection.
    pub(super) async fn saying_once(answer: &'static str) -> Raw {
        Raw::start(move |mut talk| async move {
            if talk.request().await {
                talk.say(answer).await;
            }
        })
        .await
    }

    /// Requests that were read to their end.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Talk {
    /// Reads a request to its end; false if the client closed the connection before.
    pub(super) async fn request(&mut self) -> bool {
        let head = self.head().await;
        let Some(length) = head else { return false };
        let mut body = vec![0; length];
        let whole = self.stream.read_exact(&mut body).await.is_ok();
        self.requests.fetch_add(usize::from(whole), Ordering::Relaxed);
        whole
    }

    /// Reads a request to its end: its path. `None` if the client closed the connection before.
    pub(super) async fn path(&mut self) -> Option<String> {
        let head = self.text().await?;
        let mut body = vec![0; length(&head)];
        self.stream.read_exact(&mut body).await.ok()?;
        head.split(' ').nth(1).map(str::to_owned)
    }

    /// Reads the head of a request: the length of its body.
    pub(super) async fn head(&mut self) -> Option<usize> {
        self.text().await.map(|head| length(&head))
    }

    async fn text(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        Some(String::from_utf8(head).unwrap())
    }

    /// Writes; that the client has gone is not the script's concern.
    pub(super) async fn say(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes()).await;
    }

    /// Writes; whether the client is still there.
    pub(super) async fn says(&mut self, text: &str) -> bool {
        self.stream.write_all(text.as_bytes()).await.is_ok()
    }

    /// Writes nothing more, and goes on reading.
    pub(super) async fn finish(&mut self) {
        let _ = self.stream.shutdown().await;
        self.drain().await;
    }

    /// Reads until the client closes the connection.
    pub(super) async fn drain(&mut self) {
        let mut rest = vec![0; 64 << 10];
        while self.stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    }
}

fn length(head: &str) -> usize {
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.expect("a length").parse().unwrap()
}
