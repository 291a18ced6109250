//! Commands on elements of claims, as arguments of the settle script.

use bytes::Bytes;

use super::{ClaimName, Element, Part, SettleCommand, SettleOp, Writer};
use crate::args::text;
use crate::body::CompanionKey;
use crate::keys::Keys;
use crate::source::Source;
use delaybridge_link::Side;

/// Appends the keys of the claims in question, two for each, the source's sorted sets where they matter, and the keys
/// of bodies; then the arguments: how many keys are the ledger's, how many are sorted sets of the source, whether lives
/// are counted, and each verdict.
pub(super) fn arguments(
    all: &Keys,
    source: &dyn Source,
    batch: &[SettleCommand],
    digests: &[Option<Bytes>],
    keys: &mut Vec<Bytes>,
    args: &mut Vec<Bytes>,
) {
    let first = keys.len();
    let mut claims: Vec<ClaimName> = Vec::new();
    let mut places = Vec::with_capacity(batch.len());
    for verdict in batch {
        // Few claims in a batch, and those of one claim follow one another.
        let known = claims.iter().rposition(|name| *name == verdict.claim);
        let claim = known.unwrap_or_else(|| {
            claims.push(verdict.claim);
            keys.extend(all.of_claim(verdict.claim));
            claims.len() - 1
        });
        // Places of keys are counted from 1.
        places.push(first + 2 * claim + usize::from(verdict.part == Part::Entries) + 1);
    }
    let goes_back = |verdict: &SettleCommand| matches!(verdict.step, SettleOp::Return { .. });
    let needs_source = digests.iter().any(Option::is_some) || batch.iter().any(goes_back);
    let has_bodies = source.bodies().is_some();
    let schedules = if needs_source && has_bodies { source.schedules() } else { Vec::new() };
    args.extend([text(keys.len()), text(schedules.len()), word(if has_bodies { "1" } else { "0" })]);
    keys.extend(schedules);
    keys.extend(has_bodies.then(|| all.lives()));
    let sets = keys.len();
    for ((verdict, place), digest) in batch.iter().zip(places).zip(digests) {
        if let (Some(sha1), Some(at)) = (digest.clone(), source.body_at(&verdict.element())) {
            let body = place_of(keys, sets, at.key().clone());
            let field = at.field().cloned().unwrap_or_default();
            let companions = match (&verdict.body, source.bodies()) {
                (Some(body), Some(bodies)) => bodies.companions(&verdict.element(), body),
                _ => Vec::new(),
            };
            args.extend([word("b"), body, word(at.word()), field, sha1, text(companions.len())]);
            for companion in companions {
                let (what, key, name, ms) = match companion {
                    CompanionKey::Whole { key } => ("u", key, Bytes::new(), Bytes::new()),
                    CompanionKey::Field { key, field } => ("h", key, field, Bytes::new()),
                    CompanionKey::Member { key, member } => ("z", key, member, Bytes::new()),
                    CompanionKey::Remembered { key, member, ms } => ("k", key, member, text(ms)),
                };
                args.extend([word(what), place_of(keys, sets, key), name, ms]);
            }
        }
        push(source, verdict, text(place), args);
    }
}

/// Returns the place of the key of a body, counted from 1. Bodies in one hash have one key, as what is beside them, so
/// it is among the last if it is there.
fn place_of(keys: &mut Vec<Bytes>, first: usize, key: Bytes) -> Bytes {
    let from = first.max(keys.len().saturating_sub(4));
    let known = keys[from..].iter().rposition(|known| *known == key);
    let place = known.map_or(keys.len(), |at| from + at);
    if known.is_none() {
        keys.push(key);
    }
    text(place + 1)
}

/// Bytes that are hashed in one go: less than a millisecond.
const SLICE: usize = 256 << 10;

/// Computes, for each verdict with which a body goes, the hash that the body must still have; empty for an element that
/// had none, whose body may be that of an earlier life. Between slices other tasks have their turn: a body of 100 MB
/// takes a third of a second.
pub(super) async fn digests(has_bodies: bool, batch: &[SettleCommand]) -> Vec<Option<Bytes>> {
    let mut digests = Vec::with_capacity(batch.len());
    let mut hashed = 0;
    for verdict in batch {
        let goes = matches!(verdict.step, SettleOp::Confirm | SettleOp::Dead { .. } | SettleOp::Push { .. });
        let Some(body) = verdict.body.as_ref().filter(|_| goes) else {
            digests.push((goes && has_bodies).then(Bytes::new));
            continue;
        };
        let mut sha1 = sha1_smol::Sha1::new();
        for slice in body.chunks(SLICE) {
            sha1.update(slice);
            hashed += slice.len();
            if hashed >= SLICE {
                hashed = 0;
                tokio::task::yield_now().await;
            }
        }
        digests.push(Some(sha1.digest().to_string().into()));
    }
    digests
}

impl SettleCommand {
    /// Returns the verdict that the element at this place of a claim goes back to its due time, uncounted. An entry
    /// keeps its header, which no other entry has.
    pub fn release(claim: ClaimName, number: u64, at: usize, element: &Element) -> SettleCommand {
        let mut header = element.header();
        // The owner of the lease that ran out may have sent it. The name of the claim says so, and is gone with it.
        header.doubt |= claim.expiries > 0;
        if element.header.is_none() {
            let place = u32::try_from(at + 1).unwrap_or(u32::MAX);
            header.writer = Writer { owner: claim.owner, claim: number, place };
        }
        let step = SettleOp::Release { at_ms: header.time_ms, header };
        SettleCommand { claim, part: element.part(), member: element.member.clone(), step, body: None }
    }

