//! One connection, from the login to its end: elements out, outcomes in.
//!
//! One task reads and writes, so nothing is locked. What is written is bounded: elements are taken only while there is room, and
//! the lease of each is asked for right before. Where bytes stay here for longer than a delivery may take, or the broker is
//! silent, the connection is ended, so that nothing leaves after its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::connect::Amqp1Connection;
use super::frames::{self, PeerFrame, Performative};
use super::link::LinkLimits;
use super::links::{Amqp1Links, Amqp1Question, LinksLimits};
use crate::Amqp1Spec;
use delaybridge_dial::{DialStream, Pace, ReadBudget};
use delaybridge_sink::output::{FrameOutput, OwedAnswers};
use delaybridge_sink::reconnect::{Intake, ServiceEnd};

/// Elements taken from the queue at once.
const MANY: usize = 256;
/// Bytes that wait to be written, beyond which nothing more is put there.
const FULL: usize = 256 * 1024;
/// Longest wait for credit, for a link or for its beginning.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for the ends of links when the sink is closed.
const LEAVE: Duration = Duration::from_millis(500);

/// The state of a connection.
struct Service<'a> {
    spec: &'a Amqp1Spec,
    timeout: Duration,
    input: BytesMut,
    output: FrameOutput,
    pace: Pace,
    /// The states of links that the broker asks for.
    owed: OwedAnswers,
    links: Amqp1Links,
    /// Interval at which the broker wants to hear from us.
    speak_every: Option<Duration>,
    /// The times at which the broker was heard last, and we were.
    heard: Instant,
    spoke: Instant,
}

/// Runs until the connection or the sink ends. Everything that was sent has its answer then.
pub(super) async fn run(
    spec: &Arc<Amqp1Spec>,
    timeout: Duration,
    connection: Amqp1Connection,
    intake: &mut Intake<Amqp1Question>,
    stop: &CancellationToken,
) -> ServiceEnd {
    let Amqp1Connection { stream, input, peer, container } = connection;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let now = Instant::now();
    let room = spec.max_unconfirmed as usize;
    let limits = LinksLimits {
        // One channel for the anonymous terminus, one for questions.
        most: (spec.max_links as usize).min(usize::from(peer.channel_max).saturating_sub(1)).max(1),
        channel_max: peer.channel_max,
        relays: peer.relays,
        share: (room / 4).max(1),
        link: LinkLimits {
            max_frame: peer.max_frame.min(FULL as u32),
            // An element that gets no answer is told so before its caller gives up.
            timeout: timeout * 19 / 20,
            patience: PATIENCE.min(timeout / 2),
            accepts_unroutable: peer.accepts_unroutable,
        },
    };
    let mut service = Service {
        spec,
        timeout,
        input,
        output: FrameOutput::default(),
        pace: Pace::new(ReadBudget::ANSWERS),
        owed: OwedAnswers::default(),
        links: Amqp1Links::new(limits, container),
        speak_every: peer.idle.map(|idle| idle / 2),
        heard: now,
        spoke: now,
    };
    let end = service.serve(&mut reader, &mut writer, intake, stop).await;
    service.links.lose(match &end {
        ServiceEnd::Closed => "the sink was closed",
        ServiceEnd::Lost(why) => why,
    });
    if end == ServiceEnd::Closed {
        service.leave(&mut writer).await;
    }
    end
}

impl Service<'_> {
    async fn serve(
        &mut self,
        reader: &mut ReadHalf<DialStream>,
        writer: &mut WriteHalf<DialStream>,
        intake: &mut Intake<Amqp1Question>,
        stop: &CancellationToken,
    ) -> ServiceEnd {
        let mut received = Vec::new();
        let mut look = interval((self.timeout / 40).clamp(Duration::from_millis(10), Duration::from_millis(250)));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Err(why) = self.read_all() {
                return ServiceEnd::Lost(why);
            }
            self.links.send(&mut self.output, FULL);
            let load = self.links.load();
            if intake.closed && load == 0 && !self.output.waits() {
                return ServiceEnd::Closed;
            }
            let room = (self.spec.max_unconfirmed as usize).saturating_sub(load).min(MANY);
            // Answers first: they make room. All branches are cancel safe.
            tokio::select! {
                biased;
                read = async { self.pace.room().await; reader.read_buf(&mut self.input).await } => match read {
                    Ok(0) => return ServiceEnd::Lost("the broker closed the connection".to_owned()),
                    Ok(count) => {
                        self.heard = Instant::now();
                        self.pace.spend(count);
                    }
                    Err(error) => return ServiceEnd::Lost(error.to_string()),
                },
                left = self.output.write(writer), if self.output.waits() => match left {
                    Ok(()) => {
                        self.spoke = Instant::now();
                        if !self.output.waits() {
                            self.owed.paid();
                        }
                    }
                    Err(error) => return ServiceEnd::Lost(error.to_string()),
                },
                Some(question) = intake.asks.recv() => self.links.ask(question, &mut self.output.bytes),
                count = intake.items.recv_many(&mut received, room), if room > 0 && !intake.closed => {
                    intake.closed = count == 0;
                    for item in received.drain(..) {
                        self.links.put(item, &mut self.output.bytes);
                    }
                }
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
            match frames::take(&mut self.input) {
                Ok(None) => return Ok(()),
                Ok(Some(PeerFrame::Empty)) => {}
                Ok(Some(PeerFrame::Of(_, Performative::Close(error)))) => {
                    return Err(format!("the broker ended the connection with {}", error.words()));
                }
                Ok(Some(PeerFrame::Of(channel, what))) => {
                    if matches!(&what, Performative::Flow(flow) if flow.echo || flow.drain) {
                        self.owed.owe().map_err(|why| format!("the broker breaks the protocol: {why}"))?;
                    }
                    let read = self.links.received(channel, what, &mut self.output.bytes);
                    read.map_err(|why| format!("the broker sent {}", why.0))?;
                }
                Ok(Some(_)) => return Err("the broker sent a frame of a login".to_owned()),
                Err(why) => return Err(format!("the broker sent {}", why.0)),
            }
        }
    }

    /// Answers what is late, gives a sign of life, and ends the connection to a silent broker.
    fn look(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let silent = now.saturating_duration_since(self.heard);
        if silent >= self.spec.heartbeat * 2 {
            return Err(format!("the broker is silent for {silent:?}"));
        }
        if self.speak_every.is_some_and(|every| now.saturating_duration_since(self.spoke) >= every)
            && !self.output.waits()
        {
            frames::empty(&mut self.output.bytes);
        }
        self.links.look(now, &mut self.output).map_err(|_| "the broker takes no bytes, or answers no end".to_owned())
    }

    /// Says goodbye, as far as the broker lets us in a short time.
    async fn leave(&mut self, writer: &mut WriteHalf<DialStream>) {
        self.links.close(&mut self.output.bytes);
        frames::close(&mut self.output.bytes);
        let writing = async { while self.output.waits() && self.output.write(writer).await.is_ok() {} };
        // A broker that does not take it learns it from the end of the socket.
        let _ = tokio::time::timeout(LEAVE, writing).await;
    }
}
