//! Recurring jobs in a random history: they are set, paused, removed and fired, by several daemons and more than once.

use std::time::Duration;

use delaybridge_jobs::{CronSchedule, Fired, JobError, MissedFirings, PlannedFiring, Recurring, RecurringName};

use super::model_recurring::{Decision, Definition, FireVerdict};
use super::random::History;
use super::rig::topic;

impl History<'_> {
    pub(super) async fn recurring(&mut self) {
        let name = format!("r{}", self.random.u32(..3));
        match self.random.u32(..10) {
            0..3 => self.set_recurring(&name).await,
            3 => self.switch_recurring(&name).await,
            4 if self.random.bool() => self.delete_recurring(&name).await,
            4..6 => self.reach_next_firing().await,
            6 => self.fire_again().await,
            _ => self.fire_due().await,
        }
    }

    async fn set_recurring(&mut self, name: &str) {
        let definition = Definition {
            every: *self.random.choice(&[1, 1, 2, 5]).expect("a number"),
            missed: *self
                .random
                .choice(&[MissedFirings::Skip, MissedFirings::Once, MissedFirings::All])
                .expect("a rule"),
            ttr: self.random.bool().then(|| self.random.i64(1..6_000)),
            tries: self.random.bool().then(|| self.random.u32(1..4)),
            ttl: (self.random.u32(..3) == 0).then(|| self.random.i64(1_000..20_000)),
            priority: if self.random.bool() { 0 } else { self.random.u8(1..10) },
            body: format!("recurring {}", self.random.u32(..)),
        };
        // Some calls repeat what is there.
        let there = self.model.recurring.get(name).map(|recurring| recurring.definition.clone());
        let definition = there.filter(|_| self.random.u32(..3) == 0).unwrap_or(definition);
        let millis = |ms: i64| Duration::from_millis(ms as u64);
        let recurring = Recurring {
            schedule: CronSchedule::new(&format!("*/{} * * * *", definition.every), "UTC").expect("a schedule"),
            missed: definition.missed,
            ttr: definition.ttr.map(millis),
            tries: definition.tries,
            ttl: definition.ttl.map(millis),
            priority: definition.priority,
            content_type: String::new(),
        };
        let body = definition.body.clone().into();
        let result = self.client().set_recurring(&topic(), &named(name), &recurring, &body).await;
        let Some(result) = self.answered(result) else { return };
        let set = result.expect("set");
        self.note(format!("set {name} {definition:?} -> {set:?}"));
        let expected = self.model.set_recurring(name, definition);
        assert_eq!((set.created, set.changed, set.next_ms), expected, "{:?}", self.trace);
    }

    async fn switch_recurring(&mut self, name: &str) {
        let paused = self.random.bool();
        let result = if paused {
            self.client().pause_recurring(&topic(), &named(name)).await
        } else {
            self.client().resume_recurring(&topic(), &named(name)).await
        };
        let Some(result) = self.answered(result) else { return };
        self.note(format!("{name} paused: {paused} -> {result:?}"));
        let changed = match result {
            Ok(changed) => Some(changed),
            Err(JobError::NoRecurring) => None,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(changed, self.model.switch_recurring(name, paused), "{:?}", self.trace);
    }

    async fn delete_recurring(&mut self, name: &str) {
        let result = self.client().delete_recurring(&topic(), &named(name)).await;
        let Some(result) = self.answered(result) else { return };
        self.note(format!("delete {name} -> {result:?}"));
        assert_eq!(result.is_ok(), self.model.delete_recurring(name), "{:?}", self.trace);
    }

    /// Sets the clock to a firing, or to right before it.
    async fn reach_next_firing(&mut self) {
        let next = self.model.recurring.values().filter_map(|recurring| recurring.next).min();
        if let Some(next) = next.filter(|next| *next > self.model.now && !self.moving) {
            self.model.now = next - i64::from(self.random.u32(..3) == 0);
            self.note("the clock is at a firing".to_owned());
            self.rig.set_clock(self.model.now).await;
        }
    }

    async fn fire_due(&mut self) {
        let result = self.client().due_recurring(&topic()).await;
        let Some(result) = self.answered(result) else { return };
        let due = result.expect("due firings");
        let decisions = self.model.decisions();
        let shown = |firing: &PlannedFiring| (firing.name.to_string(), firing.due_ms);
        let expected: Vec<_> = decisions.iter().map(|decision| (decision.name.clone(), decision.due)).collect();
        assert_eq!(due.firings.iter().map(shown).collect::<Vec<_>>(), expected, "{:?}", self.trace);
        let both: Vec<_> = due.firings.into_iter().zip(decisions).collect();
        let Some((firing, decision)) = self.random.choice(&both).cloned() else { return };
        self.decided.push((firing.clone(), decision.clone()));
        // The clock of Redis goes back before the call.
        if self.random.u32(..8) == 0 && !self.moving {
            self.model.now = decision.due - 1;
            self.note("the clock is before the firing".to_owned());
            self.rig.set_clock(self.model.now).await;
        }
        // A daemon that was about to fire ends, or is slow.
        if self.random.u32(..4) > 0 {
            self.fire(&firing, &decision).await;
        }
    }

    /// Another daemon, or a daemon without a reply, fires what was decided before.
    async fn fire_again(&mut self) {
        if let Some((firing, decision)) = self.random.choice(&self.decided).cloned() {
            self.fire(&firing, &decision).await;
        }
    }

    async fn fire(&mut self, firing: &PlannedFiring, decision: &Decision) {
        let result = self.client().fire(&topic(), firing).await;
        let Some(result) = self.answered(result) else { return };
        self.note(format!("fire {decision:?} -> {result:?}"));
        let got = match result {
            Ok(Fired::Done { added, skipped, left }) => FireVerdict::Done(added, skipped, left),
            Ok(Fired::Elsewhere) => FireVerdict::Elsewhere,
            Err(JobError::Full { .. }) => FireVerdict::Full,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(got, self.model.fire(decision), "{:?}", self.trace);
    }
}

fn named(name: &str) -> RecurringName {
    name.parse().expect("a name")
}
