//! Firings beside those of another implementation.

use super::CronSchedule;

/// 10,000 random expressions in 20 zones, most of them around a change of the clock, with their first firings by cronsim,
/// which follows Debian's cron. Each line: expression, zone, start in seconds since 1970, seconds from each firing to the
/// next. `tests/vectors/cron.py` makes them.
const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/cron.tsv");

/// Expressions of every minute in which cronsim differs: on a day whose midnight does not exist, it also fires in the first
/// minute that does, although the hour of the expression is in the gap. Such a job skips what does not exist.
const MIDNIGHT_IN_A_GAP: [&str; 3] = ["* 0,3 * * 0", "*/2 1-5/2 * */2 0", "* 0 29 * 0"];

#[test]
fn firings_are_those_of_another_implementation() {
    let text = std::fs::read_to_string(VECTORS).unwrap();
    let mut different = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [cron, zone, start, gaps] = fields[..] else { panic!("not four fields: {line}") };
        let schedule = CronSchedule::new(cron, zone).unwrap_or_else(|why| panic!("{line}: {why}"));
        let gaps: Vec<i64> = gaps.split_whitespace().map(|gap| gap.parse().unwrap()).collect();
        let mut at = start.parse::<i64>().unwrap() * 1_000;
        let mut ours = Vec::new();
        for _ in &gaps {
            let next = schedule.after(at).unwrap_or(i64::MAX);
            ours.push((next - at) / 1_000);
            at = next;
        }
        if ours != gaps && !MIDNIGHT_IN_A_GAP.contains(&cron) {
            different.push(format!("{line}, ours: {ours:?}"));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
