//! Steps of the sweep, by several daemons, with repeated slices.

use std::time::Duration;

use delaybridge_ledger::{Start, UpkeepRequest, UpkeepState, Upkept};
use fastrand::Rng;

use super::daemon::Sent;
use super::list::Treatment;
use super::world::World;

/// The request that a daemon would send next: the begin of a turn, or the slice named in the last reply.
pub fn request(rng: &mut Rng, step: Option<i64>) -> UpkeepRequest {
    UpkeepRequest {
        step,
        max_age: Duration::from_secs(rng.u64(..30)),
        bandwidth: 16 << 20,
        start: if rng.bool() { Start::Urgent } else { Start::Due },
        // An estimate so large that a slice has few entries, or one.
        largest: rng.choice([0, 100_000, 300_000, 400_000, 2 << 20]).expect("some"),
    }
}

/// The slice to ask for after this answer; `None` after the end of a turn.
pub fn next_step(swept: &Upkept) -> Option<i64> {
    match swept.state {
        UpkeepState::Idle | UpkeepState::Busy | UpkeepState::Done => None,
        UpkeepState::Stale if swept.left == 0 => None,
        UpkeepState::Begun | UpkeepState::Step | UpkeepState::Stale => Some(swept.step),
    }
}

impl World<'_> {
    /// Runs some steps, sometimes each of them twice.
    pub async fn sweep_some(&mut self, daemon: usize) {
        // Mostly the current sweeper continues.
        let busy =
            self.alive.iter().copied().find(|d| self.daemons[*d].step.is_some()).filter(|_| self.rng.u8(..3) > 0);
        let daemon = busy.unwrap_or(daemon);
        let twice = self.rng.u8(..3) == 0;
        for _ in 0..self.rng.usize(1..6) {
            let request = request(&mut self.rng, self.daemons[daemon].step);
            let state = self.sweep(daemon, request, false).await.state;
            if twice && matches!(state, UpkeepState::Step | UpkeepState::Done) {
                let state = self.sweep(daemon, request, true).await.state;
                assert_eq!(state, UpkeepState::Stale, "a slice that was sent twice");
            }
            if self.daemons[daemon].step.is_none() {
                break;
            }
        }
    }

    /// Sends a step. `again`: it was done before, so that a slice must be refused.
    pub async fn sweep(&mut self, daemon: usize, request: UpkeepRequest, again: bool) -> Upkept {
        let what = format!("sweep {:?} of {daemon}, again {again}", request.step);
        let swept = self.daemons[daemon].redisson.sweep(&self.rig.conn, &request).await;
        let swept = swept.unwrap_or_else(|e| panic!("{what}: {e}"));
        self.note(format!("{what}: {swept:?}"));
        let d = &mut self.daemons[daemon];
        // A refused slice was not done, and may be done with the same request later.
        if !again && matches!(swept.state, UpkeepState::Begun | UpkeepState::Step | UpkeepState::Done) {
            d.sent.push(Sent::Sweep(request, self.failovers));
        }
        d.step = next_step(&swept);
        let seen = self.seen.clone();
        match swept.state {
            UpkeepState::Idle | UpkeepState::Busy | UpkeepState::Stale => self.unchanged(&what).await,
            UpkeepState::Begun => {
                self.settled_as(&what, seen.clone(), &[], Treatment::Sweep).await;
                assert!(self.seen.l == seen.l, "{what}: L changed");
                let recorded = |s: &super::snapshot::Snapshot| s.ghosts.union(&s.turn).cloned().collect::<Vec<_>>();
                assert_eq!(recorded(&self.seen), recorded(&seen), "{what}: what is recorded");
            }
            UpkeepState::Step | UpkeepState::Done => {
                assert!(!again, "{what}: a slice was done twice");
                let length = seen.l.len();
                self.settled_as(&what, seen, &[], Treatment::Sweep).await;
                assert_eq!((length - self.seen.l.len()) as i64, swept.removed, "{what}: entries removed");
            }
        }
        swept
    }

    /// Runs a full turn by one daemon, with any budget; it joins the current turn once the sweeper of that is gone.
    pub async fn full_turn(&mut self, daemon: usize) {
        self.daemons[daemon].step = None;
        for _ in 0..10_000 {
            let step = self.daemons[daemon].step;
            let request = UpkeepRequest { start: Start::Urgent, ..request(&mut self.rng, step) };
            if let UpkeepState::Idle | UpkeepState::Done = self.sweep(daemon, request, false).await.state {
                return;
            }
        }
        panic!("a turn of the sweep does not come to an end");
    }
}
