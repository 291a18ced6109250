//! Use cases of an operator: what the command line does, apart from arguments and printing.
//!
//! A function here takes a queue, a configuration or a connection, and returns a plain result that derives `Serialize`.
//! The command line prints these results as tables or JSON; other interfaces send them as they are. Nothing here prints,
//! and nothing here knows arguments.
//!
//! The shapes agree with each other: a result is an object with a named list (`queues`, `elements`, `dead_letters`,
//! `users`, `errors`), a thing has one field name everywhere (`queue`, `id`, `due_ms`, `attempts`, `layout`, `payload`),
//! and times are milliseconds in a field that ends in `_ms`.
//!
//! What works for every source is in this folder; what exists for Redisson only is in [`redisson`].

pub mod acl;
pub mod audit;
pub mod back;
pub mod bench;
pub mod check;
pub mod content;
pub mod daemon;
pub mod dead;
pub mod decode;
pub mod descriptors;
pub mod differences;
pub mod element;
mod error;
pub mod first_elements;
pub mod fleet;
pub mod forecast;
pub mod forecasts;
pub mod fsck;
pub mod horizon;
mod import;
pub mod jobs;
mod live;
mod named_daemon;
mod note;
pub mod operation;
pub mod operations;
pub mod overview;
pub mod pause;
pub mod peek;
pub mod plural;
pub mod progress;
pub mod queue_order;
pub mod queue_state;
pub mod queues;
pub mod recover;
pub mod redisson;
mod release;
pub mod reload;
pub mod remote;
pub mod search;
mod session;
pub mod show;
pub mod table;
pub mod time;
pub mod trouble;

pub use self::error::{Error, ErrorKind, QueueError};
pub use self::import::import;
pub use self::named_daemon::NamedDaemon;
pub use self::note::{OperatorNote, on_behalf_of};
pub use self::session::{Queue, Session, check_id, find};
