//! The expected behaviour of the job queue, in plain Rust: one job is one value in one place, and every move is a
//! function.

use std::collections::{BTreeMap, BTreeSet};

use super::model_recurring::Recurring;
use super::rig::Snapshot;

/// The place of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Due(i64),
    Reserved { until: i64, token: String },
    Dead(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub place: Place,
    pub own: bool,
    pub added: i64,
    pub attempts: u32,
    pub tries: u32,
    pub ttr: i64,
    pub priority: u8,
    /// The requested time to live; 0 is unlimited.
    pub ttl: i64,
    /// The end of the time to live; 0 is never.
    pub expires: i64,
    /// The next time at which the time to live is checked.
    pub expiry: Option<i64>,
    /// Whether it has been reserved or redriven, and so has a state.
    pub touched: bool,
    pub body: String,
    /// The unique key, the time for which it is held, and whether it is free as soon as the job is gone.
    pub unique: Option<(String, i64, bool)>,
}

/// The topic.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub now: i64,
    pub jobs: BTreeMap<String, Job>,
    pub gone: BTreeMap<String, i64>,
    /// The unique keys: the end of the time, whether the key is free as soon as the job is gone, the job.
    pub keys: BTreeMap<String, (i64, bool, String)>,
    /// Those that no job held at some time since they were added.
    pub free_keys: BTreeSet<String>,
    pub recurring: BTreeMap<String, Recurring>,
    /// Number of definitions so far.
    pub generations: u64,
    pub paused: bool,
    pub max_jobs: usize,
    pub dead_max: usize,
    pub remember: i64,
    /// The wait after a first attempt, and the longest one.
    pub backoff: (i64, i64),
    /// Number of jobs that left otherwise than by `finish` or `delete`: time to live, trimmed, purged.
    pub dropped: usize,
    pub finished: usize,
    pub deleted: usize,
    pub added: usize,
}

/// Numbers of jobs changed by time limits: came back, died, expired, trimmed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Aged(pub [u64; 4]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Done,
    Dead,
    Expired,
    Conflict,
    NotFound,
    /// Its time to live ends before the delay is over.
    TooLate,
}

/// The outcome of adding a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddVerdict {
    Created,
    There,
    /// Another job holds its unique key.
    Held(String),
}

/// The outcome of a change: with the due time, and whether anything was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeVerdict {
    Done(i64, bool),
    NotFound,
    NotWaiting,
    OtherDue(i64),
    TooLate,
}

impl Model {
    fn ids_by(&self, time: impl Fn(&Place) -> Option<i64>, till: i64) -> Vec<(i64, String)> {
        let at = |(id, job): (&String, &Job)| Some((time(&job.place).filter(|at| *at <= till)?, id.clone()));
        let mut ids: Vec<_> = self.jobs.iter().filter_map(at).collect();
        ids.sort();
        ids
    }

    pub fn due(&self) -> Vec<(i64, String)> {
        self.ids_by(|place| if let Place::Due(at) = place { Some(*at) } else { None }, i64::MAX)
    }

    pub fn reserved(&self) -> Vec<(i64, String)> {
        self.ids_by(|place| if let Place::Reserved { until, .. } = place { Some(*until) } else { None }, i64::MAX)
    }

    pub fn dead(&self) -> Vec<(i64, String)> {
        self.ids_by(|place| if let Place::Dead(at) = place { Some(*at) } else { None }, i64::MAX)
    }

    fn drop_job(&mut self, id: &str) {
        self.jobs.remove(id).expect("a job to drop");
        self.dropped += 1;
    }

    fn give_back(&mut self, id: &str, due: i64) -> Verdict {
        let now = self.now;
        let job = self.jobs.get_mut(id).expect("a job to give back");
        if job.expires > 0 && job.expires <= now {
            self.drop_job(id);
            return Verdict::Expired;
        }
        if job.attempts >= job.tries {
            job.place = Place::Dead(now);
            job.expiry = None;
            return Verdict::Dead;
        }
        job.place = Place::Due(due);
        Verdict::Done
    }

    /// The wait of a job after its attempts.
    fn wait(&self, id: &str) -> i64 {
        let attempts = self.jobs.get(id).map_or(1, |job| job.attempts.max(1));
        (self.backoff.0 << (attempts - 1)).min(self.backoff.1)
    }

    fn trim(&mut self) -> u64 {
        let dead = self.dead();
        let over = dead.len().saturating_sub(self.dead_max).min(100);
        dead[..over].iter().for_each(|(_, id)| self.drop_job(id));
        over as u64
    }

