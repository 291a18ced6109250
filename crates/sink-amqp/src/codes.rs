//! The table of errors of AMQP: class, cause and cure of each code.

use delaybridge_core::codes::{AGAIN, DEFECT};
use delaybridge_sink::error_table;

pub(super) const TITLE: &str = "RabbitMQ and other AMQP 0-9-1 brokers";
pub(super) const TEXT: &str = "Reply codes of the protocol, and events of the connection.";

error_table! {
    NO_ROUTE = TargetPermanent "NO_ROUTE": "No queue accepts the message.", "Bind a queue for this routing key.";
    NO_CONSUMERS = Unknown "NO_CONSUMERS": "The queue has no consumers.", "Start a consumer.";
    NOT_FOUND = TargetPermanent "NOT_FOUND": "There is no such exchange.", "Create it, or let the sink `declare` it.";
    ACCESS_REFUSED = TargetPermanent "ACCESS_REFUSED":
        "The user may not write there, or log in.",
        "Grant the right to write to the exchange or topic, or to log in.";
    RESOURCE_LOCKED = TargetPermanent "RESOURCE_LOCKED":
        "Another connection has exclusive access.",
        "Find that connection; exclusive queues end with it.";
    PRECONDITION_FAILED = MessagePermanent "PRECONDITION_FAILED":
        "The declaration differs, or the message is refused.",
        "Correct what the broker names.";
    CONTENT_TOO_LARGE = MessagePermanent "CONTENT_TOO_LARGE":
        "The message is larger than the broker accepts.",
        "Raise the broker's `max_message_size`, or send smaller payloads.";
    HEADERS_TOO_LARGE = MessagePermanent "HEADERS_TOO_LARGE":
        "Properties and headers do not fit into one frame.",
        "Shorten `headers`, drop large ones by `headers_from_message`, or raise `frame_max` here and at the broker.";
    BAD_PROPERTY = MessagePermanent "bad_property":
        "A property's template gives an invalid value.",
        "Correct the template.";
    BAD_HEADER = MessagePermanent "bad_header": "A header is too long.", "Shorten its name.";
    NACK = Backpressure "nack":
        "A queue is full and rejects, or could not store the message.",
        "Check the limits of the bound queues.";
    CONNECTION_BLOCKED = Backpressure "connection_blocked":
        "An alarm (memory, disk): the broker accepts nothing.",
        "Give it memory or disk.";
    UNCONFIRMED = Ambiguous "unconfirmed": "The channel is not in confirm mode.", DEFECT;
    HEARTBEAT = Ambiguous "heartbeat":
        "The broker was silent for too long.",
        "Nothing: the sink reconnects. If it lasts, check broker and network.";
    CHANNEL_CLOSED = Ambiguous "channel_closed": "The channel was closed.", AGAIN;
    PROTOCOL = TargetPermanent "protocol":
        "The port does not speak AMQP 0-9-1.",
        "Check the port and whether it needs `amqps://`.";
    NO_NODES = TargetPermanent "no_nodes": "No node is configured.", "Set `url` or `urls`.";
    CONNECTION_FORCED = Ambiguous "CONNECTION_FORCED": "An operator closed the connection.", AGAIN;
    INVALID_PATH = Ambiguous "INVALID_PATH": "There is no such virtual host.", "Check the path of `url`.";
    NOT_ALLOWED = Ambiguous "NOT_ALLOWED":
        "There is no such virtual host, or no right to it.",
        "Check the path of `url` and the rights.";
    FRAME_ERROR = Ambiguous "FRAME_ERROR": "The broker could not read a frame.", DEFECT;
    SYNTAX_ERROR = Ambiguous "SYNTAX_ERROR": "The broker could not read a field.", DEFECT;
    COMMAND_INVALID = Ambiguous "COMMAND_INVALID": "The broker received a command in the wrong state.", DEFECT;
    CHANNEL_ERROR = Ambiguous "CHANNEL_ERROR": "The channel is not open.", DEFECT;
    UNEXPECTED_FRAME = Ambiguous "UNEXPECTED_FRAME": "The broker received a frame in the wrong state.", DEFECT;
    STREAM = TargetPermanent "stream":
        "The queue of an input is a stream.",
        "Bind a classic or quorum queue to the exchange, and name it in `queue`.";
    RESOURCE_ERROR = Ambiguous "RESOURCE_ERROR": "The broker lacks resources.", "See the broker's log.";
    NOT_IMPLEMENTED = Ambiguous "NOT_IMPLEMENTED":
        "The broker does not implement it.",
        "Use a broker with publisher confirms, as RabbitMQ.";
    INTERNAL_ERROR = Ambiguous "INTERNAL_ERROR": "The broker failed.", "See the broker's log.";
}
