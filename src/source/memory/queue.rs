//! The places of a queue in memory, and the moves between them but for the claim: what the ledger's scripts do.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;

use super::zset::Zset;
use crate::link::Side;
use crate::source::ledger::{
    Answer, BATCH_BYTES, BATCH_ENTRIES, Cursor, DeadLetter, Entry, Forwarder, Move, Order, RecoverRequest, Recovered,
    Settled,
};
use crate::source::millis;

#[derive(Default)]
pub(super) struct Queue {
    /// Element -> due time in ms.
    pub(super) scheduled: Zset,
    pub(super) ready: VecDeque<Bytes>,
    /// Member -> end of its lease in ms.
    pub(super) in_flight: Zset,
    /// Member -> time of the next attempt in ms.
    pub(super) retry: Zset,
    pub(super) dead: Vec<DeadLetter>,
    deaths: u64,
    /// Lists that exactly-once pushes went to.
    pub(super) lists: HashMap<Bytes, VecDeque<Bytes>>,
    /// Keys that hold something else than a list.
    pub(super) not_lists: HashSet<Bytes>,
    forwarder: Option<ForwardLease>,
    /// Ids given to payloads of the ready list.
    pub(super) given: u64,
}

struct ForwardLease {
    owner: [u8; 8],
    until_ms: i64,
    returned: bool,
}

impl Queue {
    /// How many there are at a place up to this time.
    pub(super) fn count(&self, place: &str, until_ms: i64) -> i64 {
        let count = match place {
            "scheduled" => self.scheduled.until(until_ms).count(),
            "ready" => self.ready.len(),
            "retry" => self.retry.until(until_ms).count(),
            "in_flight" => self.in_flight.until(until_ms).count(),
            _ => 0,
        };
        count as i64
    }

    pub(super) fn recover(&mut self, owner: [u8; 8], request: &RecoverRequest, now_ms: i64) -> Recovered {
        if now_ms <= request.not_after_ms {
            return Recovered::Wait { now_ms };
        }
        let deadline = now_ms.saturating_add(millis(request.lease));
        let Cursor { mut from, mut skip } = request.cursor.clone();
        let (mut entries, mut looked, mut bytes) = (Vec::new(), 0, 0);
        loop {
            if looked >= BATCH_ENTRIES || bytes >= BATCH_BYTES {
                return Recovered::Slice { now_ms, entries, next: Some(Cursor { from, skip }) };
            }
            let first = from.parse().unwrap_or(f64::NEG_INFINITY);
            let within = self.in_flight.until(request.until_ms).skip_while(|(until, _)| (*until as f64) < first);
            let found = nth(within, skip);
            let Some((until, member)) = found else {
                return Recovered::Slice { now_ms, entries, next: None };
            };
            (looked, bytes) = (looked + 1, bytes + member.len());
            if until.to_string() != from {
                (from, skip) = (until.to_string(), 0);
            }
            match Entry::decode(member.clone()) {
                Some(entry) if entry.header.owner == owner && entry.header.key.claim == request.number => {
                    // What moves to a place within the range is met again there, as in Redis.
                    self.in_flight.add(deadline, member);
                    skip += i64::from(until == deadline);
                    entries.push(entry);
                }
                _ => skip += 1,
            }
        }
    }

    pub(super) fn settle_all(
        &mut self,
        batch: &[(Bytes, Move)],
        push_to: Option<&Bytes>,
        dead_max_len: Option<u64>,
        now_ms: i64,
    ) -> Settled {
        if batch.iter().all(|(_, step)| matches!(step, Move::Confirm)) {
            // As in Redis, which answers one command with a number and with no time.
            let removed = batch.iter().filter(|(member, _)| self.in_flight.remove(member).is_some()).count();
            let answers = (0..batch.len()).map(|n| if n < removed { Answer::Done } else { Answer::NotMine }).collect();
            return Settled { now_ms: None, answers, trimmed: 0 };
        }
        let deaths = self.deaths;
        let answers = batch.iter().map(|(member, step)| self.settle(member, step, push_to, now_ms)).collect();
        let mut trimmed = 0;
        if let Some(most) = dead_max_len.filter(|_| self.deaths > deaths) {
            let over = self.dead.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
            trimmed = self.dead.drain(..over).count() as u64;
        }
        Settled { now_ms: Some(now_ms), answers, trimmed }
    }

    fn settle(&mut self, member: &Bytes, step: &Move, push_to: Option<&Bytes>, now_ms: i64) -> Answer {
        let Some(entry) = Entry::decode(member.clone()) else { return Answer::NotMine };
        let lease = self.in_flight.score(member);
        let known = |place: &Zset, new: &Bytes| match place.score(new) {
            Some(_) => Answer::Already,
            None => Answer::NotMine,
        };
        match (step, lease) {
            (Move::Push { .. }, _) if push_to.is_some_and(|list| self.not_lists.contains(list)) => {
                return Answer::WrongType;
            }
            (Move::Retry { header, .. } | Move::Release { header, .. }, None) => {
                return known(&self.retry, &entry.under(header));
            }
            (Move::Progress { header }, None) => return known(&self.in_flight, &entry.under(header)),
            (_, None) => return Answer::NotMine,
            (Move::Progress { header }, Some(until_ms)) => {
                self.in_flight.remove(member);
                self.in_flight.add(until_ms, entry.under(header));
                return Answer::Done;
            }
            (Move::Confirm, _) => {}
            (Move::Retry { header, delay_ms }, _) => {
                self.retry.add(now_ms.saturating_add_unsigned(*delay_ms), entry.under(header));
            }
            (Move::Release { header, at_ms }, _) => self.retry.add(*at_ms, entry.under(header)),
            (Move::Dead { fields }, _) => {
                self.deaths += 1;
                let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
                self.dead.push(DeadLetter { stream_id: format!("{now_ms}-{}", self.deaths), fields });
            }
            (Move::Push { side, body }, _) => {
                let list = self.lists.entry(push_to.cloned().unwrap_or_default()).or_default();
                match side {
                    Side::Left => list.push_front(body.clone()),
                    Side::Right => list.push_back(body.clone()),
                }
            }
        }
        self.in_flight.remove(member);
        Answer::Done
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

/// The member behind this many others.
fn nth<'a>(mut members: impl Iterator<Item = &'a (i64, Bytes)>, behind: i64) -> Option<(i64, Bytes)> {
    members.nth(usize::try_from(behind).unwrap_or(0)).cloned()
}
