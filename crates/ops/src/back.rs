//! The way out for plain sorted sets and job pools: everything that delaybridge holds goes back into the set, or the first
//! bucket of the pool.

use serde::Serialize;

use super::error::{Attempted, Error, may_have_run};
use super::progress::{Progress, ProgressWatch, ended};
use super::session::Queue;
use super::{plural, release};
use delaybridge_ledger::{Item, Moved, Place, Restored as Reply, restore_end};

/// The elements that claims hold of a queue, or that were brought back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BroughtBack {
    /// The queue.
    pub queue: String,
    /// The sorted set that elements go to.
    pub key: String,
    /// Whether it was done.
    pub applied: bool,
    /// Elements that go back, or went back, into the set.
    pub scheduled: usize,
    /// Dead letters among them.
    pub dead: usize,
    /// Elements that stay because the same member is in the set already, or because a producer has written their job again.
    pub twins: usize,
    /// Elements that stay: a newer delaybridge wrote them, they are damaged, or they are dead letters without their job.
    pub unknown: usize,
    /// Elements that may have arrived at a sink: they were in flight.
    pub doubtful: usize,
    /// Why nothing may be restored now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_work: Option<String>,
}

/// Returns whether the queue is restored by this: all but Redisson's, which have a list beside the sorted set.
pub fn is_of_sets(queue: &Queue) -> bool {
    queue.spec.source.redisson().is_none()
}

fn nothing(queue: &Queue) -> BroughtBack {
    BroughtBack { queue: queue.id().to_owned(), key: queue.spec.source.name().to_owned(), ..BroughtBack::default() }
}

/// Finds out what would go back. Changes nothing.
pub async fn plan(queue: &Queue, dead: bool) -> Result<BroughtBack, Error> {
    let what = format!("read the held elements of `{}`", queue.id());
    let mut back = BroughtBack { at_work: refusal(queue).await?, ..nothing(queue) };
    let count = |back: &mut BroughtBack, item: Option<Item>| match item {
        Some(_) => back.scheduled += 1,
        None => back.unknown += 1,
    };
    queue.each_member(Place::Retry, &what, |member| count(&mut back, queue.ledger.waiting(&member))).await?;
    for name in release::claims(queue, &what).await? {
        let held = queue.ledger.claims().contents(&queue.conn, name).await.attempt(&what)?;
        back.scheduled += held.elements.len();
        back.doubtful += held.elements.len();
        back.unknown += usize::try_from(held.unknown).unwrap_or(usize::MAX);
    }
    if dead {
        let mut pages = queue.letter_pages(&what).await?;
        while let Some(page) = pages.next().await? {
            for letter in page {
                let item = queue.ledger.buried(&letter);
                back.dead += usize::from(item.is_some());
                count(&mut back, item);
            }
        }
    }
    Ok(back)
}

/// Puts back what was planned, and what has come since.
///
/// # Errors
///
/// When a daemon is at work, when it is ended, and when Redis cannot be asked. It can be run again: nothing is restored twice.
pub async fn apply(
    queue: &Queue,
    plan: &BroughtBack,
    dead: bool,
    watch: &mut dyn ProgressWatch,
) -> Result<BroughtBack, Error> {
    if let Some(reason) = &plan.at_work {
        return Err(Error::conflict(format!("restore `{}`: {reason}; nothing was changed", queue.id())));
    }
    let what = format!("read the held elements of `{}`", queue.id());
    let mut back = BroughtBack { applied: true, doubtful: plan.doubtful, ..nothing(queue) };
    release::release(queue).await?;
    // What stays is stepped over.
    let mut first = 0;
    loop {
        let page = queue.ledger.members(&queue.conn, Place::Retry, first).await.attempt(&what)?.members;
        if page.is_empty() {
            break;
        }
        let items: Vec<_> = page.iter().filter_map(|(_, member)| queue.ledger.waiting(member)).collect();
        let unknown = page.len() - items.len();
        let twins = put(queue, &items, &mut back, plan.scheduled, watch).await?;
        back.unknown += unknown;
        first += unknown + twins;
    }
    if dead {
        let mut pages = queue.letter_pages(&what).await?;
        while let Some(page) = pages.next().await? {
            let items: Vec<_> = page.iter().filter_map(|letter| queue.ledger.buried(letter)).collect();
            back.unknown += page.len() - items.len();
            let before = back.scheduled;
            put(queue, &items, &mut back, plan.scheduled, watch).await?;
            back.dead += back.scheduled - before;
        }
    }
    Ok(back)
}

/// Puts all of them back, in batches; answers how many stayed because their like is there.
async fn put(
    queue: &Queue,
    mut items: &[Item],
    back: &mut BroughtBack,
    of: usize,
    watch: &mut dyn ProgressWatch,
) -> Result<usize, Error> {
    let what = format!("restore elements of `{}`", queue.id());
    let mut twins = 0;
    while !items.is_empty() {
        let done = back.scheduled as u64;
        watch.at(Progress { done, of: Some(of as u64), acted: done });
        if watch.is_stopped() {
            return Err(ended(&what, done));
        }
        let (batch, rest) = items.split_at(restore_end(items));
        let restored = match queue.ledger.restore(&queue.conn, batch).await {
            // What the first sending moved is answered as gone: the count is too low, nothing else.
            Err(error) if may_have_run(&error) => queue.ledger.restore(&queue.conn, batch).await,
            other => other,
        };
        match restored.attempt(&what)? {
            Reply::Done(moved) => {
                let count = |wanted| moved.iter().filter(|moved| **moved == wanted).count();
                back.scheduled += count(Moved::Yes);
                twins += count(Moved::Twin);
            }
            Reply::AtWork { leases, forwards } => {
                let why = explain(queue, leases, forwards);
                let message = format!("{what}: {why}; what was restored until then stays there: run the command again");
                return Err(Error::conflict(message));
            }
        }
        items = rest;
    }
    back.twins += twins;
    Ok(twins)
}

/// Why nothing may be restored now; `None` if no daemon is at work.
async fn refusal(queue: &Queue) -> Result<Option<String>, Error> {
    let what = format!("check for daemons at work on `{}`", queue.id());
    let daemons = queue.ledger.daemons(&queue.conn).await.attempt(&what)?;
    if daemons > 0 {
        let are = if daemons == 1 { "is" } else { "are" };
        let daemons = plural::count(daemons, "daemon");
        return Ok(Some(format!("{daemons} of this queue {are} connected; stop its daemons first")));
    }
    Ok(match queue.ledger.restore(&queue.conn, &[]).await.attempt(&what)? {
        Reply::Done(_) => None,
        Reply::AtWork { leases: 1.., forwards: false } if !release::is_held(queue, &what).await? => None,
        Reply::AtWork { leases, forwards } => Some(explain(queue, leases, forwards)),
    })
}

fn explain(queue: &Queue, leases: u64, forwards: bool) -> String {
    match forwards {
        true if leases == 0 => "a daemon forwards dead letters, or died a moment ago; stop it, or wait".to_owned(),
        _ => format!(
            "{} under unexpired leases: a daemon works, or died less than {} ago; stop it, or wait until the leases expire",
            plural::count(leases, "claim"),
            humantime::format_duration(queue.spec.lease)
        ),
    }
}
