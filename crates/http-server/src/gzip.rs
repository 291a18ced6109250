//! gzip in both directions. What a client sends is unpacked up to a bound, so that a small body cannot fill the memory.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use hyper::HeaderMap;
use hyper::header::CONTENT_ENCODING;

use super::accept::takes_gzip;
use super::problem::{Problem, ProblemKind};

/// Shorter answers are not worth the time: they fit into one packet as they are.
const WORTH_IT: usize = 1024;

/// Returns whether a body is packed.
///
/// # Errors
/// A coding that is not read.
pub fn is_packed(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(CONTENT_ENCODING).map(|coding| coding.as_bytes().to_ascii_lowercase()).as_deref() {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip" | b"x-gzip") => Ok(true),
        Some(_) => {
            let detail = "read the body: its content-encoding is not supported; send it as gzip, or without a coding";
            Err(Problem::new(ProblemKind::MediaType, detail))
        }
    }
}

/// Returns the length that a packed body says it has: its last four bytes. It need not be true.
pub fn claimed(packed: &[u8]) -> usize {
    packed.last_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize)
}

/// Unpacks the body, if it then has at most `most` bytes.
///
/// # Errors
/// A body that is not gzip.
pub fn unpack(packed: &[u8], most: usize) -> Result<Option<Bytes>, Problem> {
    // One byte more than allowed tells a body that is too large from one that just fits.
    let mut unpacked = Vec::with_capacity(most.saturating_add(1));
    let mut reader = MultiGzDecoder::new(packed).take(most as u64 + 1);
    if reader.read_to_end(&mut unpacked).is_err() {
        return Err(Problem::bad("read the body: it is not gzip, or it is cut off; content-encoding says gzip"));
    }
    Ok(Some(unpacked).filter(|unpacked| unpacked.len() <= most).map(Bytes::from))
}

/// Returns whether the client takes gzip, and a body of this many bytes is worth it.
pub fn is_wanted(asked: &HeaderMap, length: usize) -> bool {
    length >= WORTH_IT && takes_gzip(asked)
}

/// Returns the body packed, if that makes it shorter.
pub fn pack(body: &[u8]) -> Option<Bytes> {
    let mut packed = GzEncoder::new(Vec::with_capacity(body.len() / 2), Compression::fast());
    // Writing to memory does not fail; if it did, the plain body would be right.
    packed.write_all(body).ok()?;
    packed.finish().ok().filter(|packed| packed.len() < body.len()).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use hyper::header::ACCEPT_ENCODING;

    use super::*;

    fn headers(name: hyper::header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, hyper::header::HeaderValue::from_static(value))])
    }

    fn packed(body: &[u8]) -> Bytes {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(body).unwrap();
        packed.finish().unwrap().into()
    }

    #[test]
    fn a_body_is_unpacked_up_to_its_bound() {
        let body = vec![b'a'; 1000];
        assert_eq!(claimed(&packed(&body)), 1000);
        assert_eq!(unpack(&packed(&body), 1000).unwrap().unwrap(), body);
        assert_eq!(unpack(&packed(&body), 999), Ok(None));
        // A hundred megabytes in a hundred kilobytes: not one of them is made beyond the bound.
        let bomb = packed(&vec![0; 100 << 20]);
        assert!(bomb.len() < 200_000);
        assert_eq!(unpack(&bomb, 1 << 20), Ok(None));
        assert_eq!(unpack(&packed(&body)[..20], 1000).unwrap_err().kind, ProblemKind::BadRequest);
        assert_eq!(unpack(b"plain", 1000).unwrap_err().kind, ProblemKind::BadRequest);
        // Two in a row are one; only the last says how much it is.
        let two = [packed(&body), packed(b"b")].concat();
        assert_eq!((claimed(&two), unpack(&two, 1001).unwrap().unwrap().len()), (1, 1001));
    }

    #[test]
    fn a_coding_is_known_or_refused() {
        let check =
            |coding: &'static str| is_packed(&headers(CONTENT_ENCODING, coding)).map_err(|problem| problem.kind);
        assert_eq!((check("gzip"), check("X-GZip"), check("identity")), (Ok(true), Ok(true), Ok(false)));
        assert_eq!((check("br"), is_packed(&HeaderMap::new())), (Err(ProblemKind::MediaType), Ok(false)));
    }

    #[test]
    fn an_answer_is_packed_for_those_who_take_it() {
        let check = |accepted: &'static str, length: usize, expected: bool| {
            let body = vec![b'a'; length];
            assert_eq!(is_wanted(&headers(ACCEPT_ENCODING, accepted), body.len()), expected, "{accepted} {length}");
            assert!(!expected || pack(&body).is_some_and(|packed| packed.len() < length));
        };
        check("gzip", 2000, true);
        check("br, gzip;q=0.5", 2000, true);
        check("*", 2000, true);
        check("gzip;q=0", 2000, false);
        check("br", 2000, false);
        check("gzip", 500, false);
    }
}
