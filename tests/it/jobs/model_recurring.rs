//! The expected behaviour of recurring jobs that fire every so many minutes.

use std::time::{Duration, UNIX_EPOCH};

use delaybridge_jobs::MissedFirings;

use super::model::{Job, Model, Place};

const MINUTE: i64 = 60_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurring {
    pub definition: Definition,
    /// Another one for each definition, also of the same name.
    pub generation: u64,
    /// The next firing, unless it is paused.
    pub next: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The number of minutes, which divides sixty.
    pub every: i64,
    pub missed: MissedFirings,
    pub ttr: Option<i64>,
    pub tries: Option<u32>,
    pub ttl: Option<i64>,
    pub priority: u8,
    pub body: String,
}

/// A decision about a due firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub name: String,
    pub due: i64,
    pub generation: u64,
    pub fires: Vec<i64>,
    pub skipped: u64,
    pub next: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FireVerdict {
    /// The numbers of jobs, of skipped firings, and of those that stay due because there is no room.
    Done(u64, u64, u64),
    Elsewhere,
    Full,
}

impl Definition {
    fn after(&self, now: i64) -> i64 {
        let period = self.every * MINUTE;
        (now.div_euclid(period) + 1) * period
    }
}

impl Model {
    /// Fires what is due before a recurring job is changed. What has no room is dropped by the change.
    fn fire_before_change(&mut self, name: &str) {
        if let Some(decision) = self.decisions().into_iter().find(|decision| decision.name == name) {
            self.fire(&decision);
        }
    }

    /// Removes a recurring job; returns whether there was one.
    pub fn delete_recurring(&mut self, name: &str) -> bool {
        self.fire_before_change(name);
        self.recurring.remove(name).is_some()
    }

    /// Adds or changes a recurring job; returns whether there was none, whether anything was changed, and the next firing.
    pub fn set_recurring(&mut self, name: &str, definition: Definition) -> (bool, bool, Option<i64>) {
        let next = definition.after(self.now);
        let old = self.recurring.get(name);
        if let Some(old) = old.filter(|old| old.definition == definition) {
            return (false, false, old.next);
        }
        let created = old.is_none();
        self.fire_before_change(name);
        let old = self.recurring.get(name);
        let next = Some(next).filter(|_| old.is_none_or(|old| old.next.is_some()));
        self.generations += 1;
        let generation = self.generations;
        self.recurring.insert(name.to_owned(), Recurring { definition, generation, next });
        (created, true, next)
    }

    /// Pauses or resumes a recurring job; returns whether that changed anything, or `None` if there is none.
    pub fn switch_recurring(&mut self, name: &str, paused: bool) -> Option<bool> {
        let now = self.now;
        if paused {
            self.fire_before_change(name);
        }
        let recurring = self.recurring.get_mut(name)?;
        let changed = recurring.next.is_some() == paused;
        if changed {
            recurring.next = if paused { None } else { Some(recurring.definition.after(now)) };
        }
        Some(changed)
    }

    /// The decisions about all firings that are due.
    pub fn decisions(&self) -> Vec<Decision> {
        let due = |(name, recurring): (&String, &Recurring)| {
            let due = recurring.next.filter(|next| *next <= self.now)?;
            let period = recurring.definition.every * MINUTE;
            // Clocks that are set back leave a firing at a time that another definition would not have.
            let mut all: Vec<i64> =
                (0..).map(|n| self.now.div_euclid(period) * period - n * period).take_while(|at| *at >= due).collect();
            if all.is_empty() {
                all.push(due);
            }
            let count = all.len();
            let fires: Vec<i64> = match recurring.definition.missed {
                MissedFirings::All => all,
                MissedFirings::Once => vec![all[0]],
                MissedFirings::Skip => all.into_iter().take(1).filter(|at| self.now - at <= MINUTE).collect(),
            };
            let skipped = (count - fires.len()) as u64;
            let fires = fires.into_iter().rev().collect();
            let name = name.clone();
            let generation = recurring.generation;
            let next = recurring.definition.after(self.now);
            Some(Decision { name, due, generation, fires, skipped, next })
        };
        let mut decisions: Vec<_> = self.recurring.iter().filter_map(due).collect();
        decisions.sort_by(|a, b| (a.due, &a.name).cmp(&(b.due, &b.name)));
        decisions
    }

    /// Fires as it was decided, perhaps a while ago.
    pub fn fire(&mut self, decision: &Decision) -> FireVerdict {
        let now = self.now;
        let Some(recurring) = self.recurring.get(&decision.name) else { return FireVerdict::Elsewhere };
        let known = recurring.generation == decision.generation && recurring.next == Some(decision.due);
        if !known || decision.due > now {
            return FireVerdict::Elsewhere;
        }
        let definition = recurring.definition.clone();
        let id = |at: i64| {
            let at = UNIX_EPOCH + Duration::from_millis(at as u64);
            format!("{}:{}", decision.name, humantime::format_rfc3339_seconds(at))
        };
        let is_new = |id: &String| !self.jobs.contains_key(id) && self.gone.get(id).is_none_or(|until| *until <= now);
        let mut new: Vec<(String, i64)> =
            decision.fires.iter().map(|at| (id(*at), *at)).filter(|(id, _)| is_new(id)).collect();
        let held = self.jobs.values().filter(|job| !matches!(job.place, Place::Dead(_))).count();
        let room = self.max_jobs.saturating_sub(held);
        if !new.is_empty() && room == 0 {
            return FireVerdict::Full;
        }
        // The earliest ones are added; the first of the others is due next.
        let left = new.split_off(room.min(new.len()));
        let next = left.first().map_or(decision.next, |(_, at)| *at);
        let count = new.len() as u64;
        let ttl = definition.ttl.unwrap_or(0);
        let expires = if ttl > 0 { now + ttl } else { 0 };
        for (id, at) in new {
            let job = Job {
                place: Place::Due(at),
                own: true,
                added: now,
                attempts: 0,
                tries: definition.tries.unwrap_or(3),
                ttr: definition.ttr.unwrap_or(5_000),
                ttl,
                priority: definition.priority,
                expires,
                expiry: Some(expires).filter(|at| *at > 0),
                touched: false,
                body: definition.body.clone(),
                unique: None,
            };
            self.jobs.insert(id, job);
            self.added += 1;
        }
        if let Some(recurring) = self.recurring.get_mut(&decision.name) {
            recurring.next = Some(next);
        }
        FireVerdict::Done(count, decision.skipped, left.len() as u64)
    }
}
