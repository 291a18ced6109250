//! Claims with leases that are over, as claims of this process have met them: what to do with each.
//!
//! Each claim reports a few names with expired leases. The claimer takes them over between its own claims, each under a new
//! name. Empty ones are buried at once.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use crate::leases::Leases;
use crate::leases::keeper;
use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::{Buried, ClaimName, EXPIRED_SHOWN};
use delaybridge_link::History;

/// Names that one look reads, where a claim shows that there may be more than it shows.
const PAGE: usize = 1_000;
/// The same for a queue in order, where the first of them may be anywhere among them.
const PAGE_IN_ORDER: usize = 100_000;
/// While names that cannot be read hide others: between two looks behind them, and how much longer than a look takes.
const PAST_UNREADABLE: (Duration, u32) = (Duration::from_secs(1), 10);
/// While there is something else to do, every so manieth turn is for claims that may kill the process.
const SUSPECTS_EVERY: u64 = 4;

/// Claims of other processes that are to be taken over.
#[derive(Debug, Default)]
pub struct Expired {
    claims: VecDeque<ExpiredClaim>,
    /// The history of the server in which their heads were read.
    read_in: Option<History>,
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
    /// Returns whether it may kill the process that takes it over.
    pub fn is_suspect(&self) -> bool {
        self.name.taken_over_by([0; 8], 0).is_suspect()
    }

    /// Returns the due time in Redis ms of its first element, if that has one and is known.
    pub fn due_ms(&self) -> Option<i64> {
        match self.head {
            ClaimHead::At(due_ms) => Some(due_ms),
            ClaimHead::Unread | ClaimHead::Without => None,
        }
    }

    /// Returns the Redis time in ms before which everything else is due that comes before it, if that is known.
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
        let mut heads = self.heads(queue);
        let mut head = |name: &ClaimName| heads.remove(name).unwrap_or(ClaimHead::Unread);
        self.claims = others.into_iter().map(|name| ExpiredClaim { head: head(&name), name }).collect();
        if queue.spec.order.is_some() {
            Box::pin(self.sort(queue)).await;
        }
        let (here, strays): (Vec<_>, Vec<_>) = own.into_iter().partition(|name| leases.contains(*name));
        if !here.is_empty() {
            keeper::extend(leases).await;
        }
        MetClaims { strays, are_all }
    }

    /// Returns the heads that were read before. A claim that is over only loses elements, and its name never returns:
    /// so its head is not earlier now, unless a failover has brought something back.
    fn heads(&self, queue: &Queue) -> HashMap<ClaimName, ClaimHead> {
        let is_same = self.read_in.is_some() && self.read_in == queue.home().history();
        let known = self.claims.iter().filter(|claim| is_same && claim.head != ClaimHead::Unread);
        known.map(|claim| (claim.name, claim.head)).collect()
    }

    /// Sorts the claims of a queue in order: what falls due first was claimed first, whatever process took it over
    /// since. Removes names without elements, which would count as what may kill the process.
    async fn sort(&mut self, queue: &Queue) {
        // Before anything is read: what a failover changes meanwhile is read again.
        self.read_in = queue.home().history();
        self.unread = None;
        let (known, new): (Vec<_>, Vec<_>) = self.claims.drain(..).partition(|claim| claim.head != ClaimHead::Unread);
        let mut sorted = BTreeMap::from_iter(known.into_iter().map(|claim| ((claim.head, claim.name), false)));
        let mut empty = Vec::new();
        let mut to_read: Vec<_> = new.into_iter().map(|claim| claim.name).collect();
        loop {
            for name in to_read.drain(..) {
                match self.head(queue, name).await {
                    Some(head) => {
                        sorted.insert((head, name), true);
                    }
                    None => empty.push(name),
                }
            }
            // What was read before may have lost its first elements: only the first place has to be right.
            let Some(first) = sorted.first_entry().filter(|first| !*first.get()) else { break };
            to_read.push(first.remove_entry().0.1);
        }
        if !empty.is_empty() {
            let left = removed(queue, empty).await;
            sorted.extend(left.into_iter().map(|name| ((ClaimHead::Without, name), true)));
        }
        self.claims = sorted.into_keys().map(|(head, name)| ExpiredClaim { name, head }).collect();
    }

    /// Reads the head of a claim; `None` if nothing is in it.
    async fn head(&mut self, queue: &Queue, name: ClaimName) -> Option<ClaimHead> {
        let contents = match queue.store.contents(name).await {
            Ok(contents) => contents,
            Err(problem) => {
                // The first that does not pass by itself.
                if self.unread.as_ref().is_none_or(|(_, before)| before.passes() && !problem.passes()) {
                    self.unread = Some((name, problem));
                }
                return Some(ClaimHead::Unread);
            }
        };
        let first = contents.elements.iter().filter_map(|element| element.due_ms()).min();
        let is_empty = contents.elements.is_empty() && contents.damaged.is_empty() && contents.unknown == 0;
        (!is_empty).then(|| first.map_or(ClaimHead::Without, ClaimHead::At))
    }

    /// Returns the first of them, for a queue in order. It stays the first until it is [taken
    /// over](Expired::taken_over).
    pub fn first(&self) -> Option<ExpiredClaim> {
        self.claims.front().copied()
    }

    /// Returns why nothing of a queue in order can be taken over: Redis refuses to show the contents of a claim, and that does not
    /// pass by itself.
    pub fn unreadable(&self) -> Option<String> {
        let (name, problem) = self.unread.as_ref().filter(|(_, problem)| !problem.passes())?;
        Some(format!("read claim {name}, whose lease is over, for its place in the order: {problem}"))
    }

    /// Returns the first, if it may kill the process.
    pub fn first_suspect(&self) -> Option<ExpiredClaim> {
        self.first().filter(ExpiredClaim::is_suspect)
    }

    /// Removes a claim of which nothing is left.
    pub fn taken_over(&mut self, name: ClaimName) {
        self.claims.retain(|other| other.name != name);
    }

    /// Forgets them until a claim meets them again.
    pub fn forget(&mut self) {
        self.claims.clear();
        self.unread = None;
    }

    /// Reads all of them, and whether it could. After a crash many are empty, and would hide what is in the others: those are buried,
    /// when they are met first.
    async fn page(&mut self, queue: &Queue, shown: Vec<ClaimName>) -> (Vec<ClaimName>, bool) {
        let began = Instant::now();
        let now_ms = queue.home().now_ms();
        let most = if queue.spec.order.is_some() { PAGE_IN_ORDER } else { PAGE };
        let read = queue.store.expired(now_ms, most).await;
        let (least, times) = PAST_UNREADABLE;
        self.look_from = Some(Instant::now().after(began.elapsed().saturating_mul(times).max(least)));
        let Ok((names, unknown)) = read else { return (shown, false) };
        queue.events.unknown_claims(unknown);
        let known: HashSet<_> = self.claims.iter().map(|claim| claim.name).collect();
        let (known, new): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| known.contains(name));
        (known.into_iter().chain(removed(queue, new).await).collect(), true)
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Finds the claim to take over in this turn, if it is time for one. `busy`: there is something else to claim.
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
