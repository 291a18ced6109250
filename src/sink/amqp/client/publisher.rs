//! Publishes to one exchange, on a channel of its own, because the broker closes a channel over a bad exchange.
//!
//! - The first message on a channel goes alone. So an exchange that is missing or refused is found out by one message,
//!   that is certainly at fault, and the others are reported as unsent.
//! - A message of a megabyte or more goes alone too: the broker closes the channel over one that is too large.
//! - If the broker closes the channel all the same while several are outstanding, it does not name the culprit. All of
//!   them are in doubt and answered so; when they come back, each goes alone, so that the culprit is found by itself and
//!   its neighbours are in doubt only once.
//! - A message that is not answered in time makes the channel stop; after a moment for the others it is closed, or the
//!   whole connection where the library has not sent everything.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::flight::Flight;
use super::message::{attempt, prepare};
use super::session::Session;
use super::supervisor::{self, State};
use super::suspects::{End, Suspects};
use super::{Context, channels};
use crate::message::Failure;
use crate::sink::amqp::errors::{self, Cause, Scope};
use crate::sink::job_queue::Job;

/// Elements taken from the queue at once.
const MANY: usize = 512;
/// A body of this size is published alone.
const LARGE: usize = 1 << 20;
/// Outstanding messages get this time after a late one before the channel is closed.
const GRACE: Duration = Duration::from_secs(1);

/// The publisher of one exchange.
pub(super) struct Publisher {
    context: Arc<Context>,
    state: watch::Receiver<State>,
    jobs: mpsc::Receiver<Job>,
    /// False once nothing more can come.
    open: bool,
    /// Not sent.
    waiting: VecDeque<Job>,
    /// Sent alone if they come again.
    suspects: Suspects,
}

impl Publisher {
    pub(super) fn new(context: Arc<Context>, state: watch::Receiver<State>, jobs: mpsc::Receiver<Job>) -> Publisher {
        Publisher { context, state, jobs, open: true, waiting: VecDeque::new(), suspects: Suspects::default() }
    }

    /// Runs until the queue is closed and everything in it is answered.
    pub(super) async fn run(mut self) {
        while self.has_work().await {
            match supervisor::session(&mut self.state).await {
                Ok(session) => self.serve(&session).await,
                Err(failure) => self.refuse(|_| failure.clone()),
            }
        }
    }

    /// Waits until there is something to publish; false when nothing will come any more.
    async fn has_work(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.jobs.recv().await {
                Some(job) => self.waiting.push_back(job),
                None => return false,
            }
        }
        true
    }

    /// Fills up what waits here, so that a steady flow of answers does not keep the window from being filled.
    fn take_what_is_there(&mut self) {
        while self.waiting.len() < MANY {
            match self.jobs.try_recv() {
                Ok(job) => self.waiting.push_back(job),
                Err(_) => break,
            }
        }
    }

    /// Answers everything that was not sent.
    fn refuse(&mut self, failure: impl Fn(&str) -> Failure) {
        while let Ok(job) = self.jobs.try_recv() {
            self.waiting.push_back(job);
        }
        for job in std::mem::take(&mut self.waiting) {
            let failure = failure(&attempt(&job.message().destination));
            job.finish(Err(failure));
        }
    }

    /// True, and everything is answered, if the broker takes nothing for the moment.
    fn refused_while_blocked(&mut self) -> bool {
        let reason = match &*self.state.borrow_and_update() {
            State::Up { blocked: Some(reason), .. } => reason.clone(),
            _ => return false,
        };
        self.refuse(|attempt| errors::blocked(attempt, &reason));
        true
    }

    /// Opens a channel; what waits for it is refused if that fails while the connection is up.
    async fn open_flight(&mut self, session: &Arc<Session>) -> Option<Flight> {
        if self.refused_while_blocked() {
            return None;
        }
        match open_channel(session, self.context.spec.connect_timeout).await {
            Ok(channel) => Some(Flight::new(channel, self.context.clone(), session.frame_max())),
            Err(failure) => {
                // Else the next session is waited for.
                if session.is_up() {
                    self.refuse(|_| failure.clone());
                }
                None
            }
        }
    }

    /// Publishes on one channel until it or the connection ends, or nothing more can come.
    async fn serve(&mut self, session: &Arc<Session>) {
        let Some(mut flight) = self.open_flight(session).await else { return };
        let mut give_up_at: Option<Instant> = None;
        let mut received = Vec::new();
        loop {
            // The state's changes are seen by others here too, so the connection itself is asked.
            if give_up_at.is_none() && !(session.is_up() && flight.is_usable()) {
                flight.blame(Cause::connection("connection_lost", "the connection is gone".to_owned()));
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
            let wake = [give_up_at, due, flight.trusted_at()].into_iter().flatten().min();
            // Answers first: they make room. All branches are cancel safe.
            tokio::select! {
                biased;
                () = flight.answered(), if !flight.is_empty() => {}
                count = self.jobs.recv_many(&mut received, MANY), if self.open && self.waiting.len() < MANY => {
                    self.open = count > 0;
                    self.waiting.extend(received.drain(..));
                }
                changed = self.state.changed(), if give_up_at.is_none() => {
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
            let Some(job) = self.waiting.pop_front() else { break };
            let alone = job.message().body.len() >= LARGE || self.suspects.is_alone(job.message().id.id);
            if alone && !flight.is_empty() {
                self.waiting.push_front(job);
                break;
            }
            match prepare(job.message(), &self.context.spec, flight.frame_max) {
                Err(failure) => job.finish(Err(failure)),
                Ok(publication) => {
                    if job.may_send() {
                        if alone {
                            self.suspects.tried(job.message().id.id);
                        }
                        flight.publish(job, publication, alone);
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
                true => End::Culprit,
                false if !connected || cause.scope() == Scope::Connection => End::Connection,
                false => End::Other,
            };
            self.suspects.left(left.iter().map(|job| job.message().id.id), end);
            for job in left {
                let failure = cause.in_doubt(&attempt(&job.message().destination));
                job.finish(Err(failure));
            }
            return;
        }
        for job in left {
            let failure = cause.alone(&attempt(&job.message().destination));
            job.finish(Err(failure));
            if cause.scope() == Scope::Exchange {
                self.refuse(|attempt| cause.alone(attempt));
            }
        }
    }
}

/// Opens a channel with confirmations.
async fn open_channel(session: &Session, time: Duration) -> Result<Channel, Failure> {
    let channel = channels::open(session, time).await?;
    match timeout(time, channel.confirm_select(ConfirmSelectOptions::default())).await {
        Ok(Ok(())) => Ok(channel),
        Ok(Err(error)) => Err(errors::no_channel(&error.to_string())),
        Err(_) => Err(errors::no_channel(&format!("no answer within {time:?}"))),
    }
}
