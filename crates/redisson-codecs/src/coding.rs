//! Codecs: what wrote the payloads of a queue, by the names that the configuration has for them.

use std::fmt;

macro_rules! codecs {
    ($($(#[$help:meta])* $codec:ident $name:literal,)*) => {
        /// A format that payloads are written in, named after the codec of Redisson that writes it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Codec {
            $($(#[$help])* $codec,)*
        }

        impl Codec {
            /// Every codec, in the order of the reference.
            pub const ALL: &[Codec] = &[$(Codec::$codec),*];

            /// The name in the configuration.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Codec::$codec => $name,)*
                }
            }

            /// The name with that of the compression in front.
            const fn packed(self, packing: Packing) -> &'static str {
                match (packing, self) {
                    $(
                        (Packing::Lz4, Codec::$codec) => concat!("lz4+", $name),
                        (Packing::Snappy, Codec::$codec) => concat!("snappy+", $name),
                        (Packing::Zstd, Codec::$codec) => concat!("zstd+", $name),
                    )*
                }
            }
        }
    };
}

codecs! {
    /// Bytes, not looked into.
    Raw "raw",
    /// UTF-8 text.
    String "string",
    /// A number in decimal digits.
    Number "number",
    /// One JSON value.
    Json "json",
    /// JSON with Jackson's type information.
    Jackson "jackson",
    /// Kryo 5 without references.
    Kryo5 "kryo5",
    /// Kryo 5 with references.
    Kryo5Refs "kryo5_refs",
    /// JBoss Marshalling, protocol River.
    Marshalling "marshalling",
    /// Java serialization.
    Java "java",
    /// CBOR with Jackson's type information.
    Cbor "cbor",
    /// MessagePack with Jackson's type information.
    Msgpack "msgpack",
    /// Smile with Jackson's type information.
    Smile "smile",
    /// Whichever of the others fits the element best.
    Auto "auto",
}

/// What a codec finds in a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Bytes.
    Nothing,
    /// One text or number.
    Scalars,
    /// Values with fields.
    Structures,
}

impl Codec {
    /// What templates can ask for.
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

    /// Whether names of Java classes are among its values.
    pub fn has_java_types(self) -> bool {
        self.reads() == Reads::Structures && !matches!(self, Codec::Json | Codec::Kryo5 | Codec::Kryo5Refs)
    }
}

/// Compression around a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// `LZ4Codec`, `LZ4CodecV2`.
    Lz4,
    /// `SnappyCodec`, `SnappyCodecV2`.
    Snappy,
    /// `ZStdCodec`.
    Zstd,
}

impl Packing {
    /// Every compression, in the order of the reference.
    pub const ALL: [Packing; 3] = [Packing::Lz4, Packing::Snappy, Packing::Zstd];

    /// What stands in front of the codec's name, without the `+`.
    pub fn as_str(self) -> &'static str {
        match self {
            Packing::Lz4 => "lz4",
            Packing::Snappy => "snappy",
            Packing::Zstd => "zstd",
        }
    }
}

/// What becomes of the names of Java classes that a codec finds beside the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JavaTypes {
    /// They stay as Jackson writes them: `"@class"` in objects, `["java.lang.Long",7]`.
    Keep,
    /// Only the values stay.
    Strip,
}

/// How the payloads of a queue are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coding {
    /// The compression around it.
    pub packing: Option<Packing>,
    /// The format.
    pub codec: Codec,
    /// What becomes of class names.
    pub java_types: JavaTypes,
    /// Most bytes that compressed data may unpack to, and that a value which is built may take.
    pub max_decoded_size: usize,
}

impl Coding {
    /// The default of `max_decoded_size`, in bytes.
    pub const MAX_DECODED_SIZE: usize = 16 << 20;

    /// The coding that the configuration calls so, with the defaults of the rest.
    pub fn named(name: &str) -> Option<Coding> {
        Self::all().find(|coding| coding.as_str() == name)
    }

    /// Every name, those without compression first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::all().map(Coding::as_str)
    }

    fn all() -> impl Iterator<Item = Coding> {
        let packings = std::iter::once(None).chain(Packing::ALL.map(Some));
        packings
            .flat_map(|packing| Codec::ALL.iter().map(move |&codec| Coding { packing, ..codec.into() }))
            // What is not looked into needs no unpacking, and a guess unpacks by itself.
            .filter(|coding| coding.packing.is_none() || coding.codec != Codec::Auto)
    }

    /// The name in the configuration, in metrics and in dead letters.
    pub const fn as_str(self) -> &'static str {
        match self.packing {
            None => self.codec.as_str(),
            Some(packing) => self.codec.packed(packing),
        }
    }

    /// Whether anything is made that is not a part of the payload, and that `max_decoded_size` bounds.
    pub fn builds(self) -> bool {
        let text = matches!(self.codec, Codec::Json | Codec::Jackson);
        self.packing.is_some() || (self.codec.reads() == Reads::Structures && !text)
    }

    /// Whether the payload is not looked into at all.
    pub fn is_raw(self) -> bool {
        self.packing.is_none() && self.codec == Codec::Raw
    }
}

impl From<Codec> for Coding {
    fn from(codec: Codec) -> Self {
        let max_decoded_size = Self::MAX_DECODED_SIZE;
        Coding { packing: None, codec, java_types: JavaTypes::Keep, max_decoded_size }
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
        assert_eq!(names.len(), Codec::ALL.len() + Packing::ALL.len() * (Codec::ALL.len() - 1));
        for name in names {
            assert_eq!(Coding::named(name).map(Coding::as_str), Some(name));
        }
        let packed = Coding::named("lz4+kryo5").unwrap();
        assert_eq!((packed.packing, packed.codec), (Some(Packing::Lz4), Codec::Kryo5));
        for name in ["", "+", "lz4", "lz4+", "+raw", "lz4+lz4+raw", "kryo", "zstd+auto", "Raw"] {
            assert_eq!(Coding::named(name), None, "{name}");
        }
    }
}
