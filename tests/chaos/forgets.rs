//! Redis that forgets: a server that loses confirmed data. Its own losses are counted separately from the daemon's,
//! because its data is read before a daemon may change it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, sleep};

use crate::life::{Road, Seat};
use crate::offers::{Answer, Book, Kind, QUEUES};
use crate::options::Options;
use crate::payload::number;
use crate::plan::Plan;
use crate::produce::{Producer, connect};
use crate::profile::Profile;
use crate::quiet;
use crate::source::{Clients, Guide};
use crate::target::Target;
use crate::what::Side;
use harness::proxy::{Mode, Proxy};
use harness::redis_server::{RedisServer, ServerOptions};
use harness::redisson::RedissonQueue;

/// Time for which elements are offered before the server fails.
const OFFERS: Duration = Duration::from_secs(3);
/// Age of the snapshot or of the replica when the server fails.
const BEHIND: Duration = Duration::from_millis(700);

/// The ways in which a server forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// `appendfsync everysec`, and SIGKILL of the server; the machine continues.
    EverySecond,
    /// No append-only file: it starts with an older snapshot.
    Snapshot,
    /// A lagging replica is promoted.
    Replica,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forgot {
    /// Number of offers that Redis had confirmed.
    pub taken: usize,
    /// Number of those that Redis had lost, and that never arrived.
    pub lost_by_redis: usize,
    /// Number of those that Redis still had, and that never arrived: lost by the daemon.
    pub lost_by_us: usize,
    /// Number of elements that had arrived, and were in Redis again.
    pub back: usize,
    /// Number of second arrivals.
    pub twice: usize,
    /// Number of second arrivals that claim to be a first attempt.
    pub unannounced: usize,
}

impl fmt::Display for Forgot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Forgot { taken, lost_by_redis, lost_by_us, back, twice, unannounced } = self;
        write!(f, "{taken} | {lost_by_redis} | {lost_by_us} | {back} | {twice} | {unannounced}")
    }
}

/// Makes a server forget while a daemon delivers from it.
pub async fn forget(how: How, seed: u64) -> Forgot {
    let plain = ServerOptions::default();
    let options = match how {
        How::EverySecond => plain.line("appendonly", "yes").line("appendfsync", "everysec"),
        How::Snapshot | How::Replica => plain,
    };
    let mut source = RedisServer::start_with(options).await;
    let target = Target::start(Profile::Fixed, None).await;
    let plan = Plan::new(&Options { seed, kinds: vec!["none".to_owned()], ..Options::default() });
    let seat = Seat::new(&plan, Road::Through(source.port()), &target, None).await;
    let replica = match how {
        How::Replica => Some(Behind::of(&source).await),
        _ => None,
    };
    seat.start(1).await;
    assert!(seat.ready(Duration::from_secs(20)).await, "{:#?}", seat.log().await);

    let book = Arc::new(Book::default());
    let end = Instant::now() + OFFERS;
    let producer = Producer::new(&Guide::Fixed(source.url()), seed, 0, Arc::clone(&book));
    let producing = tokio::spawn(producer.run(200, end));
    sleep(OFFERS.saturating_sub(BEHIND)).await;
    let mut redis = source.client().await;
    match (&replica, how) {
        (Some(replica), _) => replica.link.set_mode(Mode::Freeze),
        (None, How::Snapshot) => redis::cmd("SAVE").exec_async(&mut redis).await.expect("write a snapshot"),
        _ => {}
    }
    tokio::time::sleep_until(end).await;
    source.kill();
    let link = seat.link(Side::Source);
    link.set_mode(Mode::Refuse);
    producing.await.expect("the producer goes on to its end");
    let (mut redis, _replica) = match replica {
        Some(replica) => {
            link.set_target(replica.server.port());
            (replica.promote().await, Some(replica))
        }
        None => {
            source.boot().await.unwrap_or_else(|log| panic!("start the server again: {log}"));
            (source.client().await, None)
        }
    };

    let present = present(&mut redis).await;
    let before = arrived(&target, seed, &book).await;
    let back = before.iter().filter(|n| present.contains(n)).count();
    link.set_mode(Mode::Pass);
    let until = Instant::now() + plan.bound() + Duration::from_secs(30);
    let mut clients = Clients(vec![redis.clone(), redis.clone(), redis.clone()]);
    quiet::settled(&mut clients, until).await.unwrap_or_else(|left| panic!("not settled: {left}"));
    let arrivals = quiet::arrivals(&target, seed, &book, false).await;
    let dead = quiet::dead_letters(&mut clients).await;
    seat.terminate().await;

    let mut here: HashSet<u64> = dead.iter().filter_map(|dead| dead.n).collect();
    let mut twice = 0;
    let mut firsts = HashSet::new();
    let mut unannounced = 0;
    for arrival in &arrivals {
        let Some(n) = arrival.n else { continue };
        twice += usize::from(!here.insert(n));
        unannounced += usize::from(arrival.attempt <= 1 && !firsts.insert(n));
    }
    let offers = book.all();
    let taken = offers
        .iter()
        .zip(0u64..)
        .filter(|(offer, _)| offer.taken == Answer::Yes && offer.kind == Kind::Good && offer.withdrawn.is_none());
    let mut count = 0;
    let mut by_redis = 0;
    let mut by_us = 0;
    for (_, n) in taken {
        count += 1;
        match (here.contains(&n), present.contains(&n)) {
            (true, _) => {}
            (false, true) => by_us += 1,
            (false, false) => by_redis += 1,
        }
    }
    Forgot { taken: count, lost_by_redis: by_redis, lost_by_us: by_us, back, twice, unannounced }
}

