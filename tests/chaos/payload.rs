//! Payloads as a function of the seed, the element's number and a size, so that arrivals can be compared.

/// Number of different keys in a queue.
const KEYS: u64 = 5;

/// The key of an element: the field `k` of the payload.
pub fn key(n: u64) -> u64 {
    // Numbers run over all queues, which take turns.
    n / 3 % KEYS
}

/// The payload of an element: JSON with its number and its key first.
pub fn payload(seed: u64, n: u64, size: usize) -> Vec<u8> {
    let mut body = format!("{{\"n\":{n},\"k\":{},\"x\":\"", key(n)).into_bytes();
    let mut random = fastrand::Rng::with_seed(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let end = size.saturating_sub(2).max(body.len());
    // One random word per sixteen bytes: 50 MB take a moment in a debug build.
    while body.len() < end {
        let word = format!("{:016x}", random.u64(..));
        body.extend_from_slice(&word.as_bytes()[..word.len().min(end - body.len())]);
    }
    body.extend_from_slice(b"\"}");
    body
}

/// A payload that is no JSON: its end is missing.
pub fn undecodable(seed: u64, n: u64, size: usize) -> Vec<u8> {
    let mut body = payload(seed, n, size);
    body.truncate(body.len() - 1);
    body
}

/// The number at the beginning of a payload, or of an element that contains it.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let mark = b"{\"n\":";
    let at = bytes.windows(mark.len()).take(256).position(|window| window == mark)? + mark.len();
    let digits: Vec<u8> = bytes[at..].iter().copied().take_while(u8::is_ascii_digit).collect();
    String::from_utf8(digits).ok()?.parse().ok()
}

#[test]
fn a_payload_is_json_of_its_size_with_its_number() {
    for (n, size) in [(0, 0), (7, 100), (u64::MAX, 5_000)] {
        let made = payload(3, n, size);
        assert!(serde_json::from_slice::<serde_json::Value>(&made).is_ok(), "{n} {size}");
        assert!(size < 100 || made.len() == size, "{n}: {} of {size}", made.len());
        assert_eq!((number(&made), payload(3, n, size)), (Some(n), made));
        assert!(serde_json::from_slice::<serde_json::Value>(&undecodable(3, n, size)).is_err());
    }
    assert_ne!(payload(3, 1, 100)[20..], payload(4, 1, 100)[20..]);
}
