//! The keys of `sinks.NAME.stdout`. There is only one place in it: every route goes there.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};

use delaybridge_core::codes::{Code, Codes, DEFECT, code};
use delaybridge_core::message::About;
use delaybridge_core::template::{FillError, Filler, Template};
use delaybridge_settings::Settings;
use delaybridge_settings::keys::{Group, Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_sink::header_rules;
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Destination, Fixed, HeaderRules, SinkAddress, Target};

/// The `stdout` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&sink_stdout::TABLE), "One JSON object per line on standard output."),
    title: "Standard output",
    tables: &[&sink_stdout::TABLE],
    to: &[],
    dead_letter: &[],
    read: Ok(read),
    codes: || Codes::of("Standard output", "Beside the codes of every sink.", CODES),
};

const CODES: &[Code] = &[
    code("io", "Standard output could not be written.", "Check the disk or pipe that receives it."),
    code("encode", "A line of JSON could not be written.", DEFECT),
];

pub(super) const NAME: &str = "stdout";

/// For tests and pipes.
#[derive(Settings)]
#[settings(sink_stdout, at = "sinks.NAME.stdout", offered = &[Group { of: None, keys: &[kind::MAX_RATE] }], hidden)]
struct StdoutKeys {
    /// Time limit of a delivery. A slow reader of the pipe delays it.
    #[key(duration(1), default = "10s")]
    timeout: Duration,
}

/// Standard output, without settings of its own.
#[derive(Debug, Clone, Copy)]
pub struct StdoutSpec;

/// Standard output as a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StdoutDestination;

impl SinkAddress for StdoutDestination {
    fn lane(&self) -> [&str; 2] {
        [""; 2]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        Vec::new()
    }
}

impl fmt::Display for StdoutDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stdout")
    }
}

/// The one destination, shared by all elements.
static STDOUT: LazyLock<Destination> = LazyLock::new(|| StdoutDestination.into());

pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    SinkSettings::new(section, Some(StdoutKeys::of(section).timeout), StdoutSpec, |at| {
        Some((Arc::new(StdoutSpec), at.sink_spot.clone()))
    })
}

impl Target for StdoutSpec {
    fn fill(&self, _from: &Filler<'_>) -> Result<Destination, FillError> {
        Ok(STDOUT.clone())
    }

    fn choosing(&self, _about: About) -> [Option<&Template>; 2] {
        [None; 2]
    }

    fn keys(&self) -> Map<String, Value> {
        Map::new()
    }

    fn place(&self) -> Option<String> {
        // It is for trying out: dead letters may go there as well.
        None
    }

    fn fixed(&self) -> Option<Fixed> {
        None
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::STDOUT
    }
}
