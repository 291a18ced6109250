//! Error codes that do not depend on the kind of a sink, with their causes and cures. Those of one kind are in its folder.

use crate::codes::{AGAIN, Code, Codes, DEFECT, code};

/// What all sinks have in common in the reference of errors.
pub(crate) const EVERY_SINK: Codes = Codes::of("Every sink", "Codes that several kinds of sinks have.", CODES);

const CODES: &[Code] = &[
    code(
        "timeout",
        "No confirmation within the sink's `timeout`. It may have arrived.",
        "Look at the other side; raise `timeout` if it is only slow.",
    ),
    code("hung", "The sink did not even keep its own time-out.", DEFECT),
    code(
        "not_sent",
        "It waited for its turn until the `timeout`, and was not sent.",
        "The other side is too slow for the load: raise its capacity, or lower `max_in_flight`.",
    ),
    code("not_connected", "There is no connection.", "See `/readyz` for why; it reconnects by itself."),
    code("connection_lost", "The connection broke before the answer. It may have arrived.", AGAIN),
    code(
        "closed",
        "The sink was closed; of standard output: nobody reads it any more.",
        "Restart whoever reads standard output, and delaybridge.",
    ),
    code(
        "stale_lease",
        "The element's lease was over before its turn came; nothing was sent.",
        "The machine stood still, or is overloaded.",
    ),
    code("wrong_destination", "An element was routed to a sink of another kind.", DEFECT),
    code("secret", "The file of a password cannot be read.", "Check path and rights."),
    code("settings", "The client of the sink refuses a setting.", "The message names it."),
    code("bad_name", "No topic or exchange can have this name.", "Correct the name, or the template that makes it."),
    code(
        "queue_full",
        "More elements wait in the client than it may keep.",
        "Nothing: claiming slows down. The other side is slower than the queue.",
    ),
    code("panic", "A defect made the work on the element fail.", DEFECT),
];
