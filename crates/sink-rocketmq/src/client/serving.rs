//! One connection, from its first answer to its end: requests out, answers in.
//!
//! One task reads and writes, so nothing is locked. What is written is bounded: calls are taken only while there is room, and the
//! lease of each element is asked for right before. Where bytes stay here for longer than a delivery may take, or the server is
//! silent, the connection is ended, so that nothing leaves after its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::call::{AskEnd, MessageBatch, RemotingCall, SendEnd, Unanswered};
use super::connect::RemotingConnection;
use crate::wire::frame::{RemotingAnswer, RemotingRequest, take};
use crate::wire::sign::RemotingSigner;
use crate::{RocketMqSpec, errors};
use delaybridge_dial::{DialStream, Pace, ReadBudget};
use delaybridge_sink::output::FrameOutput;
use delaybridge_sink::reconnect::ServiceEnd;

/// Bytes that wait to be written, beyond which nothing more is put there.
const FULL: usize = 256 * 1024;
/// The number of the last request before they begin anew. The first question of a connection is number 0.
const LAST: u32 = i32::MAX as u32;

/// A request that waits for its answer.
struct OpenRequest {
    of: OpenCall,
    late_at: Instant,
    /// The places in the output before its first and behind its last byte.
    begins_at: u64,
    ends_at: u64,
}

enum OpenCall {
    SignOfLife,
    Ask(oneshot::Sender<AskEnd>),
    Send(MessageBatch, oneshot::Sender<SendEnd>),
}

/// The state of a connection.
struct RemotingService<'a> {
    /// The server, for messages.
    server: String,
    spec: &'a RocketMqSpec,
    /// Time for an answer: shorter than a delivery may take, so that its caller is told.
    patience: Duration,
    signer: Option<RemotingSigner>,
    sign_of_life: &'a RemotingRequest,
    input: BytesMut,
    pace: Pace,
    output: FrameOutput,
    /// By number, the oldest first.
    flights: BTreeMap<u32, OpenRequest>,
    next: u32,
    /// The time at which the server was heard last, and asked for a sign of life.
    heard: Instant,
    asked: Instant,
    /// A write has failed: whether its bytes left is not known.
    broken: bool,
}

/// Runs until the connection ends, or no more calls can come. Every call has its answer then.
pub(super) async fn run(
    spec: &RocketMqSpec,
    (timeout, sign_of_life): (Duration, &RemotingRequest),
    reads: Arc<ReadBudget>,
    connection: RemotingConnection,
    calls: &mut mpsc::Receiver<RemotingCall>,
    stop: &CancellationToken,
) -> ServiceEnd {
    let RemotingConnection { server, stream, input, signer } = connection;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let now = Instant::now();
    let mut service = RemotingService {
        server,
        spec,
        patience: timeout * 19 / 20,
        signer,
        sign_of_life,
        input,
        pace: Pace::of(reads),
        output: FrameOutput::default(),
        flights: BTreeMap::new(),
        next: 1,
        heard: now,
        asked: now,
        broken: false,
    };
    let end = service.serve(&mut reader, &mut writer, calls, stop).await;
    service.lose(match &end {
        ServiceEnd::Closed => "the sink was closed",
        ServiceEnd::Lost(why) => why,
    });
    end
}

