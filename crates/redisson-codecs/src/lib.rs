//! Decodes payloads of Redisson's codecs, without Java and within limits.
//!
#![doc = include_str!("../README.md")]

mod auto;
mod cbor;
mod class_specs;
mod classes;
mod coding;
mod compression;
mod decode;
mod error;
mod jackson;
mod java;
mod java_types;
mod json;
mod kryo5;
mod marshalling;
mod msgpack;
mod named;
mod number;
mod objects;
mod payload;
mod raw;
mod reader;
mod smile;
mod string;
mod time;
mod value;

pub use self::auto::{Confidence, Guess, guess, guess_with};
pub use self::class_specs::{ClassError, ClassProblem, ClassSpec, Content};
pub use self::classes::Classes;
pub use self::coding::{Codec, Coding, Compression, JavaTypes, ParseCodecError, Reads};
pub use self::decode::{decode, decode_with};
pub use self::error::{ClassName, DecodeError, DecodeProblem};
pub use self::payload::{Payload, View};
pub use self::reader::MAX_DEPTH;
#[doc(no_inline)]
pub use {bytes, serde_json};
