//! The Redis with the queues: one server, a master with replicas behind sentinels, or a cluster.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult};
use tokio::time::sleep;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::offers::QUEUES;
use crate::produce::connect;
use crate::profile::Profile;
use harness::cluster::{self, RedisCluster};
use harness::failovers::{FailedOver, Failover};
use harness::redis_server::{RedisServer, ServerOptions};
use harness::sentinels::{self, Sentinels};

/// Time-out of an offer for its replicas, in ms.
const REPLICAS_MS: u64 = 300;

/// A key of each queue.
const KEYS: [&str; QUEUES.len()] = ["{orders}", "due", "{pool}:due"];

/// The servers.
pub enum Source {
    /// One server.
    Fixed(Box<RedisServer>),
    /// A master, two replicas, three sentinels.
    Sentinel(Box<Sentinels>),
    /// Three masters, each with a replica.
    Cluster(Box<RedisCluster>),
}

/// The source that names the current server of a queue.
#[derive(Debug, Clone)]
pub enum Guide {
    /// Always this URL.
    Fixed(String),
    /// The sentinel on this port.
    Sentinel(u16),
    /// The nodes on these ports, for the slots of the queues.
    Cluster(Vec<u16>, [u64; QUEUES.len()]),
}

/// Connections to the masters of the queues.
pub struct Clients(pub Vec<MultiplexedConnection>);

impl Source {
    pub async fn start(profile: Profile, clock: Option<&Clock>, disk: Option<&Disk>) -> Source {
        match profile {
            Profile::Sentinel | Profile::JobsSentinel => Source::Sentinel(Box::new(Sentinels::start().await)),
            Profile::Cluster => Source::Cluster(Box::new(RedisCluster::start().await)),
            // Its snapshots are written on request only.
            Profile::Older => Source::Fixed(Box::new(RedisServer::start_with(ServerOptions::default()).await)),
            _ => {
                let options = ServerOptions::default().append_only();
                let options = clock.map_or(options.clone(), |clock| clock.options(options));
                let options = disk.map_or(options.clone(), |disk| disk.options(options));
                Source::Fixed(Box::new(RedisServer::start_with(options).await))
            }
        }
    }

    /// The guide to its masters.
    pub async fn guide(&self) -> Guide {
        match self {
            Source::Fixed(server) => Guide::Fixed(server.url()),
            Source::Sentinel(group) => Guide::Sentinel(group.ports()[0]),
            Source::Cluster(cluster) => {
                let mut slots = [0; QUEUES.len()];
                for (slot, key) in slots.iter_mut().zip(KEYS) {
                    *slot = cluster.slot(key).await;
                }
                Guide::Cluster(cluster.ports(), slots)
            }
        }
    }

    /// The key under `redis` that names it.
    pub fn yaml(&self) -> String {
        match self {
            Source::Fixed(server) => format!("url: {}", server.url()),
            Source::Sentinel(group) => group.yaml(),
            Source::Cluster(cluster) => {
                let nodes: Vec<_> = cluster.ports().iter().take(4).map(|port| format!("'127.0.0.1:{port}'")).collect();
                format!("cluster: [{}]", nodes.join(", "))
            }
        }
    }

    pub fn server(&mut self) -> &mut RedisServer {
        match self {
            Source::Fixed(server) => server,
            _ => panic!("a fault of one server, for a group"),
        }
    }

    /// Replaces the master of a queue, and restarts a killed one.
    pub async fn fail_over(&mut self, how: Failover, queue: usize) {
        match self {
            Source::Fixed(_) => panic!("one server has no replica"),
            Source::Sentinel(group) => {
                let done = group.fail_over(how).await;
                if how == Failover::Kill {
                    bring_back(group, done).await;
                }
                group.wait_until_whole().await;
            }
            Source::Cluster(cluster) => {
                let master = cluster.owner(KEYS[queue]).await;
                match how {
                    Failover::Command => {
                        cluster.fail_over(master).await;
                    }
                    Failover::Kill => {
                        cluster.kill(master).await;
                        let back = cluster.nodes[master].boot().await;
                        back.unwrap_or_else(|log| panic!("start a killed node again: {log}"));
                    }
                }
                cluster.wait_until_whole().await;
            }
        }
    }

    /// Disconnects the replicas of a queue's master for some time, and kills it: the next master misses the writes of
    /// that time.
    pub async fn fail_over_behind(&mut self, queue: usize, cut: Duration) {
        // In a cluster, the replica is known by its link: it is looked for before that is cut.
        let (mut master, in_cluster) = match self {
            Source::Fixed(_) => panic!("one server has no replica"),
            Source::Sentinel(group) => {
                let master = group.master().await.expect("a master");
                (group.server(master).client().await, None)
            }
            Source::Cluster(cluster) => {
                cluster.let_votes_expire().await;
                let master = cluster.owner(KEYS[queue]).await;
                let replica = cluster.replica_of(master).await;
                (cluster.nodes[master].client().await, Some((master, replica)))
            }
        };
        // Replicas are clients that can be refused; they retry until their master is gone.
        let mut pipe = redis::pipe();
        pipe.cmd("ACL").arg("SETUSER").arg("default").arg("-psync").arg("-sync").arg("-replconf");
        pipe.cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica");
        pipe.exec_async(&mut master).await.expect("cut the replicas off");
        sleep(cut).await;
        match self {
            Source::Fixed(_) => {}
            Source::Sentinel(group) => {
                let done = group.fail_over(Failover::Kill).await;
                bring_back(group, done).await;
                // Meanwhile a sentinel may have made the former master rewrite its file.
                let_follow(&mut group.server(done.old).client().await).await;
                group.wait_until_whole().await;
            }
            Source::Cluster(cluster) => {
                let Some((master, replica)) = in_cluster else { return };
                cluster.kill_before(master, replica).await;
                let back = cluster.nodes[master].boot().await;
                back.unwrap_or_else(|log| panic!("start a killed node again: {log}"));
                let_follow(&mut cluster.nodes[master].client().await).await;
                cluster.wait_until_whole().await;
            }
        }
    }

