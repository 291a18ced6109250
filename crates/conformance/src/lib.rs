//! Checks that a producer writes Redisson delayed queues as the specification says, whatever language it is in.
//!
//! The producer is a command that reads one JSON object a line and answers with one. The kit tells it to offer, to cancel and
//! to move elements of queues that it makes up, reads with a parser of its own what is in Redis then, and compares that with
//! the numbered statements of the specification. It shares no code with any producer, touches no key that it did not make, and
//! removes those in the end.

mod bench;
mod checks;
mod child;
mod command;
mod element;
mod options;
mod report;
mod run;
mod server;
mod servers;
pub mod statements;

pub use self::child::Broken;
pub use self::command::ConformanceArgs;
pub use self::options::Options;
pub use self::report::{LISTING, Line, Listing, Report, Verdict};
pub use self::run::{Error, run};
pub use self::statements::{STATEMENTS, Statement};
