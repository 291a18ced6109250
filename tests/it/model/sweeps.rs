//! Steps of the sweep, by several daemons, slices repeated.

use std::time::Duration;

use delaybridge::source::{Start, UpkeepRequest, UpkeepState, Upkept};

use super::world::{Sent, World};

impl World<'_> {
    /// What the daemon would send next: a turn begun, or the slice that it was told.
    pub fn sweep_request(&mut self, daemon: usize) -> UpkeepRequest {
        UpkeepRequest {
            step: self.daemons[daemon].step,
            max_age: Duration::from_secs(self.rng.u64(..30)),
            bandwidth: 16 << 20,
            start: if self.rng.bool() { Start::Urgent } else { Start::Due },
            // So large an estimate that a slice is a few entries, or one.
            largest: self.rng.choice([0, 100_000, 300_000, 400_000, 2 << 20]).unwrap(),
        }
    }

    /// Some steps in a row, now and then each of them twice.
    pub async fn sweep_some(&mut self, daemon: usize) {
        // The current sweeper continues, more often than not.
        let busy = self.daemons.iter().position(|d| d.step.is_some()).filter(|_| self.rng.u8(..3) > 0);
        let daemon = busy.unwrap_or(daemon);
        let twice = self.rng.u8(..3) == 0;
        for _ in 0..self.rng.usize(1..6) {
            let request = self.sweep_request(daemon);
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

    /// Sends a step. `again`: it was sent before, so that a slice must be refused.
    pub async fn sweep(&mut self, daemon: usize, request: UpkeepRequest, again: bool) -> Upkept {
        let what = format!("sweep {:?} of {daemon}, again {again}", request.step);
        let swept = self.daemons[daemon].source.sweep(&self.rig.conn, &request).await.unwrap();
        self.note(format!("{what}: {swept:?}"));
        let Upkept { state, step, .. } = swept;
        // A slice that was refused was not done, and may be by the very same words.
        if !again && matches!(state, UpkeepState::Begun | UpkeepState::Step | UpkeepState::Done) {
            self.daemons[daemon].sent.push(Sent::Sweep(request));
        }
        self.daemons[daemon].step = match state {
            UpkeepState::Idle | UpkeepState::Busy | UpkeepState::Done => None,
            UpkeepState::Stale if swept.left == 0 => None,
            UpkeepState::Begun | UpkeepState::Step | UpkeepState::Stale => Some(step),
        };
        match state {
            UpkeepState::Idle | UpkeepState::Busy | UpkeepState::Stale => self.unchanged(&what).await,
            UpkeepState::Begun => {
                let seen = self.seen.clone();
                self.settled_as(&what, seen.clone(), &[], false).await;
                assert!(self.seen.l == seen.l, "{what}: L changed");
                let all = |s: &super::snapshot::Snapshot| s.ghosts.union(&s.turn).cloned().collect::<Vec<_>>();
                assert_eq!(all(&self.seen), all(&seen), "{what}: what is recorded");
            }
            UpkeepState::Step | UpkeepState::Done => {
                assert!(!again, "{what}: a slice was done twice");
                let (seen, length) = (self.seen.clone(), self.seen.l.len());
                self.settled_as(&what, seen, &[], false).await;
                assert_eq!((length - self.seen.l.len()) as i64, swept.removed, "{what}: entries removed");
            }
        }
        swept
    }

    /// A full turn by one daemon, with any budget; joins the current one once its sweeper is gone.
    pub async fn full_turn(&mut self, daemon: usize) {
        self.daemons[daemon].step = None;
        for _ in 0..10_000 {
            let request = UpkeepRequest { start: Start::Urgent, ..self.sweep_request(daemon) };
            if let UpkeepState::Idle | UpkeepState::Done = self.sweep(daemon, request, false).await.state {
                return;
            }
        }
        panic!("a turn of the sweep does not come to an end");
    }
}
