//! Decides what becomes of messages, and adds their jobs: all that the kinds of inputs have in common.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::arrival::{Arrival, FormerId, InputRefusal, Verdict};
use super::{due, identity};
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::carried::CONTENT_TYPE;
use delaybridge_jobs::{Added, Due, JobAlias, JobError, JobQueue, LocalId, MAX_BATCH, MAX_PRIORITY, NewJob, Topic};
use delaybridge_settings::words::words;
use delaybridge_telemetry::events::inputs::{InputEvents, InputResult};

/// The waits while Redis is away or full.
const WAITS: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(2), Jitter::From(0.5));
/// Bytes of jobs in one call, beside a larger one: Redis answers nobody else while it takes them.
const CALL_BYTES: usize = 1 << 20;

words! {
    /// Handling of a message with a delay that is none.
    pub enum OnBadDelay {
        /// The message goes on at once.
        Now = "now",
        /// The message is refused, to the broker's dead letters.
        Reject = "reject",
    }
}

/// Says whether a message has an address, and which.
pub type Addressing = dyn Fn(&Arrival) -> Result<(), InputRefusal> + Send + Sync;

/// The rules of one input.
pub struct IntakeRules {
    /// The topic of its jobs.
    pub topic: Topic,
    /// The longest delay.
    pub max_delay: Duration,
    /// Handling of a message with a delay that is none.
    pub on_bad_delay: OnBadDelay,
    /// The queue that delivers the jobs, by its id in the configuration.
    pub queue: Arc<str>,
    /// Whether a message has an address.
    pub address: Box<Addressing>,
}

/// The common part of all inputs: from messages to verdicts.
pub struct JobIntake {
    rules: IntakeRules,
    jobs: JobQueue,
    events: InputEvents,
    #[cfg(debug_assertions)]
    hasty: bool,
}

impl JobIntake {
    /// Creates the intake of one input, which adds jobs to this queue.
    pub fn new(rules: IntakeRules, jobs: JobQueue, events: InputEvents) -> JobIntake {
        JobIntake {
            rules,
            jobs,
            events,
            #[cfg(debug_assertions)]
            hasty: false,
        }
    }

