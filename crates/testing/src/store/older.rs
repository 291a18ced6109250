//! An older state of Redis comes back, as after a restart with older data or a failover to a replica that was behind. What was
//! confirmed before it is kept, and what was claimed then is taken over. Processes do not know, and go on with what they have.

use super::walk::Walk;
use super::*;

/// Longest way to an empty queue.
const ROUNDS: u64 = 200;

impl Walk {
    /// Walks, and now and then Redis falls back to what it held some steps before; then everything comes to rest. How many times
    /// it fell back.
    pub async fn run_forgetful(mut self, rig: &mut impl Rig, steps: usize) -> usize {
        let mut older = None;
        let mut falls = 0;
        for step in 0..steps {
            let what = match (self.rng.u8(0..16), older.take()) {
                (0, None) => {
                    rig.save().await;
                    older = Some(self.ends.clone());
                    "a copy is made".to_owned()
                }
                (0, Some(ends)) => {
                    rig.fall_back().await;
                    self.ends = ends;
                    falls += 1;
                    "Redis falls back to the copy".to_owned()
                }
                (_, kept) => {
                    older = kept;
                    self.step(rig, step).await.expect("the server answers")
                }
            };
            self.check(&rig.places().await, &what);
            self.log.push(format!("{step}: {what}"));
        }
        self.come_to_rest(rig).await;
        falls
    }

    /// Everything is claimed or taken over, and confirmed: nothing is left but dead letters and what was pushed.
    pub(super) async fn come_to_rest(&mut self, rig: &mut impl Rig) {
        for _ in 0..ROUNDS {
            let places = rig.places().await;
            self.check(&places, "on the way to rest");
            if places.scheduled.is_empty()
                && places.ready.is_empty()
                && places.waiting.is_empty()
                && places.claims.is_empty()
            {
                return;
            }
            rig.advance(LEASE + ms(1_000)).await;
            let (expired, _) = rig.store(A).expired(rig.now_ms(), 100).await.expect("the server reads");
            let mut mine = Vec::new();
            for old in expired {
                let most = if takeover(old, A, 0).new.is_suspect() { 1 } else { 500 };
                let request = TakeOverRequest { most, ..takeover(old, A, self.number()) };
                if let TakeOverReply::Taken { elements, .. } =
                    rig.store(A).take_over(&request).await.expect("the server answers")
                {
                    mine.extend(Mine::all(request.new, elements));
                }
            }
            let request = request(A, self.number());
            mine.extend(Mine::all(request.name, claim(rig, &request).await.elements));
            for mine in mine {
                let what = self.write(rig, &mine, SettleOp::Confirm).await.expect("the server settles");
                self.log.push(what);
            }
        }
        panic!("the queue does not come to rest: {:#?}", rig.places().await);
    }

    /// A number that no claim has had.
    fn number(&mut self) -> u64 {
        self.names.push((name(A, 0), 0));
        self.names.len() as u64 + 1_000
    }
}

impl Walk {
    /// Walks, and each call may be the last one that the former master ran: the process has the answer, and the server is as before
    /// the call. How many calls were forgotten.
    pub async fn run_forgotten(mut self, rig: &mut impl Rig, steps: usize) -> usize {
        let mut forgotten = 0;
        for step in 0..steps {
            let what = match self.rng.u8(0..10) {
                0..4 => self.step(rig, step).await.expect("the server answers"),
                _ => {
                    let call = self.rng.u8(6..=20);
                    let ends = self.ends.clone();
                    let forgets = self.rng.u8(0..3) == 0;
                    rig.save().await;
                    let mut what = self.call(rig, call).await.expect("the server answers");
                    if forgets {
                        rig.fall_back().await;
                        self.ends = ends;
                        forgotten += 1;
                        what.push_str(", which was forgotten");
                    }
                    what
                }
            };
            self.check(&rig.places().await, &what);
            self.log.push(format!("{step}: {what}"));
        }
        self.come_to_rest(rig).await;
        forgotten
    }
}

/// Walks of these seeds in which each call may be forgotten, on a rig of its own each.
pub async fn calls_are_forgotten<R: Rig>(seeds: std::ops::Range<u64>, rig: impl AsyncFn(u64) -> R) {
    let mut forgotten = 0;
    for seed in seeds.clone() {
        let mut rig = rig(seed).await;
        forgotten += Walk::new(&rig, seed).run_forgotten(&mut rig, 120).await;
    }
    println!("{} seeds with {forgotten} calls that were forgotten", seeds.count());
    assert!(forgotten > 0);
}

/// Walks of these seeds, on a rig of its own each.
pub async fn states_come_back<R: Rig>(seeds: std::ops::Range<u64>, rig: impl AsyncFn(u64) -> R) {
    let mut falls = 0;
    for seed in seeds.clone() {
        let mut rig = rig(seed).await;
        falls += Walk::new(&rig, seed).run_forgetful(&mut rig, 100).await;
    }
    println!("{} seeds with {falls} falls to an older state", seeds.count());
    assert!(falls > 0);
}
