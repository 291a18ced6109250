//! One connection, from the login to its end: publishes elements, and gives each the answer of its stream.
//!
//! One task reads and writes, so nothing is locked. What is written is bounded: elements are taken only while the last bytes
//! of those before have left, and the lease of each is asked for right before. Where bytes stay here for longer than a
//! delivery may take, or the server is silent, the connection is ended, so that nothing leaves after its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::connect::{NatsConnection, NatsServerInfo};
use super::streams;
use super::waiting::{NatsQuestion, OpenQuestion, OpenQuestions};
use super::wire::{self, Inbound, ServerOp, Unfit};
use crate::errors::{self, PubAck};
use crate::{NAME, NatsDestination, NatsSpec};
use delaybridge_core::message::{About, Failure};
use delaybridge_dial::{DialStream, Pace, ReadBudget};
use delaybridge_sink::output::OwedAnswers;
use delaybridge_sink::reconnect::{Intake, ServiceEnd};
use delaybridge_sink::worker_queue::WorkItem;

/// Elements taken from the queue at once.
const MANY: usize = 256;
/// Bytes that wait to be written, beyond which no more elements are taken.
const FULL: usize = 256 * 1024;
/// Time for the answer about a stream.
const LOOK_UP: Duration = Duration::from_secs(1);
/// Time for what is under way when the server asks its clients to leave.
const LEAVE: Duration = Duration::from_secs(2);

/// The state of a connection.
pub(super) struct NatsSession<'a> {
    spec: &'a NatsSpec,
    timeout: Duration,
    inbox: String,
    info: NatsServerInfo,
    input: BytesMut,
    output: BytesMut,
    /// Whether bytes may be left in the TLS session.
    unflushed: bool,
    pace: Pace,
    /// The answers to PINGs that were not sent.
    owed: OwedAnswers,
    questions: OpenQuestions,
    /// The first question that may not have left completely; the next number if all have.
    first_unsent: u64,
    /// The times at which the server was heard last, and asked last.
    heard: Instant,
    asked: Instant,
    /// The server asked its clients to leave.
    leaving: Option<Instant>,
}

/// Runs until the connection or the sink ends. Everything that was sent has its answer then.
pub(super) async fn run(
    spec: &Arc<NatsSpec>,
    timeout: Duration,
    connection: NatsConnection,
    intake: &mut Intake<NatsQuestion>,
    stop: &CancellationToken,
) -> ServiceEnd {
    let NatsConnection { stream, input, info, inbox, .. } = connection;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let now = Instant::now();
    let mut session = NatsSession {
        spec,
        timeout,
        inbox,
        info,
        input,
        output: BytesMut::new(),
        unflushed: false,
        pace: Pace::new(ReadBudget::ANSWERS),
        owed: OwedAnswers::default(),
        questions: OpenQuestions::default(),
        first_unsent: 1,
        heard: now,
        asked: now,
        leaving: None,
    };
    let end = session.serve(&mut reader, &mut writer, intake, stop).await;
    session.give_up(match &end {
        ServiceEnd::Closed => "the sink was closed",
        ServiceEnd::Lost(why) => why,
    });
    end
}

