//! Moving house: elements of a queue become jobs of a topic.
//!
//! Each is copied first and removed then. The copy has an id that is made of the original's, so that a second run after an
//! interruption copies nothing twice, and goes on.

use bytes::Bytes;
use futures_util::future::join_all;

use super::copies::{ImportedElements, is_copy, local_id};
use super::{Jobs, failed, pools};
use crate::error::{Attempted, Error};
use crate::plural;
use crate::progress::{ProgressWatch, ended};
use crate::session::Queue;
use delaybridge_jobs::{Due, NewJob, Topic};
use delaybridge_ledger::{Acted, Located, Place, Removal, Seen, Shape, Show};

/// Elements that are moved at once.
const PAGE: usize = 100;

/// Moves what is scheduled or waits for a retry in a queue to a topic.
///
/// # Errors
///
/// When a daemon delivers from the queue, the topic is full, or Redis cannot be asked; what was moved before is moved.
pub async fn import(
    queue: &Queue,
    jobs: &Jobs,
    topic: &Topic,
    dry_run: bool,
    watch: &mut dyn ProgressWatch,
) -> Result<ImportedElements, Error> {
    let what = format!("import queue `{}` into topic {topic}", queue.id());
    let mut done = ImportedElements {
        queue: queue.id().to_owned(),
        topic: topic.to_string(),
        dry_run,
        ..ImportedElements::default()
    };
    if let Some(source) = queue.spec.source.jobs() {
        return Err(Error::invalid(format!("{what}: its elements are the jobs of topic {} already", source.topic)));
    }
    let daemons = queue.ledger.daemons(&queue.conn).await.attempt(&what)?;
    if daemons > 0 && !dry_run {
        let (verb, them) = if daemons == 1 { ("delivers", "it") } else { ("deliver", "them") };
        let daemons = plural::count(daemons, "daemon");
        let text = "from the queue and would take elements meanwhile: remove the queue from the configuration";
        return Err(Error::conflict(format!("{what}: {daemons} {verb} {text}, or stop {them}")));
    }
    let of = waiting(queue, &what).await?;
    if !queue.spec.source.has_payload_in_member() {
        if dry_run {
            pools::count(queue, jobs.max_body(topic).await?, &mut done, &what).await?;
        } else {
            pools::import(queue, jobs, topic, &mut done, (of, &mut *watch), &what).await?;
        }
        return elsewhere(queue, done, &what).await;
    }
    for place in [Place::Scheduled, Place::Retry] {
        // Elements that stay are passed over.
        let mut first = 0;
        loop {
            let page = queue.ledger.peek(&queue.conn, place, first, PAGE, Show::All).await.attempt(&what)?;
            if page.seen.is_empty() {
                break;
            }
            first += page_moved(queue, jobs, topic, place, page.seen, &mut done, &what).await?;
            watch.at(done.step(of));
            if watch.is_stopped() {
                return Err(ended(&what, done.moved));
            }
        }
    }
    elsewhere(queue, done, &what).await
}

/// Returns the number of elements to move.
async fn waiting(queue: &Queue, what: &str) -> Result<u64, Error> {
    let mut all = 0;
    for place in [Place::Scheduled, Place::Retry] {
        all += queue.ledger.peek(&queue.conn, place, 0, 1, Show::Start(0)).await.attempt(what)?.total as u64;
    }
    Ok(all)
}

/// Counts the elements that are elsewhere.
async fn elsewhere(queue: &Queue, mut done: ImportedElements, what: &str) -> Result<ImportedElements, Error> {
    for place in [Place::InFlight, Place::Ready] {
        let page = queue.ledger.peek(&queue.conn, place, 0, 1, Show::Start(0)).await.attempt(what)?;
        done.elsewhere += page.total as u64;
    }
    Ok(done)
}

/// Moves a page; answers how many of it stay.
async fn page_moved(
    queue: &Queue,
    jobs: &Jobs,
    topic: &Topic,
    place: Place,
    seen: Vec<Seen>,
    done: &mut ImportedElements,
    what: &str,
) -> Result<usize, Error> {
    let total = seen.len();
    let most = jobs.max_body(topic).await?;
    let mut members = Vec::new();
    let mut new = Vec::new();
    for element in seen {
        let readable = matches!(element.shape, Shape::Packed(_) | Shape::Bare) && element.is_complete();
        let id = element.id.as_ref().map(|id| local_id(&id.to_string()));
        let due = if place == Place::Retry { element.score_ms } else { element.due_ms };
        match (id, due) {
            (Some(id), Some(due)) if readable && element.payload.len() as u64 <= most => {
                members.push(element.member);
                new.push(NewJob { id: Some(id), due: Due::At(due.max(0)), ..NewJob::new(element.payload) });
            }
            _ => done.left += 1,
        }
    }
    if done.dry_run {
        done.moved += members.len() as u64;
        return Ok(total);
    }
    let attempt = |error| failed(&format!("{what} ({} moved before; run it again to go on)", done.moved), &error);
    let bodies: Vec<Bytes> = new.iter().map(|job| job.body.clone()).collect();
    let added = jobs.queue.add(topic, new).await.map_err(attempt)?;
    let mut copies = Vec::with_capacity(added.len());
    for ((member, copy), body) in members.into_iter().zip(added).zip(bodies) {
        if is_copy(jobs, &copy, &body).await.map_err(attempt)? {
            copies.push((member, copy));
        } else {
            // Another job has the id: the element would be lost.
            done.left += 1;
        }
    }
    let stay = total - copies.len();
    // The copy is safe: the original goes.
    let key = queue.ledger.place(place).map(|(key, _)| key).unwrap_or_default();
    let removals = copies.iter().map(async |(member, _)| {
        let located = Located { place, key: key.clone(), member: member.clone(), score: None, claim: None };
        queue.ledger.remove(&queue.conn, &located, &Removal::ForGood).await
    });
    for (removed, (_, copy)) in join_all(removals).await.into_iter().zip(&copies) {
        let removed = removed.attempt(&format!("{what} ({} moved before; run it again to go on)", done.moved))?;
        if removed == Acted::Done {
            done.moved += 1;
            done.copied_before += u64::from(!copy.created);
        } else {
            // Another client has the original, so the copy is one too many.
            done.taken += 1;
            if copy.created {
                // Gone already: its consumer was faster, and has it beside the other one.
                let _ = jobs.queue.delete(&copy.id).await;
            }
        }
    }
    Ok(stay)
}
