//! The search for a small set of faults that fails: it replays parts of the schedule, by the method of delta debugging.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::judge::Rule;
use crate::plan::Plan;
use crate::run::run;

/// Time for which elements are offered after the last fault.
const AFTER: Duration = Duration::from_secs(3);

/// Finds the smallest set of faults that breaks the same rule, within this time. Timing is not reproducible, so an
/// intermittent failure may seem to need more faults than it does.
pub async fn shrink(plan: &Plan, rule: Rule, lie: Option<&str>, folder: &Path, patience: Duration) -> BTreeSet<usize> {
    let until = Instant::now() + patience;
    let mut numbers: Vec<usize> = plan.faults.iter().map(|fault| fault.number).collect();
    let mut parts = 2;
    while numbers.len() > 1 && parts <= numbers.len() {
        let size = numbers.len().div_ceil(parts);
        let pieces: Vec<Vec<usize>> = numbers.chunks(size).map(<[usize]>::to_vec).collect();
        // Each part alone, then everything except each part.
        let without = |piece: &Vec<usize>| numbers.iter().copied().filter(|n| !piece.contains(n)).collect::<Vec<_>>();
        let rests: Vec<Vec<usize>> = if parts > 2 { pieces.iter().map(without).collect() } else { Vec::new() };
        let mut smaller = None;
        for (alone, some) in
            pieces.into_iter().map(|some| (true, some)).chain(rests.into_iter().map(|some| (false, some)))
        {
            if Instant::now() + plan.length > until {
                return numbers.into_iter().collect();
            }
            let mut tried = plan.only(&some.iter().copied().collect());
            // The time after the last fault is not needed.
            let end = tried.faults.iter().map(|fault| fault.at + fault.lasts).max().unwrap_or_default();
            tried.length = plan.length.min(end + AFTER);
            let outcome = run(&tried, lie, &folder.join("shrink")).await;
            let broken = outcome.violations.iter().any(|violation| violation.rule == rule);
            println!("with {} faults: {}", some.len(), if broken { "fails as well" } else { "passes" });
            if broken {
                smaller = Some((alone, some));
                break;
            }
        }
        match smaller {
            Some((alone, some)) => {
                numbers = some;
                parts = if alone { 2 } else { (parts - 1).max(2) };
            }
            None if parts == numbers.len() => break,
            None => parts = (parts * 2).min(numbers.len()),
        }
    }
    numbers.into_iter().collect()
}
