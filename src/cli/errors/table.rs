//! The catalogue itself, section by section.

use std::borrow::Cow;

use super::{Entry, Section};

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

pub(super) const KAFKA: &str = "\
Codes of the brokers and of librdkafka, spelt as they spell them. A record that may stand in the log all the same is
`ambiguous`, whatever the code.";

const fn entry(code: &'static str, cause: &'static str, cure: &'static str) -> Entry {
    Entry { code, cause: Cow::Borrowed(cause), cure: Cow::Borrowed(cure) }
}

const AGAIN: &str = "Nothing: it is tried again.";
const DEFECT: &str = "A defect of delaybridge or of the other side: please report it with the log line.";

pub(super) const SECTIONS: &[Section] = &[
    Section {
        title: "Why an element is dead",
        text: "The field `reason` of a dead letter. `dead redrive` sends a letter through the queue again, `dead purge` \
               removes it.",
        entries: &[
            entry(
                "max_attempts",
                "As many counted attempts failed as `retry.max_attempts` allows.",
                "See the letter's `code`; mend that, then redrive.",
            ),
            entry("message_permanent", "The sink can never take this message.", "See the letter's `code`."),
            entry(
                "expired",
                "Later than `max_lateness`, with `on_expired: dead_letter`.",
                "Redrive if it still matters; look for why it was late (an outage, a hold, a `max_rate`).",
            ),
            entry(
                "lease_expired",
                "Ten leases in a row ran out: whoever worked on the element died or stood still.",
                "Look at memory limits and at the log before each death; then redrive, alone.",
            ),
            entry(
                "undecodable",
                "The codec refused the payload, with `on_decode_error: dead_letter`.",
                "`delaybridge decode` guesses what wrote it; correct `codec`, then redrive.",
            ),
            entry(
                "unroutable",
                "A template has no value for this element, or one that fits no destination.",
                "Give the template a default (`${payload.x:-none}`), then redrive.",
            ),
            entry(
                "junk",
                "The bytes fit no layout of Redisson.",
                "Find out who writes to this key beside Redisson. The bytes are in the letter.",
            ),
        ],
    },
    Section {
        title: "Connecting to Redis",
        text: "Told at `/readyz`, by `check --live`, and once in the log; tried again until it works. For a Redis sink they \
               are codes of its failures as well.",
        entries: &[
            entry("name", "The host name has no address.", "Check `url` and the DNS."),
            entry(
                "unreachable",
                "Nobody listens there, or there is no way to it.",
                "Check host, port and firewalls, and that the server runs.",
            ),
            entry(
                "connect_timeout",
                "No answer within `connect_timeout`.",
                "Check the way to the server, and whether the port speaks TLS.",
            ),
            entry(
                "tls",
                "A certificate, a protocol version or a file is wrong.",
                "The message names which; see `tls` in the configuration.",
            ),
            entry(
                "password_file",
                "The file of the password cannot be read, or is empty.",
                "Check path and rights; its first line is the password.",
            ),
            entry(
                "auth",
                "User or password are wrong or missing.",
                "Check `username` and `password_file`. A corrected file is read at the next attempt.",
            ),
            entry(
                "NOPERM",
                "The user may not run a command, or not on this key.",
                "`check --live` prints the `ACL SETUSER` line that mends it; `delaybridge acl` the whole set.",
            ),
            entry(
                "database",
                "The database number does not exist.",
                "Check the number in `url` and `databases` on the server.",
            ),
            entry("too_old", "The server is older than 6.2.", "Upgrade the server."),
            entry(
                "replica",
                "The server is a replica, which takes no writes.",
                "Name the master, or an address that follows it.",
            ),
            entry("LOADING", "The server is loading its data.", "Wait until it is done."),
            entry(
                "server",
                "The server answered the login with an error that is none of these.",
                "The message has the server's words.",
            ),
        ],
    },
    Section {
        title: "Answers of Redis",
        text: "Error replies to commands and scripts, of the queues' server and of Redis sinks.",
        entries: &[
            entry("ERR", "An error without a code of its own.", "The message has the server's words."),
            entry(
                "OOM",
                "The server is at `maxmemory` and refuses writes.",
                "Give it memory, or remove what fills it; delaybridge only takes out meanwhile.",
            ),
            entry(
                "BUSY",
                "A script of somebody has run for too long.",
                "Find it; `SCRIPT KILL` ends one that has written nothing.",
            ),
            entry("TRYAGAIN", "The cluster is moving this slot.", AGAIN),
            entry("CLUSTERDOWN", "The cluster does not serve this slot.", "Mend the cluster."),
            entry("MASTERDOWN", "The link to the master is down.", "Mend the replication."),
            entry("NOREPLICAS", "Fewer replicas than `min-replicas-to-write`.", "Bring replicas back."),
            entry(
                "READONLY",
                "The server became a replica.",
                "A fail-over: an address that follows the master heals it.",
            ),
            entry(
                "MOVED",
                "The key belongs to another node of a cluster.",
                "Redis Cluster is not supported in this version.",
            ),
            entry(
                "ASK",
                "The key is moving to another node of a cluster.",
                "Redis Cluster is not supported in this version.",
            ),
            entry(
                "NOSCRIPT",
                "The server forgot the scripts (a restart, `SCRIPT FLUSH`).",
                "Nothing: they are loaded again.",
            ),
            entry(
                "WRONGTYPE",
                "The key holds another type than is to be written to it.",
                "Another program uses the name: rename the key or the destination.",
            ),
            entry(
                "WRONGKEY",
                "A key of the queue holds another type.",
                "Check `source.redisson.name`; another program's key was left as it is.",
            ),
            entry("NOAUTH", "The server asks for a password and none is configured.", "Set `password_file`."),
            entry("WRONGPASS", "The password is wrong.", "Correct the password."),
            entry(
                "CROSSSLOT",
                "Keys of one command are in different slots of a cluster.",
                "Give destination and queue the same hash tag.",
            ),
            entry("EXECABORT", "A transaction was given up.", DEFECT),
            entry("NOPROTO", "The server does not speak this version of the protocol.", "Upgrade the server."),
            entry("NOTBUSY", "There is no script to kill.", DEFECT),
            entry("MISCONF", "The server cannot save to its disk and refuses writes.", "Mend its disk; see its log."),
            entry("UNKILLABLE", "A script that has written cannot be killed.", "Wait for it, or `SHUTDOWN NOSAVE`."),
            entry("UNBLOCKED", "A blocking command was ended.", AGAIN),
            entry("DENIED", "Protected mode refuses the connection.", "Set a password or `bind` on the server."),
            entry("BUSYKEY", "The key exists already.", DEFECT),
            entry("BUSYGROUP", "The consumer group exists already.", DEFECT),
            entry("NOGROUP", "There is no such consumer group.", DEFECT),
            entry(
                "OTHER",
                "A code that this version does not know; with AMQP, a reply code that it does not know.",
                "The message has the other side's words.",
            ),
        ],
    },
    Section {
        title: "Every sink",
        text: "Codes that do not depend on the kind of the sink.",
        entries: &[
            entry(
                "timeout",
                "No confirmation within the sink's `timeout`. It may have arrived.",
                "Look at the other side; raise `timeout` if it is only slow.",
            ),
            entry("hung", "The sink did not even keep its own time-out.", DEFECT),
            entry(
                "not_sent",
                "It waited for its turn until the `timeout`, and was not sent.",
                "The other side is too slow for the load: raise its capacity, or lower `max_in_flight`.",
            ),
            entry("not_connected", "There is no connection.", "See `/readyz` for why; it reconnects by itself."),
            entry("connection_lost", "The connection broke before the answer. It may have arrived.", AGAIN),
            entry(
                "closed",
                "The sink was closed; of standard output: nobody reads it any more.",
                "Restart whoever reads standard output, and delaybridge.",
            ),
            entry(
                "stale_lease",
                "The element's lease was over before its turn came; nothing was sent.",
                "The machine stood still, or is overloaded.",
            ),
            entry("unexpected_reply", "An answer that confirms nothing.", DEFECT),
            entry("wrong_destination", "An element was routed to a sink of another kind.", DEFECT),
            entry("secret", "The file of a password cannot be read.", "Check path and rights."),
            entry("settings", "The client of the sink refuses a setting.", "The message names it."),
            entry(
                "bad_name",
                "No topic or exchange can have this name.",
                "Correct the name, or the template that makes it.",
            ),
            entry(
                "queue_full",
                "More elements wait in the client than it may keep.",
                "Nothing: claiming slows down. The other side is slower than the queue.",
            ),
            entry(
                "client_creation",
                "The client could not be started.",
                "The message has its words; check settings, files and the number of threads allowed.",
            ),
            entry("panic", "A defect made the work on the element fail.", DEFECT),
            entry("io", "Standard output could not be written.", "Check the disk or pipe behind it."),
            entry("encode", "A line of JSON could not be written.", DEFECT),
            entry(
                "unknown_code",
                "A code of Kafka that no table knows.",
                "The message has its number and words; please report it.",
            ),
            entry("check", "`check --live` could not ask.", "Check the number of threads allowed."),
        ],
    },
    Section {
        title: "RabbitMQ and other AMQP 0-9-1 brokers",
        text: "Reply codes of the protocol, and what the connection tells.",
        entries: &[
            entry("NO_ROUTE", "No queue takes the message.", "Bind a queue for this routing key."),
            entry("NO_CONSUMERS", "A queue without consumers.", "Start a consumer."),
            entry("NOT_FOUND", "There is no such exchange.", "Create the exchange, or let the sink `declare` it."),
            entry(
                "ACCESS_REFUSED",
                "The user may not write there, or log in.",
                "Give the user the right; the message names exchange or topic.",
            ),
            entry(
                "RESOURCE_LOCKED",
                "Somebody else has the resource for himself.",
                "Find who; exclusive queues end with their connection.",
            ),
            entry(
                "PRECONDITION_FAILED",
                "The broker has it declared otherwise, or refuses this message.",
                "The message has the broker's words.",
            ),
            entry(
                "CONTENT_TOO_LARGE",
                "The message is larger than the broker takes.",
                "Raise `max_message_size` of the broker, or keep payloads smaller.",
            ),
            entry(
                "HEADERS_TOO_LARGE",
                "Properties and headers do not fit into one frame.",
                "Shorten `headers`, or raise `frame_max` of the broker.",
            ),
            entry("bad_property", "A property's template made a value that it cannot have.", "Correct the template."),
            entry("bad_header", "A header cannot be written.", "Shorten its name."),
            entry(
                "nack",
                "The broker refused the message: a queue is full and rejects, or could not store it.",
                "Look at the limits of the queues bound there.",
            ),
            entry(
                "connection_blocked",
                "The broker has an alarm (memory, disk) and takes nothing.",
                "Give it memory or disk.",
            ),
            entry("unconfirmed", "The channel does not confirm.", DEFECT),
            entry(
                "heartbeat",
                "The broker was silent for too long.",
                "Nothing: it reconnects. Look at the broker and the network if it lasts.",
            ),
            entry("channel_closed", "The channel was closed.", AGAIN),
            entry(
                "protocol",
                "The port does not speak AMQP 0-9-1.",
                "Check the port, and whether it wants `amqps://`.",
            ),
            entry("no_nodes", "No node is given.", "Set `url` or `urls`."),
            entry("CONNECTION_FORCED", "An operator closed the connection.", AGAIN),
            entry("INVALID_PATH", "There is no such virtual host.", "Check the path of `url`."),
            entry(
                "NOT_ALLOWED",
                "The virtual host is not there, or the user may not use it.",
                "Check the path of `url` and the user's rights.",
            ),
            entry("FRAME_ERROR", "A frame that the broker could not read.", DEFECT),
            entry("SYNTAX_ERROR", "A field that the broker could not read.", DEFECT),
            entry("COMMAND_INVALID", "A command at a wrong moment.", DEFECT),
            entry("CHANNEL_ERROR", "A channel that is not open.", DEFECT),
            entry("UNEXPECTED_FRAME", "A frame at a wrong moment.", DEFECT),
            entry("RESOURCE_ERROR", "The broker lacks resources.", "See the broker's log."),
            entry("NOT_IMPLEMENTED", "The broker cannot do it.", "Use RabbitMQ, or a broker with publisher confirms."),
            entry("INTERNAL_ERROR", "The broker failed.", "See the broker's log."),
        ],
    },
    Section {
        title: "Payloads and templates",
        text: "The element's own: such an element is a dead letter, unless `on_decode_error` says otherwise. Where in the \
               payload is told; what stands there is not.",
        entries: &[
            entry("not_utf8", "Not UTF-8.", "Is it `codec: raw` or a binary codec?"),
            entry("not_json", "Not JSON.", "Ask `delaybridge decode` which codec wrote it."),
            entry("json_truncated", "The JSON value is not finished.", "Ask its producer."),
            entry("json_too_deep", "JSON nested deeper than 127 levels.", "Use `codec: raw`."),
            entry("json_trailing", "Text after the JSON value.", "Ask its producer, or use `codec: string`."),
            entry("not_number", "No number in decimal digits.", "Ask `delaybridge decode` which codec wrote it."),
            entry("truncated", "The bytes end within a value.", "Ask `delaybridge decode` which codec wrote it."),
            entry("too_deep", "Nested deeper than 127 levels.", "Use `codec: raw`."),
            entry("trailing", "Bytes after the value.", "Ask `delaybridge decode` which codec wrote it."),
            entry(
                "malformed",
                "A byte that the format does not have there.",
                "Ask `delaybridge decode` which codec wrote it.",
            ),
            entry("lone_surrogate", "Half of a surrogate pair, which is no character.", "Ask its producer."),
            entry(
                "too_large",
                "Larger than `max_decoded_size`; of Kafka, than `max_message_bytes`.",
                "Raise the limit, or keep payloads smaller.",
            ),
            entry(
                "opaque_class",
                "An object that only Java can read.",
                "Let the producer write JSON, or route without its fields: it is passed on as bytes.",
            ),
            entry("unsupported", "Something that the codec does not read.", "`docs/codecs.md` says what is read."),
            entry("not_recognised", "`codec: auto` recognises nothing.", "Name the codec."),
            entry(
                "template_field_missing",
                "A template asks for a field that the element does not have.",
                "Give it a default: `${payload.x:-none}`.",
            ),
            entry(
                "template_result_empty",
                "A template's result is empty.",
                "Give it a default, or correct the payload.",
            ),
            entry(
                "template_result_unfit",
                "A template's result is nothing that the destination could be.",
                "The message says why; correct the template.",
            ),
            entry(
                "not_a_letter",
                "An entry of the dead-letter stream is not one of delaybridge's.",
                "Look at it with `dead show`; whoever wrote it has to read it.",
            ),
        ],
    },
];
