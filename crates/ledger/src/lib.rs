//! The ledger: elements in flight, waiting for a retry or dead, the same for every kind of source.
//!
//! [`Ledger`] wraps the scripts of one queue, one call each: no state between calls, no retries. What to do with an unknown
//! answer is the pipeline's to decide. [`keys`] names what is in Redis, [`claims`] documents its bytes; then a file for each
//! kind of call. The other half of each script comes from the [`Source`] that the ledger was made for: it hands its Lua
//! fragments, its keys and its rights down, and the ledger knows no kind of source by name.
//!
//! [`store`] is all that the pipeline sees of it; [`redis`] implements that over Redis.

mod answers;
mod args;
mod audit;
mod batch;
mod bodies;
mod body;
pub mod claims;
mod dead;
mod error;
mod fleet;
pub mod fsck;
mod handle;
mod hints;
mod horizon;
mod in_flight;
mod inspect;
mod keys;
mod locate;
mod look;
mod lookers;
mod operate;
mod other_prefix;
mod others;
mod packed;
mod page;
mod pause;
mod payload;
mod prefix;
pub mod redis;
mod refusal;
mod restore;
mod rights;
pub mod score;
mod scripts;
mod servers;
mod source;
mod stats;
pub mod store;
mod unleased;
pub mod upkeep;

pub use self::answers::{Ahead, Announcement, ClaimAdded, Depths, HORIZONS_MS, InFlight, Rescued};
pub use self::args::millis;
pub use self::args::text;
pub use self::audit::ChangeRecord;
pub use self::batch::fitting;
pub use self::batch::{BATCH_BYTES, BATCH_ENTRIES};
pub use self::body::{AllBodies, Body, BodyAt, CompanionKey, StatusWrite};
pub use self::claims::{Answer, sink_hash};
pub use self::dead::{CAUSES, DeadLetter, DeadLetters, DeadPages, Forwarder, IN_DOUBT, NotALetter, Order};
pub use self::error::StoreError;
pub use self::fleet::FleetRecords;
pub use self::handle::Ledger;
pub use self::hints::{Hints, large_head};
pub use self::in_flight::ClaimKey;
pub use self::inspect::{Page, Place, Seen, Show};
pub use self::keys::Keys;
pub use self::keys::together;
pub use self::locate::{IdSearch, Located, ScheduleCursor, SearchStep};
pub use self::look::{LOOKED_AT_ONCE, Look, LookAt, LookPart, script as look_script};
pub use self::lookers::{LookerNote, lookers_key, to_share_looks};
pub use self::operate::{Acted, CHANGED, Import, NewBody, Removal};
pub use self::other_prefix::OtherPrefix;
pub use self::others::Others;
pub use self::packed::glob_literal;
pub use self::packed::{Packed, Shape};
pub use self::page::{Kind, Members, RawPage, members, page, redis_now_ms};
pub use self::pause::{ANNOUNCED, Changed, NewPause, Pause, PauseEnd, Pauses, Subject};
pub use self::payload::{Junk, NoPayload, junk_id};
pub use self::restore::{Item, Moved, Restored, restore_end};
pub use self::rights::Use;
pub use self::scripts::{Fragments, REMOVE_SETS, Scripts, whole};
pub use self::servers::RedisServer;
pub use self::source::{Activity, Announcements, Bodies, BodyStatus, Repair, Search, Source, Transfer, Upkeep};
pub use self::stats::Stats;
pub use self::unleased::claims_with_keys;
pub use self::upkeep::{Leftovers, Start, UpkeepRequest, UpkeepState, Upkept};
