//! Error codes of AMQP with their causes and cures.

use crate::codes::{AGAIN, Code, DEFECT, code};

pub(super) const TITLE: &str = "RabbitMQ and other AMQP 0-9-1 brokers";
pub(super) const TEXT: &str = "Reply codes of the protocol, and what the connection tells.";

pub(super) const CODES: &[Code] = &[
    code("NO_ROUTE", "No queue takes the message.", "Bind a queue for this routing key."),
    code("NO_CONSUMERS", "A queue without consumers.", "Start a consumer."),
    code("NOT_FOUND", "There is no such exchange.", "Create the exchange, or let the sink `declare` it."),
    code(
        "ACCESS_REFUSED",
        "The user may not write there, or log in.",
        "Give the user the right; the message names exchange or topic.",
    ),
    code(
        "RESOURCE_LOCKED",
        "Somebody else has the resource for himself.",
        "Find who; exclusive queues end with their connection.",
    ),
    code(
        "PRECONDITION_FAILED",
        "The broker has it declared otherwise, or refuses this message.",
        "The message has the broker's words.",
    ),
    code(
        "CONTENT_TOO_LARGE",
        "The message is larger than the broker takes.",
        "Raise `max_message_size` of the broker, or keep payloads smaller.",
    ),
    code(
        "HEADERS_TOO_LARGE",
        "Properties and headers do not fit into one frame.",
        "Shorten `headers`, or raise `frame_max` of the broker.",
    ),
    code("bad_property", "A property's template made a value that it cannot have.", "Correct the template."),
    code("bad_header", "A header cannot be written.", "Shorten its name."),
    code(
        "nack",
        "The broker refused the message: a queue is full and rejects, or could not store it.",
        "Look at the limits of the queues bound there.",
    ),
    code("connection_blocked", "The broker has an alarm (memory, disk) and takes nothing.", "Give it memory or disk."),
    code("unconfirmed", "The channel does not confirm.", DEFECT),
    code(
        "heartbeat",
        "The broker was silent for too long.",
        "Nothing: it reconnects. Look at the broker and the network if it lasts.",
    ),
    code("channel_closed", "The channel was closed.", AGAIN),
    code("protocol", "The port does not speak AMQP 0-9-1.", "Check the port, and whether it wants `amqps://`."),
    code("no_nodes", "No node is given.", "Set `url` or `urls`."),
    code("CONNECTION_FORCED", "An operator closed the connection.", AGAIN),
    code("INVALID_PATH", "There is no such virtual host.", "Check the path of `url`."),
    code(
        "NOT_ALLOWED",
        "The virtual host is not there, or the user may not use it.",
        "Check the path of `url` and the user's rights.",
    ),
    code("FRAME_ERROR", "A frame that the broker could not read.", DEFECT),
    code("SYNTAX_ERROR", "A field that the broker could not read.", DEFECT),
    code("COMMAND_INVALID", "A command at a wrong moment.", DEFECT),
    code("CHANNEL_ERROR", "A channel that is not open.", DEFECT),
    code("UNEXPECTED_FRAME", "A frame at a wrong moment.", DEFECT),
    code("RESOURCE_ERROR", "The broker lacks resources.", "See the broker's log."),
    code("NOT_IMPLEMENTED", "The broker cannot do it.", "Use RabbitMQ, or a broker with publisher confirms."),
    code("INTERNAL_ERROR", "The broker failed.", "See the broker's log."),
];
