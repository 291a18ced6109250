//! The dispenser of jobs to waiting consumers: the only place in a process where its consumers pop.
//!
//! All consumers of a topic share one call: it asks for as many jobs as they want together, and the jobs go to those
//! who have waited longest. One call for each topic is outstanding; consumers that arrive meanwhile are in the next
//! one. So a crowd of consumers costs few calls to Redis.
//!
//! A topic is looked at when a consumer arrives, when this process adds a job, when a script announces on the channel
//! that a topic has a new first job, when the first job is due or the first reservation ends, and every [`POLL`] in any
//! case.
//!
//! A consumer that disconnects loses no job: jobs reserved for it are given to the next one, or released at once
//! without counting the attempt.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use delaybridge_core::{log, unordered};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::JobError;
use super::job::Reserved;
use super::name::{LocalId, Token, Topic};
use super::queue::JobQueue;
use super::reserve::{MAX_POP, Popped};
use delaybridge_link::SubscriberEvent;

/// Maximum number of waiting consumers.
pub const MAX_WAITING: usize = 10_000;
/// Maximum number of topics for which one consumer waits.
pub const MAX_TOPICS: usize = 32;
/// Interval between two looks at a topic with waiting consumers, independent of announcements.
const POLL: Duration = Duration::from_secs(2);
/// Shortest wait for a due time, because the estimate of Redis's clock may be ahead.
const GRAIN: Duration = Duration::from_millis(1);

/// A consumer's request for jobs.
#[derive(Debug, Clone)]
pub struct PopRequest {
    /// The topics, the most important first. The jobs returned are of one topic, the first that has any.
    pub topics: Vec<Topic>,
    /// Maximum number of jobs.
    pub count: usize,
    /// A time to run that replaces the jobs' own.
    pub ttr: Option<Duration>,
    /// Time to wait until there is a job; zero does not wait.
    pub wait: Duration,
}

/// The consumers' handle. Clones share the task.
#[derive(Clone)]
pub struct Dispenser {
    requests: mpsc::Sender<Request>,
    unseen: mpsc::Sender<Vec<Reserved>>,
}

struct Request {
    ask: PopRequest,
    until: Instant,
    reply: oneshot::Sender<Answer>,
}

type Answer = Result<Handed, JobError>;

/// Jobs that are being passed to a consumer. If dropped before it has accepted them, they are released.
struct Handed {
    jobs: Vec<Reserved>,
    unseen: mpsc::Sender<Vec<Reserved>>,
}

impl Handed {
    fn accept(mut self) -> Vec<Reserved> {
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if !self.jobs.is_empty() {
            // Ignore the error: the jobs come back when their time to run ends.
            let _ = self.unseen.try_send(std::mem::take(&mut self.jobs));
        }
    }
}

impl Dispenser {
    /// Creates a dispenser over this queue, and its task, which the caller has to run.
    pub fn new(jobs: JobQueue) -> (Dispenser, Dispensing) {
        let (requests, incoming) = mpsc::channel(1024);
        let (unseen, returned) = mpsc::channel(1024);
        let added = jobs.listen();
        let task = Dispensing {
            jobs,
            incoming,
            returned,
            unseen: unseen.clone(),
            added,
            waiting: HashMap::new(),
            deadlines: BTreeSet::new(),
            topics: HashMap::new(),
            calls: FuturesUnordered::new(),
            chores: FuturesUnordered::new(),
            last: 0,
        };
        (Dispenser { requests, unseen }, task)
    }

    /// Takes jobs for one consumer; returns none if none was ready in time. Safe to drop: reserved jobs are released.
    ///
    /// # Errors
    ///
    /// Returns [`JobError::Busy`] if too many consumers wait, or an error of the connection. After an unknown outcome,
    /// jobs may be reserved that no client received; they are recovered and released.
    pub async fn take(&self, ask: PopRequest) -> Result<Vec<Reserved>, JobError> {
        if ask.topics.is_empty() || ask.topics.len() > MAX_TOPICS {
            return Err(JobError::Invalid(format!("name 1 to {MAX_TOPICS} topics")));
        }
        if let Some(ttr) = ask.ttr {
            super::settings::check_ttr(ttr)?;
        }
        let (reply, answer) = oneshot::channel();
        let request = Request { until: Instant::now() + ask.wait, ask, reply };
        // Not `send`, because a consumer that cannot be served should be told at once.
        self.requests.try_send(request).map_err(|_full| JobError::Busy { limit: MAX_WAITING })?;
        match answer.await {
            Ok(answer) => answer.map(Handed::accept),
            // The task has ended, because the process is shutting down.
            Err(_closed) => Err(JobError::Busy { limit: 0 }),
        }
    }

