//! Claims that wait for a replica, which is cut off, comes back, or takes over with what it has. What was answered is on the
//! replica; what was not has gone back, and nothing was delivered of it.

use redis::aio::MultiplexedConnection;

use super::on_redis::OnRedis;
use super::servers::Servers;
use super::walk::Walk;
use super::*;
use delaybridge_ledger::StoreError;
use delaybridge_link::test_server::eventually;

/// The observations.
#[derive(Debug, Default)]
pub struct Seen {
    /// Claims that were not durable.
    pub refused: usize,
    /// Elements of them that went back.
    pub released: u64,
    pub promotions: usize,
    /// Claims that ran while the replica was being cut off, and were answered; and those that were not.
    pub raced: [usize; 2],
}

/// No server listens here.
const NOWHERE: &str = "1";

async fn follow(node: &mut MultiplexedConnection, host: &str, port: &str) {
    redis::cmd("REPLICAOF").arg(host).arg(port).exec_async(node).await.expect("the server follows another");
}

impl OnRedis {
    /// Waits until the replica has everything.
    async fn sync(&mut self) {
        // A server counts from the last write of the connection that asks.
        self.advance(Duration::ZERO).await;
        let mut admin = self.admin.clone();
        eventually("the replica to follow", async || {
            let wait = redis::cmd("WAIT").arg(1).arg(1_000).query_async::<u64>(&mut admin).await;
            wait.expect("the master answers") == 1
        })
        .await;
    }

    /// The replica receives nothing more.
    async fn cut(&mut self) {
        follow(self.beside(), "127.0.0.1", NOWHERE).await;
    }

    /// The replica receives all that it has missed.
    async fn reach(&mut self) {
        let master = self.ports[0].to_string();
        follow(self.beside(), "127.0.0.1", &master).await;
        self.sync().await;
    }

    /// The replica takes over with what it has: the master takes that from it, and is the master again.
    async fn promote(&mut self) {
        let replica = self.ports[1].to_string();
        follow(self.beside(), "NO", "ONE").await;
        follow(&mut self.admin, "127.0.0.1", &replica).await;
        let mut admin = self.admin.clone();
        eventually("the former master to follow", async || {
            let info: String =
                redis::cmd("INFO").arg("replication").query_async(&mut admin).await.expect("the server answers");
            info.contains("master_link_status:up")
        })
        .await;
        follow(&mut self.admin, "NO", "ONE").await;
        self.reach().await;
    }

    /// The daemon loses its connections to the master, as a sentinel has it after a failover: what they remember of their last
    /// write is of a history that is gone.
    async fn kill_connections(&mut self) {
        let list = redis::cmd("CLIENT").arg("LIST").to_owned();
        let clients: String = list.query_async(&mut self.admin).await.expect("the clients");
        for client in clients.lines().filter(|client| client.contains(" user=daemon")) {
            let id = client.split([' ', '=']).nth(1).expect("an id");
            let killed = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).exec_async(&mut self.admin).await;
            killed.expect("the server answers");
        }
    }

    fn swap(&mut self) {
        let beside = self.beside.as_mut().expect("two servers");
        std::mem::swap(&mut self.admin, beside);
    }
}

/// Both connections of the daemon are new ones.
async fn reconnected(rig: &mut impl Served) {
    rig.on().kill_connections().await;
    let store = rig.store(A);
    // A call on a connection that is gone ends with an error, and shows that it is gone.
    eventually("the daemon to connect again", async || {
        store.expired(0, 1).await.is_ok() && store.recover(name(A, 0), LEASE, i64::MAX, false).await.is_ok()
    })
    .await;
}

/// The data of the replica.
async fn on_replica(rig: &mut impl Served) -> Places {
    rig.on().swap();
    let places = rig.places().await;
    rig.on().swap();
    places
}

impl Walk {
    /// Walks, and the replica is cut off, comes back or takes over now and then; then everything comes to rest.
    pub async fn run_replicated(mut self, rig: &mut impl Served, steps: usize) -> Seen {
        let mut seen = Seen::default();
        let mut behind = None;
        rig.on().sync().await;
        for step in 0..steps {
            let what = match (self.rng.u8(0..24), behind.take()) {
                (0, None) => {
                    rig.on().sync().await;
                    rig.on().cut().await;
                    behind = Some(self.ends.clone());
                    "the replica is cut off".to_owned()
                }
                (1 | 2, None) => {
                    behind = Some(self.ends.clone());
                    self.race(rig, &mut seen).await
                }
                (0, Some(_)) => {
                    rig.on().reach().await;
                    "the replica comes back".to_owned()
                }
                (1 | 2, Some(ends)) => {
                    rig.on().promote().await;
                    reconnected(rig).await;
                    self.ends = ends;
                    seen.promotions += 1;
                    "the replica takes over".to_owned()
                }
                (_, kept) => {
                    behind = kept;
                    self.replicated_step(rig, step, behind.is_some(), &mut seen).await
                }
            };
            let places = rig.places().await;
            self.check(&places, &what);
            self.no_claim_is_forgotten(&places, &what);
            self.log.push(format!("{step}: {what}"));
        }
        if behind.is_some() {
            rig.on().reach().await;
        }
        self.come_to_rest(rig).await;
        seen
    }

