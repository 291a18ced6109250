//! Words of values that belong to crates below the settings.

use delaybridge_model::{AuditFate, EventData, EventMode};
use delaybridge_settings::words::words;
use redisson_codecs::JavaTypes;

words! {
    /// Whether names of Java classes stay in decoded values.
    pub(crate) list JavaTypeNames of JavaTypes { "keep" => JavaTypes::Keep, "strip" => JavaTypes::Strip }
}

words! {
    /// Kinds of [`Envelope`](delaybridge_model::Envelope), which has the same words.
    pub(crate) enum Envelopes {
        /// The payload's bytes.
        Raw = "raw",
        /// The decoded value.
        Decoded = "decoded",
        /// An object.
        Json = "json",
        /// An event.
        CloudEvents = "cloudevents",
    }
}

words! {
    /// The place of an event's attributes.
    pub(crate) list EventModes of EventMode { "binary" => EventMode::Binary, "structured" => EventMode::Structured }
}

words! {
    /// The kind of data of an event.
    pub(crate) list EventBodies of EventData { "raw" => EventData::Raw, "decoded" => EventData::Decoded }
}

words! {
    /// Fates that an audit trail may be asked for; none of one that no daemon sees.
    pub(crate) list Fates of Option<AuditFate> {
        AuditFate::Delivered.as_str() => Some(AuditFate::Delivered),
        AuditFate::Skipped.as_str() => Some(AuditFate::Skipped),
        AuditFate::Dead.as_str() => Some(AuditFate::Dead),
        AuditFate::Expired.as_str() => Some(AuditFate::Expired),
        "cancelled" => None,
    }
}
