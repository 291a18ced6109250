//! Error codes of AMQP with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, DEFECT, code};

pub(super) const TITLE: &str = "RabbitMQ and other AMQP 0-9-1 brokers";
pub(super) const TEXT: &str = "Reply codes of the protocol, and events of the connection.";

pub(super) const CODES: &[Code] = &[
    code("NO_ROUTE", "No queue accepts the message.", "Bind a queue for this routing key."),
    code("NO_CONSUMERS", "The queue has no consumers.", "Start a consumer."),
    code("NOT_FOUND", "There is no such exchange.", "Create it, or let the sink `declare` it."),
    code(
        "ACCESS_REFUSED",
        "The user may not write there, or log in.",
        "Grant the right; the message names the exchange or topic.",
    ),
    code(
        "RESOURCE_LOCKED",
        "Another connection has exclusive access.",
        "Find that connection; exclusive queues end with it.",
    ),
    code(
        "PRECONDITION_FAILED",
        "The declaration differs, or the message is refused.",
        "The message quotes the broker.",
    ),
    code(
        "CONTENT_TOO_LARGE",
        "The message is larger than the broker accepts.",
        "Raise the broker's `max_message_size`, or send smaller payloads.",
    ),
    code(
        "HEADERS_TOO_LARGE",
        "Properties and headers do not fit into one frame.",
        "Shorten `headers`, drop large ones by `headers_from_message`, or raise `frame_max` here and at the broker.",
    ),
    code("bad_property", "A property's template gives an invalid value.", "Correct the template."),
    code("bad_header", "A header is too long.", "Shorten its name."),
    code(
        "nack",
        "A queue is full and rejects, or could not store the message.",
        "Check the limits of the bound queues.",
    ),
    code("connection_blocked", "An alarm (memory, disk): the broker accepts nothing.", "Give it memory or disk."),
    code("unconfirmed", "The channel is not in confirm mode.", DEFECT),
    code(
        "heartbeat",
        "The broker was silent for too long.",
        "Nothing: the sink reconnects. If it lasts, check broker and network.",
    ),
    code("channel_closed", "The channel was closed.", AGAIN),
    code("protocol", "The port does not speak AMQP 0-9-1.", "Check the port and whether it needs `amqps://`."),
    code("no_nodes", "No node is configured.", "Set `url` or `urls`."),
    code("CONNECTION_FORCED", "An operator closed the connection.", AGAIN),
    code("INVALID_PATH", "There is no such virtual host.", "Check the path of `url`."),
    code("NOT_ALLOWED", "There is no such virtual host, or no right to it.", "Check the path of `url` and the rights."),
    code("FRAME_ERROR", "The broker could not read a frame.", DEFECT),
    code("SYNTAX_ERROR", "The broker could not read a field.", DEFECT),
    code("COMMAND_INVALID", "The broker received a command in the wrong state.", DEFECT),
    code("CHANNEL_ERROR", "The channel is not open.", DEFECT),
    code("UNEXPECTED_FRAME", "The broker received a frame in the wrong state.", DEFECT),
    code(
        "stream",
        "The queue of an input is a stream.",
        "Bind a classic or quorum queue to the exchange, and name it in `queue`.",
    ),
    code("RESOURCE_ERROR", "The broker lacks resources.", "See the broker's log."),
    code("NOT_IMPLEMENTED", "The broker does not implement it.", "Use a broker with publisher confirms, as RabbitMQ."),
    code("INTERNAL_ERROR", "The broker failed.", "See the broker's log."),
];
