//! The sink: a queue, and the thread that writes what is in it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::config::{NAME, StdoutDestination, StdoutSpec};
use crate::line;
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_sink::worker_queue::{WorkItem, WorkerQueue};
use delaybridge_sink::{Answers, Connector, Destination, Outbound, Sink, SinkStart};

/// Elements that wait for their turn; later ones wait in `deliver`.
const QUEUE: usize = 1024;
/// Bytes that are written and flushed together; a longer line goes alone.
const MAX_BYTES: usize = 1 << 20;
/// Wait before a full non-blocking stream is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Writes elements to a stream as JSON lines.
#[derive(Debug)]
pub struct StdoutSink {
    pub(crate) items: WorkerQueue,
    /// Resolves when the thread has ended.
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl StdoutSink {
    /// Returns a sink on the process's standard output.
    pub fn on_stdout(timeout: Duration) -> StdoutSink {
        // A file on the same descriptor: the library's own handle takes a closed descriptor for success, and splits
        // what is written at every line.
        match io::stdout().as_fd().try_clone_to_owned() {
            Ok(descriptor) => StdoutSink::on(File::from(descriptor), timeout),
            Err(error) => StdoutSink::on(Closed(error.kind()), timeout),
        }
    }

    /// Returns a sink on any stream.
    pub fn on(stream: impl Write + Send + 'static, timeout: Duration) -> StdoutSink {
        let (items, taken) = WorkerQueue::new(NAME, timeout, QUEUE);
        let (end, ended) = oneshot::channel();
        // Not a task: it may block for as long as the reader pleases, and must not keep the runtime from ending.
        std::thread::spawn(move || {
            LineWriter { stream, line_open: false }.run(taken);
            drop(end);
        });
        StdoutSink { items, ended: Mutex::new(Some(ended)) }
    }
}

impl Connector for StdoutSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        Arc::new(StdoutSink::on_stdout(start.timeout))
    }

    fn settings(&self) -> Map<String, Value> {
        Map::new()
    }

    fn address(&self) -> String {
        String::new()
    }

    fn looks_for_destinations(&self) -> bool {
        false
    }
}

impl Sink for StdoutSink {
    fn kind(&self) -> &'static str {
        self.items.kind()
    }

    fn timeout(&self) -> Duration {
        self.items.timeout()
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.items.deliver(message).boxed()
    }

    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        self.items.deliver_all(batch, answers).boxed()
    }

    fn check<'a>(&'a self, _: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        // Whether the reader is there shows only when something is written.
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        None
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        self.items.ended().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.items.close();
            let ended = self.ended.lock().take();
            if let Some(ended) = ended {
                // A reader that reads nothing must not hold up the end of the process; every delivery has its answer.
                let _ = tokio::time::timeout(self.timeout(), ended).await;
            }
        }
        .boxed()
    }
}

/// Represents a standard output that was closed before we started.
struct Closed(io::ErrorKind);

impl Write for Closed {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

struct LineWriter<W> {
    stream: W,
    /// A failed write may have ended in the middle of a line: the next one must not be glued to it.
    line_open: bool,
}

impl<W: Write> LineWriter<W> {
    fn run(mut self, mut items: mpsc::Receiver<WorkItem>) {
        let mut received = Vec::new();
        let mut lines = Vec::new();
        let mut batch = Vec::new();
        while items.blocking_recv_many(&mut received, QUEUE) > 0 {
            for item in received.drain(..) {
                if let Err(failure) = item.message().destination.of_kind::<StdoutDestination>(NAME) {
                    item.finish(Err(failure));
                } else if item.may_send() {
                    match line::append(&mut lines, item.message()) {
                        Ok(()) => batch.push(item),
                        Err(failure) => item.finish(Err(failure)),
                    }
                    if lines.len() >= MAX_BYTES {
                        self.write(&mut lines, &mut batch);
                    }
                }
            }
            self.write(&mut lines, &mut batch);
        }
    }

    /// Writes and flushes the lines, then answers for all of them.
    fn write(&mut self, lines: &mut Vec<u8>, batch: &mut Vec<WorkItem>) {
        if batch.is_empty() {
            return;
        }
        let mut begun = false;
        let written = self.write_all(lines, &mut begun).and_then(|()| self.stream.flush());
        let outcome = written.map_err(|error| classify(&error, begun));
        lines.clear();
        lines.shrink_to(MAX_BYTES);
        for item in batch.drain(..) {
            item.finish(outcome.clone());
        }
    }

    /// `begun` is set when a byte of them was written.
    fn write_all(&mut self, mut bytes: &[u8], begun: &mut bool) -> io::Result<()> {
        let mut prefix: &[u8] = if self.line_open { b"\n" } else { b"" };
        while !prefix.is_empty() || !bytes.is_empty() {
            let own = prefix.is_empty();
            let part = if own { &mut bytes } else { &mut prefix };
            match self.stream.write(part) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    *begun |= own;
                    let (written, rest) = part.split_at(count);
                    self.line_open = !written.ends_with(b"\n");
                    *part = rest;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another user of the stream made it non-blocking; this thread has nothing else to do.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(BUSY_PAUSE),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Classifies a failed write; `begun`: a part had been written before.
pub(crate) fn classify(error: &io::Error, begun: bool) -> Failure {
    const EBADF: i32 = 9;
    let closed = error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(EBADF);
    let (class, code) = match (closed, begun) {
        // There is no reader any more.
        (true, false) => (Class::TargetPermanent, "closed"),
        // It may have read what was written before it went. The next write shows that it is gone.
        (true, true) => (Class::Ambiguous, "closed"),
        // Lines before the failure may have arrived.
        (false, _) => (Class::Ambiguous, "io"),
    };
    Failure::new(class, code, format!("write to standard output: {error}"))
}
