//! Bodies that a source keeps beside its elements: their places, their contents, and the other keys that go with them.

use bytes::Bytes;

/// The body of an element that has it elsewhere, as far as it was found. Two are equal whenever they were read.
#[derive(Debug, Clone, Eq)]
pub enum Body {
    /// The body was read.
    Here {
        /// The bytes, as the foreign program wrote them.
        bytes: Bytes,
        /// Redis time in ms when it was read: the element was due then.
        read_ms: i64,
    },
    /// There is none.
    Missing,
    /// The body was not read: it is this many bytes, and the claim had no room for them.
    NoRoom(usize),
    /// The key of the body holds a value of another type.
    WrongType,
}

impl PartialEq for Body {
    fn eq(&self, other: &Body) -> bool {
        match (self, other) {
            (Body::Here { bytes: one, .. }, Body::Here { bytes: other, .. }) => one == other,
            (Body::NoRoom(one), Body::NoRoom(other)) => one == other,
            (Body::Missing, Body::Missing) | (Body::WrongType, Body::WrongType) => true,
            _ => false,
        }
    }
}

/// The place of an element's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyAt {
    /// The string under this key.
    Value {
        /// The key.
        key: Bytes,
    },
    /// A field of a hash that has the bodies of others too.
    Shared {
        /// The hash.
        key: Bytes,
        /// The field.
        field: Bytes,
    },
    /// A field of a hash of the element's own, which goes as a whole.
    Own {
        /// The hash.
        key: Bytes,
        /// The field.
        field: Bytes,
    },
}

impl BodyAt {
    /// Returns the key.
    pub fn key(&self) -> &Bytes {
        match self {
            BodyAt::Value { key } | BodyAt::Shared { key, .. } | BodyAt::Own { key, .. } => key,
        }
    }

    /// Returns the field, where the key is a hash.
    pub fn field(&self) -> Option<&Bytes> {
        match self {
            BodyAt::Value { .. } => None,
            BodyAt::Shared { field, .. } | BodyAt::Own { field, .. } => Some(field),
        }
    }

    /// Returns the kind of place, in the words of the scripts.
    pub fn word(&self) -> &'static str {
        match self {
            BodyAt::Value { .. } => "s",
            BodyAt::Shared { .. } => "f",
            BodyAt::Own { .. } => "o",
        }
    }

    /// Adds a command on the body to a pipeline: the first one for a string, the second for a field of a hash.
    pub(super) fn command<'a>(
        &self,
        pipe: &'a mut redis::Pipeline,
        (string, hash): (&str, &str),
    ) -> &'a mut redis::Pipeline {
        match self.field() {
            None => pipe.cmd(string).arg(&self.key()[..]),
            Some(field) => pipe.cmd(hash).arg(&self.key()[..]).arg(&field[..]),
        }
    }
}

/// The place of all bodies of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllBodies {
    /// Each is a field of this hash.
    Fields {
        /// The hash.
        key: Bytes,
    },
    /// Each has a key of its own, with its id between these two; the body is all of it, or this field.
    Keys {
        /// The text before the id.
        before: Bytes,
        /// The text behind the id.
        behind: Bytes,
        /// The field, where each key is a hash.
        field: Option<Bytes>,
    },
}

impl AllBodies {
    /// Returns the body with this name: a field, or a key.
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

    /// Returns the id in the name of a body.
    pub fn id_in<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            AllBodies::Fields { .. } => Some(name),
            AllBodies::Keys { before, behind, .. } => name.strip_prefix(&before[..])?.strip_suffix(&behind[..]),
        }
    }
}

/// A change of the status that the source's programs keep in bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWrite {
    /// A daemon has them.
    Reserved,
    /// The elements go back to the source.
    Back,
}

/// Another key that changes when a body goes: what is of no use without the body, or has to outlive it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompanionKey {
    /// A field of a hash: removed.
    Field {
        /// The hash.
        key: Bytes,
        /// The field.
        field: Bytes,
    },
    /// A key of its own: removed.
    Whole {
        /// The key.
        key: Bytes,
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
        /// The time to keep it from now on, in ms.
        ms: i64,
    },
}
