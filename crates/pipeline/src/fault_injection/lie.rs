//! The lies, and the one that this process tells.

/// A promise that a daemon breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Elements are confirmed before the sink has answered.
    SettleBeforeAck,
    /// An element that goes back undelivered counts as delivered.
    AckOnDrop,
    /// All claims of all daemons have one name.
    ClaimWithoutFence,
    /// Elements are delivered up to 50 ms before they are due.
    Early,
    /// A byte beyond the first 4 KB is another one.
    FlippedByte,
    /// A failed attempt is written as a success.
    SwallowedRetry,
    /// Elements in flight at SIGTERM are left as they are, and not reported.
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
    /// The first two destinations of a queue have changed their conditions.
    WrongRoute,
    /// Records of the audit trail are confirmed and not sent.
    DroppedRecord,
    /// In a queue in order, no element waits for another.
    OvertakenRetry,
    /// The first element of a run is not sent, and those behind it are.
    OvertakenInRun,
    /// The last confirmation of a claim removes it by its name whatever has left it, and it is not compared after a failover.
    NeighbourTakenAlong,
    /// A message of an input is acknowledged before Redis has its job.
    AckBeforeRedis,
}

/// The lies by their names in the variable, as the documentation has them.
const LIES: [(&str, Lie); 18] = [
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
    ("wrong_route", Lie::WrongRoute),
    ("dropped_record", Lie::DroppedRecord),
    ("overtaken_retry", Lie::OvertakenRetry),
    ("overtaken_in_run", Lie::OvertakenInRun),
    ("neighbour_taken_along", Lie::NeighbourTakenAlong),
    ("ack_before_redis", Lie::AckBeforeRedis),
];

/// Returns the lie that this process tells.
pub(super) fn planted() -> Option<Lie> {
    static PLANTED: std::sync::LazyLock<Option<Lie>> = std::sync::LazyLock::new(|| {
        let name = std::env::var("DELAYBRIDGE_PLANT").ok()?;
        LIES.into_iter().find_map(|(known, lie)| (known == name).then_some(lie))
    });
    *PLANTED
}