    fn come_back(&mut self, most: usize) -> Aged {
        let mut aged = Aged::default();
        let over: Vec<_> = self.reserved().into_iter().filter(|(until, _)| *until <= self.now).take(most).collect();
        for (until, id) in over {
            let due = until + self.wait(&id);
            match self.give_back(&id, due) {
                Verdict::Done => aged.0[0] += 1,
                Verdict::Dead => aged.0[1] += 1,
                _ => aged.0[2] += 1,
            }
        }
        aged
    }

    /// Reserves jobs; returns them, and the numbers of jobs changed by time limits.
    pub fn pop(&mut self, token: &str, count: usize, ttr: Option<i64>) -> (Vec<String>, Aged) {
        let mut aged = self.come_back(2 * count + 10);
        if aged.0[1] > 0 {
            aged.0[3] = self.trim();
        }
        let mut handed = Vec::new();
        if self.paused {
            return (handed, aged);
        }
        let now = self.now;
        let mut ready: Vec<_> = self.due().into_iter().filter(|(at, _)| *at <= now).collect();
        // Stable: within a priority, by due time and id.
        ready.sort_by_key(|(_, id)| std::cmp::Reverse(self.jobs[id].priority));
        ready.truncate(count);
        for (_, id) in ready {
            let job = self.jobs.get_mut(&id).expect("a job that is ready");
            if job.expires > 0 && job.expires <= now {
                self.drop_job(&id);
                aged.0[2] += 1;
                continue;
            }
            job.ttr = ttr.unwrap_or(job.ttr);
            job.attempts += 1;
            job.touched = true;
            job.place = Place::Reserved { until: now + job.ttr, token: token.to_owned() };
            handed.push(id);
        }
        (handed, aged)
    }

    /// The reason why a consumer may not settle a job, if any.
    fn refused(&self, id: &str, token: &str) -> Option<Verdict> {
        match self.jobs.get(id).map(|job| &job.place) {
            None => Some(Verdict::NotFound),
            Some(Place::Reserved { token: held, .. }) if held == token => None,
            Some(_) => Some(Verdict::Conflict),
        }
    }

    pub fn finish(&mut self, id: &str, token: &str) -> Verdict {
        if let Some(refused) = self.refused(id, token) {
            return refused;
        }
        let job = self.jobs.remove(id).expect("a job to finish");
        self.finished += 1;
        if job.own {
            self.gone.insert(id.to_owned(), self.now + self.remember);
            // Twice as many as were added, the oldest first.
            self.forget(2);
        }
        Verdict::Done
    }

    fn forget(&mut self, most: usize) {
        let mut over: Vec<_> = self.gone.iter().filter(|(_, until)| **until <= self.now).collect();
        over.sort_by_key(|(id, until)| (**until, id.as_str()));
        let over: Vec<String> = over.into_iter().take(most).map(|(id, _)| id.clone()).collect();
        self.gone.retain(|id, _| !over.contains(id));
    }

    pub fn release(&mut self, id: &str, token: &str, delay: Option<i64>, counted: bool) -> Verdict {
        self.release_all([(id, token)], delay, counted).remove(0)
    }

