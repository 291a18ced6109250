//! The highest rate at which a queue was delivered while it could not keep up: what it can do, as a forecast needs it.

use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;

/// Shortest time over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(10);
/// Time that shares one number.
const SLOT: u64 = 3_600;
/// Slots that are kept: a day, and the one that runs.
const SLOTS: usize = 25;

/// The highest rate of the last day. It takes memory only once the queue was busy.
#[derive(Debug, Default)]
pub(super) struct Busy(Mutex<Option<Box<Measured>>>);

#[derive(Debug)]
struct Measured {
    /// The first look.
    began: Instant,
    /// The begin of the window that runs, and how much was delivered then.
    window: Option<(Instant, u64)>,
    /// The latest slot that has a number, counted from the begin.
    latest: u64,
    highest: [f32; SLOTS],
}

impl Busy {
    /// Notes the total of delivered elements, and whether elements are overdue that nobody has claimed.
    pub(super) fn look(&self, now: Instant, delivered: u64, is_busy: bool) {
        let mut measured = self.0.lock();
        match (&mut *measured, is_busy) {
            (None, false) => {}
            (Some(measured), false) => measured.window = None,
            (measured, true) => {
                let new = || Measured { began: now, window: None, latest: 0, highest: [0.0; SLOTS] };
                measured.get_or_insert_with(|| Box::new(new())).look(now, delivered);
            }
        }
    }

    /// Returns the highest rate by second; `None` if the queue was not busy for long enough within the last day.
    pub(super) fn highest(&self, now: Instant) -> Option<f64> {
        let mut measured = self.0.lock();
        let measured = measured.as_mut()?;
        measured.pass(now);
        measured.highest.iter().copied().reduce(f32::max).filter(|rate| *rate > 0.0).map(f64::from)
    }
}

impl Measured {
    fn look(&mut self, now: Instant, delivered: u64) {
        let Some((since, before)) = self.window else {
            self.window = Some((now, delivered));
            return;
        };
        let passed = now.since(since);
        if passed < WINDOW {
            return;
        }
        self.window = Some((now, delivered));
        self.pass(now);
        let rate = delivered.saturating_sub(before) as f64 / passed.as_secs_f64();
        let slot = &mut self.highest[(self.latest % SLOTS as u64) as usize];
        *slot = slot.max(rate as f32);
    }

    /// Forgets what is older than a day.
    fn pass(&mut self, now: Instant) {
        let slot = now.since(self.began).as_secs() / SLOT;
        let passed = slot.saturating_sub(self.latest).min(SLOTS as u64);
        for new in 0..passed {
            self.highest[((slot - new) % SLOTS as u64) as usize] = 0.0;
        }
        self.latest = self.latest.max(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(SLOT);

    #[test]
    fn the_highest_rate_is_that_of_the_busiest_window() {
        let busy = Busy::default();
        let start = Instant::now();
        let at = |seconds: u32| start.after(SECOND * seconds);
        // Idle: whatever is delivered tells nothing about what could be.
        (0..5).for_each(|n| busy.look(at(5 * n), 100_000 * u64::from(n), false));
        assert_eq!(busy.highest(at(30)), None);
        assert!(busy.0.lock().is_none(), "an idle queue takes no memory");
        busy.look(at(30), 1_000_000, true);
        busy.look(at(35), 1_000_400, true);
        assert_eq!(busy.highest(at(35)), None, "five seconds are too few");
        busy.look(at(40), 1_000_550, true);
        assert_eq!(busy.highest(at(40)), Some(55.0));
        busy.look(at(50), 1_000_650, true);
        assert_eq!(busy.highest(at(50)), Some(55.0), "a slower window changes nothing");
        busy.look(at(55), 1_009_000, false);
        busy.look(at(61), 1_009_000, true);
        assert_eq!(busy.highest(at(61)), Some(55.0), "a pause ends the window");
        busy.look(at(71), 1_009_000, true);
        assert_eq!(busy.highest(at(71)), Some(55.0));
        busy.look(at(81), 1_010_000, true);
        assert_eq!(busy.highest(at(81)), Some(100.0));
    }

    #[test]
    fn a_day_later_it_is_forgotten() {
        let busy = Busy::default();
        let start = Instant::now();
        let minutes = |busy: &Busy, at: Instant, rate: u64| {
            busy.look(at, 0, true);
            busy.look(at.after(WINDOW), 10 * rate, true);
            busy.look(at.after(2 * WINDOW), 0, false);
        };
        minutes(&busy, start, 80);
        minutes(&busy, start.after(5 * HOUR), 30);
        assert_eq!(busy.highest(start.after(24 * HOUR)), Some(80.0));
        assert_eq!(busy.highest(start.after(25 * HOUR)), Some(30.0));
        assert_eq!(busy.highest(start.after(30 * HOUR)), None);
        minutes(&busy, start.after(1_000 * HOUR), 20);
        assert_eq!(busy.highest(start.after(1_001 * HOUR)), Some(20.0));
        assert!(size_of::<Busy>() <= 24 && size_of::<Measured>() <= 160);
    }
}
