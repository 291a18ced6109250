//! The settings of decoding: the names of codecs and compressions, and the options of a decoder.

use std::fmt;
use std::str::FromStr;

macro_rules! codecs {
    ($($(#[$help:meta])* $codec:ident $name:literal,)*) => {
        /// The format of a payload, named after the Redisson codec that writes it.
        ///
        /// Parses from its name: `"kryo5".parse()`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Codec {
            $($(#[$help])* $codec,)*
        }

        impl Codec {
            /// Every codec, in the order of the documentation.
            pub const ALL: &[Codec] = &[$(Codec::$codec),*];

            /// Returns the name, as [`FromStr`] parses it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Codec::$codec => $name,)*
                }
            }

            /// Returns the name with the compression in front.
            const fn compressed(self, compression: Compression) -> &'static str {
                match (compression, self) {
                    $(
                        (Compression::Lz4, Codec::$codec) => concat!("lz4+", $name),
                        (Compression::Snappy, Codec::$codec) => concat!("snappy+", $name),
                        (Compression::Zstd, Codec::$codec) => concat!("zstd+", $name),
                    )*
                }
            }
        }
    };
}

codecs! {
    /// Bytes, not decoded (`ByteArrayCodec`).
    Raw "raw",
    /// UTF-8 text (`StringCodec`).
    String "string",
    /// A number in decimal digits (`LongCodec`, `IntegerCodec`, `DoubleCodec`).
    Number "number",
    /// One JSON value (`TypedJsonJacksonCodec`).
    Json "json",
    /// JSON with Jackson's type information (`JsonJacksonCodec`).
    Jackson "jackson",
    /// Kryo 5 without references (`Kryo5Codec`, the default since Redisson 3.19.0).
    Kryo5 "kryo5",
    /// Kryo 5 with references (`Kryo5Codec` with `useReferences`).
    Kryo5Refs "kryo5_refs",
    /// JBoss Marshalling, protocol River (`MarshallingCodec`, the default from Redisson 3.13.0 to 3.18.1).
    Marshalling "marshalling",
    /// Java serialization (`SerializationCodec`).
    Java "java",
    /// CBOR with Jackson's type information (`CborJacksonCodec`).
    Cbor "cbor",
    /// MessagePack with Jackson's type information (`MsgPackJacksonCodec`).
    Msgpack "msgpack",
    /// Smile with Jackson's type information (`SmileJacksonCodec`).
    Smile "smile",
    /// The codec, with or without compression, that fits each payload best; see [`guess`](crate::guess()).
    Auto "auto",
}

/// The kind of values that a codec produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reads {
    /// Bytes only.
    Nothing,
    /// One text or number.
    Scalars,
    /// Values of any kind, with fields and elements.
    Structures,
}

impl Codec {
    /// Returns the kind of values that the codec produces, known before any payload.
    pub fn reads(self) -> Reads {
        match self {
            Codec::Raw => Reads::Nothing,
            Codec::String | Codec::Number => Reads::Scalars,
            Codec::Json
            | Codec::Jackson
            | Codec::Kryo5
            | Codec::Kryo5Refs
            | Codec::Marshalling
            | Codec::Java
            | Codec::Cbor
            | Codec::Msgpack
            | Codec::Smile
            | Codec::Auto => Reads::Structures,
        }
    }

    /// Returns whether values can contain names of Java classes, so that [`JavaTypes`] makes a difference.
    pub fn has_java_types(self) -> bool {
        self.reads() == Reads::Structures && self != Codec::Json
    }
}

/// The compression around a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// `LZ4Codec`, `LZ4CodecV2`.
    Lz4,
    /// `SnappyCodec`, `SnappyCodecV2`.
    Snappy,
    /// `ZStdCodec`.
    Zstd,
}

impl Compression {
    /// Every compression, in the order of the documentation.
    pub const ALL: &[Compression] = &[Compression::Lz4, Compression::Snappy, Compression::Zstd];

    /// Returns the name of the prefix, without the `+`.
    pub fn as_str(self) -> &'static str {
        match self {
            Compression::Lz4 => "lz4",
            Compression::Snappy => "snappy",
            Compression::Zstd => "zstd",
        }
    }
}

/// Whether the names of Java classes are kept in the decoded value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JavaTypes {
    /// Keep them as Jackson writes them: `"@class"` in objects, `["java.lang.Long",7]`.
    Keep,
    /// Keep only the values.
    Strip,
}

