//! The calls on claims in memory, and the views of a test.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;

use super::super::claim_sets::{ClaimSets, name, text};
use super::super::element::open;
use super::super::queue::Queue;
use super::super::server::{MemoryStore, Op};
use super::super::zset::Zset;
use delaybridge_core::message::{Identity, Origin};
use delaybridge_ledger::claims::{
    Buried, ClaimName, ClaimReply, ClaimRequest, Confirmed, Contents, Element, Extended, SettleCommand, Settled,
    TakeOverReply, TakeOverRequest, Whole,
};
use delaybridge_ledger::store::{Call, Claims, InFlight};
use delaybridge_ledger::{NoPayload, millis};

/// Claims of which the elements are counted.
const COUNTED: usize = 1_000;

impl Queue {
    /// Names of claims with leases that are over, and how many names before the last of them cannot be read. Those hide no
    /// others.
    pub(super) fn expired(&self, now_ms: i64, most: usize) -> (Vec<ClaimName>, u64) {
        let mut names = Vec::new();
        let mut unknown = 0;
        for (_, text) in self.leases.until(now_ms) {
            if names.len() == most {
                break;
            }
            match name(text) {
                Some(name) => names.push(name),
                None => unknown += 1,
            }
        }
        (names, unknown)
    }

    /// Whether a claim or takeover of this name has run: it has a lease, or holds something.
    pub(super) fn has_run(&self, name: ClaimName) -> bool {
        self.leases.score(&text(name)).is_some() || self.claims.contains_key(&name)
    }

    pub(super) fn extend(&mut self, lease: Duration, not_after_ms: i64, names: &[ClaimName], now_ms: i64) -> Extended {
        if now_ms > not_after_ms {
            return Extended::Late { now_ms };
        }
        let until_ms = now_ms.saturating_add(millis(lease));
        if let Some(name) = names.first()
            && (self.fence.is_gone(*name) || self.fence.own(*name, now_ms, until_ms).is_err())
        {
            return Extended::Done { now_ms, held: vec![false; names.len()] };
        }
        let extend = |name: &ClaimName| {
            let held = self.leases.score(&text(*name)).is_some();
            if held {
                self.leases.add(until_ms, text(*name));
            }
            held
        };
        Extended::Done { now_ms, held: names.iter().map(extend).collect() }
    }

    pub(super) fn confirm(&mut self, whole: &Whole) -> Confirmed {
        let Some(keys) = self.claims.get_mut(&whole.name) else { return Confirmed::Gone };
        let parts = [(&mut keys.bare, whole.bare), (&mut keys.entries, whole.entries)];
        // Nothing is counted, and a key of which the caller knows nothing stays: as in Redis.
        if parts.iter().all(|(held, known)| held.is_empty() || *known == 0) {
            return Confirmed::Gone;
        }
        for (held, _) in parts.into_iter().filter(|(_, known)| *known > 0) {
            *held = Zset::default();
        }
        self.forget_if_empty(whole.name);
        Confirmed::Done
    }

    /// A claim that holds nothing has no keys.
    pub(super) fn forget_if_empty(&mut self, name: ClaimName) {
        if self.claims.get(&name).is_some_and(|keys| keys.len() == 0) {
            self.claims.remove(&name);
        }
    }

    pub(super) fn bury(&mut self, not_after_ms: i64, names: &[ClaimName], now_ms: i64) -> Buried {
        if now_ms <= not_after_ms {
            return Buried::Wait { now_ms };
        }
        let keep = |name: &ClaimName| {
            let kept = self.claims.contains_key(name);
            if !kept {
                self.leases.remove(&text(*name));
            }
            kept
        };
        Buried::Done { now_ms, kept: names.iter().map(keep).collect() }
    }

    pub(super) fn contents(&self, name: ClaimName) -> Contents {
        self.claims.get(&name).map(ClaimSets::contents).unwrap_or_default()
    }

    /// The number of elements in claims.
    pub(in crate::memory) fn held(&self) -> InFlight {
        let names = self.leases.iter().take(COUNTED);
        let keys = names.filter_map(|(_, text)| self.claims.get(&name(text)?));
        InFlight { elements: keys.map(|keys| keys.len() as u64).sum(), more: self.leases.len() > COUNTED }
    }
}

