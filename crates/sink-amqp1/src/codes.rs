//! The table of errors of AMQP 1.0: class, cause and cure of each code.

use delaybridge_core::codes::AGAIN;
use delaybridge_sink::error_table;

pub(super) const TITLE: &str = "AMQP 1.0";
pub(super) const TEXT: &str =
    "Outcomes, and conditions with which a broker ends a link, session or connection. The message quotes the broker.";

error_table! {
    NOT_FOUND = TargetPermanent "amqp1_not_found":
        "There is no such address, or it was deleted.",
        "Create it, or correct `address`.";
    DENIED = TargetPermanent "amqp1_denied": "The user lacks the right to send to the address.", "Grant it.";
    NO_CREDIT = Backpressure "amqp1_no_credit":
        "The broker grants no credit: the address is full, blocked, or slower than the queue.",
        "Let consumers catch up, or raise the address's limit. Claims slow down meanwhile.";
    FULL = Backpressure "amqp1_full": "Address or broker has reached a limit.", "Raise it, or let consumers catch up.";
    NO_LINK = Backpressure "amqp1_no_link":
        "More than `max_links` addresses have work.",
        "Raise `max_links`. Claims slow down meanwhile.";
    TOO_LARGE = MessagePermanent "amqp1_too_large":
        "The message is larger than the broker takes.",
        "Raise the limit or send smaller payloads, then redrive.";
    REJECTED = MessagePermanent "amqp1_rejected":
        "The broker rejects the message.",
        "Correct what it names, then redrive.";
    UNDELIVERABLE = MessagePermanent "amqp1_undeliverable":
        "The broker says that the message cannot be delivered here.",
        "See its log; redrive.";
    RELEASED = Transient "amqp1_released": "The broker did not take the message and asks for it again.", AGAIN;
    MODIFIED = Transient "amqp1_modified": "A delivery within the broker failed.", AGAIN;
    DETACHED = Ambiguous "amqp1_detached": "The broker ended the link before the answer. It may have arrived.", AGAIN;
    UNAVAILABLE = Transient "amqp1_unavailable": "The broker ended the link, or refused for the moment.", AGAIN;
    REFUSED = TargetPermanent "amqp1_refused":
        "The broker refuses the link, the connection or a setting.",
        "See the broker's log.";
    AUTH = TargetPermanent "amqp1_auth": "The broker does not accept the login.", "Check the user and the password.";
    PROTOCOL = TargetPermanent "amqp1_protocol":
        "The port does not speak AMQP 1.0.",
        "Check the port, and whether it needs `amqps://`.";
    SILENT = Transient "amqp1_silent":
        "The broker does not answer.",
        "The sink reconnects. If it lasts, check broker and network.";
    ERROR = Unknown "amqp1_error": "An unknown condition or outcome.", "See the server's log, and report the answer.";
}
