//! The table of errors of NATS: class, cause and cure of each code.

use delaybridge_core::codes::AGAIN;
use delaybridge_sink::error_table;

pub(super) const TITLE: &str = "NATS";
pub(super) const TEXT: &str = "Answers of streams and servers. A stream drops repeats within its `duplicate_window`.";

const CLUSTER: &str = "Nothing: it is retried. If it lasts, check the cluster.";

error_table! {
    NO_STREAM = TargetPermanent "nats_no_stream":
        "No stream takes the subject.",
        "Create one, or add the subject to one.";
    NO_LEADER = Transient "nats_no_leader": "None of the stream's servers answers.", CLUSTER;
    JETSTREAM_OFF = TargetPermanent "nats_jetstream_off": "Server or account has no JetStream.", "Enable JetStream for the account.";
    STREAM_FULL = Backpressure "nats_stream_full":
        "The stream is at a limit and discards new messages.",
        "Raise its limits, or let consumers catch up.";
    STORE_FAILED = Transient "nats_store_failed":
        "The server could not store the message.",
        "See the log of the server.";
    TOO_LARGE = MessagePermanent "nats_too_large":
        "Larger than the server's `max_payload` or the stream's `max_msg_size`.",
        "Raise the limit or send smaller payloads, then redrive.";
    HEADERS_TOO_LARGE = MessagePermanent "nats_headers_too_large":
        "The headers have more than 64 KiB.",
        "Shorten `headers`, then redrive.";
    BAD_HEADER = MessagePermanent "nats_bad_header":
        "A header's value has a line break.",
        "Correct its template, then redrive.";
    SEALED = TargetPermanent "nats_sealed": "The stream is sealed.", "Publish to another stream.";
    NO_RESOURCES = Backpressure "nats_no_resources":
        "JetStream or the account is out of memory or disk, or too much waits to be stored.",
        "Give JetStream or the account more memory or disk.";
    UNAVAILABLE = Transient "nats_unavailable": "The stream or JetStream is not ready.", CLUSTER;
    IN_PROCESS = Transient "nats_in_process": "A first copy is about to be stored.", AGAIN;
    DENIED = TargetPermanent "nats_denied": "The user lacks a right.", "Grant it; the message names the subject.";
    AUTH = TargetPermanent "nats_auth":
        "The server does not accept the login.",
        "Check the user, the password or the key.";
    REFUSED = Transient "nats_refused":
        "The server refused the connection otherwise.",
        "The message quotes the server.";
    PROTOCOL = TargetPermanent "nats_protocol":
        "The port does not speak NATS.",
        "Check the port, and whether it needs `tls: {}`.";
    TOO_OLD = TargetPermanent "nats_too_old":
        "The server is older than 2.2: it knows no headers.",
        "Upgrade the server.";
    SILENT = Transient "nats_silent":
        "The server does not answer.",
        "The sink reconnects. If it lasts, check server and network.";
    ERROR = Unknown "nats_error": "An answer that this version does not know.", "See the server's log, and report the answer.";
}
