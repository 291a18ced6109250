//! Error codes of RocketMQ with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, DEFECT, code};

pub(super) const TITLE: &str = "RocketMQ";
pub(super) const TEXT: &str = "Answers of brokers and name servers. The message quotes the server.";

pub(super) const CODES: &[Code] = &[
    code(
        "rocketmq_no_topic",
        "Name server or broker has no such topic.",
        "Create the topic (`mqadmin updateTopic`), or correct `topic`.",
    ),
    code(
        "rocketmq_denied",
        "The access key may not send to the topic, or topic or broker takes no messages.",
        "Grant `PUB`; check `perm` of the topic and `brokerPermission`.",
    ),
    code("rocketmq_auth", "The access key or the signature is refused.", "Check access key and secret."),
    code(
        "rocketmq_busy",
        "Broker or name server is overloaded, and did not take the message.",
        "Nothing: claims slow down. If it lasts, check the broker's disk and load.",
    ),
    code(
        "rocketmq_not_writable",
        "The broker stores nothing: its disk is full, it is no master any more, or it shuts down.",
        "Free space on its disk. Other brokers are used meanwhile.",
    ),
    code(
        "rocketmq_illegal",
        "The message or its properties are too large for the broker.",
        "Raise `maxMessageSize` or send smaller payloads, then redrive.",
    ),
    code(
        "rocketmq_unfit",
        "No broker can take it: body, headers, tags or keys are too large, or have a control character.",
        "Correct what the message names, then redrive.",
    ),
    code("rocketmq_flush_disk", "The broker did not write the message to disk in time. It may have arrived.", AGAIN),
    code("rocketmq_flush_slave", "No slave had the message in time. It may have arrived.", AGAIN),
    code(
        "rocketmq_no_slave",
        "The master has the message, but no slave.",
        "Bring a slave back, or write `slave_not_available: accept`.",
    ),
    code("rocketmq_route", "The topic's route has changed.", AGAIN),
    code("rocketmq_no_master", "No broker of the topic has a master.", "Bring one back."),
    code("rocketmq_no_broker", "No broker is registered at the name server.", "Check brokers and `name_servers`."),
    code("rocketmq_unavailable", "The server refused the request for the moment.", AGAIN),
    code("rocketmq_system_error", "The broker failed. The message may have arrived.", "See the broker's log."),
    code(
        "rocketmq_refused",
        "The server does not take this kind of request.",
        "Check the port; the message names why.",
    ),
    code("rocketmq_protocol", "The port does not speak the remoting protocol.", "Check the port and `tls`."),
    code("rocketmq_error", "An answer that this version does not know.", DEFECT),
];
