//! The table of errors of RocketMQ: class, cause and cure of each code.

use delaybridge_core::codes::AGAIN;
use delaybridge_sink::error_table;

pub(super) const TITLE: &str = "RocketMQ";
pub(super) const TEXT: &str = "Answers of brokers and name servers. The message quotes the server.";

error_table! {
    NO_TOPIC = TargetPermanent "rocketmq_no_topic":
        "Name server or broker has no such topic.",
        "Create the topic (`mqadmin updateTopic`), or correct `topic`.";
    DENIED = TargetPermanent "rocketmq_denied":
        "The access key may not send to the topic, or topic or broker takes no messages.",
        "Grant `PUB`; check `perm` of the topic and `brokerPermission`.";
    AUTH = TargetPermanent "rocketmq_auth":
        "The access key or the signature is refused.",
        "Check access key and secret.";
    BUSY = Backpressure "rocketmq_busy":
        "Broker or name server is overloaded, and did not take the message.",
        "Nothing: claims slow down. If it lasts, check the broker's disk and load.";
    NOT_WRITABLE = Backpressure "rocketmq_not_writable":
        "The broker stores nothing: its disk is full, it is no master any more, or it shuts down.",
        "Free space on its disk. Other brokers are used meanwhile.";
    ILLEGAL = MessagePermanent "rocketmq_illegal":
        "The message or its properties are too large for the broker.",
        "Raise `maxMessageSize` or send smaller payloads, then redrive.";
    UNFIT = MessagePermanent "rocketmq_unfit":
        "No broker can take it: body, headers, tags or keys are too large, or have a control character.",
        "Correct what the message names, then redrive.";
    FLUSH_DISK = Ambiguous "rocketmq_flush_disk":
        "The broker did not write the message to disk in time. It may have arrived.",
        AGAIN;
    FLUSH_SLAVE = Ambiguous "rocketmq_flush_slave": "No slave had the message in time. It may have arrived.", AGAIN;
    NO_SLAVE = Ambiguous "rocketmq_no_slave":
        "The master has the message, but no slave.",
        "Bring a slave back, or write `slave_not_available: accept`.";
    ROUTE = Transient "rocketmq_route": "The topic's route has changed.", AGAIN;
    NO_MASTER = Transient "rocketmq_no_master": "No broker of the topic has a master.", "Bring one back.";
    NO_BROKER = Transient "rocketmq_no_broker":
        "No broker is registered at the name server.",
        "Check brokers and `name_servers`.";
    UNAVAILABLE = Transient "rocketmq_unavailable": "The server refused the request for the moment.", AGAIN;
    SYSTEM_ERROR = Ambiguous "rocketmq_system_error":
        "The broker failed. The message may have arrived.",
        "See the broker's log.";
    REFUSED = TargetPermanent "rocketmq_refused":
        "The server does not take this kind of request.",
        "Check the port, and the server's log.";
    PROTOCOL = TargetPermanent "rocketmq_protocol":
        "The port does not speak the remoting protocol.",
        "Check the port and `tls`.";
    ERROR = Unknown "rocketmq_error": "An answer that this version does not know.", "See the server's log, and report the answer.";
}
