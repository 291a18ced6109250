//! Error codes of RocketMQ with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, DEFECT, code};

pub(super) const TITLE: &str = "RocketMQ";
pub(super) const TEXT: &str = "Answers of brokers and name servers. The message quotes the server.";

pub(super) const CODES: &[Code] = &[
    code(
        "rocketmq_no_topic",
        "The name server or the broker has no such topic. The sink makes none.",
        "Create the topic (`mqadmin updateTopic`), or correct `topic`.",
    ),
    code(
        "rocketmq_denied",
        "The access key lacks the right to send to the topic, or the topic or the broker takes no messages.",
        "Grant the right `PUB`. Look at `perm` of the topic, and at `brokerPermission`.",
    ),
    code(
        "rocketmq_auth",
        "The server does not accept the access key or the signature.",
        "Check access key and secret.",
    ),
    code(
        "rocketmq_busy",
        "The broker or the name server has too much to do, and has not taken the message.",
        "Nothing: claims slow down. If it lasts, look at the broker's disk and load.",
    ),
    code(
        "rocketmq_not_writable",
        "The broker stores nothing now: its disk is full, it is no master any more, or it is shutting down.",
        "Nothing: claims slow down, and other brokers are used. Free space on its disk.",
    ),
    code(
        "rocketmq_illegal",
        "The broker does not take the message: it or its properties are too large.",
        "Raise `maxMessageSize` of the brokers, or keep payloads smaller; then redrive.",
    ),
    code(
        "rocketmq_unfit",
        "No broker can take the message: its body, headers, tags or keys are too large, or have a control character.",
        "Correct what the message names, then redrive.",
    ),
    code("rocketmq_flush_disk", "The broker has the message, but not on its disk in time. It may have arrived.", AGAIN),
    code("rocketmq_flush_slave", "The master has the message, but no slave in time. It may have arrived.", AGAIN),
    code(
        "rocketmq_no_slave",
        "The master has the message, and no slave to copy it to.",
        "Bring a slave back. `slave_not_available: accept` lets it count as delivered.",
    ),
    code("rocketmq_route", "The route of the topic has changed, and was asked for again.", AGAIN),
    code("rocketmq_no_master", "No broker of the topic has a master now.", "Bring one back."),
    code("rocketmq_no_broker", "No broker is registered at the name server.", "Check brokers and `name_servers`."),
    code("rocketmq_unavailable", "The server refused the request for the moment.", AGAIN),
    code(
        "rocketmq_system_error",
        "The broker failed with an error of its own. The message may have arrived.",
        "See the broker's log.",
    ),
    code(
        "rocketmq_refused",
        "The server does not take this kind of request.",
        "The message names why. Check the port.",
    ),
    code("rocketmq_protocol", "The port does not speak the remoting protocol.", "Check the port, and `tls`."),
    code("rocketmq_error", "An answer that this version does not know.", DEFECT),
];