async fn arrived(target: &Target, seed: u64, book: &Book) -> HashSet<u64> {
    quiet::arrivals(target, seed, book, false).await.into_iter().filter_map(|arrival| arrival.n).collect()
}

/// The numbers of all elements of the first queue that are in Redis: scheduled, in flight, or waiting for a retry.
async fn present(redis: &mut MultiplexedConnection) -> HashSet<u64> {
    let queue = RedissonQueue::new(QUEUES[0]);
    let mut members: Vec<Vec<u8>> = Vec::new();
    for key in [queue.timeouts.clone(), queue.bridge_key("retry")] {
        let mut read = redis::cmd("ZRANGE");
        members.extend(read.arg(key).arg(0).arg(-1).query_async::<Vec<Vec<u8>>>(redis).await.expect("read elements"));
    }
    for (_, _, held) in queue.claims(redis).await {
        members.extend(held);
    }
    members.iter().filter_map(|member| number(member)).collect()
}

/// A replica behind a link that can be suspended.
struct Behind {
    server: RedisServer,
    link: Proxy,
}

impl Behind {
    /// A replica of this server, with the same users, which are not replicated.
    async fn of(master: &RedisServer) -> Behind {
        let link = Proxy::start(master.port()).await;
        let server = RedisServer::start_with(ServerOptions::default()).await;
        let mut from = master.client().await;
        let mut to = server.client().await;
        let users: Vec<String> = redis::cmd("ACL").arg("LIST").query_async(&mut from).await.expect("read the users");
        for user in users.iter().filter(|user| !user.starts_with("user default ")) {
            let words: Vec<&str> = user.split_whitespace().skip(1).collect();
            redis::cmd("ACL").arg("SETUSER").arg(&words).exec_async(&mut to).await.expect("make the same user");
        }
        let port = link.port();
        redis::cmd("REPLICAOF").arg("127.0.0.1").arg(port).exec_async(&mut to).await.expect("follow the master");
        for _ in 0..200 {
            if server.replication().await.is_ok_and(|info| info.contains("master_link_status:up")) {
                return Behind { server, link };
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("the replica does not follow: {:?}", server.replication().await);
    }

    async fn promote(&self) -> MultiplexedConnection {
        let mut redis = connect(&self.server.url()).await.expect("connect to the replica");
        redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec_async(&mut redis).await.expect("promote the replica");
        redis
    }
}
