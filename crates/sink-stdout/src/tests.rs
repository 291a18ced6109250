//! The sink against a stream in memory that can break and stall.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use base64::Engine;

use super::sink::classify;
use super::{StdoutDestination, StdoutSink};
use delaybridge_core::message::Class;
use delaybridge_sink::{Destination, HeaderRules, Sink, header_rules};
use delaybridge_testing::sink::{PATIENT, ReceivedMessage, Rig, anywhere, outbound};
use delaybridge_testing::sink_contract_tests;

#[derive(Default)]
struct State {
    written: Vec<u8>,
    flushed: usize,
    broken: Option<io::ErrorKind>,
    /// Bytes that are still taken before the stream breaks.
    room: Option<usize>,
    stalled: bool,
}

/// A stream; a test holds the other end.
#[derive(Clone, Default)]
struct Stream(Arc<(Mutex<State>, Condvar)>);

impl Stream {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    fn text(&self) -> String {
        let state = self.0.0.lock().unwrap();
        String::from_utf8(state.written[..state.flushed].to_vec()).unwrap()
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (state, changed) = &*self.0;
        let mut state = changed.wait_while(state.lock().unwrap(), |state| state.stalled).unwrap();
        if let Some(kind) = state.broken {
            let room = state.room.take().unwrap_or(0).min(bytes.len());
            if room == 0 {
                return Err(kind.into());
            }
            state.written.extend_from_slice(&bytes[..room]);
            state.flushed = state.written.len();
            return Ok(room);
        }
        // Short writes are what a pipe does.
        let part = &bytes[..bytes.len().min(10_000)];
        state.written.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        state.flushed = state.written.len();
        Ok(())
    }
}

fn stdout() -> Destination {
    StdoutDestination.into()
}

struct StdoutRig {
    stream: Stream,
    sink: Arc<StdoutSink>,
}

impl StdoutRig {
    fn new() -> StdoutRig {
        let stream = Stream::default();
        let sink = Arc::new(StdoutSink::on(stream.clone(), PATIENT));
        StdoutRig { stream, sink }
    }
}

impl Rig for StdoutRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        Arc::new(StdoutSink::on(self.stream.clone(), timeout))
    }

    fn destination(&self) -> Destination {
        stdout()
    }

    fn refusing(&self) -> Destination {
        anywhere()
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        let body = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            match (line.get("payload"), line.get("payload_base64")) {
                (Some(text), None) => text.as_str().unwrap().as_bytes().to_vec(),
                (None, Some(text)) => base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap()).unwrap(),
                both => panic!("neither or both payloads: {both:?}"),
            }
        };
        self.stream.text().lines().map(body).collect()
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::STDOUT
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let bodies = self.received().await;
        let headers = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let headers = line["headers"].as_object().into_iter().flatten();
            headers.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
        };
        let text = self.stream.text();
        bodies.into_iter().zip(text.lines().map(headers)).collect()
    }

    async fn outage(&mut self) {
        self.stream.change(|state| state.broken = Some(io::ErrorKind::BrokenPipe));
    }

    async fn recover(&mut self) {
        self.stream.change(|state| state.broken = None);
    }

    async fn stall(&mut self) {
        self.stream.change(|state| state.stalled = true);
    }

    async fn resume(&mut self) {
        self.stream.change(|state| state.stalled = false);
    }
}

mod contract {
    use super::*;

    sink_contract_tests!(StdoutRig::new());
}

#[tokio::test]
async fn a_closed_reader_holds_and_a_full_disk_is_ambiguous() {
    let rig = StdoutRig::new();
    for (kind, class, code) in [
        (io::ErrorKind::BrokenPipe, Class::TargetPermanent, "closed"),
        (io::ErrorKind::StorageFull, Class::Ambiguous, "io"),
        (io::ErrorKind::WriteZero, Class::Ambiguous, "io"),
    ] {
        rig.stream.change(|state| state.broken = Some(kind));
        let failure = rig.sink.deliver(outbound(1, stdout(), "x")).await.unwrap_err();
        assert_eq!((failure.class, failure.code), (class, code), "{failure}");
    }
    assert_eq!(classify(&io::Error::from_raw_os_error(9), false).class, Class::TargetPermanent);
}

#[tokio::test]
async fn a_line_after_a_torn_one_begins_on_its_own() {
    let rig = StdoutRig::new();
    rig.stream.change(|state| (state.broken, state.room) = (Some(io::ErrorKind::StorageFull), Some(20)));
    assert!(rig.sink.deliver(outbound(1, stdout(), "torn")).await.is_err());
    rig.stream.change(|state| state.broken = None);
    for n in 2..4 {
        rig.sink.deliver(outbound(n, stdout(), "whole")).await.unwrap();
    }
    let text = rig.stream.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0].len(), 20);
    assert!(lines[1..].iter().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
}

#[tokio::test]
async fn a_reader_that_goes_after_a_part_may_have_read_it() {
    let rig = StdoutRig::new();
    rig.stream.change(|state| (state.broken, state.room) = (Some(io::ErrorKind::BrokenPipe), Some(20)));
    let failure = rig.sink.deliver(outbound(1, stdout(), "torn")).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::Ambiguous, "closed"), "{failure}");
    let failure = rig.sink.deliver(outbound(2, stdout(), "next")).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "closed"), "{failure}");
}

#[tokio::test]
async fn a_stalled_reader_does_not_hold_up_the_close() {
    let mut rig = StdoutRig::new();
    rig.sink = Arc::new(StdoutSink::on(rig.stream.clone(), Duration::from_millis(100)));
    rig.stall().await;
    let failure = rig.sink.deliver(outbound(1, stdout(), "x")).await.unwrap_err();
    assert_eq!(failure.class, Class::Ambiguous);
    tokio::time::timeout(Duration::from_secs(20), rig.sink.close()).await.unwrap();
    rig.resume().await;
}

#[tokio::test]
async fn an_element_dropped_behind_a_stalled_reader_is_not_written_later() {
    let mut rig = StdoutRig::new();
    rig.stall().await;
    // The first occupies the thread; the second waits in the queue.
    let first = outbound(1, stdout(), "first");
    let sink = rig.sink.clone();
    let mut first = sink.deliver(first);
    assert!(futures_util::FutureExt::now_or_never(&mut first).is_none());
    while rig.sink.items.waiting() > 0 {
        tokio::task::yield_now().await;
    }
    let mut second = rig.sink.deliver(outbound(2, stdout(), "second"));
    assert!(futures_util::FutureExt::now_or_never(&mut second).is_none());
    drop(second);
    rig.resume().await;
    first.await.unwrap();
    rig.sink.deliver(outbound(3, stdout(), "third")).await.unwrap();
    assert_eq!(rig.received().await, [b"first".to_vec(), b"third".to_vec()]);
}

#[tokio::test]
async fn a_pipe_without_a_reader_holds() {
    let (reader, writer) = io::pipe().unwrap();
    let sink = StdoutSink::on(writer, Duration::from_secs(2));
    sink.deliver(outbound(1, stdout(), "x")).await.unwrap();
    drop(reader);
    let failure = sink.deliver(outbound(2, stdout(), "x")).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "closed"), "{failure}");
}
