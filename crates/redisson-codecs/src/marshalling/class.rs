//! A class of a payload, and the classes with codes of their own.

use std::rc::Rc;

/// A class as the payload describes it.
#[derive(Clone)]
pub(super) enum Class {
    /// A class with a code of its own, or with a name only.
    Simple(u8),
    /// An enum, whose values are names.
    Enum,
    Array,
    /// A class that writes everything itself, in a known form.
    External,
    Object(Rc<Described>),
}

pub(super) struct Described {
    pub(super) name: Rc<str>,
    pub(super) writes: bool,
    pub(super) fields: Vec<(String, u8)>,
    pub(super) parent: Option<Rc<Described>>,
    /// Number of superclasses. Bounded, because a chain is dropped by recursion.
    pub(super) depth: usize,
}

/// Returns the name of a class with a code of its own.
pub(super) fn known(code: u8) -> Option<&'static str> {
    const NAMES: [&str; 30] = [
        "java.lang.String",
        "java.lang.Class",
        "java.lang.Object",
        "java.lang.Enum",
        "[Z",
        "[B",
        "[S",
        "[I",
        "[J",
        "[C",
        "[F",
        "[D",
        "boolean",
        "byte",
        "short",
        "int",
        "long",
        "char",
        "float",
        "double",
        "void",
        "java.lang.Boolean",
        "java.lang.Byte",
        "java.lang.Short",
        "java.lang.Integer",
        "java.lang.Long",
        "java.lang.Character",
        "java.lang.Float",
        "java.lang.Double",
        "java.lang.Void",
    ];
    match code {
        0x5a => Some("java.util.ArrayList"),
        0x5b => Some("java.util.LinkedList"),
        0x5e => Some("java.util.HashSet"),
        0x5f => Some("java.util.LinkedHashSet"),
        0x60 => Some("java.util.TreeSet"),
        0x64 => Some("java.util.HashMap"),
        0x66 => Some("java.util.LinkedHashMap"),
        0x67 => Some("java.util.TreeMap"),
        code => code.checked_sub(0x14).and_then(|place| NAMES.get(usize::from(place)).copied()),
    }
}
