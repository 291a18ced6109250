//! Slots of Redis Cluster. Only for comparing keys.

/// The part of a key that decides its slot: what is between the first `{` and the next `}`, unless that is empty or
/// missing; else the whole key.
pub(crate) fn hashed(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}
