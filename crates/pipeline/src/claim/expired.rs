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
use delaybridge_ledger::claims::{ClaimName, EXPIRED_SHOWN};

/// Names that one look reads, where a claim shows that there may be more than it shows.
const PAGE: usize = 1_000;
/// While names that cannot be read hide others: between two looks behind them, and how much longer than a look takes.
const PAST_UNREADABLE: (Duration, u32) = (Duration::from_secs(1), 10);
/// While there is something else to do, every so manieth turn is for claims that may kill the process.
const SUSPECTS_EVERY: u64 = 4;

/// Claims of other processes that are to be taken over.
#[derive(Debug, Default)]
pub struct Expired {
    names: VecDeque<ClaimName>,
    /// Before this point no look goes behind names that cannot be read: they are there with each claim.
    look_from: Option<Instant>,
}

impl Expired {
    /// Takes over what the last claim met: the names of other processes are noted. Own ones that are here are extended, the others
    /// returned: their elements were dropped here, or their replies were lost. `unknown` names that cannot be read were met
    /// as well: they are reported, and hide no others.
    pub async fn met(&mut self, leases: &Leases, shown: Vec<ClaimName>, unknown: u64) -> Vec<ClaimName> {
        let queue = leases.queue();
        let all = shown.len() + usize::try_from(unknown).unwrap_or(EXPIRED_SHOWN) < EXPIRED_SHOWN;
        let names = if all {
            queue.events.unknown_claims(unknown);
            shown
        } else if unknown == 0 || self.look_from.is_none_or(|from| from <= Instant::now()) {
            self.page(queue, shown).await
        } else {
            // What the last look found behind them is still to be taken over.
            let known: Vec<_> = self.names.drain(..).filter(|name| !shown.contains(name)).collect();
            shown.into_iter().chain(known).collect()
        };
        let (own, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.owner == queue.store.owner());
        self.names = others.into();
        if queue.spec.order.is_some() {
            self.sort(queue).await;
        }
        let (here, strays): (Vec<_>, Vec<_>) = own.into_iter().partition(|name| leases.contains(*name));
        if !here.is_empty() {
            keeper::extend(leases).await;
        }
        strays
    }

    /// A queue in order: what falls due first was claimed first, whatever process took it over since.
    async fn sort(&mut self, queue: &Queue) {
        let mut by_due = Vec::with_capacity(self.names.len());
        for name in self.names.drain(..) {
            let first = match queue.store.contents(name).await {
                Ok(contents) => contents.elements.iter().filter_map(|element| element.due_ms()).min(),
                Err(_) => None,
            };
            by_due.push((first, name));
        }
        by_due.sort();
        self.names = by_due.into_iter().map(|(_, name)| name).collect();
    }

    /// The first of them, for a queue in order. It stays the first until it is [taken over](Expired::taken_over).
    pub fn first(&self) -> Option<ClaimName> {
        self.names.front().copied()
    }

    /// Nothing is left of it.
    pub fn taken_over(&mut self, name: ClaimName) {
        self.names.retain(|other| *other != name);
    }

    /// Forgets them until a claim meets them again.
    pub fn forget(&mut self) {
        self.names.clear();
    }

    /// Whether the first may kill the process.
    pub fn is_first_suspect(&self) -> bool {
        self.names.front().is_some_and(|name| name.taken_over_by([0; 8], 0).is_suspect())
    }

    /// Reads all of them. After a crash many are empty, and would hide what is in the others: those are buried.
    async fn page(&mut self, queue: &Queue, shown: Vec<ClaimName>) -> Vec<ClaimName> {
        let (began, now_ms) = (Instant::now(), queue.home().now_ms());
        let read = queue.store.expired(now_ms, PAGE).await;
        let (least, times) = PAST_UNREADABLE;
        self.look_from = Some(Instant::now().after(began.elapsed().saturating_mul(times).max(least)));
        let Ok((names, unknown)) = read else { return shown };
        queue.events.unknown_claims(unknown);
        // A lease outlasts the time in which its claim can run.
        match queue.store.bury(0, &names).await {
            Ok(delaybridge_ledger::claims::Buried::Done { kept, .. }) => {
                names.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(name, _)| name).collect()
            }
            _ => names,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The one to take over in this turn, if it is time for one. `busy`: there is something else to claim.
    pub fn next(&mut self, turn: u64, busy: bool) -> Option<ClaimName> {
        let next_is_suspect = |name: &ClaimName| name.taken_over_by([0; 8], 0).is_suspect();
        let suspects = !busy || turn % SUSPECTS_EVERY == SUSPECTS_EVERY - 1;
        let others = !busy || turn % 2 == 1;
        let find = |suspect: bool| self.names.iter().position(|name| next_is_suspect(name) == suspect);
        let place = if others { find(false) } else { None }.or_else(|| if suspects { find(true) } else { None })?;
        self.names.remove(place)
    }
}
