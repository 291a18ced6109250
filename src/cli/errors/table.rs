//! The parts of the catalogue that are no other part's own: the page's head, why elements are dead, and payloads.

use crate::codes::{Code, Codes, code};

pub(super) const HEAD: &str = "\
# Errors

<!-- Written by a test from src/cli/errors; change it there. -->

Every failure of an element has a **class**, which decides what happens, and a **code**, which tells what it was. Both stand
in the log line, in `delaybridge_sink_errors_total`, in `attempts_seen` and in the fields `class` and `code` of a dead
letter; `delaybridge dead show` prints cause and cure beside them. A code is one of the words on this page: never text of a
server, and never part of a payload. An entry that waits in Redis keeps the first 16 bytes of its last code.

| class | what happens |
|---|---|
| `backpressure` | The sink is full. Claiming stops for it; nothing counts. |
| `transient` | It was not taken, certainly. It is tried again; it counts only if the sink took something else meanwhile. |
| `ambiguous` | It may have been taken. It is tried again, and a possible duplicate is counted. |
| `message_permanent` | This message can never be delivered: a dead letter. |
| `target_permanent` | Nothing can be delivered there until somebody mends it: the queue is held, its elements stay in Redis. Where the payload chose the destination, the element alone is a dead letter. |
| `unknown` | An answer that no table knows. It is tried again, always counts, and is never a success. |

Exit codes of the program: 0 done; 1 it failed while running; 2 wrong arguments or configuration; 3 stopped, but some
elements in flight could be neither settled nor handed back in time (their leases bring them back). A problem of the
configuration has no code: `check` tells each with its file, line, column and key, and what to write instead. Log lines
that are no failure of an element, such as `queue on hold` or `leases lost`, describe the event and its effect.
";

/// Reasons of dead letters.
pub(super) const DEAD: Codes = Codes::of(
    "Why an element is dead",
    "The field `reason` of a dead letter. `dead redrive` sends a letter through the queue again, `dead purge` \
               removes it.",
    DEAD_REASONS,
);

const DEAD_REASONS: &[Code] = &[
    code(
        "max_attempts",
        "As many counted attempts failed as `retry.max_attempts` allows.",
        "See the letter's `code`; mend that, then redrive.",
    ),
    code("message_permanent", "The sink can never take this message.", "See the letter's `code`."),
    code(
        "expired",
        "Later than `max_lateness`, with `on_expired: dead_letter`.",
        "Redrive if it still matters; look for why it was late (an outage, a hold, a `max_rate`).",
    ),
    code(
        "lease_expired",
        "Ten leases in a row ran out: whoever worked on the element died or stood still.",
        "Look at memory limits and at the log before each death; then redrive, alone.",
    ),
    code(
        "undecodable",
        "The codec refused the payload, with `on_decode_error: dead_letter`.",
        "`delaybridge decode` guesses what wrote it; correct `codec`, then redrive.",
    ),
    code(
        "unroutable",
        "A template has no value for this element, or one that fits no destination.",
        "Give the template a default (`${payload.x:-none}`), then redrive.",
    ),
    code(
        "junk",
        "The bytes fit no layout of Redisson.",
        "Find out who writes to this key beside Redisson. The bytes are in the letter.",
    ),
];

pub(super) const PAYLOADS_TITLE: &str = "Payloads and templates";
pub(super) const PAYLOADS_TEXT: &str = "The element's own: such an element is a dead letter, unless `on_decode_error` says otherwise. Where in the \
               payload is told; what stands there is not.";

pub(super) const PAYLOADS: &[Code] = &[
    code("not_utf8", "Not UTF-8.", "Is it `codec: raw` or a binary codec?"),
    code("not_json", "Not JSON.", "Ask `delaybridge decode` which codec wrote it."),
    code("json_truncated", "The JSON value is not finished.", "Ask its producer."),
    code("json_too_deep", "JSON nested deeper than 127 levels.", "Use `codec: raw`."),
    code("json_trailing", "Text after the JSON value.", "Ask its producer, or use `codec: string`."),
    code("not_number", "No number in decimal digits.", "Ask `delaybridge decode` which codec wrote it."),
    code("truncated", "The bytes end within a value.", "Ask `delaybridge decode` which codec wrote it."),
    code("too_deep", "Nested deeper than 127 levels.", "Use `codec: raw`."),
    code("trailing", "Bytes after the value.", "Ask `delaybridge decode` which codec wrote it."),
    code("malformed", "A byte that the format does not have there.", "Ask `delaybridge decode` which codec wrote it."),
    code("lone_surrogate", "Half of a surrogate pair, which is no character.", "Ask its producer."),
    code(
        "too_large",
        "Larger than `max_decoded_size`; of Kafka, than `max_message_size`.",
        "Raise the limit, or keep payloads smaller.",
    ),
    code(
        "opaque_class",
        "An object that only Java can read.",
        "Let the producer write JSON, or route without its fields: it is passed on as bytes.",
    ),
    code("unsupported", "Something that the codec does not read.", "`docs/codecs.md` says what is read."),
    code("not_recognised", "`codec: auto` recognises nothing.", "Name the codec."),
    code(
        "not_a_letter",
        "An entry of the dead-letter stream is not one of delaybridge's.",
        "Look at it with `dead show`; whoever wrote it has to read it.",
    ),
];
