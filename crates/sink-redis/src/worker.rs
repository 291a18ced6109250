//! The task that turns waiting elements into pipelines.
//!
//! A pipeline leaves as soon as there is an element and a free slot; while all slots are taken, elements gather and
//! leave together. So a lone element is not delayed and a flood is batched, without a timer. Each server of a cluster has slots
//! of its own.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::stream::FuturesUnordered;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::mpsc;

use super::{command, errors, once};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_core::unordered;
use delaybridge_link::{Conn, ConnectError, KeyPrefix, LargeArgs, LinkError, Place, Redis};
use delaybridge_sink::Outbound;
use delaybridge_sink::worker_queue::WorkItem;

/// Commands in one pipeline.
pub(super) const MAX_COMMANDS: usize = 512;
/// Payload bytes in one pipeline; a larger element goes alone.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Outstanding pipelines: the server works on one while the next is on the wire.
const MAX_PIPELINES: usize = 8;

/// Elements that wait here, over all servers: some of a server that does not answer must not keep those of others out.
const MAX_WAITING: usize = 8192;

/// The elements for one server, in the order in which they came.
#[derive(Default)]
struct ServerLane {
    waiting: VecDeque<WorkItem>,
    under_way: usize,
}

/// Delivers until the queue is closed and empty.
pub(super) async fn run(redis: Redis, mut items: mpsc::Receiver<WorkItem>) {
    // One lane, unless it is a cluster.
    let mut lanes: HashMap<usize, ServerLane> = HashMap::new();
    let mut received: Vec<WorkItem> = Vec::new();
    let mut under_way = FuturesUnordered::new();
    let mut open = true;
    let mut waiting = 0;
    while open || waiting > 0 || !under_way.is_empty() {
        for (&number, lane) in &mut lanes {
            while lane.under_way < MAX_PIPELINES && !lane.waiting.is_empty() {
                let batch = take_batch(&mut lane.waiting);
                waiting -= batch.len();
                lane.under_way += 1;
                under_way.push(send(&redis, batch).map(move |()| number));
            }
        }
        let full = if lanes.len() > 1 { waiting >= MAX_WAITING } else { waiting > 0 };
        // Answers first: they free slots and permits. Both branches are cancel safe.
        tokio::select! {
            biased;
            Some(number) = unordered::next(&mut under_way), if !under_way.is_empty() => {
                if let Entry::Occupied(mut lane) = lanes.entry(number) {
                    lane.get_mut().under_way -= 1;
                    if lane.get().under_way == 0 && lane.get().waiting.is_empty() {
                        // The server may be of no use any more.
                        lane.remove();
                    }
                }
            }
            count = items.recv_many(&mut received, MAX_COMMANDS), if open && !full => {
                open = count > 0;
                waiting += count;
                for item in received.drain(..) {
                    lanes.entry(lane_of(&redis, &item)).or_default().waiting.push_back(item);
                }
            }
        }
    }
}

/// Returns the server that has the destination now, by a number.
fn lane_of(redis: &Redis, item: &WorkItem) -> usize {
    match place(redis, item).node() {
        Some(node) if redis.is_cluster() => Arc::as_ptr(&node) as usize,
        _ => 0,
    }
}

fn place(redis: &Redis, item: &WorkItem) -> Place {
    redis.at(command::key(&item.message().destination))
}

/// Takes as many elements as fit into a pipeline, at least one.
fn take_batch(waiting: &mut VecDeque<WorkItem>) -> Vec<WorkItem> {
    let mut bytes = 0;
    let mut count = 0;
    for item in waiting.iter().take(MAX_COMMANDS) {
        bytes += item.message().body.len();
        if count > 0 && bytes > MAX_BYTES {
            break;
        }
        count += 1;
    }
    waiting.drain(..count).collect()
}

