//! A slot that moves between two nodes of a cluster while processes make their calls: some of the queue's keys are on the one
//! node, and some on the other. A call that is refused has changed nothing on either; one that ran has done all of it.

use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;

use super::on_redis::OnRedis;
use super::walk::Walk;
use super::*;
use delaybridge_ledger::StoreError;
use delaybridge_link::test_server::eventually;
use delaybridge_link::{TEST_CLOCK, slot};

/// The outcomes of the calls that were made while the slot was on its way.
#[derive(Debug, Default)]
pub struct Calls {
    pub refused: usize,
    pub ran: usize,
}

/// A key as Redis dumps it, and whether it is on the other node.
type Dumped = (bool, Vec<u8>, Vec<u8>);

async fn ask<T: FromRedisValue>(node: &mut MultiplexedConnection, words: &[&[u8]]) -> T {
    let mut command = redis::cmd(std::str::from_utf8(words[0]).expect("the name of a command"));
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query_async(node).await.expect("the node answers")
}

/// All keys of a node but the clock.
async fn keys_at(node: &mut MultiplexedConnection) -> Vec<Vec<u8>> {
    on_redis::dump(node, true).await.into_iter().map(|(key, _)| key).collect()
}

/// The view of a node: the epoch and the slots of each.
async fn view(node: &mut MultiplexedConnection) -> BTreeMap<String, (String, String)> {
    let nodes: String = ask(node, &[b"CLUSTER", b"NODES"]).await;
    let of = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields[0].to_owned(), (fields[6].to_owned(), fields[8..].join(" ")))
    };
    nodes.lines().map(of).collect()
}

/// Moves these keys to the node at `port`, all at once.
async fn migrate(node: &mut MultiplexedConnection, port: u16, keys: &[Vec<u8>]) {
    if !keys.is_empty() {
        let port = port.to_string();
        let mut words: Vec<&[u8]> = vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"60000", b"KEYS"];
        words.extend(keys.iter().map(Vec::as_slice));
        assert_eq!(ask::<String>(node, &words).await, "OK");
    }
}

impl OnRedis {
    fn slot(&self) -> String {
        slot(&self.keys.leases).to_string()
    }

    /// Begins to move the slot of the queue to the other node.
    async fn set_out(&mut self) {
        let slot = self.slot();
        let from: Vec<u8> = ask(&mut self.admin, &[b"CLUSTER", b"MYID"]).await;
        let to: Vec<u8> = ask(self.beside(), &[b"CLUSTER", b"MYID"]).await;
        ask::<()>(self.beside(), &[b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"IMPORTING", &from]).await;
        ask::<()>(&mut self.admin, &[b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"MIGRATING", &to]).await;
        self.moving = true;
        // The clock is on both.
        self.advance(Duration::ZERO).await;
    }

    /// Some of the keys go over.
    async fn move_some(&mut self, rng: &mut fastrand::Rng) -> usize {
        let mut keys = keys_at(&mut self.admin).await;
        let share = rng.f64();
        keys.retain(|_| rng.f64() < share);
        migrate(&mut self.admin, self.ports[1], &keys).await;
        keys.len()
    }

    /// The slot arrives with all of its keys. What was the other node is the queue's from now on.
    async fn arrive(&mut self) {
        let keys = keys_at(&mut self.admin).await;
        migrate(&mut self.admin, self.ports[1], &keys).await;
        ask::<()>(&mut self.admin, &[b"DEL", TEST_CLOCK.as_bytes()]).await;
        let slot = self.slot();
        let to = ask::<Vec<u8>>(self.beside(), &[b"CLUSTER", b"MYID"]).await;
        let words: [&[u8]; 5] = [b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"NODE", &to];
        ask::<()>(self.beside(), &words).await;
        ask::<()>(&mut self.admin, &words).await;
        let beside = self.beside.as_mut().expect("two nodes");
        std::mem::swap(&mut self.admin, beside);
        self.ports.swap(0, 1);
        self.moving = false;
        let mut here = self.admin.clone();
        let mut there = self.beside().clone();
        // Else a message from before may say that the other one has the slot.
        eventually("both nodes to agree", async || view(&mut here).await == view(&mut there).await).await;
    }

