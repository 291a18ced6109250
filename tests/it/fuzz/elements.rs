//! Elements of Redisson's sorted set, entries with the ledger's header, and names of claims.

use bytes::Bytes;
use delaybridge_core::message::{Class, MessageId, Origin};
use delaybridge_ledger::claims::{ClaimName, Element, Header};
use delaybridge_source::redisson::layout::{self, FIXED, Layout};

use super::*;

/// A parsed element equals the packed one, byte for byte; its beginning alone gives the same parts except for the
/// payload.
#[test]
fn an_element_is_junk_or_exactly_what_would_be_packed() {
    fuzz("elements", |random| {
        let layout = *random.choice(&[Layout::New, Layout::Old]).unwrap();
        let payload = noise(random, 60);
        let packed = layout::pack(layout, MessageId(random.u64(..).to_be_bytes()), &payload);
        let bytes = match random.u8(..4) {
            0 => noise(random, 40),
            1 => packed,
            _ => damaged(random, packed),
        };
        let element = Bytes::from(bytes);
        let parsed = layout::parse(&element);
        if let Ok(parsed) = &parsed {
            assert_eq!(layout::pack(parsed.layout, parsed.id, &parsed.payload), element, "{element:?}");
        }
        let start = element.slice(..element.len().min(FIXED));
        let started = layout::parse_start(&start, element.len());
        match (parsed, started) {
            (Ok(whole), Ok(start)) => assert_eq!((whole.layout, whole.id), (start.layout, start.id), "{element:?}"),
            (Err(whole), Err(start)) => assert_eq!(whole.to_string(), start.to_string()),
            (whole, start) => panic!("{element:?}: {whole:?} as a whole, {start:?} by its beginning"),
        }
    });
}

fn header(random: &mut Rng) -> Header {
    let origin = *random.choice(&[Origin::Delayed, Origin::Ready]).unwrap();
    let id = MessageId(random.u64(..).to_be_bytes());
    let confirmed = (0..random.usize(..5)).map(|_| random.u64(..)).collect();
    let mut header = Header::redriven(origin, id, random.i64(..), confirmed);
    header.attempts = random.u32(..);
    if random.bool() {
        let class = *random.choice(Class::ALL.as_slice()).unwrap();
        header.set_failure(
            class,
            random.choice(["x", "MSG_TIMED_OUT", "ein-viel-zu-langer-code-für-einen-kopf"]).unwrap(),
        );
    }
    header
}

/// A header that is read equals the written one; anything else is a damaged entry, of which nothing is lost.
#[test]
fn a_header_is_what_was_written_or_the_entry_is_damaged() {
    fuzz("headers", |random| {
        let written = header(random);
        let bytes = written.encode();
        assert_eq!(Header::decode(&bytes), Some((written, bytes.len())));

        let member = [bytes, noise(random, 40)].concat();
        let member = Bytes::from(if random.bool() { damaged(random, member) } else { noise(random, 200) });
        if let Some((header, len)) = Header::decode(&member) {
            let mut again = header.encode();
            // The byte that no version uses yet.
            again[11] = member[11];
            assert_eq!(again, member[..len], "{member:?}");
        }
        for element in [Element::entry(member.clone(), 5), Element::damaged(member.clone(), 5)].into_iter().flatten() {
            assert_eq!(element.member, member, "what is written with a verdict is the member as it is");
            assert!(element.bytes().len() <= member.len() && element.weight() >= member.len());
            let _ = element.origin();
            let _ = element.due_ms();
            let _ = element.attempts();
        }
    });
}

/// A name that is read is written the same.
#[test]
fn a_name_of_a_claim_is_read_as_it_is_written() {
    fuzz("names", |random| {
        let expiries = random.choice([0, 1, 3, 10]).unwrap();
        let name = ClaimName { owner: random.u64(..).to_be_bytes(), number: random.u64(..), expiries };
        let text = name.to_string();
        assert_eq!(text.parse::<ClaimName>().ok(), Some(name));
        let bytes = damaged(random, text.into_bytes());
        if let Ok(text) = std::str::from_utf8(&bytes)
            && let Ok(name) = text.parse::<ClaimName>()
        {
            // Two claims must not share a name, and one must not have two.
            assert_eq!(name.to_string(), text);
        }
    });
}
