//! The outstanding messages of one channel: the futures of the library, and the ledger that interprets them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use lapin::message::BasicReturnMessage;
use lapin::{Channel, Confirmation};
use tokio::time::Instant;

use super::context::{Ids, SinkContext};
use super::ledger::{BrokerAnswer, ChannelLedger, MessageVerdict, ReturnedMessage};
use super::message::{Publication, attempt};
use crate::codes;
use crate::errors::{self, ChannelError};
use delaybridge_core::unordered;
use delaybridge_sink::Destination;
use delaybridge_sink::worker_queue::WorkItem;

/// The first message on a channel is given this time to show that the exchange is well; then others join it.
pub(super) const FIRST: Duration = Duration::from_secs(3);
/// A message without an answer for this long is silent; a shorter time where a later one has its answer.
const SILENT: Duration = Duration::from_secs(1);
const OVERTAKEN: Duration = Duration::from_millis(300);
/// Messages outstanding on a channel aside: the broker stops to read a connection with 400 on a channel that has to pause.
const ASIDE: usize = 256;
/// Bytes of outstanding bodies beside one more message. The library holds a copy of what it has not sent, and
/// a broker with a full socket has to accept it all within the time-out.
const WINDOW_BYTES: usize = 16 << 20;

/// An event of the set of futures.
enum Event {
    /// Everything that was woken before it has come out.
    Mark,
    /// The broker's answer to a message of this many bytes, and the return that the library attached to it.
    Answer(u64, usize, Result<(BrokerAnswer, Option<ReturnedMessage>), ChannelError>),
}

struct PublishedMessage {
    item: WorkItem,
    at: Instant,
    /// The time from which its answer is late.
    due: Instant,
}

/// One channel and its outstanding messages.
pub(super) struct Flight {
    aside: bool,
    channel: Arc<Channel>,
    context: Arc<SinkContext>,
    /// The largest frame that the broker accepts.
    pub(super) frame_max: u32,
    ledger: ChannelLedger<PublishedMessage>,
    answers: FuturesUnordered<BoxFuture<'static, Event>>,
    /// The messages without an answer to come.
    left: Vec<WorkItem>,
    pub(super) cause: Option<ChannelError>,
    /// Whether an answer of the broker has been seen on this channel.
    tried: bool,
    /// The time at which the first message on this channel was published.
    begun: Option<Instant>,
    /// Whether the outstanding message must be alone.
    pub(super) alone: bool,
    /// Bytes of the unanswered bodies.
    bytes: usize,
    /// One more handle for each message that the library has not sent to its last byte.
    unsent: Arc<()>,
}

impl Flight {
    /// Creates a flight with nothing outstanding. `aside`: for routes that have fallen silent before.
    pub(super) fn new(channel: Channel, context: Arc<SinkContext>, frame_max: u32, aside: bool) -> Flight {
        Flight {
            aside,
            channel: Arc::new(channel),
            context,
            frame_max,
            ledger: ChannelLedger::new(),
            answers: FuturesUnordered::new(),
            left: Vec::new(),
            cause: None,
            tried: false,
            begun: None,
            alone: false,
            bytes: 0,
            unsent: Arc::new(()),
        }
    }

    /// Returns whether the channel still takes messages.
    pub(super) fn is_usable(&self) -> bool {
        self.channel.status().connected()
    }

    /// Returns whether nothing is outstanding.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Returns the time at which others may join the first message, if it is still to come.
    pub(super) fn trusted_at(&self) -> Option<Instant> {
        let at = self.begun? + FIRST;
        (!self.tried && Instant::now() < at).then_some(at)
    }

    /// Returns whether a part of a message still waits in the library.
    pub(super) fn has_unsent(&self) -> bool {
        Arc::strong_count(&self.unsent) > 1
    }

    /// Returns the time from which the oldest answer is late.
    pub(super) fn due(&self) -> Option<Instant> {
        self.ledger.oldest().map(|sent| sent.due)
    }

    /// Returns whether an answer of the broker has been seen.
    pub(super) fn is_tried(&self) -> bool {
        self.tried
    }

    /// Returns the destination of the message that has waited longest for its answer, and the time at which that is too
    /// long.
    pub(super) fn silent(&self, timeout: Duration) -> Option<(Instant, &Destination)> {
        let (sent, overtaken) = self.ledger.silent()?;
        let patience = if overtaken { OVERTAKEN } else { SILENT };
        Some((sent.at + patience.min(timeout / 4), &sent.item.message().destination))
    }

    /// Takes out what was published to such destinations and has no answer.
    pub(super) fn release(&mut self, matches: impl Fn(&Destination) -> bool) -> Vec<WorkItem> {
        let released = self.ledger.release(|sent| matches(&sent.item.message().destination));
        released.into_iter().map(|sent| sent.item).collect()
    }

    /// Returns whether one more message may be published now. Aside, few are outstanding, and only one until there was
    /// an answer.
    pub(super) fn has_room(&self, window: usize) -> bool {
        let under_way = self.ledger.unanswered();
        let untried = if self.aside { !self.tried } else { self.trusted_at().is_some() };
        let window = if self.aside { window.min(ASIDE) } else { window };
        let window = if self.alone || untried { 1 } else { window };
        under_way == 0 || under_way < window && self.bytes < WINDOW_BYTES && !self.ledger.must_drain(window)
    }