    /// Lets the intake lie, for tests: it says that Redis has jobs which Redis has not confirmed. For tests of the
    /// oracle.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn hasty(self, hasty: bool) -> JobIntake {
        JobIntake { hasty, ..self }
    }

    /// Returns the size of the largest body that is not refused, in bytes.
    pub fn max_body(&self) -> u64 {
        self.jobs.settings().of(&self.rules.topic).max_body
    }

    /// Returns the events of the input.
    pub fn events(&self) -> &InputEvents {
        &self.events
    }

    /// Waits until Redis takes jobs. An input calls it before it takes messages from a broker that counts how often it
    /// has handed a message out. False if `stop` came first.
    pub async fn ready(&self, stop: &CancellationToken) -> bool {
        #[cfg(debug_assertions)]
        if self.hasty {
            return true;
        }
        let mut waits = 0;
        loop {
            let Err(problem) = self.jobs.can_add(&self.rules.topic).await else { return true };
            if !self.pause(&problem, &mut waits, stop).await {
                return false;
            }
        }
    }

    /// Reports that Redis takes no jobs, and waits a while. False if `stop` came first.
    async fn pause(&self, problem: &JobError, waits: &mut u32, stop: &CancellationToken) -> bool {
        self.events.waits(&format!("add jobs to topic {}: {problem}", self.rules.topic));
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(WAITS.wait(*waits, fastrand::f64())) => {}
        }
        *waits = waits.saturating_add(1);
        true
    }

    /// Schedules messages, and says what became of each. Waits while Redis is away, full or slow; `None` if `stop` came
    /// first: then some of them may be scheduled, and none is to be acknowledged.
    pub async fn take(&self, arrivals: Vec<Arrival>, stop: &CancellationToken) -> Option<Vec<Verdict>> {
        let now_ms = self.jobs.now_ms();
        let mut refusals = Vec::with_capacity(arrivals.len());
        let mut jobs = VecDeque::new();
        let were_refused: Vec<bool> = arrivals.iter().map(|arrival| arrival.was_refused).collect();
        for arrival in arrivals {
            match self.job(&arrival, now_ms) {
                Ok(job) => {
                    jobs.push_back(job);
                    refusals.push(None);
                }
                Err(refusal) => refusals.push(Some(refusal)),
            }
        }
        let mut added = Vec::with_capacity(jobs.len());
        while !jobs.is_empty() {
            added.extend(self.add(call(&mut jobs), stop).await?);
        }
        let mut added = added.into_iter();
        let verdict = |refusal: Option<InputRefusal>| refusal.map(Verdict::Refused).or_else(|| added.next());
        // Without a verdict for one of them, none is settled.
        let verdicts: Vec<Verdict> = refusals.into_iter().map(verdict).collect::<Option<_>>()?;
        for (verdict, was_refused) in verdicts.iter().zip(were_refused) {
            match verdict {
                Verdict::Scheduled => self.events.counted(InputResult::Scheduled),
                Verdict::Duplicate => self.events.counted(InputResult::Duplicate),
                Verdict::Refused(_) if was_refused => {}
                Verdict::Refused(refusal) => self.events.refused(refusal.code(), &refusal.to_string()),
            }
        }
        Some(verdicts)
    }

    /// Returns whether a message will be refused, as far as that can be said without Redis.
    pub fn refuses(&self, arrival: &Arrival) -> Option<InputRefusal> {
        self.job(arrival, self.jobs.now_ms()).err()
    }

    fn job(&self, arrival: &Arrival, now_ms: i64) -> Result<NewJob, InputRefusal> {
        // Before all others: what is missing of it may be its address, or its delay.
        if arrival.is_partial {
            return Err(InputRefusal::BadHeaders);
        }
        if arrival.is_too_large {
            return Err(InputRefusal::TooLarge);
        }
        let IntakeRules { max_delay, on_bad_delay, queue, address, .. } = &self.rules;
        let delay = arrival.delay.as_deref();
        let at = arrival.due.as_deref();
        let by_us = arrival.delivered_by.as_ref().filter(|(by, _)| **by == **queue);
        if by_us.is_some() && delay.is_none() && at.is_none() {
            return Err(InputRefusal::Loop);
        }
        let due = match (due::due(delay, at, arrival.published_ms, now_ms, *max_delay), on_bad_delay) {
            (Ok(due), _) => due,
            (Err(why), OnBadDelay::Reject) => return Err(InputRefusal::BadDelay(why)),
            (Err(_), OnBadDelay::Now) => Due::After(Duration::ZERO),
        };
        address(arrival)?;
        let delivered_ms = by_us.map(|(_, due_ms)| due_ms.as_str());
        let own = arrival.id.as_deref().and_then(|id| identity::job_id(id, delivered_ms));
        let body = arrival.carried.pack(&arrival.body).ok_or(InputRefusal::BadHeaders)?;
        let alias = own.as_ref().and_then(|own| match &arrival.former {
            Some(FormerId { id, written_ms }) => {
                Some(JobAlias::Former { id: identity::job_id(id, delivered_ms)?, written_ms: *written_ms })
            }
            None => Some(JobAlias::Contents(identity::contents_id(own, &body)?)),
        });
        // Made once, so that a call without an answer may be sent again.
        let id = own.unwrap_or_else(|| LocalId::ulid(now_ms, fastrand::u128(..)));
        // Brokers allow higher priorities than the job queue has.
        let priority = u8::try_from(arrival.carried.priority()).unwrap_or(u8::MAX).min(MAX_PRIORITY);
        let content_type = CONTENT_TYPE.to_owned();
        let is_repeated = arrival.is_redelivered;
        Ok(NewJob { id: Some(id), due, priority, content_type, alias, is_repeated, ..NewJob::new(body) })
    }

    /// Decides about the messages of these jobs. Adds those again that may be other messages with a known id.
    async fn verdicts(&self, jobs: Vec<NewJob>, added: Vec<Added>, stop: &CancellationToken) -> Option<Vec<Verdict>> {
        let mut verdicts: Vec<_> = jobs.iter().zip(&added).map(|(job, added)| verdict(job, added)).collect();
        let open = verdicts.iter().map(Option::is_none);
        let again: Vec<_> =
            jobs.into_iter().zip(open).filter_map(|(job, open)| open.then(|| by_contents(job))).collect();
        if !again.is_empty() {
            let mut others = Box::pin(self.add(again, stop)).await?.into_iter();
            verdicts.iter_mut().filter(|verdict| verdict.is_none()).for_each(|verdict| *verdict = others.next());
        }
        verdicts.into_iter().collect()
    }

    /// Adds jobs until Redis has answered for each of them.
    async fn add(&self, jobs: Vec<NewJob>, stop: &CancellationToken) -> Option<Vec<Verdict>> {
        let mut waits = 0;
        loop {
            // Never abandoned: a call has its answer, or none, within the time-out of a command.
            let problem = match self.jobs.add(&self.rules.topic, jobs.clone()).await {
                Ok(added) => {
                    self.events.flows();
                    return self.verdicts(jobs, added, stop).await;
                }
                Err(JobError::TooLarge { .. } | JobError::Invalid(_)) if jobs.len() > 1 => {
                    let mut verdicts = Vec::with_capacity(jobs.len());
                    for job in jobs {
                        verdicts.extend(Box::pin(self.add(vec![job], stop)).await?);
                    }
                    return Some(verdicts);
                }
                Err(JobError::TooLarge { .. }) => return Some(vec![Verdict::Refused(InputRefusal::TooLarge)]),
                Err(JobError::Invalid(_)) => return Some(vec![Verdict::Refused(InputRefusal::Invalid)]),
                Err(problem) => problem,
            };
            #[cfg(debug_assertions)]
            if self.hasty {
                return Some(vec![Verdict::Scheduled; jobs.len()]);
            }
            if !self.pause(&problem, &mut waits, stop).await {
                return None;
            }
        }
    }
}

/// Takes the jobs of one call out of these: at least one.
fn call(jobs: &mut VecDeque<NewJob>) -> Vec<NewJob> {
    let mut call = Vec::new();
    let mut bytes = 0;
    while let Some(job) = jobs.front()
        && (call.is_empty() || call.len() < MAX_BATCH && bytes + job.body.len() <= CALL_BYTES)
    {
        bytes += job.body.len();
        call.extend(jobs.pop_front());
    }
    call
}

/// Puts the job under an id made of its own id and its body.
fn by_contents(job: NewJob) -> NewJob {
    match job.alias {
        Some(JobAlias::Contents(id)) => NewJob { id: Some(id), alias: job.id.map(JobAlias::ContentsOf), ..job },
        _ => job,
    }
}

/// Returns the verdict on the message whose job this is. `None` if another job has its id, or had it: it may be another
/// message, and is added under an id made of its own id and its body. All other ids are made of the contents already.
fn verdict(job: &NewJob, added: &Added) -> Option<Verdict> {
    let is_open = matches!(job.alias, Some(JobAlias::Contents(_))) && (added.differs || added.finished);
    if added.created { Some(Verdict::Scheduled) } else { (!is_open).then_some(Verdict::Duplicate) }
}
