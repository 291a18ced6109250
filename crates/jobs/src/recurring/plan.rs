//! The decision about a firing that is due: which jobs are added now, and when it fires next.

use super::MissedFirings;
use super::cron::CronSchedule;

/// Maximum number of missed firings that are made up for at once.
pub const MAX_MADE_UP: usize = 100;
/// Time after a firing during which it is not missed: a daemon starts again, or Redis fails over.
const ON_TIME_MS: i64 = 60_000;
/// Maximum number of missed firings that are counted.
const MAX_COUNTED: u64 = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FiringPlan {
    /// The firings for which a job is added, the earliest first, in ms since 1970.
    pub(super) fires: Vec<i64>,
    /// The number of firings without a job.
    pub(super) skipped: u64,
    pub(super) next_ms: Option<i64>,
}

/// Returns the plan for a firing that was due at `due_ms`, and is looked at now.
pub(super) fn plan(schedule: &CronSchedule, missed: MissedFirings, due_ms: i64, now_ms: i64) -> FiringPlan {
    let most = if missed == MissedFirings::All { MAX_MADE_UP } else { 1 };
    let mut fires = Vec::new();
    let mut skipped = 0;
    let mut at = schedule.until(now_ms);
    while let Some(firing) = at.filter(|firing| *firing >= due_ms) {
        let late = missed == MissedFirings::Skip && now_ms - firing > ON_TIME_MS;
        if fires.len() < most && !late {
            fires.push(firing)
        } else {
            skipped += 1
        }
        if skipped == MAX_COUNTED {
            break;
        }
        at = schedule.until(firing - 1);
    }
    if fires.is_empty() && skipped == 0 {
        // The zone's rules were others when it was set.
        fires.push(due_ms);
    }
    fires.reverse();
    FiringPlan { fires, skipped, next_ms: schedule.after(now_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour, in ms since 1970.
    const HOUR: i64 = 1_800_000_000_000;

    fn minutes(minutes: &[i64]) -> Vec<i64> {
        minutes.iter().map(|minute| HOUR + minute * 60_000).collect()
    }

    #[test]
    fn what_was_missed_is_skipped_or_made_up_for_once_or_all() {
        use MissedFirings::{All, Once, Skip};
        let every = CronSchedule::new("*/10 * * * *", "UTC").unwrap();
        for (rule, due, now_s, fires, skipped, next) in [
            // On time, and a little late.
            (Skip, 10, 600, &[10][..], 0, 20),
            (Once, 10, 601, &[10], 0, 20),
            (All, 10, 1_199, &[10], 0, 20),
            // The grace is a minute.
            (Skip, 10, 660, &[10], 0, 20),
            (Skip, 10, 661, &[], 1, 20),
            // Several were missed; the last is on time or is not.
            (Skip, 10, 1_830, &[30], 2, 40),
            (Skip, 10, 1_900, &[], 3, 40),
            (Once, 10, 1_900, &[30], 2, 40),
            (All, 10, 1_900, &[10, 20, 30], 0, 40),
        ] {
            let plan = plan(&every, rule, HOUR + due * 60_000, HOUR + now_s * 1_000);
            let expected = FiringPlan { fires: minutes(fires), skipped, next_ms: Some(HOUR + next * 60_000) };
            assert_eq!(plan, expected, "{rule:?} {due} {now_s}");
        }
    }

    #[test]
    fn at_most_a_hundred_are_made_up_for_and_the_latest_ones() {
        let every = CronSchedule::new("* * * * *", "UTC").unwrap();
        let plan = plan(&every, MissedFirings::All, HOUR, HOUR + 300 * 60_000 + 5);
        assert_eq!((plan.fires.len(), plan.skipped), (MAX_MADE_UP, 201));
        assert_eq!((plan.fires[0], plan.fires[99]), (HOUR + 201 * 60_000, HOUR + 300 * 60_000));
        assert_eq!(plan.next_ms, Some(HOUR + 301 * 60_000));
    }

    #[test]
    fn a_firing_that_the_schedule_does_not_have_any_more_is_fired_as_promised() {
        let daily = CronSchedule::new("0 3 * * *", "Europe/Berlin").unwrap();
        let plan = plan(&daily, MissedFirings::Skip, HOUR + 1_000, HOUR + 2_000);
        assert_eq!((plan.fires, plan.skipped), (vec![HOUR + 1_000], 0));
    }

    #[test]
    fn years_of_missed_minutes_take_no_time() {
        let every = CronSchedule::new("* * * * *", "UTC").unwrap();
        let plan = plan(&every, MissedFirings::Once, 0, HOUR);
        assert_eq!((plan.fires, plan.skipped), (vec![HOUR], MAX_COUNTED));
    }
}
