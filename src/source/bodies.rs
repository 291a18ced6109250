//! Bodies that are kept beside the elements: where they are, and what goes with them.

use bytes::Bytes;

use super::ledger::claims::BodyAt;

/// Where all bodies of a source are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllBodies {
    /// Each is a field of this hash.
    Fields {
        /// The hash.
        key: Bytes,
    },
    /// Each has a key of its own, with its id between these two; the body is all of it, or this field.
    Keys {
        /// What is before the id.
        before: Bytes,
        /// What is behind the id.
        behind: Bytes,
        /// The field, where each key is a hash.
        field: Option<Bytes>,
    },
}

impl AllBodies {
    /// The body with this name: a field, or a key.
    pub fn at(&self, name: &Bytes) -> Option<BodyAt> {
        Some(match self {
            AllBodies::Fields { key } => BodyAt::Shared { key: key.clone(), field: name.clone() },
            AllBodies::Keys { before, behind, field } => {
                self.id_in(name).filter(|id| !id.is_empty() && name.len() > before.len() + behind.len())?;
                match field {
                    Some(field) => BodyAt::Own { key: name.clone(), field: field.clone() },
                    None => BodyAt::Value { key: name.clone() },
                }
            }
        })
    }

    /// The id in the name of a body.
    pub fn id_in<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            AllBodies::Fields { .. } => Some(name),
            AllBodies::Keys { before, behind, .. } => name.strip_prefix(&before[..])?.strip_suffix(&behind[..]),
        }
    }
}

/// Where elements are, in the words of a status that the source's programs keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// A daemon has them.
    Reserved,
    /// They go back to the source.
    Back,
}

/// What is of no use without a body, or has to outlive it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beside {
    /// A field of a hash: removed.
    Field {
        /// The hash.
        key: Bytes,
        /// The field.
        field: Bytes,
    },
    /// A member of a sorted set: removed.
    Member {
        /// The sorted set.
        key: Bytes,
        /// The member.
        member: Bytes,
    },
    /// A member of a sorted set: added, with a time in ms as its score.
    Remembered {
        /// The sorted set.
        key: Bytes,
        /// The member.
        member: Bytes,
        /// How long from now on, in ms.
        ms: i64,
    },
}