    /// Releases jobs that were taken but could not be passed on: they are ready at once, and this attempt does not
    /// count.
    pub fn put_back(&self, jobs: Vec<Reserved>) {
        let _ = Handed { jobs, unseen: self.unseen.clone() };
    }
}

struct Waiting {
    topics: Vec<Topic>,
    count: usize,
    ttr: Option<Duration>,
    until: Instant,
    /// The last change of each of its topics that a call for it has covered.
    seen: Vec<u64>,
    /// Whether it is part of an outstanding call.
    busy: bool,
    reply: oneshot::Sender<Answer>,
}

#[derive(Default)]
struct Wanted {
    /// The waiting consumers, the longest waiting first.
    line: VecDeque<u64>,
    /// Incremented whenever there may be something new.
    changes: u64,
    /// Whether a call is outstanding.
    busy: bool,
    /// The time at which the next job is ready, in ms by Redis's clock.
    next_ms: Option<i64>,
}

struct Called {
    topic: Topic,
    token: Token,
    change: u64,
    asked: usize,
    consumers: Vec<u64>,
    result: Result<Popped, JobError>,
}

/// The task behind [`Dispenser`].
pub struct Dispensing {
    jobs: JobQueue,
    incoming: mpsc::Receiver<Request>,
    returned: mpsc::Receiver<Vec<Reserved>>,
    unseen: mpsc::Sender<Vec<Reserved>>,
    added: mpsc::Receiver<Topic>,
    waiting: HashMap<u64, Waiting>,
    deadlines: BTreeSet<(Instant, u64)>,
    topics: HashMap<Topic, Wanted>,
    calls: FuturesUnordered<BoxFuture<'static, Called>>,
    /// Calls without a waiting consumer, which release jobs.
    chores: FuturesUnordered<BoxFuture<'static, ()>>,
    last: u64,
}

impl Dispensing {
    /// Serves until `stop`, then until nothing is outstanding. `heard` receives the messages of [`wake`](super::wake).
    pub fn run(self, heard: mpsc::Receiver<SubscriberEvent>, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(self.serve(heard, stop))
    }

