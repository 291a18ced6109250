//! Adding, changing, pausing and listing recurring jobs.

use bytes::Bytes;

use super::record::{read, tail};
use super::{MAX_RECURRING, MAX_RECURRING_BODY, Recurring, RecurringState};
use crate::add::{check_content_type, check_priority};
use crate::error::JobError;
use crate::name::{RecurringName, Topic};
use crate::queue::{JobQueue, number, text};
use crate::settings::{MAX_DELAY, MAX_TRIES, check_ttr};
use delaybridge_link::{BadReply, Fields, Script};

/// Maximum number of firings that are fired before a change: others become due only if time passes.
const MAX_ROUNDS: usize = 5;

/// The outcome of setting a recurring job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetRecurring {
    /// Whether there was none of this name.
    pub created: bool,
    /// False if it was as wanted already.
    pub changed: bool,
    /// The next firing, in ms since 1970; `None` while it is paused.
    pub next_ms: Option<i64>,
}

/// A page of recurring jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct RecurringPage {
    /// The recurring jobs, without their bodies.
    pub recurring: Vec<RecurringState>,
    /// Whether there are more.
    pub more: bool,
}

/// A change of whether a recurring job fires.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecurringSwitch {
    Pause,
    Resume { revision: u64, next_ms: i64 },
    Remove,
}

