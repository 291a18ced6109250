//! A random walk through all calls of several processes. After each step every element is in one place (R2).
//!
//! The walk writes down what it saw in words that are the same for every implementation: see the test that compares them.

use std::collections::{BTreeMap, HashMap};

use super::recovery::recover;
use super::*;
use crate::source::ledger::{Cursor, Hints, RecoverRequest};

pub(crate) async fn random_calls_keep_every_element_in_one_place(mut rig: impl Rig) {
    Walk::new(&rig, 0).run(&mut rig, 100).await;
}

/// What the walker knows.
pub(crate) struct Walk {
    rng: fastrand::Rng,
    start_ms: i64,
    /// Elements and payloads so far, with where they end: anywhere, or in these places.
    ends: BTreeMap<Bytes, Option<&'static [&'static str]>>,
    offered: Vec<Bytes>,
    /// Entries that were claimed, by whom, whether they are still that process's or not.
    claimed: Vec<(u8, Entry)>,
    claims: Vec<(u8, ClaimRequest)>,
    /// The last verdict.
    last: Option<(u8, Entry, Move)>,
    log: Vec<String>,
}

impl Walk {
    pub(crate) fn new(rig: &impl Rig, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Walk {
            rng,
            start_ms: rig.now_ms(),
            ends: BTreeMap::new(),
            offered: Vec::new(),
            claimed: Vec::new(),
            claims: Vec::new(),
            last: None,
            log: Vec::new(),
        }
    }

    /// Walks; what it saw, a line for each step.
    pub(crate) async fn run(mut self, rig: &mut impl Rig, steps: usize) -> Vec<String> {
        for step in 0..steps {
            let owner = self.rng.u8(1..=3);
            let what = match self.rng.u8(0..16) {
                0..3 => self.offer(rig, step as u64).await,
                3 => self.make_ready(rig, step).await,
                4..8 => self.claim(rig, owner).await,
                8..11 => self.settle(rig).await,
                11 => self.settle_again(rig).await,
                12 => self.extend(rig).await,
                13 => self.recover(rig).await,
                14 => self.rescue(rig).await,
                _ => {
                    let by = ms([1, 40, 300, 2_000, 11_000][self.rng.usize(0..5)]);
                    rig.advance(by).await;
                    format!("{by:?} later")
                }
            };
            let places = rig.places().await;
            self.check(&places, &what);
            let seen = self.look(rig, &places).await;
            self.log.push(format!("{step}: {what}; {seen}"));
        }
        self.log
    }

    async fn offer(&mut self, rig: &mut impl Rig, n: u64) -> String {
        let again = self.rng.u8(0..10) == 0 && !self.offered.is_empty();
        let due_ms = rig.now_ms() + self.rng.i64(-300..700);
        let scheduled: Vec<_> = rig.places().await.scheduled.into_iter().map(|(_, element)| element).collect();
        let element = match again && !scheduled.is_empty() {
            true => scheduled[self.rng.usize(..scheduled.len())].clone(),
            false => element(rig, n),
        };
        rig.offer(&element, due_ms).await;
        self.ends.insert(element.clone(), None);
        self.offered.push(element);
        format!("offer for {}", due_ms - self.start_ms)
    }

    async fn make_ready(&mut self, rig: &mut impl Rig, step: usize) -> String {
        let payload = Bytes::from(format!("ready {step}"));
        rig.make_ready(&payload).await;
        self.ends.insert(payload, None);
        "ready".to_owned()
    }

