//! Error codes of AMQP 1.0 with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, DEFECT, code};

pub(super) const TITLE: &str = "AMQP 1.0";
pub(super) const TEXT: &str =
    "Outcomes, and conditions with which a broker ends a link, session or connection. The message quotes the broker.";

pub(super) const CODES: &[Code] = &[
    code("amqp1_not_found", "There is no such address, or it was deleted.", "Create it, or correct `address`."),
    code("amqp1_denied", "The user lacks the right to send to the address.", "Grant it."),
    code(
        "amqp1_no_credit",
        "The broker grants no credit: the address is full, blocked, or slower than the queue.",
        "Let consumers catch up, or raise the address's limit. Claims slow down meanwhile.",
    ),
    code("amqp1_full", "Address or broker has reached a limit.", "Raise it, or let consumers catch up."),
    code(
        "amqp1_no_link",
        "More than `max_links` addresses have work.",
        "Raise `max_links`. Claims slow down meanwhile.",
    ),
    code(
        "amqp1_too_large",
        "The message is larger than the broker takes.",
        "Raise the limit or send smaller payloads, then redrive.",
    ),
    code("amqp1_rejected", "The broker rejects the message.", "Correct what it names, then redrive."),
    code("amqp1_undeliverable", "The broker says that the message cannot be delivered here.", "See its log; redrive."),
    code("amqp1_released", "The broker did not take the message and asks for it again.", AGAIN),
    code("amqp1_modified", "A delivery within the broker failed.", AGAIN),
    code("amqp1_detached", "The broker ended the link before the answer. It may have arrived.", AGAIN),
    code("amqp1_unavailable", "The broker ended the link, or refused for the moment.", AGAIN),
    code("amqp1_refused", "The broker refuses the link, the connection or a setting.", "The message names why."),
    code("amqp1_auth", "The broker does not accept the login.", "Check the user and the password."),
    code("amqp1_protocol", "The port does not speak AMQP 1.0.", "Check the port, and whether it needs `amqps://`."),
    code("amqp1_silent", "The broker does not answer.", "The sink reconnects. If it lasts, check broker and network."),
    code("amqp1_error", "An unknown condition or outcome.", DEFECT),
];
