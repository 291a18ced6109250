//! The kind, as the configuration knows it.

use super::config::{self, NAME};
use delaybridge_core::codes::{Code, Codes, DEFECT, code};
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

/// The `stdout` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&config::sink_stdout::TABLE), "One JSON object per line on standard output."),
    title: "Standard output",
    tables: config::TABLES,
    to: &[],
    dead_letter: &[],
    read: Ok(config::read),
    codes: || Codes::of("Standard output", "Beside the codes of every sink.", CODES),
};

const CODES: &[Code] = &[
    code("io", "Standard output could not be written.", "Check the disk or pipe that receives it."),
    code("encode", "A line of JSON could not be written.", DEFECT),
];