/// The settings for decoding a payload: the codec, the compression around it, and the limits.
///
/// Created from a [`Codec`], or parsed from a name, with defaults for the rest; the fields may be changed:
///
/// ```
/// use redisson_codecs::{Codec, Coding, Compression, JavaTypes};
///
/// let coding: Coding = "lz4+cbor".parse()?;
/// assert_eq!((coding.compression, coding.codec), (Some(Compression::Lz4), Codec::Cbor));
/// let coding = Coding { java_types: JavaTypes::Strip, max_decoded_size: 1 << 20, ..coding };
/// assert_eq!(coding.as_str(), "lz4+cbor");
/// # Ok::<(), redisson_codecs::ParseCodecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Coding {
    /// The compression around the codec; `None` by default.
    pub compression: Option<Compression>,
    /// The codec.
    pub codec: Codec,
    /// Whether names of Java classes are kept, as by default.
    pub java_types: JavaTypes,
    /// Whether a value that is a text, and the text a JSON object or list, is read as that object or list; false by
    /// default. Any other text stays a text.
    pub json_in_text: bool,
    /// Upper limit in bytes for the unpacked size of a compressed payload, and for the memory of the value: 128 bytes
    /// for each value in it, plus its text. [`Coding::DEFAULT_MAX_DECODED_SIZE`] by default.
    pub max_decoded_size: usize,
}

impl Coding {
    /// The default of `max_decoded_size`: 16 MiB.
    pub const DEFAULT_MAX_DECODED_SIZE: usize = 16 << 20;

    /// Returns all names that parse, those without compression first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::all().map(Coding::as_str)
    }

    fn all() -> impl Iterator<Item = Coding> {
        let compressions = std::iter::once(None).chain(Compression::ALL.iter().copied().map(Some));
        compressions
            .flat_map(|compression| Codec::ALL.iter().map(move |&codec| Coding { compression, ..codec.into() }))
            // `auto` detects the compression by itself.
            .filter(|coding| coding.compression.is_none() || coding.codec != Codec::Auto)
    }

    /// Returns the name, as [`FromStr`] parses it: `kryo5`, `lz4+kryo5`.
    pub const fn as_str(self) -> &'static str {
        match self.compression {
            None => self.codec.as_str(),
            Some(compression) => self.codec.compressed(compression),
        }
    }

    /// Returns the kind of values that are read, known before any payload.
    pub fn reads(self) -> Reads {
        match self.codec {
            Codec::String if self.json_in_text => Reads::Structures,
            codec => codec.reads(),
        }
    }

    /// Returns whether values can be texts, so that `json_in_text` makes a difference.
    pub fn has_texts(self) -> bool {
        !matches!(self.codec, Codec::Raw | Codec::Number)
    }

    /// Returns whether `max_decoded_size` makes a difference: it limits memory beside the payload's own bytes.
    pub fn uses_max_decoded_size(self) -> bool {
        self.compression.is_some() || self.reads() == Reads::Structures
    }

    /// Returns whether payloads are neither unpacked nor decoded.
    pub fn is_raw(self) -> bool {
        self.compression.is_none() && self.codec == Codec::Raw
    }
}

impl From<Codec> for Coding {
    fn from(codec: Codec) -> Self {
        let max_decoded_size = Self::DEFAULT_MAX_DECODED_SIZE;
        Coding { compression: None, codec, java_types: JavaTypes::Keep, json_in_text: false, max_decoded_size }
    }
}

/// The error for an unknown name of a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseCodecError;

impl fmt::Display for ParseCodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown codec; use one of ")?;
        for (place, codec) in Codec::ALL.iter().enumerate() {
            write!(f, "{}{codec}", if place == 0 { "" } else { ", " })?;
        }
        f.write_str(", and in front of all but auto one of ")?;
        for (place, compression) in Compression::ALL.iter().enumerate() {
            write!(f, "{}{compression}+", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseCodecError {}

impl FromStr for Codec {
    type Err = ParseCodecError;

    /// Parses the name of a codec without compression.
    fn from_str(name: &str) -> Result<Self, ParseCodecError> {
        Codec::ALL.iter().copied().find(|codec| codec.as_str() == name).ok_or(ParseCodecError)
    }
}

impl FromStr for Coding {
    type Err = ParseCodecError;

    /// Parses the name of a codec, with or without a compression in front; other settings have their defaults.
    fn from_str(name: &str) -> Result<Self, ParseCodecError> {
        Self::all().find(|coding| coding.as_str() == name).ok_or(ParseCodecError)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_coding() {
        let names: Vec<_> = Coding::names().collect();
        assert_eq!(names.len(), Codec::ALL.len() + Compression::ALL.len() * (Codec::ALL.len() - 1));
        for name in names {
            assert_eq!(name.parse().map(Coding::as_str), Ok(name));
        }
        for codec in Codec::ALL {
            assert_eq!(codec.as_str().parse(), Ok(*codec));
        }
        let compressed: Coding = "lz4+kryo5".parse().unwrap();
        assert_eq!((compressed.compression, compressed.codec), (Some(Compression::Lz4), Codec::Kryo5));
        assert_eq!("lz4+kryo5".parse::<Codec>(), Err(ParseCodecError));
        for name in ["", "+", "lz4", "lz4+", "+raw", "lz4+lz4+raw", "kryo", "zstd+auto", "Raw"] {
            assert_eq!(name.parse::<Coding>(), Err(ParseCodecError), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_names() {
        let expected = "unknown codec; use one of raw, string, number, json, jackson, kryo5, kryo5_refs, marshalling, java, \
                        cbor, msgpack, smile, auto, and in front of all but auto one of lz4+, snappy+, zstd+";
        assert_eq!(ParseCodecError.to_string(), expected);
    }
}