pub(super) enum RecurringSelection<'a> {
    /// The due ones, from behind this many.
    Due(usize),
    After(Option<&'a RecurringName>),
    One(&'a RecurringName),
}

pub(super) struct ListedRecurring {
    pub(super) now_ms: i64,
    pub(super) recurring: Vec<RecurringState>,
    /// Number of rows with a name that no recurring job has.
    pub(super) nameless: u64,
    pub(super) rows: usize,
    pub(super) more: bool,
}

impl JobQueue {
    /// Adds a recurring job, or changes the one of this name. A firing that is due is fired first. A pause stays. A second call
    /// finds it as wanted, and its next firing stays too.
    ///
    /// # Errors
    ///
    /// With any of these nothing was changed: [`JobError::TooManyRecurring`], [`JobError::TooLarge`],
    /// [`JobError::Invalid`], [`JobError::Fixed`], and those of a new topic.
    pub async fn set_recurring(
        &self,
        topic: &Topic,
        name: &RecurringName,
        recurring: &Recurring,
        body: &Bytes,
    ) -> Result<SetRecurring, JobError> {
        self.check_recurring(topic, recurring, body).await?;
        let none = || JobError::Invalid("the cron expression never fires".to_owned());
        // Asked first: what fires at all is found soon.
        if !recurring.schedule.fires() {
            return Err(none());
        }
        let next_ms = recurring.schedule.after(self.redis_ms(topic).await?).ok_or_else(none)?;
        self.enter(topic, false).await?;
        let args = [
            text(topic.as_str()),
            text(name.as_str()),
            Bytes::from(tail(recurring)),
            body.clone(),
            number(next_ms),
            number(MAX_RECURRING as u64),
            // Exact in a script.
            number(fastrand::u64(1..1 << 53)),
        ];
        let (letter, mut fields) =
            self.change_recurring(&self.shared.scripts.recurring_set, "jobs_recurring_set", topic, name, &args).await?;
        let (created, changed) = match letter.as_str() {
            "y" => (true, true),
            "c" => (false, true),
            "s" => (false, false),
            "l" => return Err(JobError::TooManyRecurring { topic: topic.clone(), limit: MAX_RECURRING as u64 }),
            "u" => {
                return Err(JobError::Fixed("another version wrote the recurring job of this name: delete it first"));
            }
            _ => {
                return Err(BadReply { script: "jobs_recurring_set", expected: "a letter of recurring_set.lua" }.into());
            }
        };
        let next_ms = fields.time_ms()?;
        if fields.int()? == 1 {
            // The topic may have been removed from the index after this process entered it.
            self.enter(topic, true).await?;
        }
        Ok(SetRecurring { created, changed, next_ms })
    }

    /// Runs a script that changes a recurring job, and that refuses while a firing is due, until it has been fired. A firing that
    /// cannot be fired is dropped by the change, and counts as skipped. Returns the letter of the reply, and what is
    /// behind it.
    async fn change_recurring(
        &self,
        script: &Script,
        what: &'static str,
        topic: &Topic,
        name: &RecurringName,
        args: &[Bytes],
    ) -> Result<(String, Fields), JobError> {
        let mut dropped = 0;
        for _ in 0..MAX_ROUNDS {
            let args = [args, &[text(if dropped > 0 { "1" } else { "" })]].concat();
            let mut fields = Fields::of(what, self.run_on_all(script, topic, &args).await?)?;
            let letter = fields.text()?;
            self.observe(&mut fields)?;
            if letter != "f" {
                if matches!(letter.as_str(), "y" | "c") {
                    self.fired(topic, name, 0, dropped);
                }
                return Ok((letter, fields));
            }
            dropped = self.fire_before_change(topic, name).await?;
        }
        Err(CHANGED)
    }

    async fn check_recurring(&self, topic: &Topic, recurring: &Recurring, body: &Bytes) -> Result<(), JobError> {
        let invalid = |problem: &str| Err(JobError::Invalid(problem.to_owned()));
        check_content_type(&recurring.content_type)?;
        check_priority(recurring.priority)?;
        recurring.ttr.map_or(Ok(()), check_ttr)?;
        if recurring.tries.is_some_and(|tries| !(1..=MAX_TRIES).contains(&tries)) {
            return invalid("tries must be 1 to 1000000");
        }
        if recurring.ttl.is_some_and(|ttl| ttl > MAX_DELAY) {
            return invalid("the time to live is above ten years; 0 is for ever");
        }
        let limit = self.limits(topic).await?.shown(self.settings().of(topic)).max_body;
        let limit = limit.min(MAX_RECURRING_BODY as u64);
        if body.len() as u64 > limit {
            Err(JobError::TooLarge { topic: topic.clone(), size: body.len(), limit })
        } else {
            Ok(())
        }
    }

    /// Pauses a recurring job; returns whether it was not. A firing that is due is fired first. A second call finds it paused.
    ///
    /// # Errors
    ///
    /// Returns [`JobError::NoRecurring`], [`JobError::Fixed`], or an error of the connection.
    pub async fn pause_recurring(&self, topic: &Topic, name: &RecurringName) -> Result<bool, JobError> {
        self.switch(topic, name, RecurringSwitch::Pause).await
    }

    /// Resumes a recurring job; returns whether it was paused. Firings during the pause are not made up for. A second call
    /// finds it as wanted.
    ///
    /// # Errors
    ///
    /// As [`pause_recurring`](JobQueue::pause_recurring).
    pub async fn resume_recurring(&self, topic: &Topic, name: &RecurringName) -> Result<bool, JobError> {
        let ListedRecurring { now_ms, mut recurring, .. } =
            self.list_recurring(topic, RecurringSelection::One(name), 1).await?;
        let state = recurring.pop().ok_or(JobError::NoRecurring)?;
        let definition = state.definition.ok_or(UNREADABLE)?;
        let next_ms = definition.schedule.after(now_ms);
        let next_ms = next_ms.ok_or_else(|| JobError::Invalid("the cron expression never fires again".to_owned()))?;
        self.switch(topic, name, RecurringSwitch::Resume { revision: state.revision, next_ms }).await
    }

    /// Removes a recurring job. A firing that is due is fired first. Jobs that it has added stay.
    ///
    /// # Errors
    ///
    /// As [`pause_recurring`](JobQueue::pause_recurring). A second call finds none.
    pub async fn delete_recurring(&self, topic: &Topic, name: &RecurringName) -> Result<(), JobError> {
        self.switch(topic, name, RecurringSwitch::Remove).await.map(drop)
    }

    async fn switch(&self, topic: &Topic, name: &RecurringName, switch: RecurringSwitch) -> Result<bool, JobError> {
        let [word, revision, next_ms] = match switch {
            RecurringSwitch::Pause => [text("p"), text(""), text("")],
            RecurringSwitch::Resume { revision, next_ms } => [text("r"), number(revision), number(next_ms)],
            RecurringSwitch::Remove => [text("d"), text(""), text("")],
        };
        let args = [text(topic.as_str()), text(name.as_str()), word, revision, next_ms];
        let (letter, _) = self
            .change_recurring(&self.shared.scripts.recurring_switch, "jobs_recurring_switch", topic, name, &args)
            .await?;
        match letter.as_str() {
            "y" => Ok(true),
            "s" => Ok(false),
            "n" => Err(JobError::NoRecurring),
            "u" => Err(UNREADABLE),
            "c" => Err(CHANGED),
            _ => Err(BadReply { script: "jobs_recurring_switch", expected: "y, s, n, u, c or f" }.into()),
        }
    }

    /// Reads a recurring job with its body.
    ///
    /// # Errors
    ///
    /// Returns [`JobError::NoRecurring`], or an error of the connection.
    pub async fn recurring(&self, topic: &Topic, name: &RecurringName) -> Result<RecurringState, JobError> {
        let mut listed = self.list_recurring(topic, RecurringSelection::One(name), 1).await?;
        listed.recurring.pop().ok_or(JobError::NoRecurring)
    }

    /// Reads recurring jobs of a topic in alphabetical order, from behind a name.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn recurring_page(
        &self,
        topic: &Topic,
        after: Option<&RecurringName>,
        most: usize,
    ) -> Result<RecurringPage, JobError> {
        let ListedRecurring { recurring, more, .. } =
            self.list_recurring(topic, RecurringSelection::After(after), most).await?;
        Ok(RecurringPage { recurring, more })
    }

    pub(super) async fn list_recurring(
        &self,
        topic: &Topic,
        wanted: RecurringSelection<'_>,
        most: usize,
    ) -> Result<ListedRecurring, JobError> {
        let (letter, place, with_body) = match wanted {
            RecurringSelection::Due(skipped) => ("d", number(skipped as u64), false),
            RecurringSelection::After(name) => ("a", text(name.map_or("", RecurringName::as_str)), false),
            RecurringSelection::One(name) => ("o", text(name.as_str()), true),
        };
        let args = [text(letter), place, number(most as u64)];
        let reply = self.run_on_all(&self.shared.scripts.recurring_list, topic, &args).await?;
        let mut fields = Fields::of("jobs_recurring_list", reply)?;
        let now_ms = self.observe(&mut fields)?;
        let mut rows = fields.array()?;
        let mut recurring = Vec::new();
        let mut nameless = 0;
        let mut read_rows = 0;
        while !rows.is_empty() {
            let name = rows.bytes()?;
            let next_ms = rows.time_ms()?;
            let definition = rows.bytes()?;
            let size = u64::try_from(rows.int()?).unwrap_or(0);
            read_rows += 1;
            // One that is only in the set is no recurring job, and neither is a name of another program.
            if definition.is_empty() {
                continue;
            }
            let Some(name) = std::str::from_utf8(&name).ok().and_then(|name| name.parse().ok()) else {
                nameless += 1;
                continue;
            };
            let (definition, paused, revision) = match read(&definition) {
                Some(read) => (Some(read.recurring), read.paused, read.revision),
                None => (None, next_ms.is_none(), 0),
            };
            recurring.push(RecurringState { name, definition, next_ms, paused, size, body: None, revision });
        }
        let more = fields.int()? == 1;
        if let Some(one) = recurring.first_mut().filter(|_| with_body) {
            one.body = Some(fields.bytes()?);
        }
        Ok(ListedRecurring { now_ms, recurring, nameless, rows: read_rows, more })
    }

    async fn redis_ms(&self, topic: &Topic) -> Result<i64, JobError> {
        Ok(self.list_recurring(topic, RecurringSelection::Due(0), 0).await?.now_ms)
    }
}

const CHANGED: JobError = JobError::Fixed("the recurring job was changed at the same moment: try again");
const UNREADABLE: JobError =
    JobError::Fixed("another version wrote the recurring job of this name: use that version, or delete it");
