//! The topic's slot moves between two nodes during calls of clients: some keys are on one node, some on the other. A
//! refused call has changed nothing on either; a call that ran has done everything.

use std::collections::BTreeMap;
use std::time::Duration;

use delaybridge_jobs::Scripts;
use delaybridge_link::TEST_CLOCK;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;

use super::random::{History, number};
use super::rig::{self, Rig, TOPIC, on_test_clock};
use harness::eventually;

const TOPICS: &str = "delaybridge:jobs:topics";

/// Number of steps in a history, and of histories in the usual run.
const STEPS: u32 = 60;
const SEEDS: u64 = 12;
/// Seeds that find something. 256: a redrive of the only dead job asks once more, is refused where no key of the dead ones is
/// left, and does not say what it has moved.
const FOUND: [u64; 1] = [256];
const PATIENCE: Duration = Duration::from_secs(60);

async fn ask<T: FromRedisValue>(node: &mut MultiplexedConnection, words: &[&[u8]]) -> T {
    let mut command = redis::cmd(std::str::from_utf8(words[0]).expect("the name of a command"));
    words[1..].iter().for_each(|word| {
        command.arg(*word);
    });
    command.query_async(node).await.expect("the node answers")
}

/// The keys of the topic on a node.
async fn keys_at(node: &mut MultiplexedConnection) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = ask(node, &[b"KEYS", format!("*{{{TOPIC}}}").as_bytes()]).await;
    keys.sort();
    keys
}

/// The view of a node on itself and the other: the epoch and the slots of each.
async fn view(node: &mut MultiplexedConnection) -> BTreeMap<String, (String, String)> {
    let nodes: String = ask(node, &[b"CLUSTER", b"NODES"]).await;
    let of = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields[0].to_owned(), (fields[6].to_owned(), fields[8..].join(" ")))
    };
    nodes.lines().map(of).collect()
}

async fn migrate(node: &mut MultiplexedConnection, port: u16, keys: &[Vec<u8>]) {
    if !keys.is_empty() {
        let port = port.to_string();
        let mut words: Vec<&[u8]> = vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"60000", b"KEYS"];
        words.extend(keys.iter().map(Vec::as_slice));
        assert_eq!(ask::<String>(node, &words).await, "OK");
    }
}

#[derive(Debug, Default)]
struct Calls {
    refused: usize,
    ran: usize,
}

/// A slot that moves from the first node to the other.
struct Moving {
    slot: String,
    to: Vec<u8>,
}

impl Rig {
    fn other(&mut self) -> &mut MultiplexedConnection {
        self.other.as_mut().expect("two nodes")
    }

    async fn set_out(&mut self) -> Moving {
        let slot: u64 = ask(&mut self.redis, &[b"CLUSTER", b"KEYSLOT", TOPIC.as_bytes()]).await;
        let slot = slot.to_string();
        let from: Vec<u8> = ask(&mut self.redis, &[b"CLUSTER", b"MYID"]).await;
        let to: Vec<u8> = ask(self.other(), &[b"CLUSTER", b"MYID"]).await;
        ask::<()>(self.other(), &[b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"IMPORTING", &from]).await;
        ask::<()>(&mut self.redis, &[b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"MIGRATING", &to]).await;
        // The clock is on both nodes.
        let clock: Vec<Vec<u8>> = ask(&mut self.redis, &[b"LRANGE", TEST_CLOCK.as_bytes(), b"0", b"-1"]).await;
        let mut pipe = redis::pipe();
        pipe.cmd("ASKING").ignore().rpush(TEST_CLOCK, clock);
        pipe.exec_async(self.other()).await.expect("the other node takes the clock");
        Moving { slot, to }
    }

    async fn arrive(&mut self, Moving { slot, to }: Moving) {
        let keys = keys_at(&mut self.redis).await;
        let port = self.ports()[1];
        migrate(&mut self.redis, port, &keys).await;
        ask::<()>(&mut self.redis, &[b"DEL", TEST_CLOCK.as_bytes()]).await;
        let words: [&[u8]; 5] = [b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"NODE", &to];
        ask::<()>(self.other(), &words).await;
        ask::<()>(&mut self.redis, &words).await;
        self.swap();
        let mut here = self.redis.clone();
        let mut there = self.other().clone();
        // Otherwise an old message may say that the other node has the slot.
        eventually("both nodes to agree", PATIENCE, async || {
            let views = (view(&mut here).await, view(&mut there).await);
            if views.0 == views.1 { Ok(()) } else { Err(format!("{views:?}")) }
        })
        .await;
    }