    /// Releases several jobs. Dead ones are trimmed after the last: those that are too many are there until then.
    pub fn release_all<'a>(
        &mut self,
        held: impl IntoIterator<Item = (&'a str, &'a str)>,
        delay: Option<i64>,
        counted: bool,
    ) -> Vec<Verdict> {
        let mut release = |(id, token)| {
            if let Some(refused) = self.refused(id, token) {
                return refused;
            }
            let now = self.now;
            let due = now + delay.unwrap_or_else(|| if counted { self.wait(id) } else { 0 });
            let job = self.jobs.get_mut(id).expect("a job to release");
            let attempts = job.attempts.saturating_sub(u32::from(!counted));
            if delay.is_some() && attempts < job.tries && job.expires > now && job.expires <= due {
                return Verdict::TooLate;
            }
            job.attempts = attempts;
            self.give_back(id, due)
        };
        let verdicts: Vec<_> = held.into_iter().map(&mut release).collect();
        if verdicts.contains(&Verdict::Dead) {
            self.trim();
        }
        verdicts
    }

    pub fn bury(&mut self, id: &str, token: &str) -> Verdict {
        if let Some(refused) = self.refused(id, token) {
            return refused;
        }
        let now = self.now;
        let job = self.jobs.get_mut(id).expect("a job to bury");
        (job.place, job.expiry) = (Place::Dead(now), None);
        self.trim();
        Verdict::Done
    }

    pub fn touch(&mut self, id: &str, token: &str, ttr: Option<i64>) -> Result<i64, Verdict> {
        if let Some(refused) = self.refused(id, token) {
            return Err(refused);
        }
        let now = self.now;
        let job = self.jobs.get_mut(id).expect("a job to touch");
        job.ttr = ttr.unwrap_or(job.ttr);
        job.place = Place::Reserved { until: now + job.ttr, token: token.to_owned() };
        Ok(now + job.ttr)
    }

    pub fn delete(&mut self, id: &str) -> bool {
        let there = self.jobs.remove(id).is_some();
        self.deleted += usize::from(there);
        there
    }

    /// Changes a waiting job. `due` is the time that was asked for, and whether it was a delay.
    pub fn change(
        &mut self,
        id: &str,
        due: Option<i64>,
        priority: Option<u8>,
        body: Option<&str>,
        if_due: Option<i64>,
    ) -> ChangeVerdict {
        let now = self.now;
        if self.is_over(id) {
            return ChangeVerdict::NotFound;
        }
        let Some(job) = self.jobs.get_mut(id) else { return ChangeVerdict::NotFound };
        let Place::Due(was) = job.place else { return ChangeVerdict::NotWaiting };
        let due = match due {
            None => was,
            Some(due) if due > now => due,
            Some(_) => was.min(now),
        };
        let body = body.unwrap_or(&job.body).to_owned();
        let priority = priority.unwrap_or(job.priority);
        if due == was && body == job.body && priority == job.priority {
            return ChangeVerdict::Done(was, false);
        }
        if if_due.is_some_and(|seen| seen != was) {
            return ChangeVerdict::OtherDue(was);
        }
        if due != was && job.expiry.is_some_and(|ends| ends <= due) {
            return ChangeVerdict::TooLate;
        }
        (job.place, job.body, job.priority) = (Place::Due(due), body, priority);
        ChangeVerdict::Done(due, true)
    }

    /// Removes waiting jobs, those that are due first before the others.
    pub fn empty(&mut self, most: usize) -> (u64, u64) {
        let due = self.due();
        for (_, id) in due.iter().take(most) {
            self.delete(id);
        }
        (due.len().min(most) as u64, due.len().saturating_sub(most) as u64)
    }

    /// Removes the topic; `None` if a consumer has a job.
    pub fn destroy(&mut self, force: bool) -> Option<u64> {
        if !force && !self.reserved().is_empty() {
            return None;
        }
        let removed = self.jobs.len();
        self.deleted += removed;
        self.jobs.clear();
        self.gone.clear();
        self.keys.clear();
        self.free_keys.clear();
        self.recurring.clear();
        self.paused = false;
        Some(removed as u64)
    }

    pub fn tick(&mut self, most: usize) -> Aged {
        let mut aged = self.come_back(most);
        let mut over: Vec<_> = self
            .jobs
            .iter()
            .filter_map(|(id, job)| Some((job.expiry.filter(|at| *at <= self.now)?, id.clone())))
            .collect();
        over.sort();
        over.truncate(most);
        for (_, id) in over {
            let now = self.now;
            let job = self.jobs.get_mut(&id).expect("a job whose time to live is over");
            if let Place::Reserved { until, .. } = &job.place {
                job.expiry = Some(now.max(*until) + 1);
            } else {
                self.drop_job(&id);
                aged.0[2] += 1;
            }
        }
        aged.0[3] = self.trim();
        self.forget(most.saturating_mul(10));
        self.free(most);
        aged
    }

    pub fn redrive(&mut self, ids: &[String]) -> u64 {
        let now = self.now;
        let mut moved = 0;
        for id in ids {
            let Some(job) = self.jobs.get_mut(id).filter(|job| matches!(job.place, Place::Dead(_))) else { continue };
            (job.place, job.attempts, job.touched) = (Place::Due(now), 0, true);
            job.expires = if job.ttl > 0 { now + job.ttl } else { 0 };
            job.expiry = Some(job.expires).filter(|at| *at > 0);
            moved += 1;
        }
        moved
    }

    pub fn purge(&mut self, ids: &[String]) -> u64 {
        let dead = |id: &&String| self.jobs.get(*id).is_some_and(|job| matches!(job.place, Place::Dead(_)));
        let ids: Vec<String> = ids.iter().filter(dead).cloned().collect();
        ids.iter().for_each(|id| self.drop_job(id));
        ids.len() as u64
    }

    pub fn recover(&mut self, token: &str) -> u64 {
        let held = |job: &Job| matches!(&job.place, Place::Reserved { token: held, .. } if held == token);
        let ids: Vec<String> = self.jobs.iter().filter(|(_, job)| held(job)).map(|(id, _)| id.clone()).collect();
        for id in &ids {
            let job = self.jobs.get_mut(id).expect("a job to recover");
            job.attempts = job.attempts.saturating_sub(1);
            let Place::Reserved { until, .. } = job.place else { continue };
            // The time of the reservation: a touch moves only the end, and the test does not touch lost jobs.
            let reserved = until - job.ttr;
            self.give_back(id, reserved);
        }
        ids.len() as u64
    }

    /// Checks that Redis contains exactly this, and every job is in exactly one place.
    pub fn check(&mut self, seen: &Snapshot) {
        let map = |rows: Vec<(i64, String)>| rows.into_iter().map(|(at, id)| (id, at)).collect::<BTreeMap<_, _>>();
        assert_eq!(seen.due, map(self.due()), "due");
        let rank = |(id, job): (&String, &Job)| match job.place {
            Place::Due(at) if job.priority > 0 => Some((id.clone(), (9 - i64::from(job.priority)) * (1 << 49) + at)),
            _ => None,
        };
        assert_eq!(seen.urgent, self.jobs.iter().filter_map(rank).collect(), "the order of those with a priority");
        assert_eq!(seen.reserved, map(self.reserved()), "reserved");
        assert_eq!(seen.dead, map(self.dead()), "dead");
        assert_eq!(seen.gone, self.gone, "remembered");
        // One that no job held at some time may have been found by a sample, and be gone. Until then a new job with the id holds it.
        let is_free = |(until, finished, id): &(i64, bool, String)| {
            *until <= self.now || *finished && !self.jobs.contains_key(id)
        };
        self.free_keys.extend(self.keys.iter().filter(|(_, held)| is_free(held)).map(|(key, _)| key.clone()));
        self.keys.retain(|key, _| !self.free_keys.contains(key) || seen.unique.contains_key(key));
        let ends = self.keys.iter().map(|(key, (until, ..))| (key.clone(), *until)).collect();
        assert_eq!(seen.unique, ends, "unique keys");
        let letter = |finished: &bool| if *finished { 'f' } else { 'e' };
        let held = |(key, (_, finished, id)): (&String, &(i64, bool, String))| {
            (key.clone(), format!("{}{id}", letter(finished)).into_bytes())
        };
        assert_eq!(seen.holders, self.keys.iter().map(held).collect(), "holders of unique keys");
        let firings = self.recurring.iter().filter_map(|(name, recurring)| Some((name.clone(), recurring.next?)));
        assert_eq!(seen.firings, firings.collect(), "firings");
        assert_eq!(seen.recurring.len(), 2 * self.recurring.len(), "recurring jobs");
        for (name, recurring) in &self.recurring {
            assert_eq!(seen.recurring[name][9] == 1, recurring.next.is_none(), "whether {name} is paused");
            let body = recurring.definition.body.as_bytes();
            assert_eq!(seen.recurring[&format!("={name}")], body, "the body of {name}");
        }
        let expiry =
            self.jobs.iter().filter_map(|(id, job)| Some((id.clone(), job.expiry?))).collect::<BTreeMap<_, _>>();
        assert_eq!(seen.expiry, expiry, "times to live");
        let ids: Vec<_> = self.jobs.keys().collect();
        assert_eq!(seen.records.keys().collect::<Vec<_>>(), ids, "records");
        for (id, record) in &seen.records {
            let body = &self.jobs[id].body;
            assert!(record.ends_with(body.as_bytes()), "the body of {id}");
            let priority = self.jobs[id].priority;
            assert_eq!((record[0], record[25]), (1, priority), "the priority of {id}");
            let places = [&seen.due, &seen.reserved, &seen.dead].iter().filter(|place| place.contains_key(id)).count();
            assert_eq!(places, 1, "{id} is in {places} places");
        }
        let touched: Vec<_> = self.jobs.iter().filter(|(_, job)| job.touched).map(|(id, _)| id).collect();
        assert_eq!(seen.state.keys().collect::<Vec<_>>(), touched, "states");
        for (id, state) in &seen.state {
            let job = &self.jobs[id];
            let number = |at: usize| u32::from_le_bytes(state[at..at + 4].try_into().unwrap());
            assert_eq!(
                (number(1), number(5), i64::from(number(9))),
                (job.attempts, job.tries + (u32::from(job.priority) << 24), job.ttr),
                "state of {id}"
            );
            let expires = i64::from_le_bytes(state[21..29].try_into().unwrap());
            assert_eq!(expires, job.expires, "time to live of {id}");
            if let Place::Reserved { token, .. } = &job.place {
                assert_eq!(&state[29..45], token.as_bytes(), "token of {id}");
            }
        }
        assert_eq!(self.added, self.jobs.len() + self.finished + self.deleted + self.dropped, "none vanished");
    }
}
