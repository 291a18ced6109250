//! A kind of input, as the configuration sees it.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Input;
use bytes::Bytes;
use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Key, Table};
use delaybridge_settings::reader::Section;

/// Reads the section of an input. What is wrong is reported.
pub type ReadInput = fn(&Section<'_>) -> Arc<dyn InputConnector>;

/// A kind of input.
pub struct InputKind {
    /// The key under `inputs.NAME`, with the table behind it.
    pub key: Key,
    /// Every table of its keys, in the order of the reference.
    pub tables: &'static [&'static Table],
    /// Reads the section behind `key`. `None` if the kind is not in this binary; then `key` is the name of its cargo feature.
    pub read: Option<ReadInput>,
    /// Error codes of the kind, with cause and cure.
    pub codes: fn() -> Codes,
}

/// The checked settings of an input of one kind.
pub trait InputConnector: fmt::Debug + Send + Sync {
    /// Returns the kind as written in the configuration.
    fn kind(&self) -> &'static str;

    /// Returns the input itself. Connects nowhere before it runs.
    fn input(&self) -> Arc<dyn Input>;

    /// Returns the settings in effect, in the shape of the YAML and without secrets.
    fn settings(&self) -> Map<String, Value>;

    /// Returns the broker and what is consumed there, for a person.
    fn address(&self) -> String;

    /// Returns the file descriptors that its connections may need at once, as far as the settings tell.
    fn descriptors(&self) -> u64 {
        // A connection or two, those that replace them, and what the client library opens beside them.
        8
    }

    /// Returns whether messages that are delivered there come back by this input.
    fn takes_from(&self, place: &RedeliveryPlace<'_>) -> bool;
}

/// A destination, to be compared with the place that an input consumes.
pub struct RedeliveryPlace<'a> {
    /// The kind of the sink.
    pub kind: &'a str,
    /// The address of the sink.
    pub address: &'a str,
    /// The filled destination keys.
    pub fields: &'a [(String, Bytes)],
}

impl RedeliveryPlace<'_> {
    /// Returns the text of a destination key.
    pub fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.fields.iter().find(|(known, _)| known == name)?;
        std::str::from_utf8(value).ok()
    }
}
