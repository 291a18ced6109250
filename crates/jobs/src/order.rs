//! The order of the waiting jobs with a priority, compared with the jobs themselves.

use super::error::JobError;
use super::name::{LocalId, Topic};
use super::queue::{JobQueue, number, text};
use delaybridge_link::Fields;

/// Number of members, or jobs, that one call compares.
const COMPARED: u32 = 1_000;
/// Maximum size of the records that one call reads, in bytes; a single larger one is read alone.
const MAX_RECORDS: u32 = 4 << 20;

/// The half of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderHalf {
    /// The members of the order: each has a waiting job.
    Members,
    /// The waiting jobs: each has the place of its priority and due time, and one without a priority has none.
    Jobs,
}

/// The findings of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderPage {
    /// Number of members, or jobs, that were compared; 0 after the last.
    pub looked_at: u64,
    /// The number to skip at the next call.
    pub next: u64,
    /// The ids of those that are wrong, or were until they were repaired.
    pub wrong: Vec<LocalId>,
}

impl JobQueue {
    /// Compares a page of the order with the jobs, and repairs what is wrong if asked to. It can be repeated.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn compare_order(
        &self,
        topic: &Topic,
        half: OrderHalf,
        skip: u64,
        repair: bool,
    ) -> Result<OrderPage, JobError> {
        let half = match half {
            OrderHalf::Members => "members",
            OrderHalf::Jobs => "jobs",
        };
        let repair = if repair { "1" } else { "" };
        let args = [text(half), number(skip), number(COMPARED), number(MAX_RECORDS), text(repair)];
        let reply = self.run_on_waiting(&self.shared.scripts.order, topic, &args).await?;
        let mut fields = Fields::of("jobs_order", reply)?;
        self.observe(&mut fields)?;
        let looked_at = u64::try_from(fields.int()?).unwrap_or(0);
        let next = u64::try_from(fields.int()?).unwrap_or(0);
        let wrong = fields.all_bytes()?.iter().map(|id| LocalId::shown(id)).collect();
        Ok(OrderPage { looked_at, next, wrong })
    }
}
