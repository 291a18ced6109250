//! The lateness of elements, counted by size for quantiles that are right within 4 %, however late they are.

use std::time::Duration;

use parking_lot::Mutex;

/// Bits of a lateness that are kept behind its first one: a size spans at most a thirty-second part of its smallest value.
const BITS: u32 = 5;
/// The unit: tenths of a millisecond.
const PER_SECOND: f64 = 10_000.0;

/// Numbers of acknowledgements by the size of their lateness, the smallest size first. Only sizes that were seen take room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LatenessCounts(Vec<(u16, u32)>);

/// Counts that several tasks add to.
#[derive(Debug, Default)]
pub(super) struct SharedLateness(Mutex<LatenessCounts>);

impl SharedLateness {
    pub(super) fn add(&self, lateness: Duration) {
        self.0.lock().add(size_of(lateness));
    }

    /// Returns the totals so far.
    pub(super) fn counts(&self) -> LatenessCounts {
        self.0.lock().clone()
    }
}

impl LatenessCounts {
    fn add(&mut self, size: u16) {
        match self.0.binary_search_by_key(&size, |(size, _)| *size) {
            // After four thousand million of one size it begins again, and one step misses it.
            Ok(at) => self.0[at].1 = self.0[at].1.wrapping_add(1),
            Err(at) => self.0.insert(at, (size, 1)),
        }
    }

    /// Returns the increase since `before`; zero for what was reset meanwhile.
    pub(crate) fn since(&self, before: &LatenessCounts) -> LatenessCounts {
        let mut rest = before.0.iter().copied().peekable();
        let increase = |(size, count): &(u16, u32)| {
            while rest.next_if(|(earlier, _)| earlier < size).is_some() {}
            let before = rest.next_if(|(same, _)| same == size).map_or(0, |(_, count)| count);
            let count = count.saturating_sub(before);
            (count > 0).then_some((*size, count))
        };
        LatenessCounts(self.0.iter().filter_map(increase).collect())
    }

    /// Adds the counts of another one.
    pub(crate) fn merge(&mut self, other: &LatenessCounts) {
        for (size, count) in &other.0 {
            match self.0.binary_search_by_key(size, |(size, _)| *size) {
                Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(*count),
                Err(at) => self.0.insert(at, (*size, *count)),
            }
        }
    }

    /// Returns the lateness in seconds that this share of the acknowledgements had at most: never more than the largest
    /// that was counted. `None` if there was none.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let all: u64 = self.0.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = share * all as f64;
        let mut passed = 0;
        let found = self.0.iter().find(|(_, count)| {
            passed += u64::from(*count);
            passed as f64 >= rank
        });
        found.map(|(size, _)| smallest(*size) as f64 / PER_SECOND)
    }
}

/// Returns the size of a lateness: exact up to 6.3 ms, then its first six bits.
fn size_of(lateness: Duration) -> u16 {
    let tenths = u64::try_from(lateness.as_micros() / 100).unwrap_or(u64::MAX);
    let shift = (u64::BITS - tenths.leading_zeros()).saturating_sub(BITS + 1);
    // At most 58 times 32, and 63.
    (u64::from(shift << BITS) + (tenths >> shift)) as u16
}

/// Returns the smallest lateness of a size, in tenths of a millisecond.
fn smallest(size: u16) -> u64 {
    let size = u64::from(size);
    let shift = (size >> BITS).saturating_sub(1);
    (size - (shift << BITS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lateness: impl IntoIterator<Item = Duration>) -> LatenessCounts {
        let shared = SharedLateness::default();
        lateness.into_iter().for_each(|lateness| shared.add(lateness));
        shared.counts()
    }

    #[test]
    fn a_quantile_is_right_within_4_percent_up_to_a_day_and_never_above_the_truth() {
        let mut ms = 1.0;
        while ms < 2.0 * 86_400_000.0 {
            let truth = Duration::from_secs_f64(ms / 1_000.0);
            let found = counts([truth]).quantile(0.99).unwrap();
            let truth = truth.as_secs_f64();
            assert!(found <= truth && found >= truth * 0.96 - 0.0001, "{truth} s is shown as {found} s");
            ms *= 1.013;
        }
        assert_eq!(counts([Duration::ZERO]).quantile(0.5), Some(0.0));
        assert!(counts([Duration::MAX]).quantile(0.5).unwrap() > 1e14);
        assert_eq!(counts([]).quantile(0.5), None);
    }

    #[test]
    fn of_elements_between_60_and_100_s_none_is_shown_as_later_than_100_s() {
        let found = counts((600..1_000).map(|tenths| Duration::from_millis(tenths * 100)));
        let p50 = found.quantile(0.5).unwrap();
        let p99 = found.quantile(0.99).unwrap();
        assert!((76.8..=80.0).contains(&p50) && (95.0..=99.9).contains(&p99), "p50 {p50}, p99 {p99}");
    }

    #[test]
    fn an_increase_has_what_came_and_a_sum_both() {
        let ms = Duration::from_millis(3);
        let s = Duration::from_secs(40);
        let before = counts([ms, ms]);
        let after = counts([ms, ms, s, ms]);
        assert_eq!(after.since(&before), counts([s, ms]));
        assert_eq!(before.since(&after), LatenessCounts::default(), "it was reset");
        let mut sum = counts([s]);
        sum.merge(&before);
        assert_eq!(sum, counts([ms, s, ms]));
    }
}
