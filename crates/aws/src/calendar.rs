//! Times of the calendar, which proofs and credentials have. No element is due by them.

/// Returns the seconds since the epoch by the clock of this host: AWS refuses a proof that is more than some minutes
/// off.
pub fn unix_now() -> u64 {
    delaybridge_core::clock::calendar_seconds() as u64
}

/// Returns the seconds since the epoch of a time as `2026-11-25T12:00:00Z`.
pub(crate) fn unix_of(text: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339_weak(text.trim()).ok()?;
    Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
}
