//! The sentinels of one master, and what they said last.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::ask;
use super::verdict::{Switch, Verdict};
use crate::address::Address;
use crate::error::{ConnectError, ConnectErrorKind};
use crate::target::SentinelTarget;
use delaybridge_core::clock::Instant;

/// Time for which an announced change outweighs sentinels that do not know it yet. They learn it from each other within
/// two seconds.
const FRESH: Duration = Duration::from_secs(5);

/// The knowledge about the master.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The current address; `None` while the sentinels do not agree.
    pub(super) master: Option<Address>,
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
pub(super) struct Group {
    pub(super) target: Arc<SentinelTarget>,
    pub(super) known: watch::Sender<Known>,
    /// Incremented at each change of the master and each announcement of it.
    pub(super) changes: watch::Sender<u64>,
    /// Requests a question to all sentinels.
    pub(super) look: Notify,
}

impl Group {
    /// Asks all sentinels, and records their verdict.
    pub(super) async fn ask(&self) -> Result<Verdict, ConnectError> {
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
    pub(super) fn switched(&self, switch: Switch) {
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