    async fn claim(&mut self, rig: &impl Rig, owner: u8) -> String {
        let number = self.claims.len() as u64 + 1;
        let request = ClaimRequest {
            most: self.rng.usize(1..7),
            not_after_ms: rig.now_ms() + self.rng.i64(-1..10),
            ahead: ms(self.rng.u64(0..2) * 200),
            alone: self.rng.u8(0..6) == 0,
            rotation: self.rng.u64(0..12),
            ..request(number)
        };
        let store = rig.store(owner);
        let reply = store.claim(&request).await.expect("the server claims");
        self.claims.push((owner, request));
        let claimed = match reply {
            ClaimReply::Late { .. } => return "late".to_owned(),
            ClaimReply::Claimed(claimed) => claimed,
        };
        let mut words = format!("{owner} claims:");
        for (from, entry) in claimed.entries {
            let header = &entry.header;
            let counts = (header.generation, header.attempts, header.expiries, header.key.index);
            let time_ms = header.time_ms - self.start_ms;
            words.push_str(&format!(" {from:?} {} {counts:?} {time_ms},", self.name(rig, &entry)));
            self.claimed.push((owner, entry));
        }
        let own: Vec<_> = claimed.own.iter().map(|key| (key.claim, key.index)).collect();
        let next = claimed.next_ms.map(|next_ms| next_ms - self.start_ms);
        format!("{words} own {own:?} next {next:?} suspects {} more {}", claimed.suspects, claimed.more)
    }

    async fn settle(&mut self, rig: &impl Rig) -> String {
        if self.claimed.is_empty() {
            return "nothing to settle".to_owned();
        }
        // Mostly what is probably still there.
        let oldest = if self.rng.bool() { 0 } else { self.claimed.len().saturating_sub(4) };
        let (owner, entry) = self.claimed[self.rng.usize(oldest..self.claimed.len())].clone();
        let step = match self.rng.u8(0..8) {
            0 => Move::Confirm,
            1 | 2 => retry(&entry, ms(self.rng.u64(0..400))),
            3 | 4 => release(&entry),
            5 => dead(&entry),
            6 => Move::Push { side: crate::link::Side::Right, body: entry.element.clone() },
            _ => {
                let mut header = entry.header.clone();
                header.confirm(self.rng.u64(0..3));
                Move::Progress { header }
            }
        };
        self.last = Some((owner, entry.clone(), step.clone()));
        self.write(rig, owner, &entry, step).await
    }

    async fn settle_again(&mut self, rig: &impl Rig) -> String {
        match self.last.clone() {
            Some((owner, entry, step)) => format!("again, {}", self.write(rig, owner, &entry, step).await),
            None => "nothing to settle again".to_owned(),
        }
    }

    async fn write(&mut self, rig: &impl Rig, owner: u8, entry: &Entry, step: Move) -> String {
        let word = match &step {
            Move::Confirm => "confirm",
            Move::Retry { .. } => "retry",
            Move::Release { .. } => "release",
            Move::Progress { .. } => "progress",
            Move::Dead { .. } => "dead",
            Move::Push { .. } => "push",
        };
        let answer = settle_one(&*rig.store(owner), entry, step.clone()).await;
        if answer == Answer::Done {
            let end: Option<&[&str]> = match step {
                Move::Confirm => Some(&[]),
                Move::Dead { .. } => Some(&["dead"]),
                Move::Push { .. } => Some(&["pushed"]),
                Move::Progress { ref header } => {
                    self.claimed.extend(Entry::decode(entry.under(header)).map(|entry| (owner, entry)));
                    None
                }
                _ => None,
            };
            self.ends.insert(entry.element.clone(), end);
        }
        format!("{owner}: {word} {} {answer:?}", self.name(rig, entry))
    }

    async fn extend(&mut self, rig: &impl Rig) -> String {
        let entries = self.rng.choose_multiple(self.claimed.iter(), 3);
        let members: Vec<_> = entries.iter().map(|(_, entry)| entry.member.clone()).collect();
        let extended = rig.store(A).extend(LEASE, &members).await.expect("the server extends");
        format!("extend {extended:?}")
    }

