//! The two calls of the crate.

use bytes::Bytes;

use super::auto::guess_with;
use super::classes::Classes;
use super::coding::{Codec, Coding};
use super::error::{DecodeError, DecodeProblem, Refusal};
use super::named::decode_named;
use super::payload::Payload;

/// Decodes `payload` with a [`Codec`] or a [`Coding`].
///
/// Any bytes give a value or an error, never a panic. The work is linear in the payload and in its unpacked size; the
/// depth of recursion is at most [`MAX_DEPTH`]. Memory beside the payload's own bytes is deducted from
/// [`Coding::max_decoded_size`] before it is allocated.
///
/// # Errors
/// Returns an error if the bytes are not what the codec writes, exceed a limit, or need a Java class to be read;
/// [`DecodeError::code`] lists the codes.
pub fn decode(coding: impl Into<Coding>, payload: &Bytes) -> Result<Payload, DecodeError> {
    decode_with(coding, &Classes::default(), payload)
}

/// Decodes as [`decode`] does, for an application with declared classes, whose objects codec `kryo5` can read.
///
/// # Errors
/// As [`decode`].
pub fn decode_with(coding: impl Into<Coding>, classes: &Classes, payload: &Bytes) -> Result<Payload, DecodeError> {
    let coding = coding.into();
    if coding.codec == Codec::Auto {
        return match guess_with(payload, coding, classes) {
            Some(guess) => guess.payload,
            None => Err(DecodeError::new(coding, Refusal::at(0, DecodeProblem::NotRecognised))),
        };
    }
    decode_named(coding, classes, payload)
}
