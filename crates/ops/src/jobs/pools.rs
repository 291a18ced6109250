//! Import from a job pool, whose jobs are beside the elements.
//!
//! Elements are claimed, due or not, under a lease; their jobs are copied to the topic; then they are confirmed. The confirmation
//! removes the job in the pool only if it is still what was copied. So a program may go on writing to the pool, and an
//! interruption leaves a claim, which the next run puts back and copies again, under the same ids.

use std::time::Duration;

use bytes::Bytes;

use super::copies::{ImportedElements, is_copy, local_id};
use super::{Jobs, failed};
use crate::back;
use crate::error::{Attempted, Error};
use crate::progress::{ProgressWatch, Unwatched, ended};
use crate::session::Queue;
use delaybridge_jobs::{Due, NewJob, Topic};
use delaybridge_ledger::claims::{Body, ClaimName, ClaimReply, ClaimRequest, Element, SettleCommand, SettleOp, Writer};
use delaybridge_ledger::{Answer, BATCH_BYTES, Hints, NoPayload, Place, Show, redis_now_ms};

/// Jobs that are moved at once.
const PAGE: usize = 100;
/// The lease of a claim: elements of an interrupted run can be moved after so long.
const LEASE: Duration = Duration::from_secs(60);
/// Time after its sending for which a claim may run.
const NOT_AFTER_MS: i64 = 30_000;
/// Jobs with due times as far ahead are moved. A later one is meant as never.
const AHEAD: Duration = Duration::from_secs(300 * 365 * 86_400);
/// The delay of elements that cannot be moved, so that no claim of this run meets them again. At the end they go
/// back.
const ASIDE_MS: i64 = 86_400_000;

/// The treatment of an element.
enum PoolAction {
    /// The job goes to the topic.
    Add(Box<NewJob>),
    /// There is no job: its user deleted it.
    Deleted,
    /// There was no room to read it: later.
    Later,
    /// The element stays in the pool.
    Leave,
}

/// Counts what would be moved. Changes nothing.
pub(super) async fn count(queue: &Queue, most: u64, done: &mut ImportedElements, what: &str) -> Result<(), Error> {
    for place in [Place::Scheduled, Place::Retry] {
        let mut first = 0;
        loop {
            let page = queue.ledger.peek(&queue.conn, place, first, PAGE, Show::All).await.attempt(what)?;
            if page.seen.is_empty() {
                break;
            }
            first += page.seen.len();
            let element = |seen: delaybridge_ledger::Seen| match place {
                Place::Retry => Element::entry(seen.member, 0),
                _ => Some(Element::bare(seen.member, seen.score_ms.unwrap_or(0))),
            };
            let all = page.seen.len();
            let mut elements: Vec<Element> = page.seen.into_iter().filter_map(element).collect();
            done.left += (all - elements.len()) as u64;
            // At least one is read each time.
            while !elements.is_empty() {
                queue.ledger.fetch(&queue.conn, &mut elements, BATCH_BYTES).await.attempt(what)?;
                elements.retain_mut(|element| {
                    match copy_of(queue, element, most) {
                        PoolAction::Add(_) => done.moved += 1,
                        PoolAction::Deleted => done.deleted += 1,
                        PoolAction::Leave => done.left += 1,
                        PoolAction::Later => return true,
                    }
                    false
                });
            }
        }
    }
    Ok(())
}

/// Moves all jobs of the pool.
pub(super) async fn import(
    queue: &Queue,
    jobs: &Jobs,
    topic: &Topic,
    done: &mut ImportedElements,
    (of, watch): (u64, &mut dyn ProgressWatch),
    what: &str,
) -> Result<(), Error> {
    let most = jobs.max_body(topic).await?;
    put_back(queue, what).await?;
    let mut number = fastrand::u64(..);
    loop {
        number = number.wrapping_add(1);
        let name = ClaimName::new(queue.ledger.owner, number);
        let now_ms = redis_now_ms(&queue.conn).await.attempt(what)?;
        let request = ClaimRequest {
            name,
            not_after_ms: now_ms + NOT_AFTER_MS,
            lease: LEASE,
            ahead: AHEAD,
            most: PAGE,
            bytes: BATCH_BYTES,
            rotation: 0,
            hints: Hints::default(),
            back_before_ms: None,
        };
        let again = || format!("{what} ({} moved before; run it again in a minute to go on)", done.moved);
        let claimed = match queue.ledger.claim(&queue.conn, &request).await.attempt(&again())? {
            ClaimReply::Claimed(claimed) => claimed,
            ClaimReply::Late { .. } | ClaimReply::Twice { .. } | ClaimReply::Standby { .. } => {
                return Err(Error::failed(format!("{}: Redis was reached too late", again())));
            }
        };
        done.left += claimed.unreadable;
        if claimed.elements.is_empty() {
            break;
        }
        claim_moved(queue, jobs, topic, name, claimed.elements, (now_ms, most), done, what).await?;
        watch.at(done.step(of));
        if watch.is_stopped() {
            // What was put aside goes back first.
            put_back(queue, what).await?;
            return Err(ended(what, done.moved));
        }
    }
    put_back(queue, what).await
}

