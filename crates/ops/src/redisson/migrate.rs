//! One layout for all elements of a queue, which unblocks a queue with two.

use serde::Serialize;

use super::survey::Survey;
pub use super::survey::Transferred;
use super::{Layout, name};
use crate::error::{Attempted, Error, may_have_run};
use crate::progress::{Progress, ProgressWatch, ended};
use crate::session::Queue;
use delaybridge_ledger::StoreError;
use delaybridge_source::redisson::{Moved, Repack, migrate_end};

/// Surveys after which clients must be writing the other layout as fast as it is repacked.
const ROUNDS: usize = 5;

/// The findings in a queue, and the changes.
#[derive(Debug, Clone, Serialize)]
pub struct Migration {
    /// The queue.
    pub queue: String,
    /// The layout that is wanted.
    pub to: &'static str,
    /// Whether anything was changed.
    pub applied: bool,
    /// Elements that were in the new layout.
    pub new: usize,
    /// Elements that were in the old layout.
    pub old: usize,
    /// Elements that were not in the layout that is wanted and can be repacked.
    pub foreign: usize,
    /// Elements that were repacked.
    pub packed: usize,
    /// Elements of no layout.
    pub junk: usize,
    /// Elements that would be read as the other layout.
    pub ambiguous: usize,
    /// Elements with converted bytes that are already scheduled.
    pub twins: usize,
    /// Entries of Redisson's list in the other layout that are scheduled nowhere.
    pub strays: usize,
    /// Elements that had to stay as they were.
    pub kept: usize,
    /// Due elements that are missing in Redisson's list: a client transferred them and then failed.
    pub transferred: Vec<Transferred>,
}

/// Finds out what would be repacked; changes nothing.
pub async fn survey(queue: &Queue, to: Layout) -> Result<Migration, Error> {
    queue.only_of_redisson("migrate", "its elements have no layout to change")?;
    let survey = look(queue, to).await?;
    Ok(Migration {
        queue: queue.id().to_owned(),
        to: name(to),
        applied: false,
        new: survey.new,
        old: survey.old,
        foreign: survey.foreign,
        packed: 0,
        junk: survey.junk,
        ambiguous: survey.ambiguous,
        twins: 0,
        strays: survey.strays,
        kept: survey.junk + survey.ambiguous + survey.strays,
        transferred: survey.transferred,
    })
}

/// Repacks until no element of the other layout is left; returns the first survey with what was done.
///
/// # Errors
///
/// When Redis cannot be asked, and when clients write the other layout as fast as it is repacked. It can be run again.
pub async fn apply(
    queue: &Queue,
    to: Layout,
    found: Migration,
    watch: &mut dyn ProgressWatch,
) -> Result<Migration, Error> {
    let mut packer = Packer { queue, packed: 0, twins: 0, of: found.foreign as u64, watch };
    for _ in 0..ROUNDS {
        packer.twins = 0;
        Survey::of(queue, to, &mut async |batch| packer.pack(&batch).await).await.attempt(&what(queue))?;
        if packer.watch.is_stopped() {
            return Err(ended(&what(queue), packer.packed as u64));
        }
        let after = look(queue, to).await?;
        let Packer { packed, twins, .. } = packer;
        if after.foreign <= twins {
            let kept = after.junk + after.ambiguous + twins + after.strays;
            return Ok(Migration { applied: true, packed, twins, strays: after.strays, kept, ..found });
        }
    }
    Err(Error::conflict(format!(
        "{}: elements of the other layout appear as fast as they are repacked ({} so far); stop the clients that write it \
         and run the command again",
        what(queue),
        packer.packed
    )))
}

async fn look(queue: &Queue, to: Layout) -> Result<Survey, Error> {
    Survey::of(queue, to, &mut async |_| Ok(())).await.attempt(&what(queue))
}

fn what(queue: &Queue) -> String {
    format!("migrate `{}`", queue.id())
}

/// Repacks batches, and counts.
struct Packer<'a> {
    queue: &'a Queue,
    packed: usize,
    twins: usize,
    of: u64,
    watch: &'a mut dyn ProgressWatch,
}

impl Packer<'_> {
    async fn pack(&mut self, mut rest: &[Repack]) -> Result<(), StoreError> {
        let redisson = self.queue.redisson();
        let conn = &self.queue.conn;
        while !rest.is_empty() {
            let done = self.packed as u64;
            self.watch.at(Progress { done, of: Some(self.of), acted: done });
            if self.watch.is_stopped() {
                return Ok(());
            }
            let batch = &rest[..migrate_end(rest)];
            let moved = match redisson.migrate(conn, batch).await {
                // What the first sending did is answered as gone: the count is too low, nothing else.
                Err(error) if may_have_run(&error) => redisson.migrate(conn, batch).await?,
                other => other?,
            };
            self.packed += moved.iter().filter(|moved| **moved == Moved::Yes).count();
            self.twins += moved.iter().filter(|moved| **moved == Moved::Twin).count();
            rest = &rest[moved.len()..];
        }
        Ok(())
    }
}