impl RemotingService<'_> {
    async fn serve(
        &mut self,
        reader: &mut ReadHalf<DialStream>,
        writer: &mut WriteHalf<DialStream>,
        calls: &mut mpsc::Receiver<RemotingCall>,
        stop: &CancellationToken,
    ) -> ServiceEnd {
        let mut closed = false;
        let mut look = interval((self.patience / 40).clamp(Duration::from_millis(10), Duration::from_millis(250)));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Err(why) = self.read_all() {
                return ServiceEnd::Lost(why);
            }
            if closed && self.flights.is_empty() {
                return ServiceEnd::Closed;
            }
            let has_room = self.output.bytes.len() < FULL;
            // Answers first: they make room. All branches are cancel safe.
            tokio::select! {
                biased;
                read = async { self.pace.room().await; reader.read_buf(&mut self.input).await } => match read {
                    Ok(0) => return ServiceEnd::Lost("the server closed the connection".to_owned()),
                    Ok(count) => {
                        self.heard = Instant::now();
                        self.pace.spend(count);
                    }
                    Err(error) => return ServiceEnd::Lost(error.to_string()),
                },
                left = self.output.write(writer), if self.output.waits() => if let Err(error) = left {
                    self.broken = true;
                    return ServiceEnd::Lost(error.to_string());
                },
                call = calls.recv(), if has_room && !closed => match call {
                    Some(call) => self.begin(call),
                    None => closed = true,
                },
                _ = look.tick() => {
                    if let Err(why) = self.look() {
                        return ServiceEnd::Lost(why);
                    }
                }
                () = stop.cancelled() => return ServiceEnd::Lost("the sink was closed".to_owned()),
            }
        }
    }

    /// Handles everything that was read.
    fn read_all(&mut self) -> Result<(), String> {
        loop {
            let command = match take(&mut self.input) {
                Ok(None) => return Ok(()),
                Ok(Some(command)) => command,
                Err(why) => return Err(format!("the server sent {}", why.0)),
            };
            // What answers nothing is a question of the server to consumers, or an answer that comes too late.
            if let Some(flight) = command.answers.and_then(|number| self.flights.remove(&number)) {
                flight.of.end(command.answer);
            }
        }
    }

    /// Puts a call into the output.
    fn begin(&mut self, call: RemotingCall) {
        match call {
            RemotingCall::Ask(request, reply) => self.put(request, OpenCall::Ask(reply)),
            RemotingCall::Send(mut batch, reply) => {
                batch.admit();
                if batch.items.is_empty() {
                    // Each has its answer.
                    let _ = reply.send(SendEnd { batch, answer: Ok(RemotingAnswer::default()) });
                    return;
                }
                let request = batch.request(&self.spec.group);
                self.put(request, OpenCall::Send(batch, reply));
            }
        }
    }

    fn put(&mut self, request: RemotingRequest, of: OpenCall) {
        let number = self.next;
        self.next = if number >= LAST { 1 } else { number + 1 };
        let begins_at = self.output.end();
        request.put(number, self.signer.as_ref(), &mut self.output.bytes);
        let late_at = Instant::now() + self.patience;
        let ends_at = self.output.end();
        self.flights.insert(number, OpenRequest { of, late_at, begins_at, ends_at });
    }

    /// Answers what is late, asks for a sign of life, and ends the connection to a silent server.
    fn look(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let silent = now.saturating_duration_since(self.heard);
        if silent >= self.spec.heartbeat * 2 {
            return Err(format!("the server is silent for {silent:?}"));
        }
        while let Some((&number, _)) = self.flights.iter().find(|(_, flight)| flight.late_at <= now) {
            let Some(flight) = self.flights.remove(&number) else { break };
            let ends_at = flight.ends_at;
            flight.of.late(self.patience, &self.server);
            if !self.output.has_left(ends_at) {
                return Err("the server takes no bytes".to_owned());
            }
        }
        if now.saturating_duration_since(self.asked) >= self.spec.heartbeat {
            self.asked = now;
            self.put(self.sign_of_life.clone(), OpenCall::SignOfLife);
        }
        Ok(())
    }

    /// Answers everything: the connection has ended.
    fn lose(&mut self, why: &str) {
        for flight in std::mem::take(&mut self.flights).into_values() {
            let sent = self.broken || self.output.may_have_left(flight.begins_at);
            flight.of.lose(why, sent, &self.server);
        }
    }
}

impl OpenCall {
    fn end(self, answer: RemotingAnswer) {
        match self {
            OpenCall::SignOfLife => {}
            OpenCall::Ask(reply) => {
                let _ = reply.send(Ok(answer));
            }
            OpenCall::Send(batch, reply) => {
                let _ = reply.send(SendEnd { batch, answer: Ok(answer) });
            }
        }
    }

    fn late(self, patience: Duration, server: &str) {
        match self {
            OpenCall::SignOfLife => {}
            OpenCall::Ask(reply) => {
                let _ = reply.send(Err(errors::no_answer(&format!("ask {server}"), patience)));
            }
            OpenCall::Send(batch, reply) => {
                let failure = errors::late(&batch.attempt(), patience);
                let _ = reply.send(SendEnd { batch, answer: Err(Unanswered::Failed(failure)) });
            }
        }
    }

    fn lose(self, why: &str, sent: bool, server: &str) {
        match self {
            OpenCall::SignOfLife => {}
            OpenCall::Ask(reply) => {
                let _ = reply.send(Err(errors::lost(&format!("ask {server}"), why, false)));
            }
            OpenCall::Send(batch, reply) => {
                let answer = Err(batch.lost(why, sent));
                let _ = reply.send(SendEnd { batch, answer });
            }
        }
    }
}
