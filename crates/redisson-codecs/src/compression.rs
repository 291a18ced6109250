//! Compression around a codec: `lz4+X`, `snappy+X`, `zstd+X`.
//!
//! ```text
//! LZ4Codec, LZ4CodecV2   u32 BE unpacked length   one LZ4 block
//! ZStdCodec              u32 BE unpacked length   Zstandard frames
//! SnappyCodecV2          one Snappy block, which opens with its unpacked length as a varint
//! SnappyCodec            any number of (u32 BE packed length   one Snappy block of at most 32,767 bytes unpacked)
//! ```
//!
//! The first byte distinguishes the two Snappy formats. A packed length is below 64 KiB, so a chunk starts with two
//! zeros; a block that starts with a zero is empty, and nothing follows it.
//!
//! A declared length is checked against the limit before anything is allocated, and the unpacked data must have exactly
//! the declared length.

use bytes::Bytes;
use ruzstd::decoding::FrameDecoder;

use super::error::{DecodeProblem, Refusal};
use super::reader::{Read, Reader};
use crate::coding::Compression;

/// Unpacks `payload` into at most `limit` bytes.
pub(super) fn unpack(compression: Compression, payload: &[u8], limit: usize) -> Result<Bytes, Refusal> {
    let mut reader = Reader::new(payload, limit);
    let unpacked = match compression {
        Compression::Lz4 => lz4(&mut reader),
        Compression::Zstd => zstd(&mut reader, limit),
        Compression::Snappy if payload.is_empty() || payload.starts_with(&[0, 0]) => snappy_chunks(&mut reader),
        Compression::Snappy => {
            let mut unpacked = Vec::new();
            snappy_block(&mut reader, payload, &mut unpacked).map(|()| unpacked)
        }
    };
    unpacked.map(Bytes::from)
}

/// Allocates the declared length, if it is allowed.
fn room(reader: &mut Reader<'_>) -> Read<Vec<u8>> {
    let declared = reader.count()?;
    reader.pay_for(declared)?;
    Ok(vec![0; declared])
}

fn lz4(reader: &mut Reader<'_>) -> Read<Vec<u8>> {
    let mut unpacked = room(reader)?;
    // An empty value is a block of one byte, or no block at all.
    if unpacked.is_empty() && matches!(reader.rest(), [] | [0]) {
        return Ok(unpacked);
    }
    match lz4_flex::block::decompress_into(reader.rest(), &mut unpacked) {
        Ok(length) if length == unpacked.len() => Ok(unpacked),
        _ => Err(reader.refuse_at(4, DecodeProblem::Malformed("an LZ4 block of the declared length"))),
    }
}

/// The minimum window size that a Zstandard decoder must support (RFC 8878, 3.1.1.1.2).
const ZSTD_WINDOW: usize = 8 << 20;

fn zstd(reader: &mut Reader<'_>, limit: usize) -> Read<Vec<u8>> {
    let mut unpacked = room(reader)?;
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(limit.max(ZSTD_WINDOW) as u64);
    match decoder.decode_all(reader.rest(), &mut unpacked) {
        Ok(length) if length == unpacked.len() => Ok(unpacked),
        _ => Err(reader.refuse_at(4, DecodeProblem::Malformed("Zstandard frames of the declared length"))),
    }
}

fn snappy_chunks(reader: &mut Reader<'_>) -> Read<Vec<u8>> {
    let mut unpacked = Vec::new();
    while !reader.rest().is_empty() {
        let packed = reader.count()?;
        let block = reader.take(packed)?;
        snappy_block(reader, block, &mut unpacked)?;
    }
    Ok(unpacked)
}

/// Unpacks a block, and appends the result.
fn snappy_block(reader: &mut Reader<'_>, block: &[u8], unpacked: &mut Vec<u8>) -> Read<()> {
    let malformed = |reader: &Reader<'_>| reader.refuse(DecodeProblem::Malformed("a Snappy block"));
    let length = snap::raw::decompress_len(block).map_err(|_| malformed(reader))?;
    reader.pay_for(length)?;
    let start = unpacked.len();
    unpacked.resize(start + length, 0);
    match snap::raw::Decoder::new().decompress(block, &mut unpacked[start..]) {
        Ok(written) if written == length => Ok(()),
        _ => Err(malformed(reader)),
    }
}
