//! A random walk through all calls on claims of several processes. After each step every element is in one place (R2), and
//! every claim that holds something has a lease.
//!
//! The walk writes down what it saw in words that are the same for every implementation: see the test that compares them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::*;
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::{Buried, Extended, Whole};

/// The description of a step.
pub(super) type Step = Result<String, StoreError>;

pub async fn random_calls_keep_every_element_in_one_place(mut rig: impl Rig) {
    Walk::new(&rig, 0).run(&mut rig, 100).await;
}

/// The beliefs of the owner of a claim: what it was answered, and what became of its verdicts. Redis may have forgotten any of it.
#[derive(Debug, Default)]
struct Belief {
    /// The elements, by the members that were written last.
    held: Vec<Mine>,
    /// Something has left it in another way than by a confirmation.
    moved: bool,
    end_ms: i64,
}

/// The knowledge of the walker.
pub struct Walk {
    pub(super) rng: fastrand::Rng,
    start_ms: i64,
    /// Elements and payloads so far, with where they end: anywhere, or in these places.
    pub(super) ends: BTreeMap<Bytes, Option<&'static [&'static str]>>,
    offered: Vec<Bytes>,
    /// Names of claims and takeovers, with the time after which they run no more.
    pub(super) names: Vec<(ClaimName, i64)>,
    claims: Vec<ClaimRequest>,
    takeovers: Vec<TakeOverRequest>,
    /// Elements that were claimed, whether they are still their owner's or not.
    claimed: Vec<Mine>,
    /// The claims and takeovers that were answered with elements, and these.
    pub(super) delivered: Vec<(ClaimName, Vec<Bytes>)>,
    /// The beliefs of the owners of claims.
    beliefs: BTreeMap<ClaimName, Belief>,
    /// Owners confirm claims by their names whatever has left them: a planted fault.
    pub careless: bool,
    last: Option<(Mine, SettleOp)>,
    pub(super) log: Vec<String>,
}

impl Walk {
    pub fn new(rig: &impl Rig, seed: u64) -> Self {
        Walk {
            rng: fastrand::Rng::with_seed(seed),
            start_ms: rig.now_ms(),
            ends: BTreeMap::new(),
            offered: Vec::new(),
            names: Vec::new(),
            claims: Vec::new(),
            takeovers: Vec::new(),
            claimed: Vec::new(),
            delivered: Vec::new(),
            beliefs: BTreeMap::new(),
            careless: false,
            last: None,
            log: Vec::new(),
        }
    }

    /// Walks; what it saw, a line for each step.
    pub async fn run(mut self, rig: &mut impl Rig, steps: usize) -> Vec<String> {
        for step in 0..steps {
            let what = self.step(rig, step).await.expect("the server answers");
            let places = rig.places().await;
            self.check(&places, &what);
            let seen = self.look(rig, &places).await;
            self.log.push(format!("{step}: {what}; {seen}"));
        }
        self.log
    }

    /// One thing that a process, a client or time does.
    pub(super) async fn step(&mut self, rig: &mut impl Rig, step: usize) -> Step {
        Ok(match self.rng.u8(0..24) {
            0..5 => self.offer(rig, step as u64).await,
            5 => self.make_ready(rig, step).await,
            21 if rig.transfers() => self.rescue(rig).await,
            call @ 6..=20 => self.call(rig, call).await?,
            _ => {
                let by = ms([1, 40, 300, 2_000, 11_000][self.rng.usize(0..5)]);
                rig.advance(by).await;
                format!("{by:?} later")
            }
        })
    }

    /// One call of a process: the one with this number, from 6 to 20.
    pub(super) async fn call(&mut self, rig: &mut impl Rig, call: u8) -> Step {
        match call {
            ..10 => self.claim(rig).await,
            10 => self.claim_again(rig).await,
            11..14 => self.settle(rig).await,
            14 => self.settle_again(rig).await,
            15 => self.extend(rig).await,
            16..18 => self.take_over(rig).await,
            18 => self.take_over_again(rig).await,
            19 => self.confirm(rig).await,
            _ => self.bury(rig).await,
        }
    }

