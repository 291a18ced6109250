//! The file of an OpenAPI document, which the daemon answers.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// Fails the test if the file does not have this document, and rewrites it.
pub fn assert_current(folder: &str, file: &str, document: &Value) {
    let path = Path::new(folder).join(file);
    let written = lines(document);
    if std::fs::read_to_string(&path).unwrap_or_default() != written {
        std::fs::write(&path, written).unwrap();
        panic!("{} was out of date and is rewritten: look at it, commit it and build again", path.display());
    }
}

/// Returns every value on a line of its own, so that differences can be read; without indents, because the file is
/// inside of the binary.
fn lines(document: &Value) -> String {
    let mut text = Vec::new();
    document.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b""))).unwrap();
    text.push(b'\n');
    String::from_utf8(text).unwrap()
}
