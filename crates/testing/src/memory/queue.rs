//! The places of a queue in memory, with the calls on dead letters and lists. Claims have a folder of their own.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;

use super::claim_sets::ClaimSets;
use super::fence::Fence;
use super::zset::Zset;
use delaybridge_ledger::claims::{ClaimName, Element};
use delaybridge_ledger::{DeadLetter, Forwarder, Order, Pause};
use delaybridge_link::Side;

#[derive(Clone, Default)]
pub(super) struct Queue {
    /// Element -> due time in ms.
    pub(super) scheduled: Zset,
    pub(super) ready: VecDeque<Bytes>,
    /// Name of a claim, as text -> end of its lease in ms.
    pub(super) leases: Zset,
    /// Claims that hold something.
    pub(super) claims: HashMap<ClaimName, ClaimSets>,
    /// Member -> time of the next attempt in ms.
    pub(super) retry: Zset,
    pub(super) dead: Vec<DeadLetter>,
    deaths: u64,
    /// Lists that exactly-once pushes went to.
    pub(super) lists: HashMap<Bytes, VecDeque<Bytes>>,
    /// Keys that hold something else than a list.
    pub(super) not_lists: HashSet<Bytes>,
    forwarder: Option<ForwardLease>,
    /// Pauses by their fields.
    pub(super) pauses: HashMap<String, Pause>,
    /// Ids given to payloads of the ready list.
    pub(super) given: u64,
    pub(super) fence: Fence,
}

#[derive(Clone)]
struct ForwardLease {
    owner: [u8; 8],
    until_ms: i64,
    returned: bool,
}

impl Queue {
    /// Counts the elements at a place up to this time.
    pub(super) fn count(&self, place: &str, until_ms: i64) -> i64 {
        let count = match place {
            "scheduled" => self.scheduled.until(until_ms).count(),
            "ready" => self.ready.len(),
            "retry" => self.retry.until(until_ms).count(),
            "leases" => self.leases.until(until_ms).count(),
            _ => 0,
        };
        count as i64
    }

    /// Due time of the oldest element that waits for a retry.
    pub(super) fn oldest_retry_ms(&self) -> Option<i64> {
        let due = |(score, member): &(i64, Bytes)| Element::entry(member.clone(), *score)?.due_ms();
        self.retry.until(i64::MAX).filter_map(due).min()
    }

    pub(super) fn add_dead(&mut self, fields: &[(&'static str, Bytes)], now_ms: i64) {
        self.deaths += 1;
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.dead.push(DeadLetter { stream_id: format!("{now_ms}-{}", self.deaths), fields });
    }

    /// The number of dead letters that there ever were.
    pub(super) fn deaths(&self) -> u64 {
        self.deaths
    }

    /// Trims the dead letters, if there ever were more than `deaths`; answers how many are trimmed away.
    pub(super) fn trim_dead(&mut self, dead_max_len: Option<u64>, deaths: u64) -> u64 {
        let Some(most) = dead_max_len.filter(|_| self.deaths > deaths) else { return 0 };
        let over = self.dead.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
        self.dead.drain(..over).count() as u64
    }

    pub(super) fn push(&mut self, list: Option<&Bytes>, side: Side, body: &Bytes) {
        let list = self.lists.entry(list.cloned().unwrap_or_default()).or_default();
        match side {
            Side::Left => list.push_front(body.clone()),
            Side::Right => list.push_back(body.clone()),
        }
    }

    pub(super) fn forwarded(&mut self, owner: [u8; 8], lease_ms: i64, confirmed: &[String], now_ms: i64) -> Forwarder {
        self.dead.retain(|letter| !confirmed.contains(&letter.stream_id));
        let own = self.forwarder.as_ref().is_none_or(|lease| lease.owner == owner);
        let over = self.forwarder.as_ref().is_none_or(|lease| lease.until_ms <= now_ms);
        let returned = self.forwarder.as_ref().is_some_and(|lease| lease.returned);
        if !own && !over {
            return Forwarder::Another;
        }
        let until_ms = now_ms.saturating_add(lease_ms);
        self.forwarder = Some(ForwardLease { owner, until_ms, returned: lease_ms == 0 });
        if own || returned { Forwarder::Own } else { Forwarder::TakenOver }
    }

    pub(super) fn dead_range(&self, order: Order, from: &str, until: &str, count: usize) -> Vec<DeadLetter> {
        let (low, high) = if order == Order::Oldest { (from, until) } else { (until, from) };
        let within = |letter: &&DeadLetter| {
            let at = place(&letter.stream_id, 0);
            let above = match low.strip_prefix('(') {
                Some(low) => at > place(low, 0),
                None => low == "-" || at >= place(low, 0),
            };
            above
                && match high.strip_prefix('(') {
                    Some(high) => at < place(high, u64::MAX),
                    None => high == "+" || at <= place(high, u64::MAX),
                }
        };
        let letters = self.dead.iter().filter(within).cloned();
        match order {
            Order::Oldest => letters.take(count).collect(),
            Order::Newest => letters.rev().take(count).collect(),
        }
    }
}

/// The two numbers of a stream id; the second may be left out.
fn place(stream_id: &str, number: u64) -> (u64, u64) {
    let (ms, given) = stream_id.split_once('-').unwrap_or((stream_id, ""));
    (ms.parse().unwrap_or(0), given.parse().unwrap_or(number))
}
