//! The targets of a Redis connection: one server, the master that sentinels name, or a cluster.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::address::Address;
use super::endpoint::RedisEndpoint;
use super::key_space::KeySpace;
use delaybridge_settings::{Secret, shown};

/// File descriptors for one server that holds keys.
const FOR_EACH_SERVER: u64 = 8;
/// Masters of a cluster whose configuration names fewer.
const MASTERS: u64 = 8;

/// A Redis, as the configuration names it. Cheap to clone.
#[derive(Debug, Clone)]
pub enum RedisTarget {
    /// One server, or an address that leads to one.
    Fixed(Arc<RedisEndpoint>),
    /// The master that sentinels name.
    Sentinel(Arc<SentinelTarget>),
    /// The masters of a cluster.
    Cluster(Arc<ClusterTarget>),
}

/// The name of a master, and the sentinels that know its address.
#[derive(Debug, Clone)]
pub struct SentinelTarget {
    /// The name of the master at the sentinels.
    pub master: String,
    /// The sentinels with the settings to connect to them; at least one.
    pub nodes: Vec<Arc<RedisEndpoint>>,
    /// The settings that the master and its replicas have in common; host and port are unused, because sentinels name
    /// them.
    pub servers: RedisEndpoint,
}

/// The address of a cluster and the settings of its nodes.
#[derive(Debug, Clone)]
pub struct ClusterTarget {
    /// Nodes that are asked for the map until others are known; at least one.
    pub seeds: Vec<Address>,
    /// Login, TLS and time-outs of all nodes; host and port are unused.
    pub servers: RedisEndpoint,
}

impl RedisTarget {
    /// Returns the settings that all its servers have in common: login, certificates, database, time-outs. Host and
    /// port are only meaningful for a [`fixed`](RedisTarget::fixed) server.
    pub fn servers(&self) -> &RedisEndpoint {
        match self {
            RedisTarget::Fixed(endpoint) => endpoint,
            RedisTarget::Sentinel(target) => &target.servers,
            RedisTarget::Cluster(target) => &target.servers,
        }
    }

    /// Returns the names of our keys and channels there.
    pub fn space(&self) -> KeySpace {
        let servers = self.servers();
        KeySpace { prefix: servers.key_prefix.clone(), database: servers.database }
    }

    /// Copies the target with another user, another password, or both.
    pub fn with_login(&self, username: Option<&str>, password: Option<&Secret>) -> RedisTarget {
        let of = |endpoint: &RedisEndpoint| RedisEndpoint {
            username: username.map(str::to_owned).or_else(|| endpoint.username.clone()),
            password: password.or(endpoint.password.as_ref()).cloned(),
            ..endpoint.clone()
        };
        match self {
            RedisTarget::Fixed(endpoint) => RedisTarget::Fixed(of(endpoint).into()),
            RedisTarget::Sentinel(target) => {
                RedisTarget::Sentinel(SentinelTarget { servers: of(&target.servers), ..(**target).clone() }.into())
            }
            RedisTarget::Cluster(target) => {
                RedisTarget::Cluster(ClusterTarget { servers: of(&target.servers), ..(**target).clone() }.into())
            }
        }
    }

    /// Returns the server, if the configuration has its address.
    pub fn fixed(&self) -> Option<&Arc<RedisEndpoint>> {
        match self {
            RedisTarget::Fixed(endpoint) => Some(endpoint),
            RedisTarget::Sentinel(_) | RedisTarget::Cluster(_) => None,
        }
    }

    /// Returns `host:port/db`, `sentinel:master/db` or `cluster:host:port,host:port`, for logs and for comparing
    /// targets; never with a password.
    pub fn address(&self) -> String {
        match self {
            RedisTarget::Fixed(endpoint) => endpoint.address(),
            RedisTarget::Sentinel(target) => target.address(),
            RedisTarget::Cluster(target) => target.address(),
        }
    }

    /// Returns the effective settings, in the shape and the units of the YAML, without secrets.
    pub fn settings(&self) -> Map<String, Value> {
        match self {
            RedisTarget::Fixed(endpoint) => endpoint.settings(),
            RedisTarget::Sentinel(target) => {
                let first = [("sentinel".to_owned(), target.shown().into())];
                let database = ("database".to_owned(), json!(target.servers.database));
                first.into_iter().chain([database]).chain(shown::fields(&target.servers)).collect()
            }
            RedisTarget::Cluster(target) => {
                let seeds: Vec<_> = target.seeds.iter().map(ToString::to_string).collect();
                let first = ("cluster".to_owned(), json!(seeds));
                std::iter::once(first).chain(shown::fields(&target.servers)).collect()
            }
        }
    }

