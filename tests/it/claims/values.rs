//! What a snapshot consists of, compared and shown.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

/// What differs between two maps, by the name of the key; `None` if nothing does.
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

/// Bytes for a trace: long enough to be distinct.
pub fn short(bytes: &Bytes) -> String {
    match bytes.len() {
        // Not all of a long one: it is a trace of every step, and few of them are ever shown.
        0..=40 => hex::encode(bytes),
        n => format!("{}..{} ({n} bytes)", hex::encode(&bytes[..36]), hex::encode(&bytes[n - 12..])),
    }
}

/// What the sets of ghosts know an element by.
pub fn identity(element: &Bytes) -> Bytes {
    element.slice(..element.len().min(16))
}