    async fn offer(&mut self, rig: &mut impl Rig, n: u64) -> String {
        let again = self.rng.u8(0..10) == 0;
        let due_ms = rig.now_ms() + self.rng.i64(-300..700);
        let scheduled = if again { rig.places().await.scheduled } else { Vec::new() };
        let element = match self.rng.choice(&scheduled) {
            Some((_, element)) => element.clone(),
            None => element(rig, n),
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

    /// A time after which a call that is sent now runs no more.
    fn not_after_ms(&mut self, rig: &impl Rig) -> i64 {
        rig.now_ms() + self.rng.i64(-1..10)
    }

    pub(super) async fn claim(&mut self, rig: &impl Rig) -> Step {
        let request = ClaimRequest {
            most: self.rng.usize(1..7),
            not_after_ms: self.not_after_ms(rig),
            ahead: ms(self.rng.u64(0..2) * 200),
            rotation: self.rng.u64(0..12),
            ..request(self.rng.u8(1..=3), self.names.len() as u64 + 1)
        };
        self.names.push((request.name, request.not_after_ms));
        self.claims.push(request.clone());
        self.send_claim(rig, request).await
    }

    async fn claim_again(&mut self, rig: &impl Rig) -> Step {
        // Mostly one that has not been late for long.
        let oldest = if self.rng.bool() { 0 } else { self.claims.len().saturating_sub(2) };
        match self.rng.choice(&self.claims[oldest..]).cloned() {
            Some(request) => Ok(format!("again, {}", self.send_claim(rig, request).await?)),
            None => Ok("no claim to send again".to_owned()),
        }
    }

    async fn send_claim(&mut self, rig: &impl Rig, request: ClaimRequest) -> Step {
        let name = request.name;
        let claimed = match rig.store(name.owner[0]).claim(&request).await? {
            ClaimReply::Late { .. } => return Ok(format!("{name} is late")),
            ClaimReply::Twice { .. } => return Ok(format!("{name} is sent twice")),
            ClaimReply::Standby { .. } => return Ok(format!("{name} is on standby")),
            ClaimReply::Claimed(claimed) => claimed,
        };
        let next = claimed.next_ms.map(|next_ms| next_ms - self.start_ms);
        let expired: Vec<_> = claimed.expired.iter().map(ClaimName::to_string).collect();
        let words = format!(
            "{} retried {} next {next:?} expired {expired:?} unknown {} more {}",
            self.words(rig, &claimed.elements),
            claimed.retried,
            claimed.unknown,
            claimed.more
        );
        self.deliver(rig, name, claimed.elements);
        Ok(format!("{name} claims {words}"))
    }

    /// A process has these elements, and may deliver them.
    fn deliver(&mut self, rig: &impl Rig, name: ClaimName, elements: Vec<Element>) {
        if !elements.is_empty() {
            self.delivered.push((name, elements.iter().map(Element::bytes).collect()));
            let held = Mine::all(name, elements);
            self.claimed.extend(held.clone());
            let end_ms = rig.now_ms() + LEASE.as_millis() as i64;
            self.beliefs.insert(name, Belief { held, moved: false, end_ms });
        }
    }

    async fn settle(&mut self, rig: &impl Rig) -> Step {
        // Mostly what is probably still there.
        let oldest = if self.rng.bool() { 0 } else { self.claimed.len().saturating_sub(4) };
        let Some(mine) = self.rng.choice(&self.claimed[oldest..]).cloned() else {
            return Ok("nothing to settle".to_owned());
        };
        let step = match self.rng.u8(0..8) {
            0 => SettleOp::Confirm,
            1 | 2 => mine.retry(ms(self.rng.u64(0..400))),
            3 | 4 => mine.release(),
            5 => mine.dead(),
            6 => mine.push(),
            _ => mine.progress(self.rng.u64(0..3)),
        };
        self.last = Some((mine.clone(), step.clone()));
        self.write(rig, &mine, step).await
    }

    async fn settle_again(&mut self, rig: &impl Rig) -> Step {
        match self.last.clone() {
            Some((mine, step)) => Ok(format!("again, {}", self.write(rig, &mine, step).await?)),
            None => Ok("nothing to settle again".to_owned()),
        }
    }

    pub(super) async fn write(&mut self, rig: &impl Rig, mine: &Mine, step: SettleOp) -> Step {
        let word = match &step {
            SettleOp::Confirm => "confirm",
            SettleOp::Retry { .. } => "retry",
            SettleOp::Release { .. } => "release",
            SettleOp::Progress { .. } => "progress",
            SettleOp::Dead { .. } => "dead",
            SettleOp::Push { .. } => "push",
            SettleOp::Return { .. } => "return",
        };
        let settled = rig.store(A).settle(&[mine.verdict(step.clone())], Some(&rig.list()), None).await?;
        assert_eq!((settled.now_ms, settled.answers.len()), (rig.now_ms(), 1));
        let answer = settled.answers[0];
        if let Some(belief) = self.beliefs.get_mut(&mine.name) {
            // Whatever the answer is, the verdict was decided.
            belief.moved |= !matches!(step, SettleOp::Confirm | SettleOp::Progress { .. });
            if !matches!(step, SettleOp::Progress { .. }) {
                belief.held.retain(|held| held.element.bytes() != mine.element.bytes());
            }
        }
        if answer == Answer::Done {
            let end: Option<&[&str]> = match &step {
                SettleOp::Confirm => Some(&[]),
                SettleOp::Dead { .. } => Some(&["dead"]),
                SettleOp::Push { .. } => Some(&["pushed"]),
                SettleOp::Progress { header } => {
                    let noted = Element::entry(mine.element.under(header), mine.element.score_ms).expect("an entry");
                    let noted = Mine { element: noted, ..mine.clone() };
                    if let Some(belief) = self.beliefs.get_mut(&mine.name) {
                        let same = |held: &&mut Mine| held.element.bytes() == mine.element.bytes();
                        belief.held.iter_mut().filter(same).for_each(|held| *held = noted.clone());
                    }
                    self.claimed.push(noted);
                    None
                }
                SettleOp::Retry { .. } | SettleOp::Release { .. } | SettleOp::Return { .. } => None,
            };
            self.ends.insert(mine.element.bytes(), end);
        }
        Ok(format!("{}: {word} {} {answer:?}", mine.name, payload(rig, &mine.element)))
    }

    async fn extend(&mut self, rig: &impl Rig) -> Step {
        let names: Vec<_> = self.rng.choose_multiple(&self.names, 3).into_iter().map(|(name, _)| *name).collect();
        let not_after_ms = self.not_after_ms(rig);
        let Extended::Done { held, .. } = rig.store(A).extend(LEASE, not_after_ms, &names).await? else {
            return Ok("a late extension".to_owned());
        };
        for (name, held) in names.iter().zip(&held) {
            if let Some(belief) = self.beliefs.get_mut(name) {
                belief.end_ms = if *held { rig.now_ms() + LEASE.as_millis() as i64 } else { 0 };
            }
        }
        Ok(format!("extend {held:?}"))
    }

    async fn take_over(&mut self, rig: &impl Rig) -> Step {
        let (expired, _) = rig.store(B).expired(rig.now_ms(), 20).await?;
        let known: Vec<_> = self.names.iter().map(|(name, _)| *name).collect();
        let from = if self.rng.u8(0..6) == 0 || expired.is_empty() { &known } else { &expired };
        let Some(old) = self.rng.choice(from).copied() else { return Ok("nothing to take over".to_owned()) };
        let new = takeover(old, self.rng.u8(1..=3), self.names.len() as u64 + 1).new;
        let most = if new.is_suspect() { 1 } else { self.rng.usize(1..5) };
        let not_after_ms = self.not_after_ms(rig);
        let request = TakeOverRequest { new, most, not_after_ms, ..takeover(old, A, 0) };
        self.names.push((new, not_after_ms));
        self.takeovers.push(request.clone());
        self.send_takeover(rig, request).await
    }

    async fn take_over_again(&mut self, rig: &impl Rig) -> Step {
        match self.takeovers.last().cloned() {
            Some(request) => Ok(format!("again, {}", self.send_takeover(rig, request).await?)),
            None => Ok("no takeover to send again".to_owned()),
        }
    }

    pub(super) async fn send_takeover(&mut self, rig: &impl Rig, request: TakeOverRequest) -> Step {
        let old = request.old;
        let new = request.new;
        let reply = rig.store(new.owner[0]).take_over(&request).await?;
        let words = match reply {
            TakeOverReply::Late { .. } => "late".to_owned(),
            TakeOverReply::Twice { .. } => "sent twice".to_owned(),
            TakeOverReply::Nothing { .. } => "nothing".to_owned(),
            TakeOverReply::Taken { elements, left, unknown, .. } => {
                let words = self.words(rig, &elements);
                self.deliver(rig, new, elements);
                format!("{words} left {left} unknown {unknown}")
            }
        };
        Ok(format!("{new} takes over {old}: {words}"))
    }

    /// All that an owner believes to be in a claim was confirmed: by its name, if that is right, else one by one.
    async fn confirm(&mut self, rig: &mut impl Rig) -> Step {
        let names: Vec<ClaimName> = self.beliefs.keys().copied().collect();
        let Some(name) = self.rng.choice(&names).copied() else { return Ok("no claim to confirm".to_owned()) };
        let Some(Belief { held, moved, end_ms }) = self.beliefs.remove(&name) else {
            return Ok("no claim to confirm".to_owned());
        };
        let has_bodies = held.iter().any(|mine| mine.element.body.is_some());
        if (moved || has_bodies) && !self.careless || end_ms <= rig.now_ms() {
            let mut words = Vec::new();
            for mine in held {
                words.push(self.write(rig, &mine, SettleOp::Confirm).await?);
            }
            return Ok(format!("confirm {name} one by one: {words:?}"));
        }
        let there = rig.places().await.held(name);
        let entries = held.iter().filter(|mine| mine.element.part() == Part::Entries).count();
        let whole = Whole { name, bare: held.len() - entries, entries };
        let answers = rig.store(A).confirm(&[whole]).await?;
        // What is gone has ended if its owner has confirmed it: what is gone beside that was lost.
        let known: BTreeSet<Bytes> = match self.delivered.iter().rfind(|(of, _)| *of == name) {
            Some((_, elements)) if !moved => elements.iter().cloned().collect(),
            _ => held.iter().map(|mine| mine.element.bytes()).collect(),
        };
        let inside = |(_, member): &(i64, Bytes)| Element::entry(member.clone(), 0).map(|entry| entry.bytes());
        let bare = there.bare.iter().filter(|_| whole.bare > 0).map(|(_, member)| member.clone());
        let gone = bare.chain(there.entries.iter().filter(|_| whole.entries > 0).filter_map(inside));
        self.ends.extend(gone.filter(|element| known.contains(element)).map(|element| (element, Some(&[][..]))));
        Ok(format!("confirm {name} {answers:?} {}", held.len()))
    }

    async fn bury(&mut self, rig: &impl Rig) -> Step {
        let chosen = self.rng.choose_multiple(&self.names, 5);
        let names: Vec<_> = chosen.iter().map(|(name, _)| *name).collect();
        let not_after_ms = chosen.iter().map(|(_, not_after_ms)| *not_after_ms).max().unwrap_or(0);
        let buried = rig.store(A).bury(not_after_ms, &names).await?;
        Ok(match buried {
            Buried::Wait { .. } => "too early to bury".to_owned(),
            Buried::Done { kept, .. } => format!("buried, kept {kept:?}"),
        })
    }

    async fn rescue(&mut self, rig: &impl Rig) -> String {
        let store = rig.rescuer();
        let elements: Vec<_> = self.offered.iter().rev().take(3).cloned().collect();
        let after = ms(self.rng.u64(0..500));
        let page = store.scheduled(0, 0).await.expect("the server reads").elements;
        let overdue_ms = rig.now_ms() - after.as_millis() as i64;
        for element in &elements {
            if let Some(found) = page.iter().find(|at| at.member == element && at.score_ms <= overdue_ms) {
                let payload = store.open_element(found).1.expect("a payload");
                self.ends.insert(element.clone(), Some(&[]));
                self.ends.insert(payload, None);
            }
        }
        format!("{:?}", store.rescue(after, &elements).await.expect("the server transfers"))
    }

    /// Every element is in one place, or where it ended; every claim that holds something has a lease.
    pub(super) fn check(&self, places: &Places, what: &str) {
        let mut found: HashMap<Bytes, Vec<&str>> = HashMap::new();
        let mut see = |element: &Bytes, place| found.entry(element.clone()).or_default().push(place);
        places.scheduled.iter().for_each(|(_, element)| see(element, "scheduled"));
        places.ready.iter().for_each(|payload| see(payload, "ready"));
        let bare = places.claims.values().flat_map(|parts| &parts.bare);
        bare.for_each(|(_, element)| see(element, "claimed"));
        let held = places.claims.values().flat_map(|parts| &parts.entries).map(|(_, member)| (member, "claimed"));
        for (member, place) in held.chain(places.waiting.iter().map(|(_, member)| (member, "waiting"))) {
            see(&Element::entry(member.clone(), 0).expect("an entry").bytes(), place);
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
        for name in places.claims.keys() {
            assert!(places.lease(*name).is_some(), "{name} has no lease; {what}; {:#?}", self.log);
        }
    }

    /// The contents of each place, and the numbers that the queue reports.
    async fn look(&self, rig: &impl Rig, places: &Places) -> String {
        let due: Vec<_> = places.scheduled.iter().map(|(due_ms, _)| due_ms - self.start_ms).collect();
        let entry = |(at, member): &(i64, Bytes)| Element::entry(member.clone(), *at);
        let waiting: Vec<_> = places.waiting.iter().filter_map(entry).collect();
        let leases: Vec<_> = places.leases.iter().map(|(end_ms, name)| (end_ms - self.start_ms, name)).collect();
        let mut claims = String::new();
        for (name, parts) in &places.claims {
            let bare = parts.bare.iter().map(|(due_ms, element)| Element::bare(element.clone(), *due_ms));
            let elements: Vec<_> = parts.entries.iter().filter_map(entry).chain(bare).collect();
            claims.push_str(&format!(" {name}: {}", self.words(rig, &elements)));
        }
        let counted = rig.store(C).in_flight().await.expect("the server counts");
        let found = reads::finds(rig, &rig.store(C).look(), rig.now_ms(), ms(200)).await;
        format!(
            "due {due:?} ready {:?} leases {leases:?}{claims} waiting {} {counted:?} found {found}",
            places.ready,
            self.words(rig, &waiting),
        )
    }

    /// Elements in words that are the same in every implementation.
    fn words(&self, rig: &impl Rig, elements: &[Element]) -> String {
        let word = |element: &Element| {
            let header = element.header.as_ref();
            let counts = header.map(|header| (header.attempts, header.confirmed.len(), header.writer.place));
            let times = (element.score_ms - self.start_ms, element.due_ms().map(|due_ms| due_ms - self.start_ms));
            format!("{} {counts:?} {times:?}", payload(rig, element))
        };
        format!("{:?}", elements.iter().map(word).collect::<Vec<_>>())
    }
}

/// The payload of an element: the same in every implementation. What only looks at claims does not read bodies.
fn payload(rig: &impl Rig, element: &Element) -> String {
    let payload = rig.store(A).open_element(element).1.unwrap_or_else(|_| element.bytes());
    String::from_utf8_lossy(&payload).into_owned()
}
