//! Error codes of NATS with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, DEFECT, code};

pub(super) const TITLE: &str = "NATS";
pub(super) const TEXT: &str = "Answers of streams and servers. A stream drops repeats within its `duplicate_window`.";

const CLUSTER: &str = "Nothing: it is retried. If it lasts, check the cluster.";

pub(super) const CODES: &[Code] = &[
    code("nats_no_stream", "No stream takes the subject.", "Create one, or add the subject to one."),
    code("nats_no_leader", "None of the stream's servers answers.", CLUSTER),
    code("nats_jetstream_off", "Server or account has no JetStream.", "Enable it."),
    code(
        "nats_stream_full",
        "The stream is at a limit and discards new messages.",
        "Raise its limits, or let consumers catch up.",
    ),
    code("nats_store_failed", "The server could not store the message.", "See the log of the server."),
    code(
        "nats_too_large",
        "Larger than the server's `max_payload` or the stream's `max_msg_size`.",
        "Raise the limit or send smaller payloads, then redrive.",
    ),
    code("nats_headers_too_large", "The headers have more than 64 KiB.", "Shorten `headers`, then redrive."),
    code("nats_bad_header", "A header's value has a line break.", "Correct its template, then redrive."),
    code("nats_sealed", "The stream is sealed.", "Publish to another stream."),
    code(
        "nats_no_resources",
        "JetStream or the account is out of memory or disk, or too much waits to be stored.",
        "Give it more.",
    ),
    code("nats_unavailable", "The stream or JetStream is not ready.", CLUSTER),
    code("nats_in_process", "A first copy is about to be stored.", AGAIN),
    code("nats_denied", "The user lacks a right.", "Grant it; the message names the subject."),
    code("nats_auth", "The server does not accept the login.", "Check the user, the password or the key."),
    code("nats_refused", "The server refused the connection otherwise.", "The message quotes the server."),
    code("nats_protocol", "The port does not speak NATS.", "Check the port, and whether it needs `tls: {}`."),
    code("nats_too_old", "The server is older than 2.2: it knows no headers.", "Upgrade the server."),
    code("nats_silent", "The server does not answer.", "The sink reconnects. If it lasts, check server and network."),
    code("nats_error", "An answer that this version does not know.", DEFECT),
];
