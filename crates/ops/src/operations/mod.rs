//! The operations, one file each: the request, where it is reached, how it runs, and the words of its answer.

mod acl;
mod ahead;
mod audit;
mod config;
mod dead_count;
mod dead_export;
mod dead_import;
mod dead_list;
mod dead_show;
mod dead_sweep;
mod element;
mod elements;
mod find;
mod fleet;
mod forecast;
mod job_add;
mod job_args;
mod job_change;
mod job_dead;
mod job_export;
mod job_import;
mod job_pop;
mod job_recurring;
mod offer;
mod pause;
mod queues;
mod recover;
mod search;
mod show;
#[cfg(test)]
mod tests;
mod topic_limits;
mod topics;
mod why;

pub use self::acl::Acl;
pub use self::ahead::{CountAhead, DueSchedule, DueStep, QueueDue};
pub use self::audit::Audit;
pub use self::config::ShowSettings;
pub use self::dead_count::{CountDead, Counted, Total};
pub use self::dead_export::{ExportDead, ExportPage};
pub use self::dead_import::{ImportDead, LineOutcome, LineReport};
pub use self::dead_list::{LetterList, ListDead};
pub use self::dead_show::{ShowDead, ShownLetters};
pub use self::dead_sweep::{LetterError, Purge, Purged, Redrive, Redriven};
pub use self::element::{Cancel, Kill, Reschedule, RunNow};
pub use self::elements::ListElements;
pub use self::find::Find;
pub use self::fleet::ListFleet;
pub use self::forecast::{DAY, MakeForecast, late_by};
pub use self::job_add::AddJobs;
pub use self::job_args::JobDone;
pub use self::job_change::{ChangeJob, ChangedJob, DeleteJob, GetJob};
pub use self::job_dead::{ListDeadJobs, PurgeJobs, RedriveJobs, SweptJobs};
pub use self::job_export::ExportJobs;
pub use self::job_import::ImportJobs;
pub use self::job_pop::{BuryJob, FinishJob, PopJobs, ReleaseJob, TouchJob};
pub use self::job_recurring::{
    ChangedRecurring, DeleteRecurring, ListRecurring, PauseRecurring, ResumeRecurring, SetRecurring, ShowRecurring,
};
pub use self::offer::OfferElement;
pub use self::pause::{Pause, Resume};
pub use self::queues::{ListQueues, ListSinks, QueueDetail, ShowQueue};
pub use self::recover::Recover;
pub use self::search::{FoundEverywhere, SearchAll};
pub use self::show::ShowElement;
pub use self::topic_limits::{DestroyTopic, EmptyTopic, RemovedJobs, SetLimits};
pub use self::topics::{
    JOBS, ListTopics, PauseTopic, PeekJobs, ResumeTopic, ShowTopic, TopicDetail, TopicPage, TopicPause,
};
pub use self::why::Why;

/// Hands all operations to a macro: those that are commands under their names, the commands on dead letters and on jobs, those that are
/// parts of another command; behind `;` commands that run on Redis alone.
#[macro_export]
macro_rules! operations {
    ($with:ident) => {
        $with! {
            commands: [Find, SearchAll, Why, RunNow, Reschedule, Cancel, Kill, Audit, ListFleet, Pause, Resume]
            dead: [ListDead, CountDead, ShowDead, Redrive, Purge]
            jobs: [ListTopics, PeekJobs, PauseTopic, ResumeTopic]
            parts: [
                ShowTopic, ListQueues, ShowQueue, ListSinks, ShowSettings, CountAhead, ListElements, ShowElement, MakeForecast, ExportDead,
                ImportDead
            ]
            ;
            commands: [OfferElement, Recover, Acl]
            jobs: [
                AddJobs, PopJobs, FinishJob, ReleaseJob, TouchJob, BuryJob, ChangeJob, DeleteJob, GetJob, SetLimits, EmptyTopic,
                DestroyTopic, ImportJobs, ExportJobs
            ]
            jobs_dead: [ListDeadJobs, RedriveJobs, PurgeJobs]
            jobs_recurring: [ListRecurring, ShowRecurring, SetRecurring, PauseRecurring, ResumeRecurring, DeleteRecurring]
        }
    };
}

use crate::dead::is_place;
use crate::error::{Error, QueueError};
use crate::session::{check_id, find};
use delaybridge_model::Config;

/// Bytes of each payload in the list of a daemon.
pub const SHOWN: usize = 4096;
/// Characters of a name, and of a reason.
const LONGEST: usize = 500;
/// The reason of a change without one.
const NO_REASON: &str = "no reason given";

fn no_reason() -> String {
    NO_REASON.to_owned()
}

/// Refuses a text that is not one line of some characters.
fn one_line(what: &str, text: &str) -> Result<(), Error> {
    if text.trim().is_empty() || text.chars().count() > LONGEST || text.chars().any(char::is_control) {
        return Err(Error::invalid(format!("{what} takes one line of 1 to {LONGEST} characters")));
    }
    Ok(())
}

/// Refuses a portion that is empty, or larger than a request may ask for.
fn within(limit: usize, most: usize) -> Result<(), Error> {
    let fits = (1..=most).contains(&limit);
    fits.then_some(()).ok_or_else(|| Error::invalid(format!("read `limit`: it is 1 to {most}")))
}

/// Refuses a queue that the configuration does not have, and a text that can be no id of its elements or letters.
fn known_element(config: &Config, queue: &str, id: &str) -> Result<(), Error> {
    // The own name of a letter is its place in the stream.
    if is_place(id) { find(config, queue).map(drop) } else { check_id(config, queue, id) }
}

/// Returns the queues that could not be read.
fn messages(errors: &[QueueError]) -> Option<String> {
    let all: Vec<_> = errors.iter().map(|error| error.message.clone()).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}