/// Sends one pipeline and gives each element its own outcome.
async fn send(redis: &Redis, batch: Vec<WorkItem>) {
    // In a cluster all go to the server of the first. What has moved since is sent on.
    let Some(first) = batch.first().map(|item| place(redis, item)) else { return };
    let conn = match connection(redis, first.first().await) {
        Ok(conn) => conn,
        Err(failure) => {
            for item in batch {
                item.finish(Err(failure.clone()));
            }
            return;
        }
    };
    let mut pushes = pushes(batch, &redis.space().prefix);
    let mut pipeline = Pipeline::with_capacity(pushes.len());
    for push in &mut pushes {
        pipeline.add_command(std::mem::take(&mut push.command));
    }
    let send_before = pushes.iter().flat_map(|push| &push.items).map(|item| item.message().send_before).min();
    let Some(send_before) = send_before else { return };
    match conn.pipeline_before(send_before, &pipeline).await {
        Ok(mut answers) => {
            repeat_without_script(&conn, &pipeline, &mut answers, send_before).await;
            for (push, answer) in pushes.into_iter().zip(answers) {
                push.finish(&answer);
            }
        }
        Err(error) => {
            for item in pushes.into_iter().flat_map(|push| push.items) {
                let failure = errors::classify(&attempt(&item), &error);
                item.finish(Err(failure));
            }
        }
    }
}

/// Loads the script if the server does not have it, and sends again what did not run for that reason.
async fn repeat_without_script(
    conn: &Conn,
    pipeline: &Pipeline,
    answers: &mut [Result<Value, LinkError>],
    send_before: Instant,
) {
    let lacks = |answer: &Result<Value, LinkError>| matches!(answer, Err(LinkError::Server { code: "NOSCRIPT", .. }));
    if !answers.iter().any(lacks) || conn.load(&once::SCRIPT).await.is_err() {
        return;
    }
    let missed: Vec<_> = pipeline.cmd_iter().zip(answers).filter(|(_, answer)| lacks(answer)).collect();
    let mut again = Pipeline::with_capacity(missed.len());
    for (command, _) in &missed {
        again.add_command((*command).clone());
    }
    match conn.pipeline_before(send_before, &again).await {
        Ok(second) => missed.into_iter().zip(second).for_each(|((_, answer), second)| *answer = second),
        Err(error) => missed.into_iter().for_each(|(_, answer)| *answer = Err(error.clone())),
    }
}

/// A command and the elements that it delivers: one, or some that follow each other to the same end of a list.
struct Push {
    command: Cmd,
    large: LargeArgs,
    items: Vec<WorkItem>,
}

impl Push {
    /// Returns whether the element can go with the same command.
    fn takes(&self, item: &WorkItem) -> bool {
        let last = self.items.last().map(WorkItem::message);
        let next = item.message();
        let of_many = |last: &Outbound| command::is_of_many(last) && command::is_of_many(next);
        last.is_some_and(|last| of_many(last) && last.destination == next.destination)
    }

    /// Gives each element its outcome: Redis pushes all or none.
    fn finish(self, answer: &Result<Value, LinkError>) {
        let count = self.items.len();
        for item in self.items {
            let outcome = match answer {
                Ok(value) if item.message().mark.is_some() && once::was_there(value) => {
                    item.finish_known();
                    continue;
                }
                Ok(value) => command::confirmed(&item.message().destination, value, count),
                Err(error) => Err(errors::classify(&attempt(&item), error)),
            };
            item.finish(outcome);
        }
    }
}

/// Returns the commands for what may be sent, in the order of the elements.
fn pushes(batch: Vec<WorkItem>, prefix: &KeyPrefix) -> Vec<Push> {
    let mut pushes: Vec<Push> = Vec::new();
    for item in batch {
        if let Some(push) = pushes.last_mut()
            && push.takes(&item)
        {
            if item.may_send() {
                push.large.add(&mut push.command, &item.message().body);
                push.items.push(item);
            }
            continue;
        }
        let mut large = LargeArgs::default();
        match command::command(item.message(), prefix, &mut large) {
            Err(failure) => item.finish(Err(failure)),
            Ok(command) => {
                if item.may_send() {
                    pushes.push(Push { command, large, items: vec![item] });
                }
            }
        }
    }
    pushes
}

fn attempt(item: &WorkItem) -> String {
    command::attempt(&item.message().destination)
}

/// Returns the connection, or what it means that there is none. It was waited for only while no attempt to connect had
/// failed: an outage is reported at once, so that the pipeline stops claiming, but neither the start nor a quick
/// reconnect fails a delivery.
pub(super) fn connection(redis: &Redis, first: Result<Conn, Option<Arc<ConnectError>>>) -> Result<Conn, Failure> {
    first.map_err(|problem| match problem {
        Some(problem) => errors::not_connected(&problem),
        None => {
            let text = format!("connect to Redis {}: the connection is closed", redis.address());
            Failure::new(Class::Transient, "closed", text)
        }
    })
}