    async fn come_back(&mut self, Moving { slot, .. }: Moving) {
        let stable: [&[u8]; 4] = [b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"STABLE"];
        ask::<()>(&mut self.redis, &stable).await;
        let keys = keys_at(self.other()).await;
        let port = self.ports()[0];
        migrate(self.other(), port, &keys).await;
        let mut pipe = redis::pipe();
        pipe.cmd("ASKING").del(TEST_CLOCK);
        pipe.exec_async(self.other()).await.expect("the other node forgets the clock");
        ask::<()>(self.other(), &stable).await;
    }

    /// The keys of the topic with their contents, and whether they are on the other node.
    async fn dump(&mut self) -> Vec<(bool, Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        for (there, node) in [(false, &mut self.redis), (true, self.other.as_mut().expect("two nodes"))] {
            let mut dumped = rig::dump(node, true).await;
            // The index of topics has another slot: a topic is added to it before its first job.
            dumped.retain(|(key, _)| key != TOPICS.as_bytes());
            all.extend(dumped.into_iter().map(|(key, dump)| (there, key, dump)));
        }
        all
    }
}

impl<'a> History<'a> {
    /// Runs a history in which the slot sometimes moves.
    async fn run_moving(rig: &'a mut Rig, scripts: &'static Scripts, seed: u64) -> Calls {
        let home = rig.ports()[0];
        let mut history = History::begin(rig, scripts, seed).await;
        let mut calls = Calls::default();
        for _ in 0..STEPS {
            match history.random.u32(..8) {
                0 => history.move_slot(seed, &mut calls).await,
                // Not the step that restores an older state, which is tested on one server.
                _ => {
                    let call = history.random.u32(16..110);
                    history.call(call).await;
                }
            }
            history.check(seed).await;
        }
        history.ends().await;
        if history.rig.ports()[0] != home {
            let moving = history.rig.set_out().await;
            history.rig.arrive(moving).await;
        }
        calls
    }

    /// Moves the slot, or begins and reverts that, with calls meanwhile.
    async fn move_slot(&mut self, seed: u64, calls: &mut Calls) {
        let moving = self.rig.set_out().await;
        self.moving = true;
        self.trace.push("the slot sets out".to_owned());
        for _ in 0..self.random.usize(1..8) {
            let mut keys = keys_at(&mut self.rig.redis).await;
            let share = self.random.f64();
            keys.retain(|_| self.random.f64() < share);
            let port = self.rig.ports()[1];
            migrate(&mut self.rig.redis, port, &keys).await;
            self.trace.push(format!("{} keys go over", keys.len()));
            let before = self.rig.dump().await;
            let call = self.random.u32(16..110);
            self.refused = false;
            self.call(call).await;
            let after = self.rig.dump().await;
            if self.refused {
                calls.refused += 1;
                assert!(after == before, "seed {seed}: {call} is refused, and changed something; {:#?}", self.trace);
            } else {
                calls.ran += 1;
            }
            let there: Vec<_> = after.iter().filter(|(there, ..)| *there).map(|(_, key, _)| key).collect();
            let both = after.iter().find(|(at, key, _)| !at && there.contains(&key));
            assert!(both.is_none(), "seed {seed}: {both:?} is on both nodes after {call}; {:#?}", self.trace);
        }
        self.moving = false;
        let arrives = self.random.bool();
        self.trace.push(format!("the slot arrives: {arrives}"));
        if arrives { self.rig.arrive(moving).await } else { self.rig.come_back(moving).await }
    }
}

#[tokio::test]
async fn calls_that_are_refused_while_the_slot_moves_change_nothing() {
    let mut rig = Rig::on_two_nodes().await;
    let seeds: Vec<u64> = match number("DELAYBRIDGE_SEED") {
        Some(seed) => vec![seed],
        None => FOUND.into_iter().chain(0..number("DELAYBRIDGE_SEEDS").unwrap_or(SEEDS)).collect(),
    };
    let mut all = Calls::default();
    for &seed in &seeds {
        let Calls { refused, ran } = History::run_moving(&mut rig, on_test_clock(), seed).await;
        all = Calls { refused: all.refused + refused, ran: all.ran + ran };
    }
    println!("{} seeds while the slot moves: {all:?}", seeds.len());
    assert!(all.refused > 0 && all.ran > 0, "{all:?}");
}
