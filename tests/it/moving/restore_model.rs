//! Random queues, left behind by daemons: after `restore` Redisson's structures equal a model.
//!
//! `DELAYBRIDGE_SEED=7 cargo test --test it restore_model` repeats one.

use std::collections::{BTreeMap, HashSet};

use delaybridge_core::message::Origin;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::{NAME, ask, config, entry};
use harness::redisson::{Layout, redis_now_ms};
use harness::{RedisServer, RedissonQueue};

const SEEDS: u64 = 40;

type Bytes = Vec<u8>;

/// The data of the queue in Redis, with the sorted sets in Redis's own order.
#[derive(Default, Debug, PartialEq)]
struct World {
    z: BTreeMap<Bytes, i64>,
    l: Vec<Bytes>,
    ready: Vec<Bytes>,
    in_flight: Vec<(i64, Bytes)>,
    retry: Vec<(i64, Bytes)>,
    ghosts: HashSet<Bytes>,
}

/// The content of an entry, as the test knows it.
#[derive(Clone)]
enum Kind {
    Element { layout: Layout, id: [u8; 8], payload: Bytes, due: i64 },
    Payload { first_claim: i64, index: u32, payload: Bytes },
    Stays,
}

fn random_entry(rng: &mut fastrand::Rng, index: u32, world: &World) -> (Bytes, Kind) {
    let payload: Bytes = (0..rng.usize(2..60)).map(|_| rng.u8(..)).collect();
    let time = 1_000 + rng.i64(0..50);
    match rng.u8(..10) {
        0 => (entry(Origin::Delayed, [0; 8], time, index, vec![], b"junk"), Kind::Stays),
        1 => ([b"\xdb\x02", &payload[..]].concat(), Kind::Stays),
        2..=4 => {
            let member = entry(Origin::Ready, rng.u64(..).to_le_bytes(), time, index, vec![], &payload);
            (member, Kind::Payload { first_claim: time, index, payload })
        }
        _ => {
            let layout = if rng.bool() { Layout::New } else { Layout::Old };
            // Sometimes exactly the bytes that are already scheduled, or only in the list.
            let known = world.l.get(rng.usize(..world.l.len().max(1))).filter(|_| rng.u8(..4) == 0);
            let (layout, id, payload) = match known.and_then(|e| Some((Layout::New, Layout::New.unpack(e)?))) {
                Some((layout, (id, payload))) => (layout, id, payload.to_vec()),
                None => (layout, layout.random_id(), payload),
            };
            let element = layout.pack(id, &payload);
            (
                entry(Origin::Delayed, [0; 8], time, index, vec![1], &element),
                Kind::Element { layout, id, payload, due: time },
            )
        }
    }
}

/// A random queue, and the content of each entry of the daemon.
fn random_world(rng: &mut fastrand::Rng, now: i64) -> (World, BTreeMap<Bytes, Kind>) {
    let mut world = World::default();
    let mut kinds = BTreeMap::new();
    let with_orphans = rng.bool();
    for _ in 0..rng.usize(0..30) {
        let element = Layout::New.pack(Layout::New.random_id(), &[b'p'; 5]);
        world.l.push(element.clone());
        match rng.u8(..4) {
            0 => {
                world.ghosts.insert(element[..16].to_vec());
            }
            1 if with_orphans => {}
            _ => {
                world.z.insert(element, 5_000_000_000_000 + rng.i64(0..1_000));
            }
        }
    }
    for _ in 0..rng.usize(0..5) {
        world.ready.push(vec![rng.u8(..); 4]);
    }
    for index in 0..rng.u32(0..40) {
        let (member, kind) = random_entry(rng, index, &world);
        kinds.insert(member.clone(), kind);
        let scored = (now - 100_000 + rng.i64(0..100), member);
        let readable = scored.1[1] == 1;
        if readable && rng.bool() { &mut world.in_flight } else { &mut world.retry }.push(scored);
    }
    (world, kinds)
}

