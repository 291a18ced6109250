//! The sinks of random schedules: well, slow, down, full or in doubt, by turns.

use fastrand::Rng;
use parking_lot::Mutex;

use super::*;

/// How a sink behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    /// Some answers come after the time-out.
    Slow,
    Down,
    /// It answers that it may have taken an element, and has taken half of them.
    InDoubt,
    Full,
    Misconfigured,
    /// Half of them fail at once, and the others are confirmed after a while: a claim loses some of its elements before the rest.
    Uneven,
    /// Any of these, drawn for each delivery.
    Any,
}

/// All moods.
pub(super) const MOODS: [Mood; 8] =
    [Mood::Well, Mood::Slow, Mood::Down, Mood::InDoubt, Mood::Full, Mood::Misconfigured, Mood::Uneven, Mood::Any];

/// Elements that no sink ever takes.
pub(super) fn is_refused(n: u64) -> bool {
    n % 16 == 7
}

/// Whether the sink at this place is meant for an element, where sinks are not meant for all: the first for numbers that begin with
/// 0 to 4, the second for 3 to 7.
pub(super) fn is_meant(n: u64, place: usize) -> bool {
    let first = n.to_string().as_bytes()[0] - b'0';
    [0..5, 3..8][place].contains(&first)
}

pub(super) fn step(mood: Mood, n: u64, draw: &mut Rng) -> Step {
    if is_refused(n) {
        return Step::Fail(failure(Class::MessagePermanent, "too_large"));
    }
    if mood == Mood::Uneven && draw.bool() {
        return Step::Fail(failure(Class::Transient, "500"));
    }
    let mut within = |most: Duration| most.mul_f64(draw.f64());
    match mood {
        Mood::Well => Step::ConfirmAfter(within(SECOND / 5)),
        Mood::Uneven => Step::ConfirmAfter(within(15 * SECOND)),
        Mood::Slow => Step::ConfirmAfter(within(25 * SECOND)),
        Mood::Down => Step::FailAfter(within(3 * SECOND), failure(Class::Transient, "down")),
        Mood::InDoubt if draw.bool() => Step::FailAfterTaking(failure(Class::Ambiguous, "timeout")),
        Mood::InDoubt => Step::Fail(failure(Class::Ambiguous, "timeout")),
        Mood::Full => Step::Fail(failure(Class::Backpressure, "OOM")),
        Mood::Misconfigured => Step::Fail(failure(Class::TargetPermanent, "NOPERM")),
        Mood::Any => match draw.u8(0..8) {
            0 => Step::Hang,
            1 => Step::Fail(failure(Class::Unknown, "odd")),
            _ => step(MOODS[draw.usize(0..MOODS.len() - 1)], n, draw),
        },
    }
}

/// A sink whose mood can change.
pub(super) fn moody(mood: &Arc<Mutex<Mood>>, seed: u64) -> Arc<FakeSink> {
    let sink = sink();
    let mood = mood.clone();
    let mut draw = Rng::with_seed(seed);
    sink.otherwise(move |message| step(*mood.lock(), number(message), &mut draw));
    sink
}
