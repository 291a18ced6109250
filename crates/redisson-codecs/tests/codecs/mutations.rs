//! Recorded payloads, cut, joined and overwritten: no mutation panics or exceeds a limit.

use redisson_codecs::bytes::Bytes;
use redisson_codecs::serde_json::Value;
use redisson_codecs::{Codec, Coding, DecodeProblem, MAX_DEPTH, View, decode};

use super::vectors;

/// Minimum cost of a value in `max_decoded_size`, beside its text.
const VALUE_COST: usize = 128;

#[test]
fn no_mutation_of_a_recorded_payload_exceeds_a_limit() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let vectors: Vec<_> =
        vectors::vectors().into_iter().filter_map(|v| Some((vectors::coding(&v)?, v.payload))).collect();
    let mut values = 0;
    let mut too_large = 0;
    for _ in 0..20_000 {
        let (coding, payload) = &vectors[random.usize(..vectors.len())];
        let (_, other) = &vectors[random.usize(..vectors.len())];
        let mut bytes = payload.to_vec();
        for _ in 0..random.usize(1..4) {
            mutate(&mut random, &mut bytes, other);
        }
        // From a limit that hardly any value satisfies to one that nearly all do.
        let coding = Coding { max_decoded_size: VALUE_COST << random.u32(..10), ..*coding };
        match decode(coding, &bytes.into()) {
            Ok(payload) => {
                values += 1;
                if let (View::Json(value), true) = (payload.view(), is_binary(coding.codec)) {
                    let (weight, depth) = weigh(value);
                    assert!(weight <= coding.max_decoded_size, "{coding}: {weight} in {payload:?}");
                    assert!(depth <= 2 * MAX_DEPTH, "{coding}: {depth} levels in {payload:?}");
                }
            }
            Err(error) => too_large += u32::from(error.problem == DecodeProblem::TooLarge),
        }
    }
    println!("{values} of them still values, {too_large} too large");
    assert!(values > 500 && too_large > 500, "{values} values, {too_large} too large");
}

/// Removes, repeats, inserts or overwrites a few bytes.
fn mutate(random: &mut fastrand::Rng, bytes: &mut Vec<u8>, other: &Bytes) {
    let from = random.usize(..=bytes.len());
    let to = (from + random.usize(..16)).min(bytes.len());
    let with: Vec<u8> = match random.u8(..5) {
        0 => Vec::new(),
        1 => bytes[from..to].repeat(random.usize(2..5)),
        2 => {
            let start = random.usize(..=other.len());
            other[start..(start + 16).min(other.len())].to_vec()
        }
        // Typical bytes of lengths and counts.
        3 => vec![*random.choice(&[0, 1, 0x7f, 0x80, 0xff]).unwrap_or(&0); to - from],
        _ => (from..to).map(|_| random.u8(..)).collect(),
    };
    bytes.splice(from..to, with);
}

/// Whether `max_decoded_size` limits the values of this codec, not only their unpacked source.
fn is_binary(codec: Codec) -> bool {
    Coding::from(codec).uses_max_decoded_size()
}

/// The minimum memory of a value, and its number of levels.
fn weigh(value: &Value) -> (usize, usize) {
    let inside = |items: &mut dyn Iterator<Item = (usize, usize)>| {
        items.fold((0, 1), |(sum, deepest), (weight, depth)| (sum + weight, deepest.max(depth + 1)))
    };
    let (weight, depth) = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (0, 0),
        Value::String(text) => (text.len(), 0),
        Value::Array(items) => inside(&mut items.iter().map(|item| {
            let (weight, depth) = weigh(item);
            // A pair of a map's key and value is not a value of its own.
            let pair = item.as_array().is_some_and(|pair| pair.len() == 2);
            (weight - if pair { VALUE_COST } else { 0 }, depth)
        })),
        Value::Object(fields) => inside(&mut fields.iter().map(|(name, value)| {
            let (weight, depth) = weigh(value);
            (weight + name.len(), depth)
        })),
    };
    (VALUE_COST + weight, depth)
}
