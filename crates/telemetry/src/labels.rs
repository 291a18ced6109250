//! The values of labels: fixed lists of words, so that no metric can grow without bound.
//!
//! It does not depend on metrics; the pipeline may use these types to report what happened.

use delaybridge_core::message::Class;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant,)*];

            /// Returns the word in metrics and logs.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// The state of an element before its claim.
    ClaimLabel {
        /// Due in Redisson's sorted set.
        Delayed = "delayed",
        /// On the ready list.
        Ready = "ready",
        /// In the retry set, and due for the next attempt.
        Retry = "retry",
        /// In flight under an expired lease.
        Expired = "expired",
    }
}

words! {
    /// The result of a look for an element that its destination may have.
    LookResult {
        /// The element is there, and not sent again.
        There = "there",
        /// The element is not there, and is sent again.
        Absent = "absent",
        /// The destination could not be asked; the element waits, and is looked for again.
        Held = "held",
        /// The look failed, and waiting cannot help or has lasted too long; the element is sent again.
        Failed = "failed",
    }
}

words! {
    /// The place of a job.
    JobPlace {
        /// Waiting for its due time.
        Delay = "delay",
        /// Due.
        Ready = "ready",
        /// Reserved by a consumer.
        Reserved = "reserved",
        /// Out of tries, or buried.
        Dead = "dead",
    }
}

words! {
    /// An operation of the job queue on jobs.
    JobAction {
        /// Added, by clients or by recurring jobs.
        Added = "added",
        /// Handed out.
        Taken = "taken",
        /// Finished.
        Finished = "finished",
        /// Given back.
        Released = "released",
        /// Made dead by a consumer.
        Buried = "buried",
        /// Removed for good.
        Deleted = "deleted",
    }
}

words! {
    /// What an operator did with elements over the admin API or the page.
    OperatorAction {
        /// Made dead letters.
        Killed = "killed",
        /// Removed by their ids.
        Cancelled = "cancelled",
        /// Removed as dead letters.
        Purged = "purged",
        /// Dead letters that are to be delivered again.
        Redriven = "redriven",
    }
}

words! {
    /// The outcome of a firing of a recurring job.
    FiringEnd {
        /// A firing with a job.
        Fired = "fired",
        /// A missed firing without a job.
        Skipped = "skipped",
    }
}

words! {
    /// The end of a time limit of a job.
    JobEnd {
        /// The time to run ended, and the job is ready again.
        TimedOut = "timed_out",
        /// The time to run of the last try ended.
        Died = "died",
        /// The time to live ended.
        Expired = "expired",
        /// Removed from the dead jobs, because they were too many or it was too old.
        Trimmed = "trimmed",
        /// Not readable by this version, so the job is dead, with its bytes.
        Unreadable = "unreadable",
    }
}

words! {
    /// The result for a message of an input.
    InputResult {
        /// A message whose job Redis has.
        Scheduled = "scheduled",
        /// A message that had arrived before.
        Duplicate = "duplicate",
        /// A message for the broker's dead letters.
        Refused = "refused",
        /// A record that the broker removed before it was read.
        Missed = "missed",
    }
}

words! {
    /// The reason why a partition is read from another place than the one behind the last record.
    InputReset {
        /// The records behind the last one are gone: the partition goes on at the first that is there.
        Gap = "gap",
        /// The place is beyond the end of the partition, which begins at its beginning.
        BeyondEnd = "beyond_end",
        /// The topic is another one of the same name, and begins at its beginning.
        OtherTopic = "other_topic",
    }
}

words! {
    /// The state of an element as `delaybridge_queue_messages` shows it.
    MessageState {
        /// Not due yet.
        Scheduled = "scheduled",
        /// Due and unclaimed.
        Due = "due",
        /// Claimed.
        InFlight = "in_flight",
        /// Waiting for the next attempt.
        Retry = "retry",
        /// A dead letter.
        Dead = "dead",
    }
}

words! {
    /// The time from now within which an element falls due.
    Horizon {
        /// A minute.
        Minute = "1m",
        /// Ten minutes.
        TenMinutes = "10m",
        /// An hour.
        Hour = "1h",
        /// Six hours.
        SixHours = "6h",
        /// A day.
        Day = "24h",
    }
}

words! {
    /// The state of an element that is due.
    LateState {
        /// Due and unclaimed.
        Due = "due",
        /// Claimed.
        InFlight = "in_flight",
        /// Waiting for the next attempt.
        Retry = "retry",
    }
}

words! {
    /// The reason why an element was released without counting an attempt.
    ReleaseReason {
        /// The daemon is stopping.
        Shutdown = "shutdown",
        /// The queue is on hold.
        Hold = "hold",
        /// The sink is full, or was not tried.
        Backpressure = "backpressure",
        /// The element's destination is in trouble, and others are not.
        Destination = "destination",
        /// Too few replicas, or no disk, confirmed the claim in time.
        NotDurable = "not_durable",
    }
}

