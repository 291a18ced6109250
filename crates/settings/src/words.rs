//! The words that a key takes, each beside its value.

pub use super::keys::{Words, word, words};

/// Words and their values: an enumeration with a word for each variant, or a name for a list of words with values of
/// another type. `later` adds words that are known and refused.
#[macro_export]
macro_rules! words {
    ($(#[$of_all:meta])* $vis:vis enum $name:ident {
        $($(#[$of_one:meta])* $variant:ident = $text:literal),* $(,)?
    } $(later $($later:literal),+)?) => {
        $(#[$of_all])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$of_one])* $variant),*
        }

        impl $name {
            /// Returns the word in the configuration.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text),*
                }
            }
        }

        impl $crate::words::Serialize for $name {
            fn serialize<S: $crate::words::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl $crate::Setting for $name {
            fn read(section: &$crate::reader::Section<'_>, key: &$crate::keys::Key) -> Option<$name> {
                section.one_of::<$name>(key)
            }

            fn take(section: &$crate::reader::Section<'_>, key: &$crate::keys::Key) -> $name {
                const ALL: &[$name] = &[$($name::$variant),*];
                section.one_of::<$name>(key).unwrap_or(ALL[ALL.len() - 1])
            }

            fn show(&self, _key: &$crate::keys::Key) -> Option<$crate::shown::Value> {
                Some(self.as_str().into())
            }
        }

        $crate::words!(@list $name, $name, [$($text => $name::$variant),*], [$($($later),+)?]);
    };
    ($(#[$of_all:meta])* $vis:vis list $name:ident of $value:ty { $($text:expr => $of:expr),* $(,)? }) => {
        $(#[$of_all])*
        $vis enum $name {}

        $crate::words!(@list $name, $value, [$($text => $of),*], []);
    };
    (@list $name:ident, $value:ty, [$($text:expr => $of:expr),*], [$($later:literal),*]) => {
        impl $crate::words::Words for $name {
            type Value = $value;
            const WORDS: &'static [$crate::keys::Word] =
                &[$($crate::keys::now($text),)* $($crate::keys::later($later)),*];
            const VALUES: &'static [(&'static str, $value)] = &[$(($text, $of)),*];
        }
    };
}

pub use crate::words;
#[doc(hidden)]
pub use serde::{Serialize, Serializer};