    /// Returns whether it is a cluster, where all keys of one command must have the same slot.
    pub fn is_cluster(&self) -> bool {
        matches!(self, RedisTarget::Cluster(_))
    }

    /// Returns the file descriptors that the daemon's connections to it may need at once, as far as the settings tell:
    /// commands, subscriptions and questions of operators for each server, and a subscription for each sentinel.
    pub fn descriptors(&self) -> u64 {
        match self {
            RedisTarget::Fixed(_) => FOR_EACH_SERVER,
            RedisTarget::Sentinel(target) => FOR_EACH_SERVER + 2 * target.nodes.len() as u64,
            RedisTarget::Cluster(target) => FOR_EACH_SERVER * MASTERS.max(target.seeds.len() as u64),
        }
    }

    /// Returns whether equal key names are the same keys, as far as the configuration shows it.
    pub fn same_keys(&self, other: &RedisTarget) -> bool {
        self.same_servers(other) && self.servers().database == other.servers().database
    }

    /// Returns whether both are the same servers, whatever the database, as far as the configuration shows it.
    pub fn same_servers(&self, other: &RedisTarget) -> bool {
        match (self, other) {
            (RedisTarget::Fixed(one), RedisTarget::Fixed(other)) => one.same_server(other),
            (RedisTarget::Sentinel(one), RedisTarget::Sentinel(other)) => one.same_servers(other),
            (RedisTarget::Cluster(one), RedisTarget::Cluster(other)) => one.same_servers(other),
            // The address behind a master's name, and the nodes of a cluster, are not known without asking.
            (RedisTarget::Fixed(_) | RedisTarget::Sentinel(_) | RedisTarget::Cluster(_), _) => false,
        }
    }
}

impl SentinelTarget {
    /// Returns `sentinel:master/db`.
    pub fn address(&self) -> String {
        format!("sentinel:{}/{}", self.master, self.servers.database)
    }

    fn same_servers(&self, other: &SentinelTarget) -> bool {
        let shared = self.nodes.iter().any(|one| other.nodes.iter().any(|other| one.same_server(other)));
        shared && self.master == other.master
    }

    /// Returns the settings of the sentinels, which share one login.
    fn shown(&self) -> Map<String, Value> {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.host_and_port()).collect();
        let mut fields =
            Map::from_iter([("master".to_owned(), json!(self.master)), ("nodes".to_owned(), json!(nodes))]);
        let login = self.nodes.first().map(|node| shown::fields(&**node)).unwrap_or_default();
        // The time-outs are the same for the servers, and are shown there.
        fields.extend(login.into_iter().filter(|(key, _)| !key.ends_with("_timeout")));
        fields
    }
}

impl ClusterTarget {
    /// Returns the settings of one node.
    pub fn node(&self, at: &Address) -> Arc<RedisEndpoint> {
        Arc::new(self.servers.at(&at.host, at.port))
    }

    /// Returns `cluster:host:port,host:port` with the seeds.
    pub fn address(&self) -> String {
        let seeds: Vec<_> = self.seeds.iter().map(ToString::to_string).collect();
        format!("cluster:{}", seeds.join(","))
    }

    /// Returns whether the two have a node in common.
    fn same_servers(&self, other: &ClusterTarget) -> bool {
        let nodes: Vec<_> = other.seeds.iter().map(|at| other.node(at)).collect();
        self.seeds.iter().map(|at| self.node(at)).any(|one| nodes.iter().any(|other| one.same_server(other)))
    }
}

impl From<Arc<RedisEndpoint>> for RedisTarget {
    fn from(endpoint: Arc<RedisEndpoint>) -> Self {
        RedisTarget::Fixed(endpoint)
    }
}

impl From<RedisEndpoint> for RedisTarget {
    fn from(endpoint: RedisEndpoint) -> Self {
        RedisTarget::Fixed(Arc::new(endpoint))
    }
}

impl From<&RedisTarget> for RedisTarget {
    fn from(target: &RedisTarget) -> Self {
        target.clone()
    }
}