    /// Publishes; the element must be allowed to be sent.
    pub(super) fn publish(&mut self, item: WorkItem, publication: Publication, alone: bool) {
        let number = self.context.ids.next();
        let at = Instant::now();
        let due = at + self.context.timeout;
        let body = item.message().body.clone();
        self.alone = alone;
        self.begun.get_or_insert(at);
        self.bytes += body.len();
        self.ledger.publish(number, PublishedMessage { item, at, due });
        let channel = self.channel.clone();
        let context = self.context.clone();
        let unsent = self.unsent.clone();
        self.answers.push(publish(channel, context, number, publication, body, unsent).boxed());
    }

    /// Waits for answers and passes them to the waiting callers. Cancel safe.
    pub(super) async fn answered(&mut self) {
        let mut settled = Vec::new();
        let mut next = unordered::next(&mut self.answers).await;
        // All that are there: the caller has more to do after each round.
        while let Some(event) = next {
            self.take(event, &mut settled);
            if self.ledger.mark() {
                self.answers.push(std::future::ready(Event::Mark).boxed());
            }
            next = unordered::next(&mut self.answers).now_or_never().flatten();
        }
        for (sent, verdict) in settled {
            let PublishedMessage { item, .. } = sent;
            let outcome = match verdict {
                MessageVerdict::Arrived => Ok(()),
                MessageVerdict::Refused => Err(errors::nacked(&attempt(&item.message().destination))),
                MessageVerdict::Returned { code, text } => {
                    Err(errors::returned(&attempt(&item.message().destination), code, &text))
                }
            };
            item.finish(outcome);
        }
    }

    fn take(&mut self, event: Event, settled: &mut Vec<(PublishedMessage, MessageVerdict)>) {
        match event {
            Event::Mark => self.ledger.marked(settled),
            Event::Answer(number, bytes, answer) => {
                self.bytes -= bytes;
                match answer {
                    Ok((answer, beside)) => {
                        self.tried = true;
                        self.ledger.answered(number, answer, beside, settled);
                    }
                    Err(cause) => self.lost(number, cause),
                }
            }
        }
    }

    fn lost(&mut self, number: u64, cause: ChannelError) {
        self.left.extend(self.ledger.lost(number).map(|sent| sent.item));
        self.blame(cause);
    }

    /// Remembers why the channel ends; the broker's word beats the library's.
    pub(super) fn blame(&mut self, cause: ChannelError) {
        if self.cause.as_ref().is_none_or(|known| cause.beats(known)) {
            self.cause = Some(cause);
        }
    }

    /// Returns the messages without an answer, and the reason. The channel is closed when the last handle goes.
    pub(super) fn end(mut self) -> (Vec<WorkItem>, ChannelError) {
        if self.answers.is_empty() {
            let mut settled = Vec::new();
            self.ledger.all_seen(&mut settled);
            // That makes nothing but arrivals.
            for (sent, _) in settled {
                sent.item.finish(Ok(()));
            }
        }
        self.left.extend(self.ledger.abandon().into_iter().map(|sent| sent.item));
        let late = || ChannelError::channel("timeout", "an answer on the channel was late");
        (self.left, self.cause.unwrap_or_else(late))
    }
}

async fn publish(
    channel: Arc<Channel>,
    context: Arc<SinkContext>,
    number: u64,
    publication: Publication,
    body: Bytes,
    unsent: Arc<()>,
) -> Event {
    let Publication { exchange, routing_key, options, properties } = publication;
    let properties = properties.with_message_id(context.ids.text(number).into());
    let bytes = body.len();
    let sent = channel.basic_publish(exchange, routing_key, options, &body, properties).await;
    drop((body, unsent));
    let answer = match sent {
        Ok(confirmation) => confirmation.await,
        Err(error) => Err(error),
    };
    let beside = |message: Option<BasicReturnMessage>| message.map(|message| returned(&message, &context.ids));
    let answer = match answer {
        Ok(Confirmation::Ack(message)) => Ok((BrokerAnswer::Ack, beside(message))),
        Ok(Confirmation::Nack(message)) => Ok((BrokerAnswer::Nack, beside(message))),
        Ok(Confirmation::NotRequested) => {
            Err(ChannelError::channel(codes::UNCONFIRMED.code, "the channel does not confirm"))
        }
        Err(error) => Err(ChannelError::of(&error)),
    };
    Event::Answer(number, bytes, answer)
}

fn returned(message: &BasicReturnMessage, ids: &Ids) -> ReturnedMessage {
    let id = message.delivery.properties.message_id().as_ref();
    ReturnedMessage {
        // Zero is never a number of ours: a foreign return only shows that the queue was not empty.
        number: id.and_then(|id| ids.number(id.as_str())).unwrap_or(0),
        code: message.reply_code,
        text: message.reply_text.to_string(),
    }
}