/// The expected data afterwards.
fn restored(mut world: World, kinds: &BTreeMap<Bytes, Kind>, fleet: Layout) -> World {
    // The sweep removes recorded entries that are not scheduled; the rest keeps its order.
    let ghosts = std::mem::take(&mut world.ghosts);
    world.l.retain(|e| world.z.contains_key(e) || !ghosts.contains(&e[..16]));
    let search = world.l.iter().any(|e| !world.z.contains_key(e));
    // Elements in flight are released first, to their due times. They may have been sent, and the header says so.
    let mut kinds = kinds.clone();
    for (_, mut member) in world.in_flight.drain(..) {
        let kind = kinds[&member].clone();
        let due = i64::from_le_bytes(member[40..48].try_into().unwrap());
        member[11] = 1;
        kinds.insert(member.clone(), kind);
        world.retry.push((due, member));
    }
    let mut payloads = Vec::new();
    let mut pass = |place: &mut Vec<(i64, Bytes)>, z: &mut BTreeMap<Bytes, i64>, l: &mut Vec<Bytes>| {
        place.sort();
        place.retain(|(_, member)| match kinds[member].clone() {
            Kind::Stays => true,
            Kind::Payload { first_claim, index, payload } => {
                payloads.push((first_claim, index, payload));
                false
            }
            Kind::Element { layout, id, payload, due } => {
                let was = layout.pack(id, &payload);
                let is = fleet.pack(id, &payload);
                if z.contains_key(&is) {
                    return true;
                }
                if search {
                    // A scheduled element with the old bytes has an entry of its own.
                    let taken = was != is && z.contains_key(&was);
                    l.retain(|e| (taken || *e != was) && *e != is);
                }
                z.insert(is.clone(), due);
                l.push(is);
                false
            }
        });
    };
    pass(&mut world.retry, &mut world.z, &mut world.l);
    payloads.sort();
    world.ready.splice(..0, payloads.into_iter().map(|(_, _, payload)| payload));
    world
}

async fn write(redis: &mut MultiplexedConnection, queue: &RedissonQueue, world: &World) {
    let mut pipe = redis::pipe();
    pipe.cmd("FLUSHALL");
    for (member, score) in &world.z {
        pipe.zadd(&queue.timeouts, member, score);
    }
    for member in &world.l {
        pipe.rpush(&queue.list, member);
    }
    for payload in &world.ready {
        pipe.rpush(&queue.name, payload);
    }
    for (score, member) in &world.retry {
        pipe.zadd(queue.bridge_key("retry"), member, score);
    }
    // Two claims of processes that do not exist any more.
    for (place, (score, member)) in world.in_flight.iter().enumerate() {
        let name = format!("1.00000000000000fe.{}.{}", place % 2, place % 2);
        pipe.zadd(queue.bridge_key("leases"), &name, 1);
        pipe.zadd(queue.bridge_key(&format!("claim:{name}:h")), member, score);
    }
    for id in &world.ghosts {
        pipe.sadd(queue.bridge_key("ghosts"), id);
    }
    pipe.exec_async(redis).await.unwrap();
}

async fn read(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> World {
    let swapped = |scored: Vec<(Bytes, i64)>| scored.into_iter().map(|(member, score)| (score, member)).collect();
    let z: Vec<(Bytes, i64)> = redis.zrange_withscores(&queue.timeouts, 0, -1).await.unwrap();
    World {
        z: z.into_iter().collect(),
        l: redis.lrange(&queue.list, 0, -1).await.unwrap(),
        ready: redis.lrange(&queue.name, 0, -1).await.unwrap(),
        in_flight: queue
            .claims(redis)
            .await
            .into_iter()
            .flat_map(|(_, until, all)| all.into_iter().map(move |m| (until, m)))
            .collect(),
        retry: swapped(redis.zrange_withscores(queue.bridge_key("retry"), 0, -1).await.unwrap()),
        ghosts: redis.smembers(queue.bridge_key("ghosts")).await.unwrap(),
    }
}

#[tokio::test]
async fn what_redisson_sees_after_restore_equals_the_model() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME);
    let one: Option<u64> = std::env::var("DELAYBRIDGE_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in one.map_or(0..SEEDS, |seed| seed..seed + 1) {
        let mut rng = fastrand::Rng::with_seed(seed);
        fastrand::seed(seed);
        let now = redis_now_ms(&mut redis).await;
        let (world, kinds) = random_world(&mut rng, now);
        let fleet = if rng.bool() { Layout::New } else { Layout::Old };
        write(&mut redis, &queue, &world).await;
        let expected = restored(world, &kinds, fleet);
        let line = format!("restore orders --apply --layout {}", if fleet == Layout::New { "new" } else { "old" });
        // A second run finds nothing left to do.
        for run in ["first", "second"] {
            let (code, out, err) = ask(&config, &line);
            let kept = !expected.retry.is_empty();
            assert_eq!(code, i32::from(kept), "seed {seed}, {run}: {out}{err}");
            let found = read(&mut redis, &queue).await;
            assert!(found == expected, "seed {seed}, {run} run\nexpected {expected:#?}\nfound {found:#?}\n{out}{err}");
        }
        if expected.z.keys().all(|member| fleet.unpack(member).is_some()) && expected.l.len() == expected.z.len() {
            let client = queue.with_layout(fleet);
            let head = expected.l.first().map(|e| fleet.unpack(e).unwrap().1.to_vec());
            assert_eq!(client.poll(&mut redis).await.unwrap(), head, "seed {seed}");
        }
    }
}
