//! The command line, one file a subcommand.
//!
//! A command reads its arguments, calls `operate`, and prints the result as text or JSON. Nothing here talks to Redis or
//! to a sink.

mod access;
mod alike;
mod answer;
mod bench;
mod check;
mod command;
mod completions;
mod config;
pub mod config_tests;
mod conformance;
mod dead;
mod decode;
mod discover;
mod endpoint;
mod errors;
mod failed;
mod forecast;
mod fsck;
mod global;
mod groups;
mod input;
mod interrupt;
mod jobs;
mod load;
mod man;
mod migrate;
mod peek;
mod person;
mod progress;
mod queues;
#[cfg(test)]
mod reference;
mod reload;
mod remote;
mod restore;
mod run;
mod schema;
mod test;
mod top;

use delaybridge_ops::{show, table};

pub use access::AccessArgs;
pub use command::{Cli, Command, execute};
pub use errors::reference as errors_reference;
pub use failed::Failed;
pub use global::{Global, Output};
pub use load::{load_for_run, read};
pub use run::{RunArgs, log_warnings};
