//! Which clock a delay is counted from.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock from which [`Due::After`] counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// The producer's own, as Redisson does. A producer whose clock is ahead makes elements late.
    #[default]
    Producer,
    /// The producer's own, corrected by this many ms: where it is known to be wrong.
    Corrected(i64),
    /// Redis's, asked in the script itself: right whatever the producer's clock says.
    Redis,
}

impl Clock {
    /// Returns the producer's time in ms since 1970; `None` where Redis is asked.
    pub(crate) fn now_ms(self) -> Option<i64> {
        let own = || {
            #[expect(
                clippy::disallowed_methods,
                reason = "a producer's delay is counted from its own clock, as in Redisson"
            )]
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        };
        match self {
            Clock::Producer => Some(own()),
            Clock::Corrected(by) => Some(own().saturating_add(by)),
            Clock::Redis => None,
        }
    }
}

/// The due time of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This long after now, by the [`Clock`] of the producer's queue; parts of a millisecond are dropped.
    After(Duration),
    /// At this time, in ms since 1970.
    At(i64),
}
