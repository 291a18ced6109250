//! Publishes to one exchange, on a channel of its own, because the broker closes a channel over a bad exchange.
//!
//! - The first message on a channel goes alone. So an exchange that is missing or refused is found out by one message,
//!   that is certainly at fault, and the others are reported as unsent.
//! - A message of a megabyte or more goes alone too: the broker closes the channel over one that is too large.
//! - If the broker closes the channel all the same while several are outstanding, it does not name the culprit. All of
//!   them are in doubt and answered so; when they come back, each goes alone, so that the culprit is found by itself and
//!   its neighbours are in doubt only once.
//! - A message that has no answer for long is left behind: its route goes aside (`aside.rs`), the others go on on a new channel,
//!   and the old one is only waited for (`draining.rs`).
//! - A message that is not answered in time makes the channel stop, where it could not be left behind; after a moment for the
//!   others it is closed, or the whole connection where the library has not sent everything.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use super::context::SinkContext;
use super::flight::Flight;
use super::message::{attempt, prepare};
use super::session::AmqpSession;
use super::supervisor::{self, ConnectionState};
use super::suspects::{ChannelEnd, Suspects};
use super::{channels, draining};
use crate::errors::{self, ChannelError, Scope};
use delaybridge_core::message::{About, Failure};
use delaybridge_sink::Destination;
use delaybridge_sink::worker_queue::WorkItem;

/// Elements taken from the queue at once.
const MANY: usize = 512;
/// A body of this size is published alone.
const LARGE: usize = 1 << 20;
/// Outstanding messages get this time after a late one before the channel is closed.
const GRACE: Duration = Duration::from_secs(1);
/// Elements that wait for one place aside: the pipeline holds most of those whose destination is silent.
const WAITING_ASIDE: usize = 4096;
/// Channels that are left behind at one time.
const LEFT_BEHIND: usize = 8;
/// Time allowed for opening a channel after one was left behind, before the broker is asked whether it reads the connection.
const AGAIN: Duration = Duration::from_secs(1);

/// The publisher of one exchange, or of some routes of it that go aside.
pub(super) struct Publisher {
    context: Arc<SinkContext>,
    state: watch::Receiver<ConnectionState>,
    items: mpsc::Receiver<WorkItem>,
    /// Whether more can come.
    open: bool,
    /// Elements that were not sent yet.
    waiting: VecDeque<WorkItem>,
    /// Elements that are sent alone if they come again.
    suspects: Suspects,
    /// The publishers of routes that go aside, by their place; `None` for one of those.
    sides: Option<HashMap<u64, mpsc::Sender<WorkItem>>>,
    /// The publishers aside, and the channels that were left behind.
    apart: JoinSet<()>,
    /// Channels left behind that are still waited for.
    left_behind: Arc<()>,
    /// Channels so far, and the last of them that has had an answer.
    flights: u64,
    newest: Arc<AtomicU64>,
    /// Silence before this time says nothing: the broker had blocked the connection.
    heard: Instant,
}

impl Publisher {
    pub(super) fn new(
        context: Arc<SinkContext>,
        state: watch::Receiver<ConnectionState>,
        items: mpsc::Receiver<WorkItem>,
    ) -> Publisher {
        Publisher {
            context,
            state,
            items,
            open: true,
            waiting: VecDeque::new(),
            suspects: Suspects::default(),
            sides: Some(HashMap::new()),
            apart: JoinSet::new(),
            left_behind: Arc::new(()),
            flights: 0,
            newest: Arc::default(),
            heard: Instant::now(),
        }
    }

