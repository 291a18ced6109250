//! The label values: fixed lists of words, so that no metric can grow without bound.
//!
//! Knows nothing of metrics; the pipeline may use these types to say what happened.

use crate::message::Class;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of the declaration.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant,)*];

            /// The word in metrics and logs.
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
        /// In the retry set, its time come.
        Retry = "retry",
        /// In flight, its lease over.
        Expired = "expired",
    }
}

words! {
    /// Where a job is.
    JobPlace {
        /// Waiting for its due time.
        Delay = "delay",
        /// Due.
        Ready = "ready",
        /// A consumer has it.
        Reserved = "reserved",
        /// Its tries are used up, or it was buried.
        Dead = "dead",
    }
}

words! {
    /// What time did to a job.
    JobEnd {
        /// Its time to run was over, and it waits again.
        TimedOut = "timed_out",
        /// Its time to run was over for the last time.
        Died = "died",
        /// Its time to live was over.
        Expired = "expired",
        /// A dead job, removed because there were too many, or because it was too old.
        Trimmed = "trimmed",
        /// This version could not read it: it is dead, with its bytes.
        Unreadable = "unreadable",
    }
}

words! {
    /// The state of an element as `delaybridge_queue_messages` shows it.
    MessageState {
        /// Its time has not come.
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
    /// Where an element may be that is due already.
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
    /// Why an element was released uncounted.
    ReleaseReason {
        /// The daemon stops.
        Shutdown = "shutdown",
        /// The queue is held.
        Hold = "hold",
        /// The sink is full or was not asked.
        Backpressure = "backpressure",
        /// Its destination is in trouble, and others are not.
        Destination = "destination",
        /// Too few replicas, or no disk, had the claim in time.
        NotDurable = "not_durable",
    }
}

words! {
    /// What a claimer waits for.
    Stage {
        /// The next due time, or a wake-up.
        Alarm = "wake_up",
        /// The hold of its queue, or the breaker of a sink.
        Gate = "gate",
        /// The end of what is in flight beside an element that must be alone, or of that element.
        Isolation = "isolation",
        /// `max_rate`.
        Rate = "rate",
        /// Room among what its queue may have in flight.
        Room = "room",
        /// Room among what the process may have in flight.
        ProcessRoom = "process_room",
        /// A connection to Redis.
        Redis = "redis",
        /// The reply to a claim.
        Reply = "reply",
        /// The fate of a claim with a lost reply.
        Lost = "lost_claim",
        /// The next attempt after Redis refused a claim.
        Refused = "refused",
    }
}

words! {
    /// What would have become of an element that a shadow looked at.
    Fate {
        /// Sent to its sinks.
        Deliver = "deliver",
        /// Stored as a dead letter.
        DeadLetter = "dead_letter",
        /// The queue would have been held because of it.
        Hold = "hold",
        /// It is a reference to a job that its user has deleted.
        Gone = "gone",
        /// It goes back, because its job is due later by its own record.
        NotDue = "not_due",
    }
}

words! {
    /// What made the claimer look.
    Wakeup {
        /// The next due time that the last claim returned.
        Due = "due",
        /// A message on Redisson's channel.
        Published = "published",
        /// The safety poll.
        Poll = "poll",
        /// Redis is back.
        Reconnect = "reconnect",
        /// The last claim was full, or a permit came free while more was due.
        More = "more",
        /// The breaker or the hold lets a probe through.
        Probe = "probe",
    }
}

/// The class label of a successful delivery.
pub(super) const OK: &str = "ok";

/// The lists that the reference page shows. Reasons of dead letters come from the pipeline and are words as well.
pub(super) fn documented() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("`state`", MessageState::ALL.iter().map(|word| word.as_str()).collect()),
        ("`from`", ClaimLabel::ALL.iter().map(|word| word.as_str()).collect()),
        ("`class`", std::iter::once(OK).chain(Class::ALL.iter().map(|class| class.as_str())).collect()),
        ("`reason` of a release", ReleaseReason::ALL.iter().map(|word| word.as_str()).collect()),
        ("`reason` of a dead letter", DeadReason::ALL.iter().map(|word| word.as_str()).collect()),
        ("`fate`", Fate::ALL.iter().map(|word| word.as_str()).collect()),
        ("`reason` of a wake-up", Wakeup::ALL.iter().map(|word| word.as_str()).collect()),
        ("`waits_for`", Stage::ALL.iter().map(|word| word.as_str()).collect()),
        ("`place`", JobPlace::ALL.iter().map(|word| word.as_str()).collect()),
        ("`how`", JobEnd::ALL.iter().map(|word| word.as_str()).collect()),
    ]
}

words! {
    /// Why an element ended as a dead letter.
    DeadReason {
        /// As many counted attempts as the policy allows.
        MaxAttempts = "max_attempts",
        /// The sink can never take this message.
        MessagePermanent = "message_permanent",
        /// Later than `max_lateness`.
        Expired = "expired",
        /// Ten leases in a row expired: the element kills or stalls every daemon that claims it.
        LeaseExpired = "lease_expired",
        /// The codec refused the payload.
        Undecodable = "undecodable",
        /// A template has no value for it.
        Unroutable = "unroutable",
        /// The bytes fit no layout of the source.
        Junk = "junk",
    }
}
