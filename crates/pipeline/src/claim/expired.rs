//! Claims with leases that are over, as claims of this process have met them: what to do with each.
//!
//! Each claim reports a few names with expired leases. The claimer takes them over between its own claims, each under a new
//! name. Empty ones are buried at once.

use std::collections::VecDeque;
use std::time::Duration;

use crate::leases::Leases;
use crate::leases::keeper;
use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::{Buried, ClaimName, EXPIRED_SHOWN};
use delaybridge_source::StoreError;

/// Names that one look reads, where a claim shows that there may be more than it shows.
const PAGE: usize = 1_000;
/// While names that cannot be read hide others: between two looks behind them, and how much longer than a look takes.
const PAST_UNREADABLE: (Duration, u32) = (Duration::from_secs(1), 10);
/// While there is something else to do, every so manieth turn is for claims that may kill the process.
const SUSPECTS_EVERY: u64 = 4;

/// Claims of other processes that are to be taken over.
#[derive(Debug, Default)]
pub struct Expired {
    claims: VecDeque<ExpiredClaim>,
    /// A queue in order: the first claim that the last look could not read, and why.
    unread: Option<(ClaimName, StoreError)>,
    /// Before this point no look goes behind names that cannot be read: they are there with each claim.
    look_from: Option<Instant>,
}

/// A claim that is to be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredClaim {
    /// The name of the claim.
    pub name: ClaimName,
    /// The element that falls due first in it, as far as that was asked.
    pub head: ClaimHead,
}

/// The element of a claim that falls due first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimHead {
    /// Not known: it was not asked, or there was no answer.
    Unread,
    /// Due time in Redis ms.
    At(i64),
    /// No element with a due time.
    Without,
}

/// The claims that a claim of this process has met.
#[derive(Debug)]
pub struct MetClaims {
    /// Own ones that are not here: their elements were dropped here, or their replies were lost.
    pub strays: Vec<ClaimName>,
    /// Whether these are all that there are: none is hidden by names that cannot be read.
    pub are_all: bool,
}

impl ExpiredClaim {
    /// Whether it may kill the process that takes it over.
    pub fn is_suspect(&self) -> bool {
        self.name.taken_over_by([0; 8], 0).is_suspect()
    }

    /// Due time in Redis ms of its first element, if that has one and is known.
    pub fn due_ms(&self) -> Option<i64> {
        match self.head {
            ClaimHead::At(due_ms) => Some(due_ms),
            ClaimHead::Unread | ClaimHead::Without => None,
        }
    }

    /// The Redis time in ms before which everything else is due that comes before it, if that is known.
    pub fn comes_after_ms(&self) -> Option<i64> {
        match self.head {
            ClaimHead::Unread => None,
            ClaimHead::At(due_ms) => Some(due_ms),
            ClaimHead::Without => Some(i64::MAX),
        }
    }
}

impl Expired {
    /// Takes over what the last claim met: the names of other processes are noted. Own ones that are here are extended, the others
    /// returned. `unknown` names that cannot be read were met as well: they are reported, and hide no others.
    pub async fn met(&mut self, leases: &Leases, shown: Vec<ClaimName>, unknown: u64) -> MetClaims {
        let queue = leases.queue();
        let all = shown.len() + usize::try_from(unknown).unwrap_or(EXPIRED_SHOWN) < EXPIRED_SHOWN;
        let (names, are_all) = if all {
            queue.events.unknown_claims(unknown);
            (shown, true)
        } else if unknown == 0 || self.look_from.is_none_or(|from| from <= Instant::now()) {
            // Boxed, as the sort below: both are rare, and the claimer's future would have room for them all the time.
            Box::pin(self.page(queue, shown)).await
        } else {
            // What the last look found behind them is still to be taken over.
            let known = self.claims.drain(..).map(|claim| claim.name);
            let known: Vec<_> = known.filter(|name| !shown.contains(name)).collect();
            (shown.into_iter().chain(known).collect(), false)
        };
        let (own, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.owner == queue.store.owner());
        self.claims = others.into_iter().map(|name| ExpiredClaim { name, head: ClaimHead::Unread }).collect();
        if queue.spec.order.is_some() {
            Box::pin(self.sort(queue)).await;
        }
        let (here, strays): (Vec<_>, Vec<_>) = own.into_iter().partition(|name| leases.contains(*name));
        if !here.is_empty() {
            keeper::extend(leases).await;
        }
        MetClaims { strays, are_all }
    }