    /// Runs the publisher of routes that go aside. Boxed, because it is a part of another publisher.
    fn aside(context: Arc<SinkContext>, items: mpsc::Receiver<WorkItem>) -> BoxFuture<'static, ()> {
        let state = context.aside.state();
        Box::pin(Publisher { sides: None, ..Publisher::new(context, state, items) }.run())
    }

    /// Runs until the queue is closed and everything in it is answered.
    pub(super) async fn run(mut self) {
        while self.has_work().await {
            match supervisor::session(&mut self.state).await {
                Ok(session) => self.serve(&session).await,
                Err(failure) if self.sides.is_some() => self.refuse(|_| failure.clone()),
                // The others have a connection: it is no trouble of the sink.
                Err(failure) => self.refuse(|_| errors::not_aside(&failure)),
            }
        }
        self.sides = None;
        while let Some(ended) = self.apart.join_next().await {
            spread(ended);
        }
    }

    /// Waits until there is something to publish; false when nothing will come any more.
    async fn has_work(&mut self) -> bool {
        while self.waiting.is_empty() {
            // Both branches are cancel safe.
            tokio::select! {
                biased;
                Some(ended) = self.apart.join_next(), if !self.apart.is_empty() => spread(ended),
                item = self.items.recv() => match item {
                    Some(item) => self.receive(item),
                    None => return false,
                }
            }
        }
        true
    }

    /// Puts an element where it waits: here, or aside.
    fn receive(&mut self, item: WorkItem) {
        let Some(sides) = &mut self.sides else { return self.waiting.push_back(item) };
        let Some(place) = self.context.aside.place(&item.message().destination) else {
            return self.waiting.push_back(item);
        };
        let side = sides.entry(place).or_insert_with(|| {
            let (sender, items) = mpsc::channel(WAITING_ASIDE);
            self.apart.spawn(Publisher::aside(self.context.clone(), items));
            sender
        });
        if let Err(refused) = side.try_send(item) {
            let item = refused.into_inner();
            let failure = errors::crowded(&attempt(&item.message().destination)).about(About::Route);
            item.finish(Err(failure));
        }
    }

    /// Fills up what waits here, so that a steady flow of answers does not keep the window from being filled.
    fn take_what_is_there(&mut self) {
        while self.waiting.len() < MANY {
            match self.items.try_recv() {
                Ok(item) => self.receive(item),
                Err(_) => break,
            }
        }
    }

    /// Answers everything that was not sent.
    fn refuse(&mut self, failure: impl Fn(&str) -> Failure) {
        while let Ok(item) = self.items.try_recv() {
            self.waiting.push_back(item);
        }
        for item in std::mem::take(&mut self.waiting) {
            let failure = failure(&attempt(&item.message().destination));
            item.finish(Err(failure));
        }
    }

    /// Refuses all elements if the broker takes nothing for the moment, and returns whether that is so.
    fn refused_while_blocked(&mut self) -> bool {
        let reason = match &*self.state.borrow_and_update() {
            ConnectionState::Up { blocked: Some(reason), .. } => reason.clone(),
            _ => return false,
        };
        self.refuse(|attempt| errors::blocked(attempt, &reason));
        true
    }

    /// Opens a channel; what waits for it is refused if that fails while the connection is up.
    async fn open_flight(&mut self, session: &Arc<AmqpSession>) -> Option<Flight> {
        if self.refused_while_blocked() {
            return None;
        }
        let patience = AGAIN;
        let longest = self.context.spec.connect_timeout;
        let is_left_behind = self.has_left_behind() && patience < longest;
        let mut opened = open_channel(session, if is_left_behind { patience } else { longest }).await;
        if opened.is_err() && is_left_behind && session.is_up() {
            if self.is_answered_aside().await {
                // The broker is well, and does not read this connection.
                session.give_up();
                return None;
            }
            opened = open_channel(session, longest).await;
        }
        match opened {
            Ok(channel) => {
                self.flights += 1;
                Some(Flight::new(channel, self.context.clone(), session.frame_max(), self.sides.is_none()))
            }
            Err(failure) if self.sides.is_none() => {
                // Another connection may be better off.
                session.give_up();
                self.refuse(|_| errors::not_aside(&failure));
                None
            }
            Err(failure) => {
                // Else the next session is waited for.
                if session.is_up() {
                    self.refuse(|_| failure.clone());
                }
                None
            }
        }
    }

    fn has_left_behind(&self) -> bool {
        Arc::strong_count(&self.left_behind) > 1
    }

    /// Returns whether the broker opens a channel on the other connection.
    async fn is_answered_aside(&self) -> bool {
        let mut state = self.context.aside.state();
        let opened = async { channels::open(&*supervisor::session(&mut state).await?, AGAIN).await };
        matches!(timeout(2 * AGAIN, opened).await, Ok(Ok(_)))
    }

    /// Returns the destination whose message gets no answer, and the time at which the channel is left because of it.
    fn silent<'a>(&self, flight: &'a Flight) -> Option<(Instant, &'a Destination)> {
        let room = Arc::strong_count(&self.left_behind) <= LEFT_BEHIND;
        let blocked = matches!(&*self.state.borrow(), ConnectionState::Up { blocked: Some(_), .. });
        // A large message is on its way for long.
        if self.sides.is_none() || !room || blocked || flight.has_unsent() {
            return None;
        }
        let (at, destination) = flight.silent(self.context.timeout)?;
        Some((at.max(self.heard + GRACE.min(self.context.timeout / 4)), destination))
    }

    /// Leaves a channel behind, and its silent route aside.
    fn leave_behind(&mut self, flight: Flight, session: &Arc<AmqpSession>, silent: Destination) {
        self.context.aside.put(&silent);
        let number = self.flights;
        let session = session.clone();
        let newest = self.newest.clone();
        let counted = self.left_behind.clone();
        self.apart.spawn(async move {
            draining::drain(flight, number, session, silent, newest).await;
            drop(counted);
        });
        for item in std::mem::take(&mut self.waiting) {
            self.receive(item);
        }
    }

    /// Publishes on one channel until it or the connection ends, or nothing more can come.
    async fn serve(&mut self, session: &Arc<AmqpSession>) {
        let Some(mut flight) = self.open_flight(session).await else { return };
        let mut give_up_at: Option<Instant> = None;
        let mut received = Vec::new();
        loop {
            while let Some(ended) = self.apart.try_join_next() {
                spread(ended);
            }
            let silent = self.silent(&flight).filter(|_| flight.cause.is_none() && give_up_at.is_none());
            let silent_at = match silent {
                Some((at, destination)) if Instant::now() >= at && session.is_up() => {
                    let destination = destination.clone();
                    return self.leave_behind(flight, session, destination);
                }
                silent => silent.map(|(at, _)| at),
            };
            // The state's changes are seen by others here too, so the connection itself is asked.
            if give_up_at.is_none() && !(session.is_up() && flight.is_usable()) {
                flight.blame(ChannelError::connection("connection_lost", "the connection is gone".to_owned()));
                give_up_at = Some(Instant::now() + GRACE);
            }
            if flight.cause.is_none() && give_up_at.is_none() {
                self.take_what_is_there();
                if !self.refused_while_blocked() {
                    self.publish(&mut flight);
                }
                if !self.open && flight.is_empty() && self.waiting.is_empty() {
                    return;
                }
            } else if flight.is_empty() {
                break;
            }
            // Only what is still to come: a point in the past would wake this loop again and again.
            let due = flight.due().filter(|_| give_up_at.is_none());
            let wake = [give_up_at, due, flight.trusted_at(), silent_at].into_iter().flatten().min();
            // Answers first: they make room. All branches are cancel safe.
            tokio::select! {
                biased;
                () = flight.answered(), if !flight.is_empty() => {
                    if flight.is_tried() {
                        self.newest.store(self.flights, Ordering::Relaxed);
                    }
                }
                count = self.items.recv_many(&mut received, MANY), if self.open && self.waiting.len() < MANY => {
                    self.open = count > 0;
                    received.drain(..).for_each(|item| self.receive(item));
                }
                changed = self.state.changed(), if give_up_at.is_none() => {
                    self.heard = Instant::now();
                    if changed.is_err() {
                        // The supervisor is gone: nothing can be published any more.
                        give_up_at = Some(Instant::now() + GRACE);
                    }
                }
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    let now = Instant::now();
                    if give_up_at.is_some_and(|at| now >= at) {
                        break;
                    }
                    if flight.due().is_some_and(|due| now >= due) && give_up_at.is_none() {
                        give_up_at = Some(now + GRACE);
                    }
                }
            }
        }
        if flight.has_unsent() {
            // What is late would leave after its answer, after an alarm perhaps, and when the channel is long closed.
            session.give_up();
        }
        self.conclude(flight, session.is_up());
    }

    /// Publishes what the window has room for.
    fn publish(&mut self, flight: &mut Flight) {
        let window = self.context.spec.max_unconfirmed.max(1) as usize;
        while flight.has_room(window) {
            let Some(item) = self.waiting.pop_front() else { break };
            let alone = item.message().body.len() >= LARGE || self.suspects.is_alone(item.message().id.id);
            if alone && !flight.is_empty() {
                self.waiting.push_front(item);
                break;
            }
            match prepare(item.message(), &self.context.spec, flight.frame_max) {
                Err(failure) => item.finish(Err(failure)),
                Ok(publication) => {
                    if item.may_send() {
                        if alone {
                            self.suspects.tried(item.message().id.id);
                        }
                        flight.publish(item, publication, alone);
                    }
                }
            }
        }
    }

    /// Answers what the channel left without an answer.
    fn conclude(&mut self, flight: Flight, connected: bool) {
        let alone = flight.alone;
        let (left, cause) = flight.end();
        if left.len() > 1 || !cause.is_about_one() {
            // One that went alone, and was in bad luck with the connection, has still to be tried.
            let end = match alone || cause.has_a_culprit() {
                true => ChannelEnd::Culprit,
                false if !connected || cause.scope() == Scope::Connection => ChannelEnd::Connection,
                false => ChannelEnd::Other,
            };
            self.suspects.left(left.iter().map(|item| item.message().id.id), end);
            let oldest = left.first().map(|item| item.message().destination.clone());
            for item in left {
                let destination = &item.message().destination;
                let is_behind = cause.is_late() && oldest.as_ref().is_some_and(|of| of.lane() != destination.lane());
                let attempt = attempt(destination);
                let failure = if is_behind { errors::behind(&attempt) } else { cause.in_doubt(&attempt) };
                item.finish(Err(failure));
            }
            return;
        }
        for item in left {
            let failure = cause.alone(&attempt(&item.message().destination));
            item.finish(Err(failure));
            if cause.scope() == Scope::Exchange {
                self.refuse(|attempt| cause.alone(attempt));
            }
        }
    }
}

/// Passes the panic of a task on to the publisher: the sink ends.
fn spread(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Opens a channel with confirmations.
async fn open_channel(session: &AmqpSession, time: Duration) -> Result<Channel, Failure> {
    let channel = channels::open(session, time).await?;
    match timeout(time, channel.confirm_select(ConfirmSelectOptions::default())).await {
        Ok(Ok(())) => Ok(channel),
        Ok(Err(error)) => Err(errors::no_channel(&error.to_string())),
        Err(_) => Err(errors::no_channel(&format!("no answer within {time:?}"))),
    }
}
