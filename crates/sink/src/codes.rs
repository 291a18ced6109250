//! Error codes that do not depend on the kind of a sink, with their causes and cures. A kind has its own in its folder.

use delaybridge_core::codes::{AGAIN, Code, Codes, DEFECT, code};

/// Codes that several kinds of sinks have.
pub const EVERY_SINK: Codes = Codes::of("Every sink", "Codes that several kinds of sinks have.", CODES);

const CODES: &[Code] = &[
    code(
        "timeout",
        "No confirmation within the sink's `timeout`. It may have arrived.",
        "Check the destination. Raise `timeout` if it is only slow.",
    ),
    code("hung", "The sink did not keep its own time-out.", DEFECT),
    code(
        "not_sent",
        "The message waited until the `timeout`, and was not sent.",
        "The destination is too slow for the load. Raise its capacity, or lower `max_in_flight`.",
    ),
    code(
        "behind_another",
        "The broker does not answer on the channel because of a message before this one; this one may have arrived. Or Kafka \
         refused its batch, and there was time only for other records of it. It counts as no attempt.",
        "Look for another destination in trouble: a queue without a majority, or on a node that is away. For Kafka, look for \
         records that are larger than the topic allows.",
    ),
    code("not_connected", "There is no connection.", "`/readyz` has the reason. The sink reconnects by itself."),
    code(
        "not_looked",
        "With `duplicates: look`, the destination could not be asked whether it has the element. It was not sent, and is looked for again.",
        "The message has the reason. Check the destination, and the right to read it. After five minutes the element is sent again.",
    ),
    code("connection_lost", "The connection broke before the answer. It may have arrived.", AGAIN),
    code(
        "closed",
        "The sink was closed. Standard output has no reader any more.",
        "Restart the reader of standard output, and delaybridge.",
    ),
    code(
        "stale_lease",
        "The element's lease expired before its turn. Nothing was sent.",
        "The machine was suspended, or is overloaded.",
    ),
    code("wrong_destination", "An element was routed to a sink of another kind.", DEFECT),
    code("secret", "A password file cannot be read.", "Check path and rights."),
    code(
        "credentials_refused",
        "There are no credentials of AWS, or they are not accepted.",
        "The message says where they were looked for, or who refused them. Check the role, the file, and the clock of this host.",
    ),
    code(
        "credentials_unavailable",
        "The server that gives credentials of AWS does not answer.",
        "Nothing: it is asked again. If it lasts, check STS, and the metadata of the container or the instance.",
    ),
    code("settings", "The sink's client library refuses a setting.", "The message names it."),
    code("bad_name", "The name is invalid for a topic or exchange.", "Correct the name, or its template."),
    code(
        "queue_full",
        "The client's queue is full.",
        "Nothing: claims slow down. The destination is slower than the queue.",
    ),
    code("panic", "A defect interrupted the work on the element.", DEFECT),
];
