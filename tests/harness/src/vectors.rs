//! The elements recorded from running Redisson clients.

use serde::Deserialize;

use super::redisson::Layout;

/// One recorded element.
#[derive(Debug, Clone, Deserialize)]
pub struct Vector {
    /// The version of the library.
    pub redisson: String,
    /// The codec's class.
    pub codec: String,
    /// The kind of the offered value.
    pub value_kind: String,
    /// The Java class of the value.
    pub value_class: String,
    /// The value as JSON or text; byte arrays as hexadecimal digits.
    pub value: serde_json::Value,
    #[serde(rename = "layout")]
    format: String,
    member_hex: String,
    score: String,
}

impl Vector {
    /// The layout of the element.
    pub fn layout(&self) -> Layout {
        Layout::of_format(&self.format)
    }

    /// The element, byte for byte.
    pub fn member(&self) -> Vec<u8> {
        hex::decode(&self.member_hex).expect("a recorded element in hexadecimal digits")
    }

    /// The id and payload in the element.
    pub fn parts(&self) -> ([u8; 8], Vec<u8>) {
        let member = self.member();
        let (id, payload) = self.layout().unpack(&member).expect("a recorded element of the layout that it names");
        (id, payload.to_vec())
    }

    /// The due time, in ms since the epoch.
    pub fn due_ms(&self) -> i64 {
        self.score.parse().expect("a recorded due time")
    }
}

/// All recorded elements, in the order of the file.
pub fn vectors() -> Vec<Vector> {
    let text = include_str!("../../vectors/redisson.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("read vector {line}: {e}"))).collect()
}
