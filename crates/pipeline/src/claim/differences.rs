//! The comparison of a claim with what is under its name in Redis, after the server may have forgotten writes.

use std::collections::BTreeMap;

use bytes::Bytes;
use foldhash::HashMap;

use crate::claim::stages::{ElementStage, Ending};
use delaybridge_core::message::{MessageId, Origin};
use delaybridge_ledger::claims::Element;

/// The differences between what is under the name of a claim and what its process believed.
#[derive(Debug, Default)]
pub struct ClaimDifferences {
    /// Elements that every sink has confirmed, and that are there again.
    pub confirmed: Vec<Element>,
    /// Elements that were moved elsewhere, and that are there again.
    pub returned: Vec<Element>,
    /// The places of elements in hand that are not there.
    pub missing: Vec<usize>,
}

/// The key of an element within its claim, whatever header it has: equal payloads of a ready list by their ids.
type Key = (Bytes, Option<MessageId>);

fn key(element: &Element) -> Key {
    (element.bytes(), (element.origin() == Origin::Ready).then(|| element.given_id()))
}

/// Returns the differences. `rewritten` gets the elements that are there under another header than was written last.
pub(super) fn found(
    elements: &[Element],
    stages: &[ElementStage],
    rewritten: &mut BTreeMap<usize, Element>,
    contents: Vec<Element>,
) -> ClaimDifferences {
    let mut there: HashMap<Key, Vec<Element>> = HashMap::default();
    for element in contents {
        there.entry(key(&element)).or_default().push(element);
    }
    let mut open = Vec::new();
    for (place, element) in elements.iter().enumerate() {
        let known = rewritten.get(&place).unwrap_or(element);
        let same = there.get_mut(&key(known));
        let exact = same.and_then(|same| Some(same.swap_remove(same.iter().position(|at| at.member == known.member)?)));
        match (stages[place], exact) {
            (ElementStage::Ended(_), Some(back)) => there.entry(key(&back)).or_default().push(back),
            (ElementStage::Ended(_), None) | (_, Some(_)) => {}
            (_, None) => open.push(place),
        }
    }
    let mut differences = ClaimDifferences::default();
    for place in open {
        let found = there.get_mut(&key(&elements[place])).and_then(Vec::pop);
        match (found, stages[place]) {
            (Some(mut found), _) => {
                found.body = elements[place].body.clone();
                rewritten.insert(place, found);
            }
            (None, ElementStage::InHand) => differences.missing.push(place),
            (None, _) => {}
        }
    }
    for (place, element) in elements.iter().enumerate() {
        if stages[place] == ElementStage::Ended(Ending::Confirmed)
            && let Some(mut back) = there.get_mut(&key(element)).and_then(Vec::pop)
        {
            back.body = element.body.clone();
            differences.confirmed.push(back);
        }
    }
    differences.returned = there.into_values().flatten().collect();
    differences
}
