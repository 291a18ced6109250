//! A Redis Cluster of real servers: three masters, each with a replica, on free ports.
//!
//! It is assembled step by step, which takes half of the time of `redis-cli --cluster create`. Nodes and slots are read
//! from the cluster's own answers, so a test can name the master of a key after any failover.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use super::least;
use super::redis_server::{RedisServer, ServerOptions};
use super::tls::Pki;
use brokers::ports::free_port;

/// Time-out of a step of the cluster on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time of silence after which a node counts as failed.
const NODE_TIMEOUT_MS: u64 = 1_000;
const MASTERS: usize = 3;
const SLOTS: usize = 16_384;

/// Six nodes, which end with their directories on drop.
#[derive(Debug)]
pub struct RedisCluster {
    /// The first three nodes begin as masters, the others as their replicas.
    pub nodes: Vec<RedisServer>,
    /// The end of the last failover: votes for one shard must be apart.
    failed_over: Option<Instant>,
    /// The certificates, valid only for `localhost`, if the nodes announce that name.
    secured: Option<(TempDir, Pki)>,
}

/// Starts a node that belongs to no cluster yet; returns it with the port of its bus.
async fn node(pki: Option<&Pki>) -> (RedisServer, u16) {
    let bus = free_port();
    let lines = [
        ("cluster-enabled", "yes".to_owned()),
        ("cluster-config-file", "nodes.conf".to_owned()),
        ("cluster-node-timeout", NODE_TIMEOUT_MS.to_string()),
        ("cluster-port", bus.to_string()),
        ("cluster-replica-validity-factor", "0".to_owned()),
        ("cluster-require-full-coverage", "no".to_owned()),
        ("repl-diskless-sync-delay", "0".to_owned()),
    ];
    let mut options = lines.iter().fold(ServerOptions::default(), |options, (key, value)| options.line(key, value));
    if let Some(pki) = pki {
        // The nodes announce the TLS port to each other and to clients.
        options = options.tls_with(pki).line("tls-cluster", "yes").line("tls-replication", "yes");
        options = options.line("cluster-announce-hostname", "localhost");
        options = options.line("cluster-preferred-endpoint-type", "hostname");
    }
    (RedisServer::start_with(options).await, bus)
}

