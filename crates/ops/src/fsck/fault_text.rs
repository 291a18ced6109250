//! Each fault in words: what it is, what causes it, what happens if it is left alone, what a repair does.

use serde::Serialize;

use delaybridge_ledger::fsck::Fault;

/// A fault in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The name, for programs.
    pub fault: &'static str,
    /// The description.
    pub what: &'static str,
    /// The cause.
    pub cause: &'static str,
    /// The consequence if it is left alone.
    pub otherwise: &'static str,
    /// The work of `--repair`.
    pub repair: &'static str,
}

const fn of(
    fault: &'static str,
    what: &'static str,
    cause: &'static str,
    otherwise: &'static str,
    repair: &'static str,
) -> Explanation {
    Explanation { fault, what, cause, otherwise, repair }
}

/// Returns a fault in words.
pub fn explanation(fault: Fault) -> Explanation {
    match fault {
        Fault::ForeignType => of(
            "foreign_type",
            "a key of the queue holds another type",
            "another program, or a name that two programs use",
            "every script on this key fails: the queue does not move",
            "renames a key that begins with `delaybridge:` to `delaybridge:aside:...` and keeps its value; a key of the source stays",
        ),
        Fault::Expiring => of(
            "expiring",
            "a key of the source has a time to live",
            "a producer or a person ran EXPIRE on it",
            "Redis deletes it then, with all elements that are not delivered",
            "removes the time to live; a producer that sets it sets it again",
        ),
        Fault::ClaimWithoutLease => of(
            "claim_without_lease",
            "a claim has elements and no lease",
            "the key of the leases was deleted, evicted, or is from an older state",
            "no daemon finds the elements: they are never delivered",
            "gives the claim a lease that is over; a daemon takes it over and delivers, some of it perhaps once more",
        ),
        Fault::LeaseWithoutClaim => of(
            "lease_without_claim",
            "a lease is over, and its claim has no elements",
            "a daemon that died after its claim was empty, or keys that were deleted",
            "nothing is lost; the next daemon that meets the lease removes it",
            "removes the lease",
        ),
        Fault::LeaseTooLong => of(
            "lease_too_long",
            "a lease ends so late that no daemon wrote it",
            "the clock of the Redis server was wrong for a while, or a person wrote the lease",
            "if its daemon is gone, the elements of the claim wait until then",
            "ends the lease after one lease from now; a daemon that holds it extends it",
        ),
        Fault::UnknownClaim => of(
            "unknown_claim",
            "a lease has a name that this version does not know",
            "a newer version runs or ran, or a person wrote the lease",
            "this version leaves it alone; a daemon of the newer version goes on with it",
            "nothing: run `fsck` of the newer version",
        ),
        Fault::TwoPlaces => of(
            "two_places",
            "the same element is in two places",
            "keys were restored from a backup or copied by hand",
            "it is delivered once for each place",
            "removes one copy while the other is there: what is in flight stays before what waits, and that before what is \
             scheduled; of a dead letter the other copy stays",
        ),
        Fault::UnknownEntry => of(
            "unknown_entry",
            "an entry has a header that this version cannot read",
            "a newer version wrote it, or it was damaged",
            "this version leaves it in place and looks again each minute",
            "nothing: a daemon of the version that wrote it delivers it",
        ),
        Fault::EntryWithoutHeader => of(
            "entry_without_header",
            "a member of the retry set has no header",
            "a person or another program added it",
            "it is never delivered, because daemons take it for an entry of a newer version",
            "puts a header in front of it; it is due at its score",
        ),
        Fault::UnreadableMember => of(
            "unreadable_member",
            "a scheduled member is in no format of the source",
            "another program wrote it",
            "a daemon stores it as a dead letter when it is due; Redisson's own clients stop at it",
            "nothing: it is stored as a dead letter when it is due",
        ),
        Fault::Orphan => of(
            "orphan",
            "an entry of Redisson's list is scheduled nowhere, and no claim has recorded it",
            "the sorted set was deleted or evicted, or a client before 3.16.4 left a second copy of a delivered element",
            "it is never delivered; it may be the last copy of the element",
            "schedules it, due now, because its due time is lost; a second copy of a delivered element is delivered once more. \
             `--orphans keep` leaves it",
        ),
        Fault::UnrecordedGhost => of(
            "unrecorded_ghost",
            "an entry of Redisson's list is in flight, waits or is dead, and is not recorded as a ghost",
            "the sets of ghosts were deleted or evicted, or are from an older state",
            "Redisson's clients count it, and can take it out of the list once more",
            "records it as a ghost; the sweep removes it from the list",
        ),
        Fault::NotListed => of(
            "not_listed",
            "a scheduled element is not in Redisson's list",
            "the list was deleted or evicted, or another program wrote only the sorted set",
            "it is delivered; Redisson's clients do not see or count it",
            "adds it at the end of the list",
        ),
        Fault::SweepAbandoned => of(
            "sweep_abandoned",
            "a turn of the sweep was left by its daemon",
            "the daemon died, and no other one has swept since",
            "the list stays rotated, and ghosts stay in it, until a daemon sweeps again",
            "goes on with the turn to its end",
        ),
        Fault::SweepUnreadable => of(
            "sweep_unreadable",
            "a field of the sweep's state is no number",
            "a person or another program wrote it",
            "the sweep fails or begins again and again: ghosts stay in the list",
            "removes the field; the sweep begins a new turn",
        ),
        Fault::PauseUnreadable => of(
            "pause_unreadable",
            "a pause cannot be read",
            "a newer version wrote it, or a person did",
            "the queue or the sink stays paused without an end, for a reason that is not shown",
            "writes it as a pause without an end that every version reads; `resume` ends it",
        ),
        Fault::IdWithoutBody => of(
            "id_without_body",
            "an id has no job",
            "its user deleted the job, or the program died between two writes",
            "when it is due it is dropped, or a dead letter with `on_missing_body: dead_letter`",
            "removes the id, if there still is no job",
        ),
        Fault::BodyWithoutId => of(
            "body_without_id",
            "a job has no id anywhere",
            "a program died between two writes, the ids were deleted, or a consumer of the pool has the job",
            "it is never delivered",
            "adds its id, due now; a job that a consumer of the pool has is delivered once more",
        ),
        Fault::UnreadableJob => of(
            "unreadable_job",
            "a job has an id, a record or a state that this version cannot read",
            "a newer version added it, it was damaged, or another program wrote it",
            "it is not handed out; when its turn comes it goes to the dead jobs of the topic, with all of its bytes",
            "nothing: redrive it with the version that wrote it, or purge it",
        ),
        Fault::StrayPriority => of(
            "stray_priority",
            "a job is in the order of priorities and does not wait",
            "a daemon of a version without priorities handed it out, or a person removed it from the waiting jobs",
            "the clock of the topic finds it after a while; until then `pop` steps over it",
            "removes it from the order, if it does not wait",
        ),
        Fault::MisplacedPriority => of(
            "misplaced_priority",
            "a waiting job has another place in the order of priorities than its priority says",
            "the order was deleted or evicted, is from an older state, or a daemon of a version without priorities put the job back",
            "it is handed out by its due time, or before others that it should follow",
            "gives it the place of its priority and due time",
        ),
        Fault::UnreadableLimit => of(
            "unreadable_limit",
            "a limit in the hash of a topic is no number",
            "a person or another program wrote it",
            "the limit of the configuration applies",
            "nothing: `jobs limits` sets it anew",
        ),
        Fault::UnreadableTopic => of(
            "unreadable_topic",
            "a member of `delaybridge:jobs:topics` is no name of a topic",
            "another program wrote it",
            "it is passed over",
            "nothing: remove it with ZREM",
        ),
    }
}