/// Puts elements that an earlier run held, and those that this one put aside, back to the pool.
async fn put_back(queue: &Queue, what: &str) -> Result<(), Error> {
    let plan = back::plan(queue, false).await?;
    if let Some(reason) = &plan.at_work {
        return Err(Error::conflict(format!("{what}: {reason}")));
    }
    back::apply(queue, &plan, false, &mut Unwatched).await.map(drop)
}

#[allow(clippy::too_many_arguments, reason = "one step of the loop above")]
async fn claim_moved(
    queue: &Queue,
    jobs: &Jobs,
    topic: &Topic,
    claim: ClaimName,
    elements: Vec<Element>,
    (now_ms, most): (i64, u64),
    done: &mut ImportedElements,
    what: &str,
) -> Result<(), Error> {
    let attempt =
        |done: &ImportedElements| format!("{what} ({} moved before; run it again in a minute to go on)", done.moved);
    let mut verdicts = Vec::new();
    let mut copied = Vec::new();
    let mut new = Vec::new();
    for (place, mut element) in elements.into_iter().enumerate() {
        match copy_of(queue, &mut element, most) {
            PoolAction::Add(job) => {
                copied.push((place, element));
                new.push(*job);
            }
            PoolAction::Deleted => {
                done.deleted += 1;
                verdicts.push(verdict(claim, &element, SettleOp::Confirm));
            }
            PoolAction::Later => {
                verdicts.push(verdict(claim, &element, SettleOp::Return { at_ms: element.header().time_ms }))
            }
            PoolAction::Leave => {
                done.left += 1;
                verdicts.push(aside(claim, place, &element, now_ms));
            }
        }
    }
    let bodies: Vec<Bytes> = new.iter().map(|job| job.body.clone()).collect();
    let added = jobs.queue.add(topic, new).await.map_err(|error| failed(&attempt(done), &error))?;
    let mut copies = Vec::new();
    for (((place, element), copy), body) in copied.into_iter().zip(added).zip(bodies) {
        if is_copy(jobs, &copy, &body).await.map_err(|error| failed(&attempt(done), &error))? {
            copies.push((verdicts.len(), copy));
            verdicts.push(verdict(claim, &element, SettleOp::Confirm));
        } else {
            done.left += 1;
            verdicts.push(aside(claim, place, &element, now_ms));
        }
    }
    let settled = queue.ledger.claims().settle(&queue.conn, &verdicts, None, None).await.attempt(&attempt(done))?;
    for (at, copy) in copies {
        if settled.answers.get(at) == Some(&Answer::Done) {
            done.moved += 1;
            done.copied_before += u64::from(!copy.created);
            continue;
        }
        // The lease was over and another process has the element, so the copy is one too many. Gone already: a consumer was
        // faster.
        done.taken += 1;
        if copy.created {
            let _ = jobs.queue.delete(&copy.id).await;
        }
    }
    Ok(())
}

fn verdict(claim: ClaimName, element: &Element, step: SettleOp) -> SettleCommand {
    let body = element.body_bytes().cloned();
    SettleCommand { claim, part: element.part(), member: element.member.clone(), step, body }
}

/// To the retry set, under a header that no other entry has.
fn aside(claim: ClaimName, place: usize, element: &Element, now_ms: i64) -> SettleCommand {
    let mut header = element.header();
    if element.header.is_none() {
        let place = u32::try_from(place + 1).unwrap_or(u32::MAX);
        header.writer = Writer { owner: claim.owner, claim: claim.number, place };
    }
    verdict(claim, element, SettleOp::Release { header, at_ms: now_ms + ASIDE_MS })
}

fn copy_of(queue: &Queue, element: &mut Element, most: u64) -> PoolAction {
    let mut due_ms = element.header().time_ms;
    let (id, mut payload) = queue.ledger.open(element);
    if let Err(NoPayload::NotDue(at_ms)) = payload {
        due_ms = at_ms;
        // Read as it will be at its time.
        if let Some(Body::Here { read_ms, .. }) = element.body.as_deref_mut() {
            *read_ms = i64::MAX;
        }
        payload = queue.ledger.open(element).1;
    }
    match payload {
        Ok(body) if body.len() as u64 <= most => {
            let id = Some(local_id(&id.to_string()));
            PoolAction::Add(Box::new(NewJob { id, due: Due::At(due_ms.max(0)), ..NewJob::new(body) }))
        }
        // Where none was ever met, the configuration may look for them in the wrong place: no id is dropped for that.
        Err(NoPayload::Missing) if queue.ledger.has_met_bodies() => PoolAction::Deleted,
        Err(NoPayload::NoRoom) => PoolAction::Later,
        Ok(_) | Err(_) => PoolAction::Leave,
    }
}