/// Starts two nodes without replicas. The first has the lower half of the slots.
pub async fn two_nodes() -> [RedisServer; 2] {
    let ((first, _), (second, bus)) = tokio::join!(node(None), node(None));
    for (epoch, node) in ["1", "2"].into_iter().zip([&first, &second]) {
        ask::<()>(node, &["CLUSTER", "SET-CONFIG-EPOCH", epoch]).await.expect("an epoch");
    }
    ask::<()>(&first, &["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]).await.expect("half of the slots");
    ask::<()>(&second, &["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]).await.expect("the others");
    let port = second.port().to_string();
    let bus = bus.to_string();
    let meet = async || ask::<()>(&first, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await.expect("a meeting");
    meet().await;
    for node in [&first, &second] {
        until("two nodes to be a cluster", async || {
            let info: String = ask(node, &["CLUSTER", "INFO"]).await.map_err(|error| error.to_string())?;
            let agreed = info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2");
            if !agreed && info.contains("cluster_known_nodes:1") {
                // A meeting that takes longer than the time-out of a node, on a busy machine, is forgotten.
                meet().await;
            }
            if agreed { Ok(()) } else { Err(info) }
        })
        .await;
    }
    [first, second]
}

/// Runs one command on a connection of its own.
async fn ask<T: FromRedisValue>(node: &RedisServer, words: &[&str]) -> redis::RedisResult<T> {
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    command.query_async(&mut node.client().await).await
}

impl RedisCluster {
    /// Starts six nodes, and waits until all of them agree.
    pub async fn start() -> RedisCluster {
        Self::start_with(None).await
    }

    /// The same with TLS between nodes and for clients. The nodes announce the name `localhost`, for which alone the
    /// certificates are valid.
    pub async fn secured() -> RedisCluster {
        let dir = TempDir::with_prefix("delaybridge-tls-").expect("make a directory for certificates");
        let pki = Pki::create_for(dir.path(), &["localhost"]);
        Self::start_with(Some((dir, pki))).await
    }

    async fn start_with(secured: Option<(TempDir, Pki)>) -> RedisCluster {
        let pki = secured.as_ref().map(|(_, pki)| pki);
        let started = Instant::now();
        let (nodes, buses): (Vec<_>, Vec<_>) = join_all((0..2 * MASTERS).map(|_| node(pki))).await.into_iter().unzip();
        let plain = nodes.iter().map(RedisServer::port);
        let secured_ports = nodes.iter().filter(|_| secured.is_some()).map(|node| node.tls().0);
        least::are_one_cluster(&plain.chain(secured_ports).collect::<Vec<_>>());
        let cluster = RedisCluster { nodes, failed_over: None, secured };
        for (number, master) in cluster.nodes[..MASTERS].iter().enumerate() {
            let mut slots = redis::cmd("CLUSTER");
            slots.arg("ADDSLOTS");
            (SLOTS * number / MASTERS..SLOTS * (number + 1) / MASTERS).for_each(|slot| {
                slots.arg(slot);
            });
            slots.exec_async(&mut master.client().await).await.expect("the slots of a master");
        }
        // Without distinct epochs the first elections would collide.
        for (epoch, node) in cluster.nodes.iter().enumerate() {
            ask::<()>(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]).await.expect("an epoch");
        }
        for (node, bus) in cluster.nodes.iter().zip(&buses).skip(1) {
            let port = cluster.known_port(node).to_string();
            let bus = bus.to_string();
            ask::<()>(&cluster.nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await.expect("a meeting");
        }
        for (master, replica) in cluster.nodes[..MASTERS].iter().zip(&cluster.nodes[MASTERS..]) {
            let id: String = ask(master, &["CLUSTER", "MYID"]).await.expect("the id of a master");
            // A replica must know its master first.
            until("a replica to follow its master", async || {
                ask::<()>(replica, &["CLUSTER", "REPLICATE", &id]).await.map_err(|error| error.to_string())
            })
            .await;
        }
        for node in &cluster.nodes {
            until("all nodes to agree", async || cluster.is_whole(node).await).await;
        }
        println!("a cluster of {} nodes in {:?}", cluster.nodes.len(), started.elapsed());
        cluster
    }

    /// Waits until every node runs, every master has a linked replica, and all agree.
    pub async fn wait_until_whole(&self) {
        for node in &self.nodes {
            until("the cluster to be whole", async || self.is_whole(node).await).await;
        }
    }

    /// Another master with slots.
    pub async fn another_master(&self, not: usize) -> usize {
        for (number, node) in self.nodes.iter().enumerate().filter(|(number, node)| *number != not && node.is_running())
        {
            let nodes: String = ask(node, &["CLUSTER", "NODES"]).await.expect("the nodes of a cluster");
            if nodes.lines().any(|line| line.contains("myself,master") && line.split(' ').count() > 8) {
                return number;
            }
        }
        panic!("there is one master only");
    }

    /// Records that a failover may have happened by itself.
    pub fn has_failed_over(&mut self) {
        self.failed_over = Some(Instant::now());
    }

    /// Checks that a node sees all slots served, and every master with a linked replica.
    async fn is_whole(&self, node: &RedisServer) -> Result<(), String> {
        let text = |error: redis::RedisError| error.to_string();
        let info: String = ask(node, &["CLUSTER", "INFO"]).await.map_err(text)?;
        let nodes: String = ask(node, &["CLUSTER", "NODES"]).await.map_err(text)?;
        let replication: String = ask(node, &["INFO", "replication"]).await.map_err(text)?;
        let replicas = nodes.lines().filter(|line| line.contains("slave")).count();
        let linked = replication.contains("role:master") && replication.contains("state=online")
            || replication.contains("master_link_status:up");
        if info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384") && replicas == MASTERS && linked
        {
            Ok(())
        } else {
            Err(format!("{info}\n{nodes}\n{replication}"))
        }
    }

    /// The port that the cluster knows a node by.
    fn known_port(&self, node: &RedisServer) -> u16 {
        if self.secured.is_some() { node.tls().0 } else { node.port() }
    }

    /// The value of `redis:` for a cluster with TLS.
    pub fn secured_yaml(&self) -> String {
        let ca = self.secured.as_ref().expect("a cluster with TLS").1.ca.display();
        let seeds: Vec<_> = self.nodes.iter().take(2).map(|node| format!("'localhost:{}'", node.tls().0)).collect();
        let patience = "connect_timeout: 10s, command_timeout: 5s";
        format!("{{ cluster: [{}], tls: {{ ca_file: {ca} }}, {patience} }}", seeds.join(", "))
    }

    /// The value of `redis:` in a configuration: some of the nodes, with long time-outs as in the other tests.
    pub fn yaml(&self) -> String {
        let seeds: Vec<_> = self.nodes.iter().take(4).map(|node| format!("'127.0.0.1:{}'", node.port())).collect();
        format!("{{ cluster: [{}], connect_timeout: 10s, command_timeout: 5s }}", seeds.join(", "))
    }

    /// The ports of all nodes.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(RedisServer::port).collect()
    }

    /// The slot of a key.
    pub async fn slot(&self, key: &str) -> u64 {
        ask(self.anyone(), &["CLUSTER", "KEYSLOT", key]).await.expect("a slot")
    }

    /// The number of the node that considers itself the master of a key; the others may not know that yet.
    pub async fn owner(&self, key: &str) -> usize {
        let slot = self.slot(key).await;
        let mut owner = None;
        until("a key to have a master", async || {
            for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_running()) {
                let nodes: String = ask(node, &["CLUSTER", "NODES"]).await.map_err(|error| error.to_string())?;
                if serves(&nodes, slot) {
                    owner = Some(number);
                    return Ok(());
                }
            }
            Err(format!("nobody owns slot {slot}"))
        })
        .await;
        owner.expect("it was found")
    }

    /// A connection to the master of a key.
    pub async fn at(&self, key: &str) -> MultiplexedConnection {
        self.nodes[self.owner(key).await].client().await
    }

    fn alive(&self) -> impl Iterator<Item = &RedisServer> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    fn anyone(&self) -> &RedisServer {
        self.alive().next().expect("a running node")
    }

    /// The number of a master's replica.
    pub async fn replica_of(&self, master: usize) -> usize {
        let port = self.known_port(&self.nodes[master]);
        let mut found = None;
        until("a master to have a replica", async || {
            for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_running()) {
                let info: String = ask(node, &["INFO", "replication"]).await.map_err(|error| error.to_string())?;
                if info.contains(&format!("master_port:{port}\r")) && info.contains("master_link_status:up") {
                    found = Some(number);
                    return Ok(());
                }
            }
            Err("none is linked".to_owned())
        })
        .await;
        found.expect("it was found")
    }

    /// Makes the replica of a master take over gracefully; returns its number when it has.
    pub async fn fail_over(&mut self, master: usize) -> usize {
        self.let_votes_expire().await;
        let replica = self.replica_of(master).await;
        // A replica refuses while it is not linked to its master, or considers it failed, as after a freeze.
        until("a failover to begin", async || {
            ask::<()>(&self.nodes[replica], &["CLUSTER", "FAILOVER"]).await.map_err(|error| error.to_string())
        })
        .await;
        self.is_master(replica).await;
        self.failed_over = Some(Instant::now());
        until("the former master to follow", async || {
            let nodes: String =
                ask(&self.nodes[master], &["CLUSTER", "NODES"]).await.map_err(|error| error.to_string())?;
            if nodes.contains("myself,slave") { Ok(()) } else { Err(nodes) }
        })
        .await;
        replica
    }

    /// Makes a replica stay one, whatever its master does.
    pub async fn never_takes_over(&self, replica: usize) {
        let words = ["CONFIG", "SET", "cluster-replica-no-failover", "yes"];
        ask::<()>(&self.nodes[replica], &words).await.expect("a replica that stays one");
    }

    /// Kills a master with SIGKILL; returns the number of its replica when that has taken over.
    pub async fn kill(&mut self, master: usize) -> usize {
        self.let_votes_expire().await;
        let replica = self.replica_of(master).await;
        self.kill_before(master, replica).await;
        replica
    }

    /// Kills a master with SIGKILL, and waits until this replica, which may be cut off from it, has taken over.
    pub async fn kill_before(&mut self, master: usize, replica: usize) {
        self.nodes[master].kill();
        self.is_master(replica).await;
        self.failed_over = Some(Instant::now());
    }

    /// Waits until a failover can have an election. Redis 7.0 keeps a vote for a while: a second failover would be won
    /// without one, with the old epoch.
    pub async fn let_votes_expire(&self) {
        let apart = Duration::from_millis(4 * NODE_TIMEOUT_MS.max(1_000) + 200);
        if let Some(last) = self.failed_over {
            tokio::time::sleep(apart.saturating_sub(last.elapsed())).await;
        }
    }

    /// Waits until a node is a serving master.
    pub async fn is_master(&self, number: usize) {
        until("a replica to take over", async || {
            let text = |error: redis::RedisError| error.to_string();
            let nodes: String = ask(&self.nodes[number], &["CLUSTER", "NODES"]).await.map_err(text)?;
            let info: String = ask(&self.nodes[number], &["CLUSTER", "INFO"]).await.map_err(text)?;
            let own = nodes.lines().find(|line| line.contains("myself")).unwrap_or_default();
            let serves = own.contains("master") && own.split(' ').count() > 8;
            if serves && info.contains("cluster_state:ok") { Ok(()) } else { Err(nodes) }
        })
        .await;
    }

    /// Adds a master without slots; returns its number.
    pub async fn add_master(&mut self) -> usize {
        let (node, bus) = node(None).await;
        least::joins_cluster(node.port(), self.nodes[0].port());
        let port = node.port().to_string();
        let bus = bus.to_string();
        ask::<()>(&node, &["CLUSTER", "SET-CONFIG-EPOCH", "100"]).await.expect("an epoch");
        ask::<()>(&self.nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await.expect("a meeting");
        self.nodes.push(node);
        let all = self.nodes.len();
        for node in self.alive() {
            until("all nodes to know the new one", async || {
                let nodes: String = ask(node, &["CLUSTER", "NODES"]).await.map_err(|error| error.to_string())?;
                let known = nodes.lines().filter(|line| !line.contains("handshake")).count();
                if known == all { Ok(()) } else { Err(nodes) }
            })
            .await;
        }
        // Until then it refuses the keys of slots that move to it.
        until("the new node to serve", async || {
            let info: String =
                ask(&self.nodes[all - 1], &["CLUSTER", "INFO"]).await.map_err(|error| error.to_string())?;
            if info.contains("cluster_state:ok") { Ok(()) } else { Err(info) }
        })
        .await;
        all - 1
    }

    /// Removes the last node, which must have no slots, and ends it.
    pub async fn remove_last(&mut self) {
        let mut node = self.nodes.pop().expect("a node");
        let id: String = ask(&node, &["CLUSTER", "MYID"]).await.expect("an id");
        for other in self.alive() {
            ask::<()>(other, &["CLUSTER", "FORGET", &id]).await.expect("it is forgotten");
        }
        node.kill();
    }

    /// Moves slots from all other masters to one, with `redis-cli --cluster reshard`.
    pub async fn reshard(&self, slots: usize, to: usize) {
        let id: String = ask(&self.nodes[to], &["CLUSTER", "MYID"]).await.expect("an id");
        let at = format!("127.0.0.1:{}", self.nodes[to].port());
        let slots = slots.to_string();
        let mut command = tokio::process::Command::new("redis-cli");
        command.args(["--cluster", "reshard", &at, "--cluster-from", "all", "--cluster-to", &id]);
        command.args(["--cluster-slots", &slots, "--cluster-yes", "--cluster-pipeline", "100"]);
        let output = command.output().await.expect("run redis-cli (is it installed? `make setup`)");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", said.lines().rev().take(20).collect::<Vec<_>>().join("\n"));
    }

    /// Begins to move a key's slot to another master: from now on a script that names a missing key is refused. `None` if one of the two
    /// is no master any more: a failover that was asked for may come late.
    pub async fn begin_move(&self, key: &str, to: usize) -> Option<SlotMove> {
        let slot = self.slot(key).await.to_string();
        let from = self.owner(key).await;
        let id = async |number: usize| ask::<String>(&self.nodes[number], &["CLUSTER", "MYID"]).await.expect("an id");
        let from_id = id(from).await;
        let to_id = id(to).await;
        for (node, words) in [(to, ["IMPORTING", &from_id]), (from, ["MIGRATING", &to_id])] {
            let [state, other] = words;
            match ask::<()>(&self.nodes[node], &["CLUSTER", "SETSLOT", &slot, state, other]).await {
                Ok(()) => {}
                Err(error) if error.to_string().contains("only with masters") => {
                    // One that is a replica refuses this too.
                    let _ = ask::<()>(&self.nodes[to], &["CLUSTER", "SETSLOT", &slot, "STABLE"]).await;
                    return None;
                }
                Err(error) => panic!("begin to move slot {slot}: {error}"),
            }
        }
        Some(SlotMove { slot, from, to, to_id })
    }

    /// Moves the keys of the slot one by one. Returns false if its master lost the slot to another node, in a delayed
    /// failover.
    pub async fn move_keys(&self, of: &SlotMove) -> bool {
        let port = self.nodes[of.to].port().to_string();
        loop {
            let keys: Vec<String> = ask(&self.nodes[of.from], &["CLUSTER", "GETKEYSINSLOT", &of.slot, "1"])
                .await
                .expect("the keys of a slot");
            let Some(key) = keys.first() else { return true };
            let migrate = ["MIGRATE", "127.0.0.1", &port, key, "0", "60000"];
            match ask::<String>(&self.nodes[of.from], &migrate).await {
                Ok(said) => assert!(matches!(said.as_str(), "OK" | "NOKEY"), "{said}"),
                Err(error) if error.code() == Some("MOVED") => return false,
                Err(error) => panic!("a key moves: {error}"),
            }
        }
    }

    /// Ends the move: every master learns the new owner, the new one first.
    pub async fn end_move(&self, of: &SlotMove) {
        let words = ["CLUSTER", "SETSLOT", &of.slot, "NODE", &of.to_id];
        ask::<()>(&self.nodes[of.to], &words).await.expect("the target owns the slot");
        for node in self.alive() {
            // Replicas refuse it, and learn it from their masters.
            let _ = ask::<()>(node, &words).await;
        }
    }

    /// Moves a key's slot to another master, key by key.
    pub async fn move_slot(&self, key: &str, to: usize) {
        let moving = self.begin_move(key, to).await.expect("both are masters");
        assert!(self.move_keys(&moving).await, "the slot has another master");
        self.end_move(&moving).await;
    }
}

/// A slot that is being moved.
#[derive(Debug)]
pub struct SlotMove {
    slot: String,
    from: usize,
    to: usize,
    to_id: String,
}

/// Whether the node with this answer to `CLUSTER NODES` is the master of a slot.
fn serves(nodes: &str, slot: u64) -> bool {
    let own = nodes.lines().find(|line| line.contains("myself,master")).unwrap_or_default();
    // After eight other fields: `5-7`, `9`, and slots being moved as `[12->-...]`.
    own.split(' ').skip(8).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
    })
}

/// The port of the first responding node that considers itself the master of a slot.
pub async fn master_of(ports: &[u16], slot: u64) -> Option<u16> {
    for port in ports {
        let asked = async {
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"))?;
            let mut node = client.get_multiplexed_async_connection().await?;
            redis::cmd("CLUSTER").arg("NODES").query_async::<String>(&mut node).await
        };
        if let Ok(Ok(nodes)) = tokio::time::timeout(Duration::from_millis(200), asked).await
            && serves(&nodes, slot)
        {
            return Some(*port);
        }
    }
    None
}

async fn until(what: &str, mut look: impl AsyncFnMut() -> Result<(), String>) {
    let started = Instant::now();
    loop {
        match look().await {
            Ok(()) => return,
            Err(seen) => assert!(started.elapsed() < PATIENCE, "waited in vain for {what}: {seen}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
