//! The parts of a snapshot, compared and shown.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

/// The differences of two maps, with the name of the key; `None` without any.
pub fn map<T: PartialEq + fmt::Debug>(name: &str, a: &BTreeMap<Bytes, T>, b: &BTreeMap<Bytes, T>) -> Option<String> {
    if a == b {
        return None;
    }
    let missing: Vec<_> = a.iter().filter(|(k, v)| b.get(*k) != Some(v)).map(|(k, v)| (short(k), v)).collect();
    let more: Vec<_> = b.iter().filter(|(k, v)| a.get(*k) != Some(v)).map(|(k, v)| (short(k), v)).collect();
    Some(format!("{name}: expected {missing:?}, found {more:?}"))
}

/// The same for lists.
pub fn list(name: &str, a: &[Bytes], b: &[Bytes]) -> Option<String> {
    let show = |l: &[Bytes]| l.iter().map(short).collect::<Vec<_>>();
    (a != b).then(|| format!("{name}: expected {:?}, found {:?}", show(a), show(b)))
}

/// Bytes for a trace, long enough to be distinct.
pub fn short(bytes: &Bytes) -> String {
    match bytes.len() {
        // Long ones are shortened, because every step is traced and few are ever shown.
        0..=40 => hex::encode(bytes),
        n => format!("{}..{} ({n} bytes)", hex::encode(&bytes[..36]), hex::encode(&bytes[n - 12..])),
    }
}

/// The identity of an element in the sets of ghosts.
pub fn identity(element: &Bytes) -> Bytes {
    element.slice(..element.len().min(9))
}
