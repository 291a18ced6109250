//! The exit codes of the daemon.

/// Exit code of a clean stop.
pub const OK: u8 = 0;
/// Exit code of a run that ended because of a failure.
pub const FAILED: u8 = 1;
/// Exit code of a drain that left elements in flight, which come back when their leases expire.
pub const LEFTOVERS: u8 = 3;
