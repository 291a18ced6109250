//! The kinds of sources as the configuration sees them, and the settings of one source.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};

use delaybridge_core::metric::SourceTerms;
use delaybridge_jobs::JobSettings;
use delaybridge_ledger::{Packed, Source};
use delaybridge_link::KeySpace;
use delaybridge_settings::keys::{Key, Table};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;

/// First characters of keys in Redis that belong to sources or to the daemon.
pub const RESERVED_KEYS: [&str; 2] = ["redisson_delay_queue", "delaybridge:"];

/// A kind of source.
pub struct SourceKind {
    /// The key under `queues.NAME.source`, with the table behind it.
    pub key: Key,
    /// Every table of its keys, in the order of the reference.
    pub tables: &'static [&'static Table],
    /// Reads what is behind `key`.
    pub read: fn(&Section<'_>) -> SourceSettings,
    /// The names of metrics and log lines that only this kind has.
    pub metric_names: Option<&'static SourceTerms>,
    /// Reads an element that comes without its queue; `None` for bytes in no format of this kind.
    pub recognise: fn(&Bytes) -> Option<Packed>,
}

impl fmt::Debug for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key.name)
    }
}

/// The settings that were read of one source.
pub struct SourceSettings {
    /// The source.
    pub config: Arc<dyn SourceConfig>,
    /// The place where its name is written.
    pub name_spot: Spot,
    /// Keys that were written and only matter with `mode: rescue`: their names, and where they are.
    pub rescue_only: Vec<(&'static str, Spot)>,
}

/// The checked settings of one queue's source: makes the source, and answers what others have to know before.
pub trait SourceConfig: Any + fmt::Debug + Send + Sync {
    /// Returns the kind.
    fn kind(&self) -> &'static SourceKind;

    /// Makes the source.
    fn build(&self) -> Arc<dyn Source>;

    /// Returns the settings in effect, in the shape and the units of the YAML. `rescue`: the queue is in `mode:
    /// rescue`.
    fn fields(&self, rescue: bool) -> Map<String, Value>;

    /// Returns the name of the queue in Redis: of Redisson's the key of the list that due elements are moved to, else
    /// the key of the schedule. Empty when none was written.
    fn name(&self) -> &str;

    /// Returns the part that all keys of the queue with this name have in common: two queues with the same would take
    /// each other's elements.
    fn tag(&self) -> String;

    /// Returns whether the programs that add elements announce those that are due earlier than all others. Where they
    /// do not, a poll has to find an element before it is due.
    fn announces(&self) -> bool {
        false
    }

    /// Copies the source to a Redis where our keys and channels have these names.
    fn in_redis(&self, space: &KeySpace) -> Arc<dyn SourceConfig>;

    /// Copies the source with what the job queue allows; `None` where that makes no difference.
    fn with_jobs(&self, _settings: &JobSettings) -> Option<Arc<dyn SourceConfig>> {
        None
    }

    /// Returns whether due elements are claimed.
    fn consumes_due(&self) -> bool {
        true
    }

    /// Returns whether a list of elements that others have moved there is drained.
    fn consumes_ready(&self) -> bool {
        false
    }

    /// Returns the list that the source's own clients move due elements to, if they do.
    fn ready_list(&self) -> Option<&str> {
        None
    }

    /// Returns the age of what claims leave behind at which a turn of upkeep starts. Without such things it never does.
    fn leftover_max_age(&self) -> Duration {
        Duration::MAX
    }

    /// Returns the bytes per second that upkeep may move, on average.
    fn upkeep_bandwidth(&self) -> u64 {
        u64::MAX
    }

    /// Returns the time that an element may be overdue before a rescue moves it; `None` where no client would move it.
    fn rescue_after(&self) -> Option<Duration> {
        None
    }

    /// Returns a note that every user of such a queue should know, where there is one.
    fn note(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether the ids of elements are texts of their payloads, and a hash is what is left where there is none.
    fn names_elements(&self) -> bool {
        false
    }

    /// Returns whether no two elements ever have the same id, due time and payload, unless a program offers one again
    /// on purpose: ids are random.
    fn has_unique_ids(&self) -> bool {
        false
    }

    /// Returns whether due elements have their payloads in themselves.
    fn has_payload_in_member(&self) -> bool {
        true
    }

    /// Returns whether an element without its body is a dead letter; else its user has deleted it, and it is gone.
    fn buries_without_body(&self) -> bool {
        false
    }
}

impl dyn SourceConfig {
    /// Returns the settings of this kind of source, if it is one.
    pub fn of_kind<T: SourceConfig>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }

    /// Returns the settings in effect under their kind. `rescue`: the queue is in `mode: rescue`.
    pub fn settings(&self, rescue: bool) -> Map<String, Value> {
        Map::from_iter([(self.kind().key.name.to_owned(), self.fields(rescue).into())])
    }

    /// Returns the part that all keys of the queue have in common; empty when the queue has no name.
    pub fn key_tag(&self) -> String {
        if self.name().is_empty() { String::new() } else { self.tag() }
    }
}
