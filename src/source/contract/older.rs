//! An older state of Redis comes back, as after a restart with older data or a failover to a replica that was behind. What was
//! confirmed before it is kept, and what was claimed then is taken over. Processes do not know, and go on with what they have.

use super::on_redis::OnRedis;
use super::walk::Walk;
use super::*;

/// Longest way to an empty queue.
const ROUNDS: u64 = 200;

impl OnRedis {
    /// Redis has what it had then, and nothing else.
    async fn restore(&mut self, saved: &[(Vec<u8>, Vec<u8>)]) {
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("FLUSHDB");
        for (key, dump) in saved {
            pipe.cmd("RESTORE").arg(key).arg(0).arg(dump);
        }
        self.run(&pipe).await;
        self.advance(Duration::ZERO).await;
    }
}

impl Walk {
    /// Walks, and now and then Redis falls back to what it held some steps before; then everything comes to rest. How many times
    /// it fell back.
    pub(crate) async fn run_forgetful(mut self, rig: &mut impl Served, steps: usize) -> usize {
        let (mut older, mut falls) = (None, 0);
        for step in 0..steps {
            let what = match (self.rng.u8(0..16), older.take()) {
                (0, None) => {
                    older = Some((on_redis::dump(&mut rig.on().admin, false).await, self.ends.clone()));
                    "a copy is made".to_owned()
                }
                (0, Some((keys, ends))) => {
                    rig.on().restore(&keys).await;
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
                let what = self.write(rig, &mine, Move::Confirm).await.expect("the server settles");
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

/// Walks of these seeds, on a rig of its own each.
pub(crate) async fn states_come_back<R: Served>(seeds: std::ops::Range<u64>, rig: impl AsyncFn(u64) -> R) {
    let mut falls = 0;
    for seed in seeds.clone() {
        let mut rig = rig(seed).await;
        falls += Walk::new(&rig, seed).run_forgetful(&mut rig, 100).await;
    }
    println!("{} seeds with {falls} falls to an older state", seeds.count());
    assert!(falls > 0);
}