    /// The move is undone: all keys come back.
    async fn come_back(&mut self) {
        let slot = self.slot();
        let port = self.ports[0];
        ask::<()>(&mut self.admin, &[b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"STABLE"]).await;
        let keys = keys_at(self.beside()).await;
        migrate(self.beside(), port, &keys).await;
        let mut clock = redis::pipe();
        clock.cmd("ASKING").del(TEST_CLOCK);
        clock.exec_async(self.beside()).await.expect("the other node forgets the clock");
        ask::<()>(self.beside(), &[b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"STABLE"]).await;
        self.moving = false;
    }

    /// Everything that both nodes have.
    async fn dump(&mut self) -> Vec<Dumped> {
        let mut all = Vec::new();
        for (other, node) in [(false, &mut self.admin), (true, self.beside.as_mut().expect("two nodes"))] {
            all.extend(on_redis::dump(node, true).await.into_iter().map(|(key, dump)| (other, key, dump)));
        }
        all
    }
}

/// Whether a node has refused the call before its first effect.
fn refused(error: &StoreError) -> bool {
    matches!(error, StoreError::NotSent { .. } | StoreError::Moving { .. })
}

fn on_both(dumped: &[Dumped]) -> Option<&Vec<u8>> {
    let mut keys: Vec<_> = dumped.iter().map(|(_, key, _)| key).collect();
    keys.sort();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

impl Walk {
    /// Walks, and the slot of the queue moves now and then.
    pub async fn run_moving(mut self, rig: &mut impl Served, steps: usize) -> Calls {
        let mut calls = Calls::default();
        let home = rig.on().ports[0];
        for step in 0..steps {
            let what = match self.rng.u8(0..10) {
                0 => self.move_slot(rig, &mut calls).await,
                _ => self.step(rig, step).await.expect("the server answers"),
            };
            self.check(&rig.places().await, &what);
            self.log.push(format!("{step}: {what}"));
        }
        // The next walk begins where this one did.
        if rig.on().ports[0] != home {
            rig.on().set_out().await;
            rig.on().arrive().await;
        }
        calls
    }

    /// The slot moves, or sets out and comes back, and calls are made on the way.
    async fn move_slot(&mut self, rig: &mut impl Served, calls: &mut Calls) -> String {
        rig.on().set_out().await;
        self.log.push("the slot sets out".to_owned());
        for _ in 0..self.rng.usize(1..8) {
            let moved = rig.on().move_some(&mut self.rng).await;
            self.log.push(format!("{moved} keys go over"));
            let before = rig.on().dump().await;
            let call = self.rng.u8(6..21);
            let made = self.call(rig, call).await;
            let after = rig.on().dump().await;
            let what = match made {
                Ok(what) => {
                    calls.ran += 1;
                    what
                }
                Err(error) if refused(&error) => {
                    calls.refused += 1;
                    assert!(after == before, "refused, and changed something: {error}; {call}; {:#?}", self.log);
                    format!("call {call} is refused: {error}")
                }
                Err(error) => panic!("call {call}: {error}; {:#?}", self.log),
            };
            assert_eq!(on_both(&after), None, "a key on both nodes; {what}; {:#?}", self.log);
            self.check(&rig.places().await, &what);
            self.log.push(what);
        }
        let arrives = self.rng.bool();
        if arrives {
            rig.on().arrive().await
        } else {
            rig.on().come_back().await
        }
        // The connection to the node that has the slot now may have to be made.
        let store = rig.store(A);
        let rescuer = rig.transfers().then(|| rig.rescuer());
        eventually("the daemons to find the slot", async || {
            let rescues = match &rescuer {
                Some(rescuer) => rescuer.scheduled(0, 0).await.is_ok(),
                None => true,
            };
            rescues && store.expired(0, 1).await.is_ok()
        })
        .await;
        format!("the slot arrives: {arrives}")
    }
}

/// Walks of these seeds on one cluster, on a rig of its own each; at least some calls must have been refused, and others have run.
pub async fn slots_move<R: Served>(seeds: std::ops::Range<u64>, rig: impl AsyncFn(u64) -> R) {
    let mut all = Calls::default();
    for seed in seeds.clone() {
        let mut rig = rig(seed).await;
        let Calls { refused, ran } = Walk::new(&rig, seed).run_moving(&mut rig, 60).await;
        all = Calls { refused: all.refused + refused, ran: all.ran + ran };
    }
    println!("{} seeds while slots move: {all:?}", seeds.count());
    assert!(all.refused > 0 && all.ran > 0, "{all:?}");
}
