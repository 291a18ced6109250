//! The task that turns waiting elements into pipelines.
//!
//! A pipeline leaves as soon as there is an element and a free slot; while all slots are taken, elements gather and
//! leave together. So a lone element is not delayed and a flood is batched, without a timer.

use std::collections::VecDeque;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::mpsc;

use super::super::job_queue::Job;
use super::{command, errors};
use crate::link::{Conn, Link, LinkError, LinkState};
use crate::message::{Class, Failure};

/// Commands in one pipeline.
const MAX_COMMANDS: usize = 512;
/// Payload bytes in one pipeline; a larger element goes alone.
const MAX_BYTES: usize = 1 << 20;
/// Outstanding pipelines: the server works on one while the next is on the wire.
const MAX_PIPELINES: usize = 8;

/// Delivers until the queue is closed and empty.
pub(super) async fn run(link: Link, mut jobs: mpsc::Receiver<Job>) {
    let mut waiting: VecDeque<Job> = VecDeque::new();
    let mut received: Vec<Job> = Vec::new();
    let mut under_way = FuturesUnordered::new();
    let mut open = true;
    while open || !waiting.is_empty() || !under_way.is_empty() {
        while under_way.len() < MAX_PIPELINES && !waiting.is_empty() {
            under_way.push(send(&link, take_batch(&mut waiting)));
        }
        // Answers first: they free slots and permits. Both branches are cancel safe.
        tokio::select! {
            biased;
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
            count = jobs.recv_many(&mut received, MAX_COMMANDS), if open && waiting.is_empty() => {
                open = count > 0;
                waiting.extend(received.drain(..));
            }
        }
    }
}

/// Takes as many elements as fit into a pipeline, at least one.
fn take_batch(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let mut bytes = 0;
    let mut count = 0;
    for job in waiting.iter().take(MAX_COMMANDS) {
        bytes += job.message().body.len();
        if count > 0 && bytes > MAX_BYTES {
            break;
        }
        count += 1;
    }
    waiting.drain(..count).collect()
}

/// Sends one pipeline and gives each element its own outcome.
async fn send(link: &Link, batch: Vec<Job>) {
    let conn = match connection(link).await {
        Ok(conn) => conn,
        Err(failure) => {
            for job in batch {
                job.finish(Err(failure.clone()));
            }
            return;
        }
    };
    let mut pushes = pushes(batch);
    let mut pipeline = Pipeline::with_capacity(pushes.len());
    for push in &mut pushes {
        pipeline.add_command(std::mem::take(&mut push.command));
    }
    let send_before = pushes.iter().flat_map(|push| &push.jobs).map(|job| job.message().send_before).min();
    let Some(send_before) = send_before else { return };
    match conn.pipeline_before(send_before, &pipeline).await {
        Ok(answers) => {
            for (push, answer) in pushes.into_iter().zip(answers) {
                push.finish(&answer);
            }
        }
        Err(error) => {
            for job in pushes.into_iter().flat_map(|push| push.jobs) {
                let failure = errors::classify(&attempt(&job), &error);
                job.finish(Err(failure));
            }
        }
    }
}

/// A command and the elements that it delivers: one, or some that follow each other to the same end of a list.
struct Push {
    command: Cmd,
    jobs: Vec<Job>,
}

impl Push {
    /// Whether the element can go with the same command.
    fn takes(&self, job: &Job) -> bool {
        let last = self.jobs.last().map(|last| &last.message().destination);
        last.is_some_and(|last| command::is_of_many(last) && *last == job.message().destination)
    }

    /// Gives each element its outcome: Redis pushes all or none.
    fn finish(self, answer: &Result<Value, LinkError>) {
        let count = self.jobs.len();
        for job in self.jobs {
            let outcome = match answer {
                Ok(value) => command::confirmed(&job.message().destination, value, count),
                Err(error) => Err(errors::classify(&attempt(&job), error)),
            };
            job.finish(outcome);
        }
    }
}

/// The commands for what may be sent, in the order of the elements.
fn pushes(batch: Vec<Job>) -> Vec<Push> {
    let mut pushes: Vec<Push> = Vec::new();
    for job in batch {
        if let Some(push) = pushes.last_mut()
            && push.takes(&job)
        {
            if job.may_send() {
                push.command.arg(job.message().body.as_ref());
                push.jobs.push(job);
            }
            continue;
        }
        match command::command(job.message()) {
            Err(failure) => job.finish(Err(failure)),
            Ok(command) => {
                if job.may_send() {
                    pushes.push(Push { command, jobs: vec![job] });
                }
            }
        }
    }
    pushes
}

fn attempt(job: &Job) -> String {
    let destination = &job.message().destination;
    format!("{} to {destination}", command::name(destination))
}

/// The connection. Waits only while no attempt to connect has failed yet: an outage is reported at once, so that
/// the pipeline stops claiming, but neither the start nor a quick reconnect fails a delivery.
pub(super) async fn connection(link: &Link) -> Result<Conn, Failure> {
    let mut state = link.state();
    loop {
        if let Some(conn) = link.current() {
            return Ok(conn);
        }
        // Marked as seen before it is looked at: a change in between wakes the wait below at once.
        let failed = match &*state.borrow_and_update() {
            LinkState::Connecting { last_error: Some(error), .. } => Some(errors::not_connected(error)),
            LinkState::Connecting { last_error: None, .. } | LinkState::Up { .. } => None,
        };
        if let Some(failure) = failed {
            return Err(failure);
        }
        if state.changed().await.is_err() {
            let text = format!("connect to Redis {}: the connection is closed", link.address());
            return Err(Failure::new(Class::Transient, "closed", text));
        }
    }
}