    /// Marks the element as one that a sink may have already, for another reason.
    pub fn doubtful(mut self, may_repeat: bool) -> SettleCommand {
        if let SettleOp::Release { header, .. } = &mut self.step {
            header.doubt |= may_repeat;
        }
        self
    }

    /// Returns the bytes that the foreign program wrote.
    fn element(&self) -> Bytes {
        let entry = (self.part == Part::Entries).then(|| Element::entry(self.member.clone(), 0)).flatten();
        entry.map_or_else(|| self.member.clone(), |entry| entry.bytes())
    }
}

fn word(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn push(source: &dyn Source, verdict: &SettleCommand, key: Bytes, args: &mut Vec<Bytes>) {
    let member = verdict.member.clone();
    match &verdict.step {
        SettleOp::Confirm => args.extend([word("c"), key, member]),
        SettleOp::Retry { header, delay_ms } => {
            args.extend([word("t"), key, member, header.encode().into(), text(delay_ms)]);
        }
        SettleOp::Release { header, at_ms } => {
            args.extend([word("r"), key, member, header.encode().into(), text(at_ms)]);
        }
        SettleOp::Return { at_ms } => {
            args.extend([word("g"), key, member, text(source.unit().until(*at_ms))]);
        }
        SettleOp::Progress { header } => args.extend([word("p"), key, member, header.encode().into()]),
        SettleOp::Dead { fields } => {
            // The element is a part of the member, and may be large: it is sent, and copied on its way, once.
            let part = fields.iter().enumerate().find_map(|(n, (_, value))| Some((n, begin_of(value, &member)?)));
            let at = part.map_or(0, |(n, _)| 2 * n + 2);
            args.extend([word("d"), key, member, text(2 * fields.len()), text(at)]);
            for (n, (name, value)) in fields.iter().enumerate() {
                let value = match part {
                    Some((place, begin)) if place == n => text(begin + 1),
                    _ => value.clone(),
                };
                args.extend([word(name), value]);
            }
        }
        SettleOp::Push { side, body } => {
            let side = if *side == Side::Left { "l" } else { "r" };
            args.extend([word("x"), key, member, word(side), body.clone()]);
        }
    }
}

/// Returns the place at which a value begins in these bytes, if it is the end of them: the same memory, not only the
/// same bytes.
fn begin_of(value: &Bytes, bytes: &Bytes) -> Option<usize> {
    let begin = bytes.len().checked_sub(value.len())?;
    (!value.is_empty() && value.as_ptr() == bytes[begin..].as_ptr()).then_some(begin)
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;
    use crate::claims::Header;

    #[test]
    fn what_was_taken_over_and_goes_back_may_have_been_sent() {
        let name = ClaimName::new([1; 8], 1);
        let bare = Element::bare(Bytes::from_static(b"7"), 1_000);
        let doubtful = |verdict: SettleCommand| match verdict.step {
            SettleOp::Release { header, .. } => header.doubt,
            other => panic!("{other:?}"),
        };
        let doubt = |claim: ClaimName, element: &Element| doubtful(SettleCommand::release(claim, 1, 0, element));
        assert!(!doubt(name, &bare), "claimed for the first time");
        let taken_over = name.taken_over_by([2; 8], 1);
        assert!(doubt(taken_over, &bare));
        let mut member = Header::new(1_000).encode();
        member.extend_from_slice(b"7");
        let entry = Element::entry(member.into(), 1_000).expect("an entry");
        assert!(!doubt(name, &entry) && doubt(taken_over, &entry));
        let again = |may_repeat| doubtful(SettleCommand::release(name, 1, 0, &bare).doubtful(may_repeat));
        assert!(again(true) && !again(false), "a claim of the same process that turned up again");
    }

    #[test]
    fn the_element_of_a_dead_letter_is_sent_once() {
        let member = Bytes::from_static(b"header and element");
        let element = member.slice(11..);
        let other = Bytes::from_static(b"element");
        assert_eq!((begin_of(&element, &member), begin_of(&member, &member)), (Some(11), Some(0)));
        assert_eq!(begin_of(&other, &member), None, "elsewhere in memory");
        assert_eq!(begin_of(&member.slice(0..6), &member), None, "not its end");
        assert_eq!((begin_of(&Bytes::new(), &member), begin_of(&member, &element)), (None, None));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_large_body_is_hashed_in_slices_and_others_have_their_turn() {
        let verdict = |size: usize, step| SettleCommand {
            claim: ClaimName::new([1; 8], 1),
            part: Part::Bare,
            member: Bytes::from_static(b"7"),
            step,
            body: Some(vec![b'x'; size].into()),
        };
        let batch = [
            verdict(3, SettleOp::Confirm),
            verdict(10 * SLICE, SettleOp::Confirm),
            verdict(3, SettleOp::Return { at_ms: 0 }),
        ];
        let mut hashing = std::pin::pin!(digests(true, &batch));
        let mut turns = 0;
        let found = loop {
            match std::future::poll_fn(|cx| Poll::Ready(hashing.as_mut().poll(cx))).await {
                Poll::Ready(found) => break found,
                Poll::Pending => turns += 1,
            }
        };
        assert_eq!(turns, 10);
        let sha1 = |size: usize| Some(Bytes::from(sha1_smol::Sha1::from(vec![b'x'; size]).digest().to_string()));
        assert_eq!(found, [sha1(3), sha1(10 * SLICE), None]);
    }
}
