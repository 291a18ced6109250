//! The takeover in memory: the elements of a claim whose lease ran out go to another claim.

use super::super::claim_sets::{ClaimSets, text};
use super::super::queue::Queue;
use super::claim::Room;
use delaybridge_ledger::claims::{Contents, TakeOverReply, TakeOverRequest};
use delaybridge_ledger::{BATCH_ENTRIES, millis};

impl Queue {
    pub(super) fn take_over(&mut self, request: &TakeOverRequest, now_ms: i64) -> TakeOverReply {
        let old = text(request.old);
        let new = text(request.new);
        if now_ms > request.not_after_ms {
            return TakeOverReply::Late { now_ms };
        }
        if self.has_run(request.new) {
            return TakeOverReply::Twice { now_ms };
        }
        if self.leases.score(&old).is_none_or(|until_ms| until_ms > now_ms) {
            return TakeOverReply::Nothing { now_ms };
        }
        if self.fence.own(request.new, now_ms, now_ms.saturating_add(millis(request.lease))).is_err() {
            return TakeOverReply::Nothing { now_ms };
        }
        let Some(held) = self.claims.get_mut(&request.old) else {
            self.leases.remove(&old);
            return TakeOverReply::Nothing { now_ms };
        };

        let most = request.most.min(BATCH_ENTRIES);
        let mut room = Room::new(request.bytes);
        let mut taken = ClaimSets::default();
        // What failed before goes first.
        let entries = room.first_of(&held.entries, most);
        let all_entries = entries == held.entries.len();
        let bare = if all_entries { room.first_of(&held.bare, most - entries) } else { 0 };
        held.entries.move_first(entries, &mut taken.entries);
        held.bare.move_first(bare, &mut taken.bare);
        let left = held.len();
        let contents = taken.contents();
        self.leases.add(now_ms.saturating_add(millis(request.lease)), new);
        if taken.len() > 0 {
            self.claims.insert(request.new, taken);
        }
        if left == 0 {
            self.claims.remove(&request.old);
            self.leases.remove(&old);
        }
        let Contents { elements, unknown, damaged } = contents;
        TakeOverReply::Taken { now_ms, elements, left: left as u64, unknown, damaged }
    }
}