    /// A step as always. While the replica is cut off no claim is answered with elements, and what was claimed goes back.
    async fn replicated_step(&mut self, rig: &mut impl Served, step: usize, cut: bool, seen: &mut Seen) -> String {
        let before = rig.places().await;
        let delivered = self.delivered.len();
        let what = match self.step(rig, step).await {
            Ok(what) => what,
            Err(StoreError::NotDurable { shortfall, released, .. }) => {
                seen.refused += 1;
                seen.released += released;
                let new: Vec<_> =
                    rig.places().await.claims.into_keys().filter(|name| !before.claims.contains_key(name)).collect();
                assert!(new.is_empty(), "not durable, and {new:?} hold elements; {:#?}", self.log);
                format!("not durable: {shortfall}, {released} went back")
            }
            Err(error) => panic!("{error}; {:#?}", self.log),
        };
        let answered = &self.delivered[delivered..];
        assert!(!cut || answered.is_empty(), "{answered:?} were answered without the replica; {what}; {:#?}", self.log);
        what
    }

    /// The replica is cut off while a claim runs. If that is answered with elements, the replica has it.
    async fn race(&mut self, rig: &mut impl Served, seen: &mut Seen) -> String {
        rig.on().sync().await;
        let delivered = self.delivered.len();
        let mut replica = rig.on().beside().clone();
        let after = ms(self.rng.u64(0..3));
        let cut = async {
            tokio::time::sleep(after).await;
            follow(&mut replica, "127.0.0.1", NOWHERE).await;
        };
        let (made, ()) = tokio::join!(self.claim(&*rig), cut);
        let what = match made {
            Ok(what) => what,
            Err(StoreError::NotDurable { .. }) => {
                seen.raced[1] += 1;
                "not durable".to_owned()
            }
            Err(error) => panic!("{error}; {:#?}", self.log),
        };
        let places = on_replica(rig).await;
        for (name, elements) in &self.delivered[delivered..] {
            seen.raced[0] += 1;
            let held = places.held(*name);
            let count = held.bare.len() + held.entries.len();
            assert_eq!(count, elements.len(), "{name} was answered, and the replica has {held:?}; {:#?}", self.log);
        }
        format!("the replica is cut off after {after:?}, meanwhile {what}")
    }

    /// Nothing that a durable claim has delivered is where it would be delivered again as if it had never been.
    fn no_claim_is_forgotten(&self, places: &Places, what: &str) {
        let fresh = |element: &&Bytes| places.of(element).iter().any(|place| ["scheduled", "ready"].contains(place));
        let forgotten: Vec<_> = self.delivered.iter().flat_map(|(_, elements)| elements).filter(fresh).collect();
        assert!(forgotten.is_empty(), "{forgotten:?} were delivered, and nothing says so; {what}; {:#?}", self.log);
    }
}

/// A claim that was made over a connection that is gone: whoever finds it by its name waits for the replica, as the claim itself
/// would have. The replica of these servers is frozen, which a master notices only after a minute. `hasty` is the store of the same
/// process without durability.
pub async fn a_claim_that_is_found_by_its_name_waits_for_the_replica<R: Served>(
    servers: &Servers,
    mut rig: R,
    hasty: Arc<dyn Store>,
) {
    let replica = &servers.all()[1];
    offer(&mut rig, [1]).await;
    rig.on().sync().await;
    replica.freeze();
    let gone_back = rig.store(A).claim(&request(A, 1)).await;
    assert!(matches!(gone_back, Err(StoreError::NotDurable { released: 1, .. })), "{gone_back:?}");
    // The next one has run, and its connections end before it is confirmed.
    let made = hasty.claim(&request(A, 2)).await.expect("the server claims");
    assert!(matches!(made, ClaimReply::Claimed(ref claimed) if claimed.elements.len() == 1), "{made:?}");
    reconnected(&mut rig).await;
    // A server without room takes what makes room.
    servers.all()[0].command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let found = rig.store(A).recover(name(A, 2), LEASE, i64::MAX, true).await;
    servers.all()[0].command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    replica.thaw();
    match found {
        Err(StoreError::NotDurable { released: 1, may_repeat: true, .. }) => {}
        other => panic!("the replica does not have it: {other:?}"),
    }
    let places = rig.places().await;
    let held = rig.places().await.held(name(A, 2));
    assert!(held.bare.is_empty() && held.entries.is_empty(), "it has gone back: {places:?}");
    rig.on().sync().await;
    rig.advance(LEASE).await;
    let found = rig.store(A).recover(name(A, 2), LEASE, i64::MAX, true).await;
    assert!(matches!(found, Ok(Some(ref contents)) if contents.elements.is_empty()), "{found:?}");
}

/// Walks of these seeds, on a rig of its own each.
pub async fn claims_wait<R: Served>(seeds: std::ops::Range<u64>, rig: impl AsyncFn(u64) -> R) {
    let mut all = Seen::default();
    for seed in seeds.clone() {
        let mut rig = rig(seed).await;
        let seen = Walk::new(&rig, seed).run_replicated(&mut rig, 80).await;
        all.refused += seen.refused;
        all.released += seen.released;
        all.promotions += seen.promotions;
        (0..2).for_each(|n| all.raced[n] += seen.raced[n]);
    }
    println!("{} seeds with claims that wait for a replica: {all:?}", seeds.count());
    assert!(all.refused > 0 && all.released > 0 && all.promotions > 0, "{all:?}");
}