    async fn serve(mut self, mut heard: mpsc::Receiver<SubscriberEvent>, stop: CancellationToken) {
        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut stopping = false;
        let mut deaf = false;
        loop {
            if stopping {
                self.dismiss_all();
                if self.calls.is_empty() && self.chores.is_empty() {
                    break;
                }
            }
            let alarm = self.next_alarm();
            // Everything that is received is handled before the next wait, and finished calls stay finished: all
            // branches are cancel safe. Biased: answers first, so that reserved jobs do not wait.
            tokio::select! {
                biased;
                Some(called) = unordered::next(&mut self.calls) => self.over(called),
                Some(jobs) = self.returned.recv() => self.give_back(jobs),
                Some(()) = unordered::next(&mut self.chores) => {}
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.incoming.close();
                }
                request = self.incoming.recv(), if !stopping => match request {
                    Some(request) => self.admit(request),
                    None => stopping = true,
                },
                Some(topic) = self.added.recv() => self.changed(&topic),
                event = heard.recv(), if !deaf => match event {
                    Some(SubscriberEvent::Message { payload, .. }) => {
                        if let Some(topic) = std::str::from_utf8(&payload).ok().and_then(|name| name.parse().ok()) {
                            self.jobs.stir(&topic);
                            self.changed(&topic);
                        }
                    }
                    Some(SubscriberEvent::Subscribed | SubscriberEvent::More(_)) => {
                        self.jobs.stir_all();
                        self.all_changed();
                    }
                    None => deaf = true,
                },
                () = tokio::time::sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => self.ring(),
                _ = poll.tick() => self.all_changed(),
            }
        }
        // Jobs that were dropped at the last moment.
        while let Ok(jobs) = self.returned.try_recv() {
            self.give_back(jobs);
        }
        while unordered::next(&mut self.chores).await.is_some() {}
    }

    fn admit(&mut self, request: Request) {
        let Request { ask, until, reply } = request;
        if self.waiting.len() >= MAX_WAITING {
            let _ = reply.send(Err(JobError::Busy { limit: MAX_WAITING }));
            return;
        }
        self.last += 1;
        let id = self.last;
        let mut topics = ask.topics;
        let mut known = BTreeSet::new();
        topics.retain(|topic| known.insert(topic.clone()));
        let mut seen = Vec::new();
        for topic in &topics {
            let wanted = self.topics.entry(topic.clone()).or_insert_with(|| Wanted { changes: 1, ..Wanted::default() });
            wanted.line.push_back(id);
            // It has seen nothing yet, whatever the others have.
            seen.push(0);
        }
        let first = topics.first().cloned();
        let count = ask.count.clamp(1, MAX_POP);
        self.deadlines.insert((until, id));
        self.waiting.insert(id, Waiting { topics, count, ttr: ask.ttr, until, seen, busy: false, reply });
        if let Some(topic) = first {
            self.call(&topic);
        }
    }

    /// Records that there may be something new in a topic.
    fn changed(&mut self, topic: &Topic) {
        if let Some(wanted) = self.topics.get_mut(topic) {
            wanted.changes += 1;
            self.call(topic);
        }
    }

    fn all_changed(&mut self) {
        let topics: Vec<_> = self.topics.keys().cloned().collect();
        topics.iter().for_each(|topic| self.changed(topic));
    }

    /// Returns the next topic for a consumer: the most important one that may have something new.
    fn looks_at(&self, waiting: &Waiting) -> Option<Topic> {
        let new = |(topic, seen): &(&Topic, &u64)| self.topics.get(topic).is_some_and(|wanted| wanted.changes > **seen);
        waiting.topics.iter().zip(&waiting.seen).find(new).map(|(topic, _)| topic.clone())
    }

    /// Calls for all consumers of this topic, unless a call is outstanding.
    fn call(&mut self, topic: &Topic) {
        let Some(wanted) = self.topics.get(topic) else { return };
        if wanted.busy {
            return;
        }
        if wanted.line.is_empty() {
            self.topics.remove(topic);
            return;
        }
        let change = wanted.changes;
        let mut consumers = Vec::new();
        let mut asked = 0;
        let mut ttr = None;
        for id in &wanted.line {
            let Some(waiting) = self.waiting.get(id) else { continue };
            if waiting.busy || waiting.reply.is_closed() || self.looks_at(waiting).as_ref() != Some(topic) {
                continue;
            }
            // A call has one time to run; consumers with another one are in the next call.
            if *ttr.get_or_insert(waiting.ttr) != waiting.ttr {
                continue;
            }
            if asked + waiting.count > MAX_POP && asked > 0 {
                break;
            }
            asked += waiting.count;
            consumers.push(*id);
        }
        if consumers.is_empty() {
            return;
        }
        for id in &consumers {
            if let Some(waiting) = self.waiting.get_mut(id) {
                waiting.busy = true;
            }
        }
        if let Some(wanted) = self.topics.get_mut(topic) {
            wanted.busy = true;
        }
        let jobs = self.jobs.clone();
        let topic = topic.clone();
        let token = Token::random();
        let ttr = ttr.flatten();
        self.calls.push(Box::pin(async move {
            let result = jobs.pop_as(&topic, token, asked, ttr).await;
            Called { topic, token, change, asked, consumers, result }
        }));
    }

    /// Handles a finished call: its jobs go to its consumers in order, and consumers without jobs look further.
    fn over(&mut self, called: Called) {
        let Called { topic, token, change, asked, consumers, result } = called;
        let popped = match result {
            Ok(popped) => popped,
            Err(error) => return self.failed(&topic, token, &consumers, &error),
        };
        let now = self.jobs.now_ms();
        if let Some(wanted) = self.topics.get_mut(&topic) {
            wanted.busy = false;
            wanted.next_ms = popped.next_ms.filter(|next| *next > now);
            // It brought all that it asked for, or was kept from bringing more: there is more.
            if popped.jobs.len() == asked || popped.next_ms.is_some_and(|next| next <= now) {
                wanted.changes += 1;
            }
        }
        let mut jobs: VecDeque<_> = popped.jobs.into();
        for id in consumers {
            let Some(waiting) = self.waiting.get_mut(&id) else { continue };
            waiting.busy = false;
            if let Some(place) = waiting.topics.iter().position(|name| *name == topic) {
                waiting.seen[place] = change;
            }
            if !jobs.is_empty() && !waiting.reply.is_closed() {
                let share = jobs.drain(..waiting.count.min(jobs.len())).collect();
                if let Some(unsent) = self.answer(id, Ok(share)) {
                    unsent.into_iter().rev().for_each(|job| jobs.push_front(job));
                }
                continue;
            }
            self.look_further(id);
        }
        if !jobs.is_empty() {
            self.give_back(jobs.into());
        }
        self.call(&topic);
    }

    /// Lets a consumer without jobs look at its next topic, or ends its wait.
    fn look_further(&mut self, id: u64) {
        let Some(waiting) = self.waiting.get(&id) else { return };
        // Each topic once, however short the wait; a topic that changes all the time does not prolong it.
        let done = waiting.until <= Instant::now() && waiting.seen.iter().all(|seen| *seen > 0);
        match self.looks_at(waiting).filter(|_| !done) {
            _ if waiting.reply.is_closed() => self.forget(id),
            Some(next) => self.call(&next),
            None if waiting.until <= Instant::now() => {
                let _ = self.answer(id, Ok(Vec::new()));
            }
            None => {}
        }
    }

    fn failed(&mut self, topic: &Topic, token: Token, consumers: &[u64], error: &JobError) {
        if let Some(wanted) = self.topics.get_mut(topic) {
            wanted.busy = false;
        }
        for id in consumers {
            self.answer(*id, Err(error.clone()));
        }
        if error.outcome_unknown() {
            let jobs = self.jobs.clone();
            let topic = topic.clone();
            self.chores.push(Box::pin(async move {
                // The lost call may still run until then.
                tokio::time::sleep(jobs.command_timeout() + Duration::from_millis(100)).await;
                if let Err(error) = jobs.recover(&topic, token).await {
                    log::debug!("give back jobs of a lost pop: {error}; they come back after their time to run");
                }
            }));
        }
        self.call(topic);
    }

    /// Ends a consumer's wait. Returns the jobs if the consumer is gone.
    fn answer(&mut self, id: u64, answer: Result<Vec<Reserved>, JobError>) -> Option<Vec<Reserved>> {
        let waiting = self.forget_and_take(id)?;
        let answer = answer.map(|jobs| Handed { jobs, unseen: self.unseen.clone() });
        match waiting.reply.send(answer) {
            Err(Ok(handed)) => Some(handed.accept()),
            Ok(()) | Err(Err(_)) => None,
        }
    }

    fn forget(&mut self, id: u64) {
        self.forget_and_take(id);
    }

    fn forget_and_take(&mut self, id: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        self.deadlines.remove(&(waiting.until, id));
        for topic in &waiting.topics {
            if let Some(wanted) = self.topics.get_mut(topic) {
                if wanted.line.front() == Some(&id) {
                    wanted.line.pop_front();
                } else {
                    wanted.line.retain(|other| *other != id)
                }
                // Kept while a call is outstanding, because otherwise its call would be forgotten.
                if wanted.line.is_empty() && !wanted.busy {
                    self.topics.remove(topic);
                }
            }
        }
        Some(waiting)
    }

    /// Releases jobs that no consumer took.
    fn give_back(&mut self, jobs: Vec<Reserved>) {
        let mut by_topic: BTreeMap<Topic, Vec<(LocalId, Token)>> = BTreeMap::new();
        for job in jobs {
            by_topic.entry(job.id.topic).or_default().push((job.id.local, job.token));
        }
        for (topic, jobs) in by_topic {
            let queue = self.jobs.clone();
            self.chores.push(Box::pin(async move {
                if let Err(error) = queue.give_back_unseen(&topic, &jobs).await {
                    log::debug!("release jobs that no consumer took: {error}; they come back after their time to run");
                }
            }));
        }
    }

    /// Returns the next deadline of a consumer, or the next due time of a topic.
    fn next_alarm(&self) -> Option<Instant> {
        let now = self.jobs.now_ms();
        let due = self.topics.values().filter(|wanted| !wanted.busy).filter_map(|wanted| wanted.next_ms).min();
        let due = due.map(|due| {
            let wait = Duration::from_millis(u64::try_from(due.saturating_sub(now)).unwrap_or(0));
            // A due time may be years away; the poll is sooner.
            Instant::now() + wait.clamp(GRAIN, POLL)
        });
        due.into_iter().chain(self.deadlines.first().map(|(until, _)| *until)).min()
    }

    fn ring(&mut self) {
        let now = Instant::now();
        let now_ms = self.jobs.now_ms();
        let due = self.topics.iter().filter(|(_, wanted)| wanted.next_ms.is_some_and(|next| next <= now_ms));
        let due: Vec<_> = due.map(|(topic, _)| topic.clone()).collect();
        for topic in due {
            if let Some(wanted) = self.topics.get_mut(&topic) {
                wanted.next_ms = None;
            }
            self.changed(&topic);
        }
        while let Some(&(until, id)) = self.deadlines.first()
            && until <= now
        {
            self.deadlines.pop_first();
            // A consumer in a call, or about to be in one, is answered by that call.
            let idle = |waiting: &&Waiting| !waiting.busy && self.looks_at(waiting).is_none();
            if self.waiting.get(&id).filter(idle).is_some() {
                self.answer(id, Ok(Vec::new()));
            }
        }
    }

    /// Ends the wait of all consumers that are not in a call.
    fn dismiss_all(&mut self) {
        let idle: Vec<_> = self.waiting.iter().filter(|(_, waiting)| !waiting.busy).map(|(id, _)| *id).collect();
        for id in idle {
            self.answer(id, Ok(Vec::new()));
        }
    }
}
