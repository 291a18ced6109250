//! Faults that a crash, an operator or another program can leave in Redis and that no daemon repairs by itself.
//!
//! A look collects suspects, page by page and beside running daemons: it may see an element that is on its way. So each
//! suspect brings a script that checks it at one moment, and with the first argument `1` repairs it in the same run. The
//! same script makes the second look, the dry run and the repair. It removes only a copy of what is somewhere else at that
//! moment. Where that is not certain, the suspect says why it is kept.

mod bodies;
mod copies;
pub(super) mod held;
mod leases;
mod state;
pub(super) mod suspect;
mod types;

pub use self::held::Held;
pub use self::suspect::{COMPARED, Check, Fault, Found, MOST, Repair, Suspect, Terms, script};
use super::error::StoreError;
use super::handle::Ledger;
use delaybridge_link::Conn;

impl Ledger {
    /// Looks at everything that delaybridge keeps of the queue, and at what the source has. Nothing is changed.
    ///
    /// # Errors
    ///
    /// Those of the connection, and missing rights.
    pub async fn look_for_faults(&self, conn: &Conn, terms: &Terms, found: &mut Found<'_>) -> Result<(), StoreError> {
        // Of a key of another type nothing can be read: the rest waits for its repair.
        if self.look_at_types(conn, found).await? {
            found.not_checked("everything else: a key of another type has to be repaired first");
            return Ok(());
        }
        self.look_at_times_to_live(conn, found).await?;
        self.look_at_leases(conn, terms, found).await?;
        self.look_at_pauses(conn, &terms.sinks, found).await?;
        let held = self.look_at_held(conn, found).await?;
        self.look_at_schedules(conn, &held, found).await?;
        self.source.repair().look_for_faults(conn, &held, found).await
    }
}
