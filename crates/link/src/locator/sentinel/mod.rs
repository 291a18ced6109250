//! The master of a name according to its sentinels: all of them are asked and subscribed to.
//!
//! The client library's Sentinel client is not used: it subscribes to no change, needs the right to list all masters,
//! and never replaces its connections. Here only `SENTINEL GET-MASTER-ADDR-BY-NAME` and two channels are needed. An
//! announcement ends every connection to the former master at once; in all other cases the majority of the replies
//! decides.

pub(crate) use self::listen::CHANNELS;

mod ask;
mod listen;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use self::verdict::{Address, Switch, Verdict};
use super::super::endpoint::RedisEndpoint;
use super::super::error::{ConnectError, ConnectErrorKind};
use super::super::target::SentinelTarget;
use delaybridge_core::clock::Instant;

/// Time for which an announced change outweighs sentinels that do not know it yet. They learn it from each other within
/// two seconds.
const FRESH: Duration = Duration::from_secs(5);

/// The sentinels of one master, and the task that subscribes to them; it ends with the last handle.
#[derive(Debug)]
pub struct Sentinels {
    group: Arc<Group>,
    _listener: AbortOnDropHandle<()>,
}

impl Sentinels {
    /// Starts the task.
    pub(super) fn start(target: Arc<SentinelTarget>) -> Arc<Sentinels> {
        let (known, _) = watch::channel(Known::default());
        let (changes, _) = watch::channel(0);
        let group = Arc::new(Group { target, known, changes, look: Notify::new() });
        let listener = AbortOnDropHandle::new(tokio::spawn(listen::run(group.clone())));
        Arc::new(Sentinels { group, _listener: listener })
    }

    pub(super) fn target(&self) -> &Arc<SentinelTarget> {
        &self.group.target
    }

    /// Asks the sentinels for the master; see [`Locator::locate`](super::Locator::locate).
    pub(super) async fn locate(&self) -> Result<Vec<Arc<RedisEndpoint>>, ConnectError> {
        let found = match self.group.ask().await? {
            Verdict::Agreed(address) => vec![address],
            Verdict::Doubt(addresses) => addresses,
        };
        let servers = &self.group.target.servers;
        Ok(found.into_iter().map(|Address { host, port }| Arc::new(servers.at(&host, port))).collect())
    }

    /// Waits until the sentinels name another master; see [`Locator::left`](super::Locator::left).
    pub(super) async fn left(&self, server: &RedisEndpoint) {
        let mut known = self.group.known.subscribe();
        let another = |known: &Known| known.master.as_ref().is_some_and(|master| !master.is_of(server));
        if known.wait_for(another).await.is_err() {
            // The sender is in the group, which lives as long as this.
            std::future::pending().await
        }
    }

    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.group.changes.subscribe()
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

/// The knowledge about the master.
#[derive(Debug, Default)]
struct Known {
    /// The current address; `None` while the sentinels do not agree.
    master: Option<Address>,
    /// The address at the last agreement.
    named: Option<Address>,
    /// The last announced change, and its time.
    switch: Option<(Switch, Instant)>,
}

impl Known {
    /// Sets the address of the master; returns whether it differs from the last agreed one.
    fn moved(&mut self, master: Option<Address>) -> bool {
        self.master = master;
        let moved = self.master.is_some() && self.master != self.named;
        if moved {
            self.named.clone_from(&self.master);
        }
        moved
    }
}

/// The state that the handles and the task share.
#[derive(Debug)]
struct Group {
    target: Arc<SentinelTarget>,
    known: watch::Sender<Known>,
    /// Incremented at each change of the master and each announcement of it.
    changes: watch::Sender<u64>,
    /// Requests a question to all sentinels.
    look: Notify,
}

impl Group {
    /// Asks all sentinels, and records their verdict.
    async fn ask(&self) -> Result<Verdict, ConnectError> {
        let answers = ask::all(&self.target).await?;
        let switch = match &self.known.borrow().switch {
            Some((switch, heard)) if heard.elapsed() < FRESH => Some(switch.clone()),
            _ => None,
        };
        let Some(verdict) = Verdict::of(answers, switch.as_ref()) else {
            return Err(self.unknown_master());
        };
        self.learn(match &verdict {
            Verdict::Agreed(address) => Some(address.clone()),
            Verdict::Doubt(_) => None,
        });
        Ok(verdict)
    }

    fn unknown_master(&self) -> ConnectError {
        ConnectError {
            kind: ConnectErrorKind::NoMaster,
            address: self.target.address(),
            message: format!(
                "the sentinels know no master `{}`: check `master`, and `sentinel monitor` in their configuration",
                self.target.master
            ),
        }
    }

    /// Records the master on which the sentinels agree, or that they agree on none.
    fn learn(&self, master: Option<Address>) {
        let mut moved = false;
        self.known.send_if_modified(|known| {
            let changed = known.master != master;
            moved = known.moved(master);
            changed
        });
        self.tell(moved);
    }

    /// Handles the announcement of another master. It is believed if it replaces the known one, because a sentinel that
    /// lags may announce an older change. In any case all sentinels are asked.
    fn switched(&self, switch: Switch) {
        let mut moved = false;
        let mut said = false;
        self.known.send_if_modified(|known| {
            said = known.master.as_ref().is_some_and(|master| *master == switch.new);
            let replaces = known.master.as_ref().is_none_or(|master| *master == switch.old);
            if replaces {
                moved = known.moved(Some(switch.new.clone()));
            }
            // A change is announced repeatedly: when it begins, and by each sentinel that learns of it.
            if replaces || said {
                known.switch = Some((switch, Instant::now()));
            }
            replaces
        });
        self.tell(moved || said);
        self.look.notify_one();
    }

    /// Wakes those that wait between two attempts.
    fn tell(&self, moved: bool) {
        if moved {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}
