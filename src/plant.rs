//! Planted lies: each breaks one promise on purpose, so that `tests/chaos` can show that its oracle notices.
//!
//! Only debug builds have them, one at a time, by the variable `DELAYBRIDGE_PLANT`. Not a cargo feature: the tests would have
//! to compile everything a second time for it, or build the daemon that all others use with it. In a release build
//! [`planted`] is a constant `false`, and the variable is not even read; `scripts/release/build.sh` looks for its name in
//! the binary.

/// What a planted daemon does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Elements are confirmed before the sink has answered.
    SettleBeforeAck,
    /// An element that is dropped on the way counts as delivered.
    AckOnDrop,
    /// All claims of all daemons have one name.
    ClaimWithoutFence,
    /// What is due within 50 ms is delivered.
    Early,
    /// A byte beyond the first 4 KB is another one.
    FlippedByte,
    /// A failed attempt is written as a success.
    SwallowedRetry,
    /// What is in flight at SIGTERM is left as it is, and not reported.
    ForgottenAtShutdown,
    /// The first counted failure makes a dead letter.
    DeadAtFirstFailure,
    /// Delivered elements are not counted.
    SkippedCounter,
    /// Every delivery says that it is the first attempt.
    DroppedAttempt,
    /// A lease lasts a thousand times as long as it should.
    EndlessLease,
    /// A claim without an answer is made again under another name, and not looked for.
    ResentScript,
    /// In a queue in order, what has to wait holds up nothing.
    OvertakenRetry,
    /// A claim is removed by its name whatever has left it, and not compared after a failover.
    NeighbourTakenAlong,
}

/// Their names in the variable, as the documentation has them.
pub const LIES: [(&str, Lie); 14] = [
    ("settle_before_ack", Lie::SettleBeforeAck),
    ("ack_on_drop", Lie::AckOnDrop),
    ("claim_without_fence", Lie::ClaimWithoutFence),
    ("early", Lie::Early),
    ("flipped_byte", Lie::FlippedByte),
    ("swallowed_retry", Lie::SwallowedRetry),
    ("forgotten_at_shutdown", Lie::ForgottenAtShutdown),
    ("dead_at_first_failure", Lie::DeadAtFirstFailure),
    ("skipped_counter", Lie::SkippedCounter),
    ("dropped_attempt", Lie::DroppedAttempt),
    ("endless_lease", Lie::EndlessLease),
    ("resent_script", Lie::ResentScript),
    ("overtaken_retry", Lie::OvertakenRetry),
    ("neighbour_taken_along", Lie::NeighbourTakenAlong),
];

/// Whether this process is to tell this lie.
#[cfg(debug_assertions)]
pub fn planted(lie: Lie) -> bool {
    static PLANTED: std::sync::LazyLock<Option<Lie>> = std::sync::LazyLock::new(|| {
        let name = std::env::var("DELAYBRIDGE_PLANT").ok()?;
        LIES.into_iter().find_map(|(known, lie)| (known == name).then_some(lie))
    });
    *PLANTED == Some(lie)
}

/// No release build tells lies.
#[cfg(not(debug_assertions))]
pub const fn planted(_: Lie) -> bool {
    false
}