    async fn recover(&mut self, rig: &mut impl Rig) -> String {
        let Some((owner, claim)) = self.rng.choice(self.claims.iter()).cloned() else {
            return "nothing to recover".to_owned();
        };
        rig.advance(ms((claim.not_after_ms + 1 - rig.now_ms()).max(0) as u64)).await;
        let request = RecoverRequest {
            number: claim.number,
            not_after_ms: claim.not_after_ms,
            until_ms: rig.now_ms() + 20_000,
            lease: LEASE,
            cursor: Cursor { from: "-inf".to_owned(), skip: 0 },
        };
        let (mut found, _) = recover(&*rig.store(owner), &request).await;
        found.sort_by_key(|entry| entry.header.key.index);
        let words: Vec<_> = found.iter().map(|entry| (entry.header.key.index, self.name(rig, entry))).collect();
        self.claimed.extend(found.into_iter().map(|entry| (owner, entry)));
        format!("{owner}: recover {} {words:?}", claim.number)
    }

    async fn rescue(&mut self, rig: &impl Rig) -> String {
        let store = rig.rescuer();
        let elements: Vec<_> = self.offered.iter().rev().take(3).cloned().collect();
        let after = ms(self.rng.u64(0..500));
        let page = store.scheduled(0).await.expect("the server reads").elements;
        let overdue_ms = rig.now_ms() - after.as_millis() as i64;
        for element in &elements {
            if page.iter().any(|(due_ms, at)| at == element && *due_ms <= overdue_ms) {
                let payload = store.open_scheduled(element).1.expect("a payload");
                self.ends.insert(element.clone(), Some(&[]));
                self.ends.insert(payload, None);
            }
        }
        format!("{:?}", store.rescue(after, &elements).await.expect("the server transfers"))
    }

    /// Every element is in one place, or where it ended.
    fn check(&self, places: &Places, what: &str) {
        let mut found: HashMap<Bytes, Vec<&str>> = HashMap::new();
        let mut see = |element: &Bytes, place| found.entry(element.clone()).or_default().push(place);
        places.scheduled.iter().for_each(|(_, element)| see(element, "scheduled"));
        places.ready.iter().for_each(|payload| see(payload, "ready"));
        for (place, members) in [("in flight", &places.in_flight), ("retry", &places.retry)] {
            for (_, member) in members {
                see(&Entry::decode(member.clone()).expect("an entry").element, place);
            }
        }
        places.dead.iter().for_each(|letter| see(letter.bytes("element").expect("an element"), "dead"));
        places.pushed.iter().for_each(|body| see(body, "pushed"));
        for (element, end) in &self.ends {
            let at = found.get(element).map_or(&[][..], |places| places);
            match end {
                Some(end) => assert_eq!(at, *end, "{element:?} has ended; {what}; {:#?}", self.log),
                None => assert_eq!(at.len(), 1, "{element:?} is at {at:?}; {what}; {:#?}", self.log),
            }
        }
    }

    /// What is at each place, and what the queue says of itself.
    async fn look(&self, rig: &impl Rig, places: &Places) -> String {
        let store = rig.store(C);
        let times = |members: &[(i64, Bytes)]| -> Vec<(i64, String)> {
            let entry = |member: &Bytes| Entry::decode(member.clone()).map(|entry| self.name(rig, &entry));
            members.iter().map(|(at, member)| (at - self.start_ms, entry(member).unwrap_or_default())).collect()
        };
        let due: Vec<_> = places.scheduled.iter().map(|(due_ms, _)| due_ms - self.start_ms).collect();
        let stats = store.stats(&mut Hints::default()).await.expect("the server counts");
        let source = stats.source;
        let head = source.head_ms.map(|head_ms| head_ms - self.start_ms);
        let counts = [stats.in_flight, stats.retry, stats.dead, source.scheduled, source.due, source.ready];
        let read = rig.server().read(&store.poll(rig.now_ms(), ms(200))).await.expect("the server reads");
        let read: Vec<_> = read.into_iter().map(|answer| answer.expect("a number")).collect();
        format!(
            "due {due:?} ready {:?} in flight {:?} retry {:?} counts {counts:?} head {head:?} poll {read:?}",
            places.ready,
            times(&places.in_flight),
            times(&places.retry),
        )
    }

    /// The payload of an entry: the same in every implementation.
    fn name(&self, rig: &impl Rig, entry: &Entry) -> String {
        let payload = rig.store(A).open(entry).1.expect("a payload");
        String::from_utf8_lossy(&payload).into_owned()
    }
}