impl Claims for MemoryStore {
    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Call<'a, ClaimReply> {
        async move {
            let epoch = self.server.epoch();
            let reply = self.call(Some(Op::Claim), |queue, now_ms| queue.claim(request, now_ms)).await?;
            if let ClaimReply::Claimed(claimed) = &reply {
                self.make_durable(epoch, request.name, false, claimed.elements.iter().chain(&claimed.damaged)).await?;
            }
            Ok(reply)
        }
        .boxed()
    }

    fn take_over<'a>(&'a self, request: &'a TakeOverRequest) -> Call<'a, TakeOverReply> {
        async move {
            let epoch = self.server.epoch();
            let reply = self.call(Some(Op::TakeOver), |queue, now_ms| queue.take_over(request, now_ms)).await?;
            if let TakeOverReply::Taken { elements, damaged, .. } = &reply {
                self.make_durable(epoch, request.new, true, elements.iter().chain(damaged)).await?;
            }
            Ok(reply)
        }
        .boxed()
    }

    fn expired(&self, now_ms: i64, most: usize) -> Call<'_, (Vec<ClaimName>, u64)> {
        self.call(Some(Op::Expired), move |queue, _| queue.expired(now_ms, most))
    }

    fn extend<'a>(&'a self, lease: Duration, not_after_ms: i64, names: &'a [ClaimName]) -> Call<'a, Extended> {
        self.call(Some(Op::Extend), move |queue, now_ms| queue.extend(lease, not_after_ms, names, now_ms))
    }

    fn contents(&self, name: ClaimName) -> Call<'_, Contents> {
        self.call(Some(Op::Contents), move |queue, _| queue.contents(name))
    }

    fn recover(
        &self,
        name: ClaimName,
        lease: Duration,
        not_after_ms: i64,
        may_repeat: bool,
    ) -> Call<'_, Option<Contents>> {
        async move {
            let epoch = self.server.epoch();
            if self.is_awaited() {
                let extend = |queue: &mut Queue, now_ms| queue.extend(lease, not_after_ms, &[name], now_ms);
                match self.call(Some(Op::Extend), extend).await? {
                    Extended::Late { .. } => return Ok(None),
                    Extended::Done { held, .. } if held == [true] => {}
                    Extended::Done { .. } => return Ok(Some(Contents::default())),
                }
            }
            let contents = self.call(Some(Op::Contents), |queue, _| queue.contents(name)).await?;
            self.make_durable(epoch, name, may_repeat, contents.elements.iter().chain(&contents.damaged)).await?;
            Ok(Some(contents))
        }
        .boxed()
    }

    fn confirm<'a>(&'a self, claims: &'a [Whole]) -> Call<'a, Vec<Confirmed>> {
        self.call(Some(Op::Confirm), move |queue, _| claims.iter().map(|whole| queue.confirm(whole)).collect())
    }

    fn settle<'a>(
        &'a self,
        batch: &'a [SettleCommand],
        push_to: Option<&'a Bytes>,
        dead_max_len: Option<u64>,
    ) -> Call<'a, Settled> {
        self.call(Some(Op::Settle), move |queue, now_ms| queue.settle(batch, push_to, dead_max_len, now_ms))
    }

    fn bury<'a>(&'a self, not_after_ms: i64, names: &'a [ClaimName]) -> Call<'a, Buried> {
        self.call(Some(Op::Bury), move |queue, now_ms| queue.bury(not_after_ms, names, now_ms))
    }

    fn owner(&self) -> [u8; 8] {
        self.owner
    }

    fn leave_order(&self, until_ms: i64) -> Call<'_, bool> {
        self.call(None, move |queue, _| queue.fence.leave(self.owner, until_ms))
    }

    fn in_flight(&self) -> Call<'_, InFlight> {
        self.call(None, |queue, _| queue.held())
    }

    fn open_element(&self, element: &Element) -> (Identity, Result<Bytes, NoPayload>) {
        if element.is_damaged() {
            let (id, junk) = element.as_junk();
            return (id, Err(junk.into()));
        }
        let (id, payload) = match element.origin() {
            Origin::Ready => (element.given_id(), Ok(element.bytes())),
            Origin::Delayed => open(&element.bytes()),
        };
        (id.into(), payload.map_err(NoPayload::Junk))
    }
}

impl MemoryStore {
    /// The claims that have a lease, with its end in ms and what they hold, in the order of the ends. A claim that holds
    /// nothing has its lease until it is buried.
    pub fn claims(&self) -> Vec<(ClaimName, i64, Vec<Element>)> {
        self.with(|queue| {
            let named = |(until_ms, text): &(i64, Bytes)| {
                let name = name(text)?;
                Some((name, *until_ms, queue.claims.get(&name).map(ClaimSets::contents).unwrap_or_default().elements))
            };
            queue.leases.iter().filter_map(named).collect()
        })
    }

    /// The elements that wait for another attempt, with the time of that attempt in ms.
    pub fn waiting(&self) -> Vec<(i64, Element)> {
        self.with(|queue| {
            let entries = queue.retry.iter();
            entries.filter_map(|(at, member)| Some((*at, Element::entry(member.clone(), *at)?))).collect()
        })
    }

    /// Ends the lease of every claim now, as if the processes that hold them had died long ago.
    pub fn end_leases(&self) {
        let now_ms = self.server.now_ms();
        self.with(|queue| {
            let names: Vec<_> = queue.leases.iter().map(|(_, name)| name.clone()).collect();
            names.into_iter().for_each(|name| queue.leases.add(now_ms - 1, name));
        });
    }
}
