//! The key `cluster`: the seed nodes.

use std::sync::Arc;

use super::super::address::Address;
use super::super::endpoint::RedisEndpoint;
use super::super::target::{ClusterTarget, RedisTarget};
use super::beside::connection::DATABASE;
use delaybridge_settings::keys::{Key, Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::url::host_and_port;

/// The key of the nodes of a cluster.
pub const CLUSTER: Key = key(
    "cluster",
    Kind::Texts,
    "Some nodes of a [Redis Cluster](redis.md#cluster) as `host:port` (default port 6379), in place of `url`. The others are discovered.",
);
/// The default port of a node.
const PORT: u16 = 6379;
/// Maximum number of seeds; more add nothing, because each node names all others.
const MOST_NODES: usize = 64;

/// Reads the seeds of a cluster; `servers` has the settings of all nodes.
pub(super) fn read(section: &Section<'_>, servers: RedisEndpoint) -> Option<RedisTarget> {
    let report = &section.cx.report;
    let spot = section.spot(&CLUSTER);
    let texts = section.texts(&CLUSTER);
    if servers.database != 0 {
        let help = "a cluster has database 0 only: remove `database`";
        report.problem(&section.spot(&DATABASE), "a cluster has no other databases", help);
    }
    if texts.len() > MOST_NODES {
        let message = format!("there are {} nodes, at most {MOST_NODES} are possible", texts.len());
        report.problem(&spot, message, "name a few: they name the others");
    }
    let mut seeds: Vec<Address> = Vec::new();
    for text in &texts {
        if text.value.contains("://") {
            let help = "write `host:6379`; TLS is switched on by `tls: {}`, and the login has keys of its own";
            report.problem(&text.spot, "a node is written without a scheme", help);
            continue;
        }
        match host_and_port(&text.value, PORT) {
            Ok((host, port)) => {
                let node = Address::new(host, port);
                if seeds.contains(&node) {
                    report.problem(&text.spot, "this node is named twice", "remove one")
                } else {
                    seeds.push(node)
                }
            }
            Err(problem) => report.problem(&text.spot, problem, "write `host:6379`"),
        }
    }
    let whole = !seeds.is_empty() && seeds.len() == texts.len();
    whole.then(|| RedisTarget::Cluster(Arc::new(ClusterTarget { seeds, servers })))
}
