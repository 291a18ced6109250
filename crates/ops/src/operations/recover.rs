//! `recover`: claims that have lost their leases.

use clap::Args;

use crate::error::Error;
use crate::operation::{ChangeSubject, ChangeTarget, Explain, Operation, Scene};
use crate::plural;
use crate::recover::{Recovered, recover};

/// Bring back elements in flight whose leases were deleted.
///
/// Daemons find elements in flight by their leases, in a key of the queue (delaybridge:leases:{NAME}, with the queue's
/// name in Redis). If it was deleted or evicted, no daemon finds the elements, and `check --live` reports them. This
/// command gives each of their claims (the elements that a daemon took together) an expired lease, so that a daemon
/// takes them over and delivers. Daemons may run. What was delivered shortly before may arrive twice.
///
/// It looks at the name of every key of the database, and needs the right to SCAN.
///
/// in flight (no lease) -> in flight (lease expired)
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER)]
pub struct Recover {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
}

const AFTER: &str = "\
Example:
  delaybridge recover order_timeout

Exit codes: 0 done, or nothing to do, 1 it failed, 2 wrong arguments or configuration";

impl Operation for Recover {
    type Answer = Recovered;

    const NAME: &'static str = "recover";

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    async fn run(&self, scene: &Scene) -> Result<Recovered, Error> {
        recover(&scene.queue(&self.queue).await?).await
    }

    fn text(&self, done: &Recovered, _: Explain) -> String {
        match done.claims {
            0 => format!("every claim of {} has its lease\n", done.queue),
            claims => format!(
                "{} with {} had no lease; daemons of {} deliver them now\n",
                plural::count(claims, "claim"),
                plural::count(done.elements, "element"),
                done.queue
            ),
        }
    }

    fn change(&self) -> Option<ChangeSubject> {
        let of = ChangeTarget::Queue(self.queue.clone());
        Some(ChangeSubject { what: Self::NAME, of, which: String::new() })
    }

    fn result(done: &Recovered) -> String {
        plural::count(done.claims, "claim")
    }
}
