//! Reads the replies of the scripts of claims. A reply of another shape is an error, never a guess.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use super::{ClaimName, ClaimReply, Claimed, Contents, Element, Extended, TakeOverReply};
use crate::args::millis;
use crate::hints::{Hints, large_head};
use crate::source::Source;
use delaybridge_link::{BadReply, Fields, Score};

pub(super) fn claim(
    source: &dyn Source,
    answer: Value,
    hints: &Hints,
    ahead: Duration,
) -> Result<ClaimReply, BadReply> {
    const SCRIPT: &str = "claims_claim";
    let mut fields = Fields::of(SCRIPT, answer)?;
    let what = fields.text()?;
    let now_ms = fields.int()?;
    match what.as_str() {
        "late" => return Ok(ClaimReply::Late { now_ms }),
        "twice" => return Ok(ClaimReply::Twice { now_ms }),
        "standby" => {
            let until_ms = fields.score()?.map_or(now_ms, Score::ceil_ms);
            return Ok(ClaimReply::Standby { now_ms, until_ms });
        }
        "ok" => {}
        _ => return Err(BadReply { script: SCRIPT, expected: "ok, late, twice or standby" }),
    }
    let bare_fields = fields.array()?;
    let mut entry_fields = fields.array()?;
    let from_retry = usize::try_from(fields.int()?).unwrap_or(0);
    let mut elements = Vec::new();
    let mut unreadable = 0;
    let mut damaged = Vec::new();
    // The first ones are from the retry set, those behind them from the source. The script looks at magic and version
    // only: an entry that cannot be read stays in the claim.
    let mut retried = 0;
    for n in 0.. {
        if entry_fields.is_empty() {
            break;
        }
        let member = entry_fields.bytes()?;
        let score_ms = score(SCRIPT, &mut entry_fields)?;
        match Element::entry(member.clone(), score_ms) {
            Some(element) => {
                elements.push(element);
                retried += usize::from(n < from_retry);
            }
            None => {
                unreadable += 1;
                damaged.extend(Element::damaged(member, score_ms));
            }
        }
    }
    push_bare(source, SCRIPT, bare_fields, &mut elements)?;
    let retry_score = fields.score()?;
    let retry_size = fields.int()?;
    let (expired, unknown_names) = names(&fields.all_bytes()?);
    let mut counts = fields.array()?;
    let newer = counts.int()?.unsigned_abs();
    let short = counts.int()?;
    let added = source.claim_added(fields.array()?)?;
    let largest = elements.iter().map(|element| element.member.len()).max().unwrap_or(0).max(hints.largest() / 2);
    Ok(ClaimReply::Claimed(Claimed {
        now_ms,
        elements,
        retried,
        next_ms: added
            .next_ms
            .map(|due_ms| due_ms.saturating_sub(millis(ahead)))
            .into_iter()
            .chain(retry_score.map(Score::ceil_ms))
            .min(),
        hints: Hints::learned(added.large, large_head(retry_score, retry_size), largest),
        leftovers: added.leftovers,
        expired,
        unknown_names,
        unknown: newer + unreadable,
        unreadable,
        damaged,
        more: short == 1,
    }))
}

pub(super) fn take_over(source: &dyn Source, answer: Value) -> Result<TakeOverReply, BadReply> {
    const SCRIPT: &str = "claims_take_over";
    let mut fields = Fields::of(SCRIPT, answer)?;
    let what = fields.text()?;
    let now_ms = fields.int()?;
    match what.as_str() {
        "late" => return Ok(TakeOverReply::Late { now_ms }),
        "twice" => return Ok(TakeOverReply::Twice { now_ms }),
        "nothing" => return Ok(TakeOverReply::Nothing { now_ms }),
        "ok" => {}
        _ => return Err(BadReply { script: SCRIPT, expected: "ok, late, twice or nothing" }),
    }
    let bare_fields = fields.array()?;
    let entry_fields = fields.array()?;
    let mut contents = Contents::default();
    push_entries(SCRIPT, entry_fields, &mut contents)?;
    push_bare(source, SCRIPT, bare_fields, &mut contents.elements)?;
    let Contents { elements, unknown, damaged } = contents;
    Ok(TakeOverReply::Taken { now_ms, elements, left: fields.int()?.unsigned_abs(), unknown, damaged })
}

/// Returns the names among these that this version knows, and how many others there are.
pub(super) fn names(found: &[Bytes]) -> (Vec<ClaimName>, u64) {
    let known: Vec<ClaimName> = found.iter().filter_map(|name| std::str::from_utf8(name).ok()?.parse().ok()).collect();
    let others = found.len() - known.len();
    (known, others as u64)
}

/// Reads the answer to an extension of this many leases.
pub(super) fn extended(answer: Value, names: usize) -> Result<Extended, BadReply> {
    const SCRIPT: &str = "claims_extend";
    let mut fields = Fields::of(SCRIPT, answer)?;
    let what = fields.text()?;
    let now_ms = fields.int()?;
    match what.as_str() {
        "late" => return Ok(Extended::Late { now_ms }),
        "ok" => {}
        _ => return Err(BadReply { script: SCRIPT, expected: "ok or late" }),
    }
    let held = letters(SCRIPT, &fields.bytes()?, names, |letter| match letter {
        b'y' => Some(true),
        b'n' => Some(false),
        _ => None,
    })?;
    Ok(Extended::Done { now_ms, held })
}

/// Reads a reply that has one letter for each answer.
pub(super) fn letters<T>(
    script: &'static str,
    letters: &[u8],
    expected: usize,
    answer: impl Fn(u8) -> Option<T>,
) -> Result<Vec<T>, BadReply> {
    if letters.len() != expected {
        return Err(BadReply { script, expected: "one answer for each" });
    }
    let answers: Option<Vec<T>> = letters.iter().map(|&letter| answer(letter)).collect();
    answers.ok_or(BadReply { script, expected: "known answers" })
}

/// Appends elements with scores, as `ZRANGE` answers them.
pub(super) fn bare(
    source: &dyn Source,
    script: &'static str,
    answer: Value,
    elements: &mut Vec<Element>,
) -> Result<(), BadReply> {
    push_bare(source, script, Fields::of(script, answer)?, elements)
}

/// Adds the entries of a claim.
pub(super) fn entries(script: &'static str, answer: Value, contents: &mut Contents) -> Result<(), BadReply> {
    push_entries(script, Fields::of(script, answer)?, contents)
}

/// Appends bare elements, with scores in the unit of the source.
fn push_bare(
    source: &dyn Source,
    script: &'static str,
    mut fields: Fields,
    elements: &mut Vec<Element>,
) -> Result<(), BadReply> {
    while !fields.is_empty() {
        let member = fields.bytes()?;
        let score = fields.score()?.ok_or(BadReply { script, expected: "a score" })?;
        elements.push(source.bare(member, score));
    }
    Ok(())
}

fn push_entries(script: &'static str, mut fields: Fields, contents: &mut Contents) -> Result<(), BadReply> {
    while !fields.is_empty() {
        let member = fields.bytes()?;
        contents.add_entry(member, score(script, &mut fields)?);
    }
    Ok(())
}

fn score(script: &'static str, fields: &mut Fields) -> Result<i64, BadReply> {
    Ok(fields.score()?.ok_or(BadReply { script, expected: "a score" })?.ceil_ms())
}