impl NatsSession<'_> {
    async fn serve(
        &mut self,
        reader: &mut ReadHalf<DialStream>,
        writer: &mut WriteHalf<DialStream>,
        intake: &mut Intake<NatsQuestion>,
        stop: &CancellationToken,
    ) -> ServiceEnd {
        let mut received = Vec::new();
        // An element that gets no answer is told so before its caller gives up.
        let mut look = interval((self.timeout / 40).clamp(Duration::from_millis(10), Duration::from_millis(250)));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Err(why) = self.read_all() {
                return ServiceEnd::Lost(why);
            }
            let idle = self.questions.len() == 0 && self.output.is_empty() && !self.unflushed;
            if intake.closed && idle {
                return ServiceEnd::Closed;
            }
            if self.leaving.is_some_and(|until| idle || Instant::now() >= until) {
                return ServiceEnd::Lost("the server is about to stop".to_owned());
            }
            let room = (self.spec.max_unconfirmed as usize).saturating_sub(self.questions.len()).min(MANY);
            let takes = room > 0 && self.output.len() < FULL && self.leaving.is_none();
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
                left = write(writer, &mut self.output), if self.unflushed || self.output.has_remaining() => match left {
                    Ok(WrittenPart::Some) => self.unflushed = true,
                    Ok(WrittenPart::All) => {
                        self.unflushed = false;
                        self.owed.paid();
                        self.first_unsent = self.questions.next();
                    }
                    Err(error) => return ServiceEnd::Lost(error.to_string()),
                },
                Some(ask) = intake.asks.recv(), if takes => self.ask(ask),
                count = intake.items.recv_many(&mut received, room), if takes && !intake.closed => {
                    intake.closed = count == 0;
                    for item in received.drain(..) {
                        self.publish(item);
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

    /// Answers everything that is under way.
    fn give_up(&mut self, why: &str) {
        for waiting in self.questions.drain() {
            match waiting {
                OpenQuestion::Element(item) => {
                    let failure = errors::lost(&attempt(&item), why);
                    item.finish(Err(failure));
                }
                OpenQuestion::Question(reply) => {
                    let _ = reply.send(Err(errors::lost("ask NATS", why)));
                }
                // There were no responders: they are in no stream.
                OpenQuestion::WhichStream { items, .. } => finish(items, errors::no_answer_about),
            }
        }
    }

    /// Puts an element under way, if it may be sent.
    fn publish(&mut self, item: WorkItem) {
        let subject = match item.message().destination.of_kind(NAME) {
            Ok(NatsDestination { subject }) => subject.clone(),
            Err(failure) => return item.finish(Err(failure)),
        };
        let before = self.output.len();
        let address = (self.inbox.as_str(), self.questions.next());
        let max = self.info.max_payload;
        if let Err(unfit) = wire::publish(&mut self.output, item.message(), &subject, address, max) {
            let attempt = attempt(&item);
            return item.finish(Err(match unfit {
                Unfit::Header => errors::bad_header(&attempt),
                Unfit::Size(bytes) => errors::too_large(&attempt, bytes, max),
            }));
        }
        if item.may_send() {
            self.questions.put(Instant::now() + self.timeout * 19 / 20, OpenQuestion::Element(item));
        } else {
            self.output.truncate(before);
        }
    }

    fn ask(&mut self, ask: NatsQuestion) {
        wire::ask(&mut self.output, &ask.subject, &self.inbox, self.questions.next(), &ask.body);
        self.questions.put(Instant::now() + self.timeout * 19 / 20, OpenQuestion::Question(ask.reply));
    }

    /// Handles everything that was read.
    fn read_all(&mut self) -> Result<(), String> {
        loop {
            match wire::take(&mut self.input) {
                Ok(None) => return Ok(()),
                Ok(Some(ServerOp::Message(message))) => self.answered(message),
                Ok(Some(ServerOp::Ping)) => {
                    self.owed.owe().map_err(|why| format!("the server breaks the protocol: {why}"))?;
                    self.output.extend_from_slice(b"PONG\r\n");
                }
                Ok(Some(ServerOp::Info(text))) => {
                    if let Some(info) = NatsServerInfo::read(text) {
                        if info.leaving && self.leaving.is_none() {
                            self.leaving = Some(Instant::now() + LEAVE.min(self.timeout));
                        }
                        self.info = info;
                    }
                }
                Ok(Some(ServerOp::Refused(words))) => self.refused(&words)?,
                Ok(Some(ServerOp::Pong | ServerOp::Nothing)) => {}
                Err(why) => return Err(format!("the server sent {}", why.0)),
            }
        }
    }

    /// Takes an answer. One that comes too late has no question any more.
    fn answered(&mut self, message: Inbound) {
        let Some(waiting) = message.number.and_then(|number| self.questions.take(number)) else { return };
        let no_responders = message.status == Some(503);
        match waiting {
            OpenQuestion::Question(reply) => {
                let _ = reply.send(Ok((!no_responders).then_some(message.body)));
            }
            OpenQuestion::WhichStream { items, .. } => {
                let body = (!no_responders).then_some(message.body);
                match streams::names(body) {
                    Ok(names) => match names.first() {
                        Some(name) => finish(items, |attempt| errors::no_leader(attempt, name)),
                        None => finish(items, errors::no_stream),
                    },
                    Err(Some((number, text))) => finish(items, |attempt| errors::refused(attempt, number, &text)),
                    Err(None) => finish(items, errors::no_answer_about),
                }
            }
            OpenQuestion::Element(item) if no_responders => self.which_stream(item),
            OpenQuestion::Element(item) => match confirmed(&item, message) {
                Ok(StoredMessage::Again) => item.finish_known(),
                Ok(StoredMessage::Now) => item.finish(Ok(())),
                Err(failure) => item.finish(Err(failure)),
            },
        }
    }

    /// Asks which stream takes a subject that had no responders, which decides whether a person is needed.
    fn which_stream(&mut self, item: WorkItem) {
        let Ok(NatsDestination { subject }) = item.message().destination.of_kind(NAME) else { return };
        let subject = subject.clone();
        if let Some(items) = self.questions.about_stream(&subject) {
            return items.push(item);
        }
        let body = streams::of_subject(&subject);
        wire::ask(&mut self.output, streams::NAMES, &self.inbox, self.questions.next(), &body);
        let late_at = Instant::now() + LOOK_UP.min(self.timeout / 4);
        self.questions.put(late_at, OpenQuestion::WhichStream { subject, items: vec![item] });
    }

    /// Applies a refusal of the server: a right to publish concerns the messages of that subject, all else the
    /// connection.
    fn refused(&mut self, words: &str) -> Result<(), String> {
        let subject = words.strip_prefix("Permissions Violation for Publish to ").map(|rest| rest.trim_matches('"'));
        let Some(subject) = subject else {
            // The connection ends where the server says so; what it refuses without ending it is no answer to an element.
            tracing::debug!(words, "the NATS server refused something");
            let ends = ["authentication expired", "authorization violation", "stale connection", "parser error"];
            let lower = words.to_ascii_lowercase();
            return if ends.iter().any(|end| lower.contains(end)) {
                Err(format!("the server answered `{words}`"))
            } else {
                Ok(())
            };
        };
        let looked_up = subject == streams::NAMES;
        let numbers = self.questions.numbers(|waiting| match waiting {
            OpenQuestion::Element(item) => subject_of(item) == Some(subject),
            OpenQuestion::WhichStream { .. } => looked_up,
            OpenQuestion::Question(_) => false,
        });
        for waiting in numbers.into_iter().filter_map(|number| self.questions.take(number)) {
            match waiting {
                OpenQuestion::Element(item) => finish(vec![item], errors::denied),
                // Without the right to ask, the likelier of the two.
                OpenQuestion::WhichStream { items, .. } => finish(items, errors::no_stream),
                OpenQuestion::Question(_) => {}
            }
        }
        Ok(())
    }

    /// Answers what is late, and asks a silent server whether it is there.
    fn look(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let silent = now.saturating_duration_since(self.heard);
        while let Some((number, waiting)) = self.questions.late(now) {
            match waiting {
                OpenQuestion::Element(item) => {
                    let unsent = number >= self.first_unsent;
                    let silent = silent >= self.timeout * 9 / 10;
                    let mut failure = errors::late(&attempt(&item), self.timeout);
                    if silent || unsent {
                        // Not this stream's fault.
                        failure.about = About::Sink;
                    }
                    item.finish(Err(failure));
                    if silent || unsent {
                        return Err("the server is silent".to_owned());
                    }
                }
                OpenQuestion::Question(reply) => {
                    let _ = reply.send(Err(errors::silent(self.timeout)));
                }
                OpenQuestion::WhichStream { items, .. } => finish(items, errors::no_answer_about),
            }
        }
        if silent >= self.spec.ping_interval * 2 && self.asked > self.heard {
            return Err(format!("the server is silent for {silent:?}"));
        }
        if now.saturating_duration_since(self.heard.max(self.asked)) >= self.spec.ping_interval {
            self.asked = now;
            self.output.extend_from_slice(b"PING\r\n");
        }
        Ok(())
    }
}

/// The part that has left.
enum WrittenPart {
    Some,
    All,
}

/// Writes what there is, or flushes where nothing is left. Cancel safe.
async fn write(writer: &mut WriteHalf<DialStream>, output: &mut BytesMut) -> std::io::Result<WrittenPart> {
    if !output.has_remaining() {
        return writer.flush().await.map(|()| WrittenPart::All);
    }
    match writer.write_buf(output).await? {
        0 => Err(std::io::ErrorKind::WriteZero.into()),
        _ => Ok(WrittenPart::Some),
    }
}

/// Whether a stream has stored a message now, or had it already.
enum StoredMessage {
    Now,
    Again,
}

/// Decides the outcome that the answer of a stream means.
fn confirmed(item: &WorkItem, message: Inbound) -> Result<StoredMessage, Failure> {
    if message.status.is_some() {
        return Err(errors::unclear(&attempt(item)));
    }
    match PubAck::read(message.body) {
        PubAck::Stored { duplicate: false } => Ok(StoredMessage::Now),
        PubAck::Stored { duplicate: true } => Ok(StoredMessage::Again),
        PubAck::Refused(number, text) => Err(errors::refused(&attempt(item), number, &text)),
        PubAck::Unclear => Err(errors::unclear(&attempt(item))),
    }
}

fn finish(items: Vec<WorkItem>, failure: impl Fn(&str) -> Failure) {
    for item in items {
        let failure = failure(&attempt(&item));
        item.finish(Err(failure));
    }
}

fn subject_of(item: &WorkItem) -> Option<&str> {
    item.message().destination.of_kind(NAME).ok().map(|NatsDestination { subject }| &**subject)
}

/// Returns the attempt, for messages.
fn attempt(item: &WorkItem) -> String {
    format!("publish to {}", item.message().destination)
}
