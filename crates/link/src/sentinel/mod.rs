//! The master of a name according to its sentinels: all of them are asked and subscribed to.
//!
//! The client library's Sentinel client is not used: it subscribes to no change, needs the right to list all masters,
//! and never replaces its connections. Here only `SENTINEL GET-MASTER-ADDR-BY-NAME` and two channels are needed. An
//! announcement ends every connection to the former master at once; in all other cases the majority of the replies
//! decides.

mod ask;
mod group;
mod listen;
mod verdict;

pub(super) use self::listen::CHANNELS;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use self::group::{Group, Known};
use self::verdict::Verdict;
use super::address::Address;
use super::endpoint::RedisEndpoint;
use super::error::ConnectError;
use super::locator::{Locate, Locator};
use super::target::SentinelTarget;

/// The sentinels of one master, and the task that subscribes to them; it ends with the last handle.
#[derive(Debug)]
pub struct Sentinels {
    group: Arc<Group>,
    _listener: AbortOnDropHandle<()>,
}

impl Sentinels {
    /// Starts the task.
    pub(super) fn start(target: Arc<SentinelTarget>) -> Locator {
        let (known, _) = watch::channel(Known::default());
        let (changes, _) = watch::channel(0);
        let group = Arc::new(Group { target, known, changes, look: Notify::new() });
        let listener = AbortOnDropHandle::new(tokio::spawn(listen::run(group.clone())));
        Locator::new(Arc::new(Sentinels { group, _listener: listener }))
    }
}

impl Locate for Sentinels {
    fn address(&self) -> String {
        self.group.target.address()
    }

    fn servers(&self) -> &RedisEndpoint {
        &self.group.target.servers
    }

    /// Asks the sentinels for the master.
    fn locate(&self) -> BoxFuture<'_, Result<Vec<Arc<RedisEndpoint>>, ConnectError>> {
        Box::pin(async {
            let found = match self.group.ask().await? {
                Verdict::Agreed(address) => vec![address],
                Verdict::Doubt(addresses) => addresses,
            };
            let servers = self.servers();
            Ok(found.into_iter().map(|Address { host, port }| Arc::new(servers.at(&host, port))).collect())
        })
    }

    /// Waits until the sentinels name another master.
    fn left<'a>(&'a self, server: &'a RedisEndpoint) -> BoxFuture<'a, ()> {
        Box::pin(async {
            let mut known = self.group.known.subscribe();
            let another = |known: &Known| known.master.as_ref().is_some_and(|master| !master.is_of(server));
            if known.wait_for(another).await.is_err() {
                // The sender is in the group, which lives as long as this.
                std::future::pending().await
            }
        })
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.group.changes.subscribe())
    }
}

impl SentinelTarget {
    /// Asks each sentinel for the master; `None` from one that does not know it.
    pub async fn answers(&self) -> Vec<(String, Result<Option<String>, ConnectError>)> {
        let ask = async |node: &Arc<RedisEndpoint>| {
            let answer = ask::one(node, &self.master).await;
            let named =
                answer.map(|found| found.map(|Address { host, port }| self.servers.at(&host, port).host_and_port()));
            (node.host_and_port(), named)
        };
        futures_util::future::join_all(self.nodes.iter().map(ask)).await
    }
}