words! {
    /// The stage in which a claimer waits.
    Stage {
        /// The next due time, or a wake-up.
        Alarm = "wake_up",
        /// The hold of its queue, or the breaker of a sink.
        Gate = "gate",
        /// The end of other elements in flight before one that must be alone, or of that element.
        Isolation = "isolation",
        /// The rate limit `max_rate`.
        Rate = "rate",
        /// Room within the queue's limit of elements in flight.
        Room = "room",
        /// Room within the process's limit of elements in flight.
        ProcessRoom = "process_room",
        /// A connection to Redis.
        Redis = "redis",
        /// The reply to a claim.
        Reply = "reply",
        /// The search for a claim whose reply was lost.
        Lost = "lost_claim",
        /// The next attempt after Redis refused a claim.
        Refused = "refused",
    }
}

words! {
    /// The outcome that an element in shadow mode would have had.
    Fate {
        /// Sent to its sinks.
        Deliver = "deliver",
        /// Stored as a dead letter.
        DeadLetter = "dead_letter",
        /// A reason to hold the queue.
        Hold = "hold",
        /// A reference to a job that its user has deleted.
        Gone = "gone",
        /// A job that is due later by its own record, and goes back.
        NotDue = "not_due",
        /// Removed, because no destination is meant for it.
        Skipped = "skipped",
    }
}

words! {
    /// The cause of a claimer's wake-up.
    Wakeup {
        /// The due time that the last claim returned.
        Due = "due",
        /// A message on Redisson's channel.
        Published = "published",
        /// The safety poll.
        Poll = "poll",
        /// A reconnect to Redis.
        Reconnect = "reconnect",
        /// The last claim was full, or a permit came free while more was due.
        More = "more",
        /// The breaker or the hold admits a probe.
        Probe = "probe",
    }
}

/// The class label of a successful delivery.
pub(super) const OK: &str = "ok";

/// Returns the labels that the reference page lists. The reasons of dead letters, which the pipeline decides, are among
/// them.
pub(super) fn documented() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("`state`", MessageState::ALL.iter().map(|word| word.as_str()).collect()),
        ("`horizon`", Horizon::ALL.iter().map(|word| word.as_str()).collect()),
        ("`from`", ClaimLabel::ALL.iter().map(|word| word.as_str()).collect()),
        ("`class`", std::iter::once(OK).chain(Class::ALL.iter().map(|class| class.as_str())).collect()),
        ("`reason` of a release", ReleaseReason::ALL.iter().map(|word| word.as_str()).collect()),
        ("`reason` of a dead letter", DeadReason::ALL.iter().map(|word| word.as_str()).collect()),
        ("`reason` of a header", LeftOutReason::ALL.iter().map(|word| word.as_str()).collect()),
        ("`operation` of an operator", OperatorAction::ALL.iter().map(|word| word.as_str()).collect()),
        ("`fate`", Fate::ALL.iter().map(|word| word.as_str()).collect()),
        ("`reason` of a wake-up", Wakeup::ALL.iter().map(|word| word.as_str()).collect()),
        ("`waits_for`", Stage::ALL.iter().map(|word| word.as_str()).collect()),
        ("`place`", JobPlace::ALL.iter().map(|word| word.as_str()).collect()),
        ("`result`", InputResult::ALL.iter().map(|word| word.as_str()).collect()),
        ("`reason` of a reset", InputReset::ALL.iter().map(|word| word.as_str()).collect()),
        ("`how`", JobEnd::ALL.iter().map(|word| word.as_str()).collect()),
    ]
}

words! {
    /// The reason why a header of a message did not pass to its destination.
    LeftOutReason {
        /// The header steers the destination, or its name is not the message's to set.
        Control = "control",
        /// The destination cannot carry the header.
        Unfit = "unfit",
        /// The route does not want the header.
        Rule = "rule",
    }
}

words! {
    /// The reason why an element ended as a dead letter.
    DeadReason {
        /// The maximum number of counted attempts was reached.
        MaxAttempts = "max_attempts",
        /// The sink can never take this message.
        MessagePermanent = "message_permanent",
        /// The element was later than `max_lateness`.
        Expired = "expired",
        /// Ten leases in a row expired: the element kills or stalls every daemon that claims it.
        LeaseExpired = "lease_expired",
        /// The due time is an overflow, or in seconds.
        AbsurdDue = "absurd_due",
        /// The codec refused the payload.
        Undecodable = "undecodable",
        /// A template has no value for the element.
        Unroutable = "unroutable",
        /// The bytes fit no layout of the source.
        Junk = "junk",
        /// No destination is meant for the element.
        Skipped = "skipped",
    }
}
