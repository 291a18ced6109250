//! The classes with content that can be read without them.

/// What is known of a class by its name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Integer,
    Text,
    Float,
    Boolean,
    Byte,
    Character,
    Short,
    Long,
    Double,
    Bytes,
    List,
    /// A list that never holds nulls, and does not say so.
    ImmutableList,
    /// A list with a comparator in front of its elements.
    SortedList,
    Map,
    /// A map with a comparator in front of its entries.
    SortedMap,
    EmptyList,
    EmptyMap,
}

impl Class {
    pub(super) fn registered(number: u64) -> Option<Class> {
        use Class::*;
        let all = [Integer, Text, Float, Boolean, Byte, Character, Short, Long, Double];
        usize::try_from(number).ok().and_then(|number| all.get(number).copied())
    }

    pub(super) fn named(name: &str) -> Option<Class> {
        Some(match name {
            "[B" => Class::Bytes,
            "java.util.ArrayList"
            | "java.util.LinkedList"
            | "java.util.ArrayDeque"
            | "java.util.Vector"
            | "java.util.Arrays$ArrayList"
            | "java.util.HashSet"
            | "java.util.LinkedHashSet"
            | "java.util.concurrent.CopyOnWriteArrayList" => Class::List,
            "java.util.ImmutableCollections$List12"
            | "java.util.ImmutableCollections$ListN"
            | "java.util.ImmutableCollections$Set12"
            | "java.util.ImmutableCollections$SetN" => Class::ImmutableList,
            "java.util.TreeSet" => Class::SortedList,
            "java.util.HashMap"
            | "java.util.LinkedHashMap"
            | "java.util.Hashtable"
            | "java.util.concurrent.ConcurrentHashMap"
            | "java.util.ImmutableCollections$Map1"
            | "java.util.ImmutableCollections$MapN" => Class::Map,
            "java.util.TreeMap" => Class::SortedMap,
            "java.util.Collections$EmptyList" | "java.util.Collections$EmptySet" => Class::EmptyList,
            "java.util.Collections$EmptyMap" => Class::EmptyMap,
            _ => return None,
        })
    }

    /// Boxed numbers are never referred to.
    pub(super) fn is_boxed(self) -> bool {
        use Class::*;
        matches!(self, Integer | Float | Boolean | Byte | Character | Short | Long | Double)
    }

    /// Whether a null of this class has a form of its own.
    pub(super) fn has_null(self) -> bool {
        !self.is_boxed() && !matches!(self, Class::EmptyList | Class::EmptyMap)
    }
}
