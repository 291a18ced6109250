//! Error codes that do not depend on the kind of a sink, with their causes and cures. A kind has its own in its folder.

use delaybridge_core::codes::{AGAIN, Code, Codes, DEFECT, code};

/// Codes that several kinds of sinks have.
pub const EVERY_SINK: Codes = Codes::of("Every sink", "Codes of several kinds of sinks.", CODES);

const CODES: &[Code] = &[
    code(
        "timeout",
        "No confirmation within `timeout`. It may have arrived.",
        "Check the destination, or raise `timeout`.",
    ),
    code("hung", "The sink did not keep its own time-out.", DEFECT),
    code("not_sent", "Not sent within `timeout`.", "Raise the destination's capacity, or lower `max_in_flight`."),
    code(
        "behind_another",
        "A message before this one blocks the channel; this one may have arrived. Or Kafka refused the batch, and there was time only for other records of it. No attempt is counted.",
        "Find the destination in trouble: a queue without a majority or on a lost node; for Kafka, records larger than the topic allows.",
    ),
    code("not_connected", "There is no connection.", "See `/readyz`. The sink reconnects by itself."),
    code(
        "not_looked",
        "With `duplicates: look`, the destination could not be asked for the element; it is asked again.",
        "Check the destination and the right to read it. After five minutes the element is sent again.",
    ),
    code("connection_lost", "The connection broke before the answer. It may have arrived.", AGAIN),
    code("closed", "The sink was closed, or standard output has no reader.", "Restart the reader and delaybridge."),
    code(
        "stale_lease",
        "The lease expired before the element's turn. Nothing was sent.",
        "Find why the machine is overloaded or was suspended.",
    ),
    code("wrong_destination", "An element was routed to a sink of another kind.", DEFECT),
    code("secret", "A password file cannot be read.", "Check path and rights."),
    code(
        "credentials_refused",
        "No credentials of AWS, or refused ones.",
        "Check the role, the file, and this host's clock; the message names the place.",
    ),
    code(
        "credentials_unavailable",
        "The server of AWS credentials does not answer.",
        "Nothing: it is asked again. If it lasts, check STS and the metadata of container or instance.",
    ),
    code("settings", "The sink's client library refuses a setting.", "Correct it; the message names it."),
    code("bad_name", "The name is invalid for a topic or exchange.", "Correct the name or its template."),
    code("queue_full", "The client's queue is full.", "Nothing: claims slow down to the destination's speed."),
    code("panic", "A defect interrupted the work on the element.", DEFECT),
];
