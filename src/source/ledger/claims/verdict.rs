//! Verdicts on elements of claims, in the words of the settle script.

use bytes::Bytes;

use super::{ClaimName, Move, Part, Verdict};
use crate::link::Side;
use crate::source::ledger::Keys;
use crate::source::text;

/// Appends the keys of the claims in question, two for each, and the arguments of each verdict.
pub(super) fn arguments(all: &Keys, batch: &[Verdict], keys: &mut Vec<Bytes>, args: &mut Vec<Bytes>) {
    let first = keys.len();
    let mut claims: Vec<ClaimName> = Vec::new();
    for verdict in batch {
        // Few claims in a batch, and those of one claim follow one another.
        let known = claims.iter().rposition(|name| *name == verdict.claim);
        let claim = known.unwrap_or_else(|| {
            claims.push(verdict.claim);
            keys.extend(all.of_claim(verdict.claim));
            claims.len() - 1
        });
        // Places of keys are counted from 1.
        let key = first + 2 * claim + usize::from(verdict.part == Part::Entries) + 1;
        push(verdict, text(key), args);
    }
}

fn push(verdict: &Verdict, key: Bytes, args: &mut Vec<Bytes>) {
    let word = |text: &'static str| Bytes::from_static(text.as_bytes());
    let member = verdict.member.clone();
    match &verdict.step {
        Move::Confirm => args.extend([word("c"), key, member]),
        Move::Retry { header, delay_ms } => {
            args.extend([word("t"), key, member, header.encode().into(), text(delay_ms)]);
        }
        Move::Release { header, at_ms } => {
            args.extend([word("r"), key, member, header.encode().into(), text(at_ms)]);
        }
        Move::Progress { header } => args.extend([word("p"), key, member, header.encode().into()]),
        Move::Dead { fields } => {
            args.extend([word("d"), key, member, text(2 * fields.len())]);
            for (name, value) in fields {
                args.extend([word(name), value.clone()]);
            }
        }
        Move::Push { side, body } => {
            let side = if *side == Side::Left { "l" } else { "r" };
            args.extend([word("x"), key, member, word(side), body.clone()]);
        }
    }
}
