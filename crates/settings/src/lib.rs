//! The toolkit for settings: YAML with its places, tables of keys, typed reading, problems, units. Knows no key.
//!
//! The whole file is the business of `config`; what belongs to one source, one sink or a connection is read where it
//! belongs, with these tools. Values that several parts share, such as certificates and passwords, are read here.
//!
//! - [`node`] is the YAML with the places of its values; [`problem`] collects all problems of a file.
//! - [`keys`] has the types of a table of keys; the reference and the schema are made of tables.
//! - [`files`] reads the files that a configuration names, within bounds.
//! - [`words`](mod@words) has the words of a key beside their values: `words!` makes them.
//! - [`Settings`] is a struct of the model whose fields are keys; its derive makes table, reading and showing of it.
//! - [`reader`] reads the values of a table; [`units`] and [`url`] parse them; [`shown`] prints them with their defaults.

pub mod files;
pub mod keys;
mod listen;
pub mod node;
pub mod problem;
pub mod reader;
pub mod secrets;
mod setting;
pub mod shown;
pub mod tls;
pub mod units;
pub mod url;
pub mod words;

mod expand;

// The derive names this crate.
extern crate self as delaybridge_settings;

pub use delaybridge_settings_derive::Settings;
pub use listen::Listen;
pub use secrets::Secret;
pub use setting::{Setting, Settings, defaults};
pub use tls::{Fingerprint, TlsFiles};
