//! Which codec a queue's payloads were written with, as far as samples tell. Pure.

use bytes::Bytes;

use crate::config::Codec;
use crate::decode;

/// A codec, and how many of the samples it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guess {
    pub(super) codec: Codec,
    pub(super) reads: usize,
    pub(super) of: usize,
}

/// The first codec, from the strictest on, that reads every sample; `raw`, which reads everything, if none does or there
/// are no samples.
pub(super) fn codec(samples: &[Bytes]) -> Guess {
    let reads = |codec| samples.iter().filter(|sample| decode::decode(codec, sample).is_ok()).count();
    let of = samples.len();
    let all = [Codec::Json, Codec::String].into_iter().find(|codec| of > 0 && reads(*codec) == of);
    Guess { codec: all.unwrap_or(Codec::Raw), reads: of, of }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_codec_that_reads_all_samples_is_the_guess() {
        let check = |samples: &[&[u8]], expected| {
            let samples: Vec<_> = samples.iter().map(|sample| Bytes::copy_from_slice(sample)).collect();
            assert_eq!(codec(&samples).codec, expected, "{samples:?}");
        };
        check(&[b"{}", b"[1]"], Codec::Json);
        check(&[b"{}", b"order 7"], Codec::String);
        check(&[b"{}", b"\xff"], Codec::Raw);
        check(&[], Codec::Raw);
    }
}