    /// A queue in order: what falls due first was claimed first, whatever process took it over since. Names without elements are
    /// removed: they would count as what may kill the process.
    async fn sort(&mut self, queue: &Queue) {
        let mut empty = Vec::new();
        self.unread = None;
        for claim in &mut self.claims {
            let contents = match queue.store.contents(claim.name).await {
                Ok(contents) => contents,
                Err(problem) => {
                    // The first that does not pass by itself.
                    if self.unread.as_ref().is_none_or(|(_, before)| before.passes() && !problem.passes()) {
                        self.unread = Some((claim.name, problem));
                    }
                    continue;
                }
            };
            let first = contents.elements.iter().filter_map(|element| element.due_ms()).min();
            claim.head = first.map_or(ClaimHead::Without, ClaimHead::At);
            if contents.elements.is_empty() && contents.damaged.is_empty() && contents.unknown == 0 {
                empty.push(claim.name);
            }
        }
        if !empty.is_empty() {
            let left = removed(queue, empty.clone()).await;
            self.claims.retain(|claim| !empty.contains(&claim.name) || left.contains(&claim.name));
        }
        self.claims.make_contiguous().sort_by_key(|claim| (claim.head, claim.name));
    }

    /// The first of them, for a queue in order. It stays the first until it is [taken over](Expired::taken_over).
    pub fn first(&self) -> Option<ExpiredClaim> {
        self.claims.front().copied()
    }

    /// Returns why nothing of a queue in order can be taken over: Redis refuses to show the contents of a claim, and that does not
    /// pass by itself.
    pub fn unreadable(&self) -> Option<String> {
        let (name, problem) = self.unread.as_ref().filter(|(_, problem)| !problem.passes())?;
        Some(format!("read claim {name}, whose lease is over, for its place in the order: {problem}"))
    }

    /// The first, if it may kill the process.
    pub fn first_suspect(&self) -> Option<ExpiredClaim> {
        self.first().filter(ExpiredClaim::is_suspect)
    }

    /// Nothing is left of it.
    pub fn taken_over(&mut self, name: ClaimName) {
        self.claims.retain(|other| other.name != name);
    }

    /// Forgets them until a claim meets them again.
    pub fn forget(&mut self) {
        self.claims.clear();
        self.unread = None;
    }

    /// Reads all of them, and whether it could. After a crash many are empty, and would hide what is in the others: those are buried.
    async fn page(&mut self, queue: &Queue, shown: Vec<ClaimName>) -> (Vec<ClaimName>, bool) {
        let (began, now_ms) = (Instant::now(), queue.home().now_ms());
        let read = queue.store.expired(now_ms, PAGE).await;
        let (least, times) = PAST_UNREADABLE;
        self.look_from = Some(Instant::now().after(began.elapsed().saturating_mul(times).max(least)));
        let Ok((names, unknown)) = read else { return (shown, false) };
        queue.events.unknown_claims(unknown);
        (removed(queue, names).await, true)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// The one to take over in this turn, if it is time for one. `busy`: there is something else to claim.
    pub fn next(&mut self, turn: u64, busy: bool) -> Option<ClaimName> {
        let suspects = !busy || turn % SUSPECTS_EVERY == SUSPECTS_EVERY - 1;
        let others = !busy || turn % 2 == 1;
        let find = |suspect: bool| self.claims.iter().position(|claim| claim.is_suspect() == suspect);
        let place = if others { find(false) } else { None }.or_else(|| if suspects { find(true) } else { None })?;
        self.claims.remove(place).map(|claim| claim.name)
    }
}

/// Removes those of these names of claims that hold nothing; returns the others.
async fn removed(queue: &Queue, names: Vec<ClaimName>) -> Vec<ClaimName> {
    // A lease outlasts the time in which its claim can run.
    match queue.store.bury(0, &names).await {
        Ok(Buried::Done { kept, .. }) => {
            names.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(name, _)| name).collect()
        }
        _ => names,
    }
}
