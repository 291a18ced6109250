//! Random schedules of several clients: whatever they do, and whatever replies are lost, Redis and the model agree.

use std::time::Duration;

use delaybridge_jobs::{
    Added, Due, JobError, JobId, JobQueue, JobSettings, LocalId, NewJob, PlannedFiring, Release, Scripts, Settled,
    Token, TopicSettings, Unique, UniqueUntil, Which,
};
use delaybridge_link::LinkError;

use super::model::{AddVerdict, Aged, Job, Model, Place, Verdict};
use super::model_recurring::Decision;
use super::rig::{Dump, Rig, on_test_clock, topic};

/// Number of steps in a history.
const STEPS: u32 = 120;
/// Number of histories in the usual run.
const SEEDS: u64 = 150;

/// The jobs and tokens that were handed out, including those with lost replies, which consumers may use.
type Handed = Vec<(String, Token)>;

pub fn settings() -> JobSettings {
    let defaults = TopicSettings {
        ttr: Duration::from_secs(5),
        tries: 3,
        ttl: None,
        max_jobs: Some(12),
        dead_max_len: Some(4),
        dead_ttl: None,
        remember: Some(Duration::from_secs(60)),
        ..TopicSettings::default()
    };
    JobSettings { defaults, ..JobSettings::default() }
}

pub struct History<'a> {
    pub(super) rig: &'a mut Rig,
    pub(super) random: fastrand::Rng,
    pub(super) model: Model,
    /// Two clients of the same scripts, because no part of a reservation is in a process.
    clients: [JobQueue; 2],
    handed: Handed,
    lost: Vec<Token>,
    /// Decisions about firings, of a daemon that was slow, or that sends them again.
    pub(super) decided: Vec<(PlannedFiring, Decision)>,
    /// An earlier state of Redis and the model.
    older: Option<(Model, Dump)>,
    /// Whether a node has refused the last call because the slot was being moved.
    pub(super) refused: bool,
    /// Whether the slot is being moved: then both nodes have a clock, which does not change.
    pub(super) moving: bool,
    pub(super) trace: Vec<String>,
}

pub(super) fn local(id: &str) -> LocalId {
    id.parse().expect("an id")
}

pub(super) fn job_id(id: &str) -> JobId {
    JobId { topic: topic(), local: local(id) }
}

pub(super) fn verdict<T>(result: &Result<T, JobError>) -> Verdict {
    match result {
        Ok(_) => Verdict::Done,
        Err(JobError::Conflict) => Verdict::Conflict,
        Err(JobError::NotFound) => Verdict::NotFound,
        Err(JobError::Invalid(why)) if why.contains("time to live") => Verdict::TooLate,
        Err(error) => panic!("{error}"),
    }
}

impl<'a> History<'a> {
    /// Runs the history of a seed; panics with its last steps if Redis and the model differ.
    pub async fn run(rig: &'a mut Rig, scripts: &'static Scripts, seed: u64) {
        let mut history = History::begin(rig, scripts, seed).await;
        for _ in 0..STEPS {
            history.step().await;
            history.check(seed).await;
        }
        history.ends().await;
    }

    /// Begins with an empty topic.
    pub(super) async fn begin(rig: &'a mut Rig, scripts: &'static Scripts, seed: u64) -> Self {
        let start = 1_800_000_000_000;
        rig.begin(start).await;
        let model =
            Model { now: start, max_jobs: 12, dead_max: 4, remember: 60_000, backoff: (150, 400), ..Model::default() };
        let mut settings = settings();
        settings.defaults.backoff = Duration::from_millis(150);
        settings.defaults.backoff_max = Duration::from_millis(400);
        let clients = [rig.queue(settings.clone(), scripts), rig.queue(settings, scripts)];
        let random = fastrand::Rng::with_seed(seed);
        let handed = Vec::new();
        let lost = Vec::new();
        let decided = Vec::new();
        let trace = Vec::new();
        History {
            rig,
            random,
            model,
            clients,
            handed,
            lost,
            decided,
            older: None,
            refused: false,
            moving: false,
            trace,
        }
    }

