//! From the YAML file to the validated [`Config`](delaybridge_model::Config).
//!
//! The file becomes a tree that knows its places, is read against the tables of keys (`tables`, with the tools of
//! `settings`) and becomes the model (`validate`). All problems are reported at once. Schema and reference come from the same
//! tables. Nothing here connects anywhere; files that the configuration names are opened, to see that they are there.

mod describe;
mod input;
pub mod input_kinds;
mod load;
mod parts;
mod reference;
mod schema;
pub mod sink_kinds;
mod tables;
mod validate;
mod words;

pub use delaybridge_settings::reader::Needs;
pub use describe::{describe, describe_json, describe_queue, describe_sink, summary};
pub use input::{STANDARD_INPUT, take_standard_input};
pub use load::{Loaded, load, load_for, load_str, load_with_clients};
pub use reference::reference;
pub use schema::schema;

#[cfg(test)]
mod tests;