    /// Suspends the master of a queue; its replica may take over meanwhile.
    pub async fn freeze_master(&mut self, queue: usize, lasts: Duration) {
        match self {
            Source::Fixed(server) => {
                server.running().freeze();
                sleep(lasts).await;
                server.resume();
            }
            Source::Sentinel(group) => {
                let master = group.master().await.expect("a master");
                group.server(master).running().freeze();
                sleep(lasts).await;
                group.server(master).resume();
                group.wait_until_whole().await;
            }
            Source::Cluster(cluster) => {
                cluster.let_votes_expire().await;
                let master = cluster.owner(KEYS[queue]).await;
                cluster.nodes[master].running().freeze();
                sleep(lasts).await;
                cluster.nodes[master].resume();
                cluster.wait_until_whole().await;
                cluster.has_failed_over();
            }
        }
    }

    /// Suspends a sentinel.
    pub async fn freeze_sentinel(&mut self, place: usize, lasts: Duration) {
        if let Source::Sentinel(group) = self {
            group.freeze_sentinel(place);
            sleep(lasts).await;
            group.thaw_sentinel(place);
            group.wait_until_whole().await;
        }
    }

    /// Moves the slot of a queue to another master, key by key, with a pause in the middle.
    pub async fn move_slot(&mut self, queue: usize, pause: Duration) {
        if let Source::Cluster(cluster) = self {
            // A replica that an earlier fault asked to take over may do so only now: instead of the target, or of the master with the
            // rest of the keys.
            let (mut moving, to) = loop {
                let from = cluster.owner(KEYS[queue]).await;
                let to = cluster.another_master(from).await;
                match cluster.begin_move(KEYS[queue], to).await {
                    Some(moving) => break (moving, to),
                    None => cluster.wait_until_whole().await,
                }
            };
            sleep(pause).await;
            while !cluster.move_keys(&moving).await {
                cluster.wait_until_whole().await;
                moving =
                    cluster.begin_move(KEYS[queue], to).await.expect("the target with some of the keys is a master");
            }
            cluster.end_move(&moving).await;
            cluster.wait_until_whole().await;
        }
    }
}

/// Starts a killed master as a replica of the new one. The sentinels would do that ten seconds later, and until then no
/// offer reaches all replicas.
async fn bring_back(group: &mut Sentinels, done: FailedOver) {
    group.bring_back(done.old).await;
    let port = group.server(done.new).port();
    let mut follow = redis::cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(port);
    follow.exec_async(&mut group.client(done.old).await).await.expect("follow the new master");
}

/// Allows replicas to follow this server.
async fn let_follow(redis: &mut MultiplexedConnection) {
    let mut give = redis::cmd("ACL");
    give.arg("SETUSER").arg("default").arg("+@all").exec_async(redis).await.expect("give the rights back");
}

impl Guide {
    /// Connects to the current server of this queue.
    pub async fn connect(&self, queue: usize) -> RedisResult<MultiplexedConnection> {
        let no_master = || RedisError::from((ErrorKind::Io, "there is no master"));
        let port = match self {
            Guide::Fixed(url) => return connect(url).await,
            Guide::Sentinel(port) => sentinels::master_of(*port).await?,
            Guide::Cluster(ports, slots) => cluster::master_of(ports, slots[queue]).await,
        };
        connect(&format!("redis://127.0.0.1:{}/0", port.ok_or_else(no_master)?)).await
    }

    /// Connects to the current servers of all queues.
    pub async fn clients(&self) -> RedisResult<Clients> {
        let mut all = Vec::new();
        for queue in 0..QUEUES.len() {
            all.push(self.connect(queue).await?);
        }
        Ok(Clients(all))
    }

    /// The same, repeatedly until it succeeds.
    pub async fn clients_when_well(&self) -> Clients {
        loop {
            match self.clients().await {
                Ok(clients) => return clients,
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Number of replicas of each master.
    pub fn replicas(&self) -> u32 {
        match self {
            Guide::Fixed(_) => 0,
            Guide::Sentinel(_) => 2,
            Guide::Cluster(..) => 1,
        }
    }

    /// Whether the last writes of this connection survive the loss of the master: all replicas have them.
    pub async fn is_sure(&self, redis: &mut MultiplexedConnection) -> bool {
        let replicas = self.replicas();
        if replicas == 0 {
            return true;
        }
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(REPLICAS_MS);
        wait.query_async::<u32>(redis).await.is_ok_and(|have_it| have_it >= replicas)
    }
}