    pub(super) async fn check(&mut self, seed: u64) {
        let seen = self.rig.snapshot().await;
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.model.check(&seen)));
        if checked.is_err() {
            let last = self.trace.len().saturating_sub(12);
            panic!("seed {seed}, after:\n{}", self.trace[last..].join("\n"));
        }
    }

    /// The result, or `None` if a node has refused the call.
    pub(super) fn answered<T>(&mut self, result: Result<T, JobError>) -> Option<Result<T, JobError>> {
        self.refused = is_refused(&result);
        (!self.refused).then_some(result)
    }

    pub(super) fn client(&mut self) -> JobQueue {
        self.random.choice(&self.clients).expect("clients").clone()
    }

    pub(super) fn note(&mut self, text: String) {
        self.trace.push(format!("{} {text}", self.model.now - 1_800_000_000_000));
    }

    pub(super) async fn step(&mut self) {
        match self.random.u32(..110) {
            0..13 => self.clock().await,
            13..14 => self.destroy().await,
            14..16 => self.older().await,
            call => self.call(call).await,
        }
    }

    /// Makes one call of a client: the one with this number, from 16 to 109.
    pub(super) async fn call(&mut self, call: u32) {
        match call {
            ..38 => self.add().await,
            38..58 => self.pop().await,
            58..65 => self.finish().await,
            65..69 => self.settle_many().await,
            69..75 => self.release().await,
            75..78 => self.bury().await,
            78..83 => self.touch().await,
            83..85 => self.delete().await,
            85..87 => self.change().await,
            87..92 => self.tick().await,
            92..95 => self.redrive().await,
            95..96 => {
                if self.random.bool() {
                    self.purge().await
                } else {
                    self.empty().await
                }
            }
            96..98 => self.pause().await,
            98..100 => self.recover().await,
            _ => self.recurring().await,
        }
    }

    /// Restores an earlier state of Redis, or remembers the present one for later. Consumers do not know that, and
    /// continue with their jobs.
    async fn older(&mut self) {
        match self.older.take() {
            None => {
                self.note("a copy is made".to_owned());
                self.older = Some((self.model.clone(), self.rig.save().await));
            }
            Some((model, keys)) => {
                self.note("Redis falls back to the copy".to_owned());
                self.model = Model { now: self.model.now, generations: self.model.generations, ..model };
                self.rig.restore(&keys, self.model.now).await;
            }
        }
    }

    /// Advances the clock, sometimes far; sometimes sets it back.
    async fn clock(&mut self) {
        let by = match self.random.u32(..20) {
            0 => -self.random.i64(1..2_000),
            1 => self.random.i64(10_000..90_000),
            2..8 => self.random.i64(1_000..6_000),
            _ => self.random.i64(1..1_000),
        };
        self.model.now += by;
        self.note(format!("clock {by}"));
        self.rig.set_clock(self.model.now).await;
    }

    async fn add(&mut self) {
        let mut jobs = Vec::new();
        for _ in 0..self.random.usize(1..4) {
            let own = self.random.bool();
            let id = own.then(|| local(&format!("own-{}", self.random.u32(..12))));
            let due = match self.random.u32(..5) {
                0 => Due::At(self.model.now + self.random.i64(-2_000..4_000)),
                1..3 => Due::After(Duration::ZERO),
                _ => Due::After(Duration::from_millis(self.random.u64(..4_000))),
            };
            let ttl = (self.random.u32(..3) == 0).then(|| Duration::from_millis(self.random.u64(4_001..20_000)));
            let ttr = (self.random.bool()).then(|| Duration::from_millis(self.random.u64(1..6_000)));
            let tries = (self.random.bool()).then(|| self.random.u32(1..4));
            let body = format!("body {}", self.random.u32(..));
            let unique = (self.random.u32(..3) == 0).then(|| self.unique());
            let content_type = "text/plain".to_owned();
            let priority = if self.random.bool() { 0 } else { self.random.u8(1..10) };
            jobs.push(NewJob { id, due, ttr, tries, ttl, priority, content_type, unique, ..NewJob::new(body) });
        }
        let client = self.client();
        let Some(result) = self.answered(client.add(&topic(), jobs.clone()).await) else { return };
        let now = self.model.now;
        let made = |(job, id): (&NewJob, String)| {
            let due = match job.due {
                Due::At(at) => at.max(now),
                Due::After(delay) => now + delay.as_millis() as i64,
            };
            let ttl = job.ttl.map_or(0, |ttl| ttl.as_millis() as i64);
            let expires = if ttl > 0 { now + ttl } else { 0 };
            let job = Job {
                place: Place::Due(due),
                own: job.id.is_some(),
                added: now,
                attempts: 0,
                tries: job.tries.unwrap_or(3),
                ttr: job.ttr.map_or(5_000, |ttr| ttr.as_millis() as i64),
                ttl,
                priority: job.priority,
                expires,
                expiry: Some(expires).filter(|at| *at > 0),
                touched: false,
                body: String::from_utf8(job.body.to_vec()).expect("text"),
                unique: job.unique.as_ref().map(|unique| {
                    let lasts = unique.lasts.as_millis() as i64;
                    (unique.key.to_string(), lasts, unique.until == UniqueUntil::Finished)
                }),
            };
            (id, job)
        };
        match result {
            Ok(added) => {
                // The id that was generated for a job that was not added is not known.
                let id = |(n, (job, added)): (usize, (&NewJob, &Added))| match (&job.id, added.held) {
                    (Some(own), true) => own.to_string(),
                    (None, true) => format!("unknown-{n}"),
                    (_, false) => added.id.local.to_string(),
                };
                let ids: Vec<_> = jobs.iter().zip(&added).enumerate().map(id).collect();
                let wanted: Vec<_> = jobs.iter().zip(ids.clone()).map(made).collect();
                let verdict = |added: &Added| match (added.created, added.held) {
                    (true, _) => AddVerdict::Created,
                    (false, true) => AddVerdict::Held(added.id.local.to_string()),
                    (false, false) => AddVerdict::There,
                };
                let verdicts: Vec<_> = added.iter().map(verdict).collect();
                let keys: Vec<_> = wanted.iter().map(|(_, job)| &job.unique).collect();
                self.note(format!("add {ids:?} {keys:?} -> {verdicts:?}"));
                assert_eq!(self.model.add(&wanted), Some(verdicts), "{:?}", self.trace);
                // The reply was lost, and the client sends its own ids, or unique keys, again.
                if self.random.u32(..4) == 0 && jobs.iter().all(|job| job.id.is_some() || job.unique.is_some()) {
                    let again = client.add(&topic(), jobs).await;
                    if !is_refused(&again) {
                        let again = again.expect("add again");
                        assert!(again.iter().all(|added| !added.created), "the same ids and keys are the same jobs");
                        assert!(again.iter().zip(&ids).all(|(again, id)| again.held || again.id.local.as_str() == id));
                    }
                }
            }
            Err(JobError::Full { .. }) => {
                let new = |n: usize| format!("new-{n}");
                let id = |(n, job): (usize, &NewJob)| job.id.as_ref().map_or_else(|| new(n), ToString::to_string);
                let ids: Vec<_> = jobs.iter().enumerate().map(id).collect();
                let wanted: Vec<_> = jobs.iter().zip(ids).map(made).collect();
                self.note("add -> full".to_owned());
                assert_eq!(self.model.add(&wanted), None);
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A unique key, of few, for a time that the clock often passes.
    fn unique(&mut self) -> Unique {
        let until = if self.random.u32(..3) > 0 { UniqueUntil::Finished } else { UniqueUntil::Expired };
        let key = format!("key {}", self.random.u32(..5)).parse().expect("a key");
        Unique { key, lasts: Duration::from_millis(self.random.u64(1..30_000)), until }
    }

    async fn pop(&mut self) {
        let count = self.random.usize(1..5);
        let token = Token::random();
        let ttr = (self.random.u32(..4) == 0).then(|| self.random.u64(1..3_000));
        let client = self.client();
        let popped = client.pop_as(&topic(), token, count, ttr.map(Duration::from_millis)).await;
        let Some(popped) = self.answered(popped) else { return };
        let popped = popped.expect("pop");
        let (wanted, aged) = self.model.pop(token.as_str(), count, ttr.map(|ttr| ttr as i64));
        let ids: Vec<_> = popped.jobs.iter().map(|job| job.id.local.to_string()).collect();
        self.note(format!("pop {count} -> {ids:?} {:?}", popped.aged));
        assert_eq!(ids, wanted, "{:?}", self.trace);
        let seen = popped.aged;
        assert_eq!(Aged([seen.came_back, seen.died, seen.expired, seen.trimmed]), aged, "{:?}", self.trace);
        for job in &popped.jobs {
            let model = &self.model.jobs[job.id.local.as_str()];
            assert_eq!((&job.body[..], job.priority), (model.body.as_bytes(), model.priority));
            assert_eq!((job.attempt, job.tries_left), (model.attempts, model.tries.saturating_sub(model.attempts)));
            assert_eq!(job.deadline_ms, self.model.now + model.ttr);
        }
        // A fifth of the replies are lost: only the sending process knows the token.
        if self.random.u32(..5) == 0 {
            self.lost.push(token);
        } else {
            self.handed.extend(ids.into_iter().map(|id| (id, token)));
        }
    }

    /// A job and the token of a consumer that had it, and may still have it.
    pub(super) fn holder(&mut self) -> Option<(String, Token)> {
        // Mostly the latest, because the oldest have lost their jobs.
        let last = self.handed.len().saturating_sub(6);
        let recent = self.random.u32(..4) > 0;
        let some = if recent { &self.handed[last..] } else { &self.handed[..] };
        self.random.choice(some).cloned()
    }

    async fn finish(&mut self) {
        let Some((id, token)) = self.holder() else { return };
        let result = self.client().finish(&job_id(&id), token).await;
        let Some(result) = self.answered(result) else { return };
        self.note(format!("finish {id} -> {result:?}"));
        assert_eq!(verdict(&result), self.model.finish(&id, token.as_str()), "{:?}", self.trace);
        // Its reply was lost: the repeated call finds nothing.
        if result.is_ok() && self.random.u32(..3) == 0 {
            let again = self.client().finish(&job_id(&id), token).await;
            assert!(is_refused(&again) || matches!(again, Err(JobError::NotFound)), "{again:?}");
        }
    }

    async fn release(&mut self) {
        let Some((id, token)) = self.holder() else { return };
        let delay = self.random.bool().then(|| self.random.u64(..3_000));
        let counted = self.random.u32(..3) > 0;
        let how = if counted { Release::Counted } else { Release::Uncounted };
        let result = self.client().release(&job_id(&id), token, delay.map(Duration::from_millis), how, "why").await;
        let Some(result) = self.answered(result) else { return };
        self.note(format!("release {id} {how:?} {delay:?} -> {result:?}"));
        let got = match &result {
            Ok((Settled::Done, _)) => Verdict::Done,
            Ok((Settled::Dead, _)) => Verdict::Dead,
            Ok((Settled::Expired, _)) => Verdict::Expired,
            Err(_) => verdict(&result),
        };
        let delay = delay.map(|delay| delay as i64);
        assert_eq!(got, self.model.release(&id, token.as_str(), delay, counted), "{:?}", self.trace);
        if let Ok((Settled::Done, due)) = &result {
            assert_eq!(self.model.jobs[&id].place, Place::Due(*due), "{:?}", self.trace);
        }
        if result.is_ok() && self.random.bool() {
            let again = self.client().release(&job_id(&id), token, Duration::ZERO, how, "why").await;
            let is_over = matches!(again, Err(JobError::Conflict | JobError::NotFound));
            assert!(is_refused(&again) || is_over, "{again:?}");
        }
    }

    async fn bury(&mut self) {
        let Some((id, token)) = self.holder() else { return };
        let result = self.client().bury(&job_id(&id), token, "").await;
        let Some(result) = self.answered(result) else { return };
        self.note(format!("bury {id} -> {result:?}"));
        assert_eq!(verdict(&result), self.model.bury(&id, token.as_str()), "{:?}", self.trace);
    }

    async fn touch(&mut self) {
        let Some((id, token)) = self.holder() else { return };
        let ttr = self.random.bool().then(|| self.random.u64(1..6_000));
        let result = self.client().touch(&job_id(&id), token, ttr.map(Duration::from_millis)).await;
        let Some(result) = self.answered(result) else { return };
        self.note(format!("touch {id} {ttr:?} -> {result:?}"));
        match self.model.touch(&id, token.as_str(), ttr.map(|ttr| ttr as i64)) {
            Ok(until) => assert_eq!(result.expect("touch"), until, "{:?}", self.trace),
            Err(refused) => assert_eq!(verdict(&result), refused, "{:?}", self.trace),
        }
    }

    async fn delete(&mut self) {
        let ids: Vec<_> = self.model.jobs.keys().cloned().collect();
        let id = self.random.choice(&ids).cloned().unwrap_or_else(|| "nobody".to_owned());
        let result = self.client().delete(&job_id(&id)).await;
        let Some(result) = self.answered(result) else { return };
        self.note(format!("delete {id} -> {result:?}"));
        assert_eq!(result.is_ok(), self.model.delete(&id), "{:?}", self.trace);
    }

    async fn tick(&mut self) {
        let most = self.random.usize(1..20);
        let ticked = self.client().tick(&topic(), most).await;
        let Some(ticked) = self.answered(ticked) else { return };
        let ticked = ticked.expect("tick");
        let seen = ticked.aged;
        self.note(format!("tick {most} -> {seen:?}"));
        let aged = Aged([seen.came_back, seen.died, seen.expired, seen.trimmed]);
        assert_eq!(aged, self.model.tick(most), "{:?}", self.trace);
        let next = self.model.recurring.values().filter_map(|recurring| recurring.next).min();
        let until = next.map(|next| Duration::from_millis(next.saturating_sub(self.model.now).max(0) as u64));
        assert_eq!(ticked.next_firing, until, "{:?}", self.trace);
    }

    /// The oldest dead jobs, or some that may be dead.
    fn dead(&mut self) -> (Vec<String>, bool) {
        let by_name = self.random.bool();
        let dead = self.model.dead();
        if by_name && !self.model.jobs.is_empty() {
            let all: Vec<_> = self.model.jobs.keys().cloned().collect();
            (self.random.choose_multiple(&all, 3).into_iter().cloned().collect(), true)
        } else {
            (dead.into_iter().take(2).map(|(_, id)| id).collect(), false)
        }
    }

    async fn redrive(&mut self) {
        let (ids, named) = self.dead();
        let locals: Vec<_> = ids.iter().map(|id| local(id)).collect();
        let which = if named { Which::Ids(&locals) } else { Which::Oldest(2) };
        let moved = self.client().redrive(&topic(), which, None).await;
        let Some(moved) = self.answered(moved) else { return };
        let moved = moved.expect("redrive");
        self.note(format!("redrive {ids:?} -> {moved}"));
        assert_eq!(moved, self.model.redrive(&ids), "{:?}", self.trace);
    }

    async fn purge(&mut self) {
        let (ids, named) = self.dead();
        let locals: Vec<_> = ids.iter().map(|id| local(id)).collect();
        let which = if named { Which::Ids(&locals) } else { Which::Oldest(2) };
        let removed = self.client().purge(&topic(), which).await;
        let Some(removed) = self.answered(removed) else { return };
        let removed = removed.expect("purge");
        self.note(format!("purge {ids:?} -> {removed}"));
        assert_eq!(removed, self.model.purge(&ids), "{:?}", self.trace);
    }

    async fn pause(&mut self) {
        let paused = !self.model.paused;
        let result = if paused { self.client().pause(&topic()).await } else { self.client().resume(&topic()).await };
        let Some(result) = self.answered(result) else { return };
        result.expect("pause");
        self.model.paused = paused;
        self.note(format!("paused: {paused}"));
    }

    async fn recover(&mut self) {
        let Some(token) = self.lost.pop() else { return };
        let found = self.client().recover(&topic(), token).await;
        let Some(found) = self.answered(found) else { return self.lost.push(token) };
        let found = found.expect("recover");
        self.note(format!("recover -> {found}"));
        assert_eq!(found, self.model.recover(token.as_str()), "{:?}", self.trace);
    }

    /// Checks that in the end every remaining job can be handed out, finished or found among the dead.
    pub(super) async fn ends(&mut self) {
        if self.model.paused {
            self.pause().await;
        }
        for _ in 0..200 {
            self.model.now += 20_000;
            self.rig.set_clock(self.model.now).await;
            let token = Token::random();
            let popped = self.clients[0].pop_as(&topic(), token, 50, None).await.expect("pop");
            let (wanted, _) = self.model.pop(token.as_str(), 50, None);
            assert_eq!(popped.jobs.len(), wanted.len());
            for job in &popped.jobs {
                self.clients[1].finish(&job.id, job.token).await.expect("finish");
                self.model.finish(job.id.local.as_str(), token.as_str());
            }
            if self.model.due().is_empty() && self.model.reserved().is_empty() {
                let seen = self.rig.snapshot().await;
                self.model.check(&seen);
                return;
            }
        }
        panic!("jobs are left: {:?}", self.model);
    }
}

pub(super) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[tokio::test]
async fn whatever_clients_do_every_job_is_in_exactly_one_place() {
    let mut rig = Rig::start().await;
    let seeds = match number("DELAYBRIDGE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DELAYBRIDGE_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        History::run(&mut rig, on_test_clock(), seed).await;
    }
}

/// Whether a node has refused the call, as it does while the slot moves.
pub(super) fn is_refused<T>(result: &Result<T, JobError>) -> bool {
    let refusal = |error: &LinkError| matches!(error, LinkError::NotSent { .. }) || error.code() == Some("TRYAGAIN");
    matches!(result, Err(JobError::Unavailable(error)) if refusal(error))
}
