//! The fence of a queue in order, in memory: one process at a time delivers from it.

use delaybridge_ledger::claims::ClaimName;

/// The process that delivers in order, and until when: never earlier than the end of any of its leases.
#[derive(Clone, Default)]
pub(super) struct Fence {
    /// The queue is delivered in order.
    pub(super) on: bool,
    holder: Option<([u8; 8], i64)>,
}

impl Fence {
    /// Whether the owner of this claim may go on; else until when another process has the order.
    pub(super) fn own(&mut self, name: ClaimName, now_ms: i64, until_ms: i64) -> Result<(), i64> {
        if !self.on {
            return Ok(());
        }
        match self.holder {
            Some((owner, ends_ms)) if owner != name.owner && ends_ms > now_ms => return Err(ends_ms),
            Some((owner, ends_ms)) if owner == name.owner => {
                self.holder = Some((owner, ends_ms.max(until_ms)));
            }
            _ => self.holder = Some((name.owner, until_ms)),
        }
        Ok(())
    }

    /// Whether another process has had the order since this claim was made, or its owner has given it back.
    pub(super) fn is_gone(&self, name: ClaimName) -> bool {
        self.on && self.holder.is_some_and(|(owner, ends_ms)| owner != name.owner || ends_ms == 0)
    }

    /// Gives the order back, unless it ends later than that.
    pub(super) fn leave(&mut self, owner: [u8; 8], latest_ms: i64) -> bool {
        match &mut self.holder {
            Some((holder, until_ms)) if *holder == owner && *until_ms <= latest_ms => *until_ms = 0,
            _ => return false,
        }
        true
    }
}
