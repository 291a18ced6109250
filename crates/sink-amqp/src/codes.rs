//! Error codes of AMQP with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, DEFECT, code};

pub(super) const TITLE: &str = "RabbitMQ and other AMQP 0-9-1 brokers";
pub(super) const TEXT: &str = "Reply codes of the protocol, and what the connection tells.";

pub(super) const CODES: &[Code] = &[
    code("NO_ROUTE", "No queue accepts the message.", "Bind a queue for this routing key."),
    code("NO_CONSUMERS", "A queue without consumers.", "Start a consumer."),
    code("NOT_FOUND", "There is no such exchange.", "Create the exchange, or let the sink `declare` it."),
    code(
        "ACCESS_REFUSED",
        "The user lacks the right to write there, or to log in.",
        "Grant the right. The message names the exchange or topic.",
    ),
    code(
        "RESOURCE_LOCKED",
        "Another connection has exclusive access.",
        "Find that connection. Exclusive queues end with it.",
    ),
    code(
        "PRECONDITION_FAILED",
        "The broker has a different declaration, or refuses this message.",
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
        "Shorten `headers`, name large headers of a message in `headers_from_message`, or raise `frame_max` here and at the broker.",
    ),
    code("bad_property", "A property's template gave an invalid value.", "Correct the template."),
    code("bad_header", "A header is too long.", "Shorten its name."),
    code(
        "nack",
        "The broker refused the message: a queue is full and rejects it, or could not store it.",
        "Check the limits of the bound queues.",
    ),
    code(
        "connection_blocked",
        "The broker has an alarm (memory, disk) and accepts nothing.",
        "Give it more memory or disk.",
    ),
    code("unconfirmed", "The channel is not in confirm mode.", DEFECT),
    code(
        "heartbeat",
        "The broker was silent for too long.",
        "Nothing: the sink reconnects. If it persists, check the broker and the network.",
    ),
    code("channel_closed", "The channel was closed.", AGAIN),
    code("protocol", "The port does not speak AMQP 0-9-1.", "Check the port, and whether it needs `amqps://`."),
    code("no_nodes", "No node is configured.", "Set `url` or `urls`."),
    code("CONNECTION_FORCED", "An operator closed the connection.", AGAIN),
    code("INVALID_PATH", "There is no such virtual host.", "Check the path of `url`."),
    code(
        "NOT_ALLOWED",
        "The virtual host does not exist, or the user lacks the right to it.",
        "Check the path of `url` and the user's rights.",
    ),
    code("FRAME_ERROR", "The broker could not read a frame.", DEFECT),
    code("SYNTAX_ERROR", "The broker could not read a field.", DEFECT),
    code("COMMAND_INVALID", "The broker received a command in the wrong state.", DEFECT),
    code("CHANNEL_ERROR", "The channel is not open.", DEFECT),
    code("UNEXPECTED_FRAME", "The broker received a frame in the wrong state.", DEFECT),
    code(
        "stream",
        "The queue of an input is a stream.",
        "Bind a classic or quorum queue to the same exchange, and name it in `queue`.",
    ),
    code("RESOURCE_ERROR", "The broker lacks resources.", "See the broker's log."),
    code("NOT_IMPLEMENTED", "The broker does not implement it.", "Use RabbitMQ, or a broker with publisher confirms."),
    code("INTERNAL_ERROR", "The broker failed.", "See the broker's log."),
];
