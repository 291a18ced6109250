//! The permitted changes of L and of the records of ghosts.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::snapshot::{Snapshot, identity, short};

/// The effect of a script on L.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Claimed elements are removed or recorded; the rest keeps its order.
    Claim {
        /// Whether no claimed element stays.
        exact: bool,
    },
    /// A slice of the sweep: recorded ghosts are removed, the rest may change places.
    Sweep,
    /// Nothing changes.
    None,
}

fn counts(l: &[Bytes]) -> HashMap<&Bytes, usize> {
    let mut counts = HashMap::new();
    for e in l {
        *counts.entry(e).or_default() += 1;
    }
    counts
}

/// Checks L after a script that took `taken` from Z: elements of Z are still in L; only entries taken just now, or
/// recorded as ghosts, were removed; taken elements that stayed are recorded, once for each entry; nothing else is
/// recorded.
pub fn check(what: &str, before: &Snapshot, after: &Snapshot, taken: &[Bytes], how: Treatment) {
    if how == Treatment::None {
        assert!(before.l == after.l, "{what}: L changed");
        assert!(before.ghosts == after.ghosts && before.turn == after.turn, "{what}: the records of ghosts changed");
        return;
    }
    let was = counts(&before.l);
    let is = counts(&after.l);
    let copies = |counts: &HashMap<&Bytes, usize>, e: &Bytes| counts.get(e).copied().unwrap_or(0);
    for (e, n) in &is {
        assert!(*n <= copies(&was, e), "{what}: L got another copy of {}", short(e));
    }
    if how != Treatment::Sweep && before.l.len() != after.l.len() {
        let mut old = before.l.iter();
        assert!(after.l.iter().all(|e| old.any(|o| o == e)), "{what}: the order of L changed");
    }
    let taken: HashSet<&Bytes> = taken.iter().collect();
    let mut gone: HashMap<Bytes, usize> = HashMap::new();
    for (e, n) in &was {
        let left = copies(&is, e);
        if left == *n {
            continue;
        }
        let name = short(e);
        assert!(!after.z.contains_key(*e) || left > 0, "{what}: {name} is in Z, and went from L");
        let id = identity(e);
        if !(taken.contains(e) && n - left == 1) {
            assert!(
                before.records(&id) > 0,
                "{what}: {name} went from L, though nothing took it and nothing recorded it"
            );
        }
        *gone.entry(id).or_default() += n - left;
    }
    let all = before.ghosts.iter().chain(&before.turn).chain(&after.ghosts).chain(&after.turn);
    let ids: HashSet<Bytes> =
        all.cloned().chain(gone.keys().cloned()).chain(taken.iter().map(|e| identity(e))).collect();
    for id in ids {
        let gone = gone.get(&id).copied().unwrap_or(0);
        let recorded = before.records(&id);
        let records = after.records(&id);
        let alike = || taken.iter().filter(|e| identity(e) == id);
        let listed = alike().filter(|e| copies(&was, e) > 0).count();
        let unlisted = alike().count() - listed;
        let id = hex::encode(&id);
        match how {
            // The end of a turn drops records without an entry.
            Treatment::Sweep => {
                assert!(
                    gone + records <= recorded,
                    "{what}: {gone} entries {id} went, recorded {recorded} - {records}"
                );
            }
            Treatment::Claim { exact } => {
                let sum = gone + records;
                assert!(
                    (listed + recorded..=listed + unlisted + recorded).contains(&sum),
                    "{what}: {id} was recorded {recorded} times and is {records} times; {gone} entries went, of \
                     {listed} that were taken, beside {unlisted} that were not in L"
                );
                assert!(!exact || gone >= listed, "{what}: {id} was left in L in spite of list_cleanup: exact");
            }
            Treatment::None => {}
        }
    }
}
