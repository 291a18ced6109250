//! The codec of a queue's payloads, as far as samples show it. Pure.

use bytes::Bytes;
use redisson_codecs::{Codec, Coding, Confidence};

/// A codec, and what speaks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodecGuess {
    pub(crate) coding: Coding,
    /// Of the samples that look like it, the one that could be something else the most.
    pub(crate) sure: Confidence,
    /// The number of samples; the codec reads them all.
    pub(crate) of: usize,
}

/// Returns the codec that most samples look like and that reads every one; `raw`, which reads everything, if there is
/// none.
pub(crate) fn codec(samples: &[Bytes]) -> CodecGuess {
    let of = samples.len();
    let mut candidates: Vec<(Coding, usize, Confidence)> = Vec::new();
    for guess in samples.iter().filter_map(|sample| redisson_codecs::guess(sample, Codec::Auto)) {
        match candidates.iter_mut().find(|(coding, ..)| *coding == guess.coding) {
            Some((_, votes, sure)) => (*votes, *sure) = (*votes + 1, guess.confidence.min(*sure)),
            None => candidates.push((guess.coding, 1, guess.confidence)),
        }
    }
    candidates.sort_by_key(|(_, votes, sure)| std::cmp::Reverse((*votes, *sure)));
    let reads_all = |coding: Coding| samples.iter().all(|sample| reads(coding, sample));
    match candidates.into_iter().find(|(coding, ..)| reads_all(*coding)) {
        Some((coding, _, sure)) => CodecGuess { coding, sure, of },
        None => CodecGuess { coding: Codec::Raw.into(), sure: Confidence::Guess, of },
    }
}

/// Returns an object that only Java can read says which codec wrote it.
fn reads(coding: Coding, sample: &Bytes) -> bool {
    redisson_codecs::decode(coding, sample).map_or_else(|error| error.is_opaque(), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_samples_look_like_is_the_guess_if_it_reads_them_all() {
        let check = |samples: &[&[u8]], expected: Codec, sure| {
            let samples: Vec<_> = samples.iter().map(|sample| Bytes::copy_from_slice(sample)).collect();
            let guess = codec(&samples);
            assert_eq!((guess.coding.codec, guess.sure), (expected, sure), "{samples:?}");
        };
        check(&[b"{}", b"[1]"], Codec::Json, Confidence::Certain);
        check(&[b"{}", b"order 7"], Codec::String, Confidence::Likely);
        check(&[b"{}", b"\xff"], Codec::Raw, Confidence::Guess);
        check(&[b"\x03\x61\x62\xe3", b"\x03\x61\xe2"], Codec::Kryo5, Confidence::Certain);
        check(&[b"\xac\xed\x00\x05t\x00\x01a"], Codec::Java, Confidence::Certain);
        check(&[], Codec::Raw, Confidence::Guess);
    }
}
