//! gzip in both directions. What a client sends is unpacked up to a bound, so that a small body cannot fill the memory.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use hyper::HeaderMap;
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING};

use super::problem::{Kind, Problem};

/// Shorter answers are not worth the time: they fit into one packet as they are.
const WORTH_IT: usize = 1024;

/// The body as the client meant it, at most `limit` bytes.
///
/// # Errors
/// A coding that is not read, a body that is not gzip, or that is larger unpacked.
pub fn unpack(headers: &HeaderMap, body: Bytes, limit: usize) -> Result<Bytes, Problem> {
    let Some(coding) = headers.get(CONTENT_ENCODING) else { return Ok(body) };
    match coding.as_bytes() {
        coding if coding.eq_ignore_ascii_case(b"identity") => return Ok(body),
        coding if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") => {}
        _ => {
            let detail = "read the body: its content-encoding is not supported; send it as gzip, or without a coding";
            return Err(Problem::new(Kind::MediaType, detail));
        }
    }
    let mut unpacked = Vec::new();
    // One byte more than allowed tells a body that is too large from one that just fits.
    let mut reader = MultiGzDecoder::new(&*body).take(limit as u64 + 1);
    if reader.read_to_end(&mut unpacked).is_err() {
        return Err(Problem::bad("read the body: it is not gzip, or it is cut off; content-encoding says gzip"));
    }
    if unpacked.len() > limit {
        let detail = format!("read the body: unpacked it is larger than max_body, {limit} bytes");
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    Ok(unpacked.into())
}

/// The body packed, if the client takes gzip and it is worth it.
pub fn pack(asked: &HeaderMap, body: &[u8]) -> Option<Bytes> {
    if body.len() < WORTH_IT || !accepts(asked) {
        return None;
    }
    let mut packed = GzEncoder::new(Vec::with_capacity(body.len() / 2), Compression::fast());
    // Writing to memory does not fail; if it did, the plain body would be right.
    packed.write_all(body).ok()?;
    packed.finish().ok().filter(|packed| packed.len() < body.len()).map(Bytes::from)
}

/// Whether one of the codings that the client takes is gzip.
fn accepts(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    codings.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0));
        (name.trim().eq_ignore_ascii_case("gzip") || name.trim() == "*") && !refused
    })
}

#[cfg(test)]
mod tests {
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
        let gzip = headers(CONTENT_ENCODING, "gzip");
        let body = vec![b'a'; 1000];
        assert_eq!(unpack(&gzip, packed(&body), 1000).unwrap(), body);
        assert_eq!(unpack(&gzip, packed(&body), 999).unwrap_err().kind, Kind::TooLarge);
        // A hundred megabytes in a hundred kilobytes: not one of them is made beyond the bound.
        let bomb = packed(&vec![0; 100 << 20]);
        assert!(bomb.len() < 200_000);
        assert_eq!(unpack(&gzip, bomb, 1 << 20).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(unpack(&gzip, packed(&body).slice(..20), 1000).unwrap_err().kind, Kind::BadRequest);
        assert_eq!(unpack(&gzip, Bytes::from_static(b"plain"), 1000).unwrap_err().kind, Kind::BadRequest);
        let other = headers(CONTENT_ENCODING, "br");
        assert_eq!(unpack(&other, Bytes::new(), 1000).unwrap_err().kind, Kind::MediaType);
        assert_eq!(unpack(&HeaderMap::new(), Bytes::from_static(b"plain"), 1000).unwrap(), "plain");
    }

    #[test]
    fn an_answer_is_packed_for_those_who_take_it() {
        let check = |accepted: &'static str, length: usize, expected: bool| {
            let body = vec![b'a'; length];
            assert_eq!(pack(&headers(ACCEPT_ENCODING, accepted), &body).is_some(), expected, "{accepted} {length}");
        };
        check("gzip", 2000, true);
        check("br, gzip;q=0.5", 2000, true);
        check("*", 2000, true);
        check("gzip;q=0", 2000, false);
        check("br", 2000, false);
        check("gzip", 500, false);
    }
}
