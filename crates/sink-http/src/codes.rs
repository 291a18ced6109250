//! Error codes of webhooks with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, code};

pub(super) const TITLE: &str = "HTTP";
pub(super) const TEXT: &str = "Statuses of webhooks, and events of the connection. A request that may have arrived is `ambiguous`; `Idempotency-Key` identifies a second copy.";

const REFUSED: &str = "See the receiver's log; correct it or the message, then redrive.";
const MAYBE: &str = "See the receiver's log; it is tried again.";
const BUSY: &str = "Nothing: delivery resumes after `Retry-After` or a growing wait. If it lasts, lower `max_rate`.";

pub(super) const CODES: &[Code] = &[
    code("http_3xx", "A redirect, which is not followed.", "Correct `url`; the message names the target."),
    code("http_400", "Bad Request.", REFUSED),
    code("http_401", "Unauthorized.", "Check `bearer_token_file` or `headers`."),
    code("http_403", "Forbidden.", "Give the sender the right, or correct `url`."),
    code("http_404", "Not Found.", "Correct `url` or `path`."),
    code("http_405", "Method Not Allowed.", "Correct `method`, `url` or `path`."),
    code("http_408", "Request Timeout.", BUSY),
    code(
        "http_409",
        "Conflict, for an element that the receiver may still work on.",
        "Nothing: it is sent again after `Retry-After` or a growing wait, from an hour on as counted attempts.",
    ),
    code("http_410", "Gone.", "Correct `url` or `path`, or remove the destination."),
    code("http_413", "Content Too Large.", "Raise the receiver's limit, or send smaller payloads."),
    code(
        "http_415",
        "Unsupported Media Type.",
        "Set `headers: { content-type: application/json }` or the like, then redrive.",
    ),
    code("http_422", "Unprocessable Content.", REFUSED),
    code("http_425", "Too Early.", BUSY),
    code("http_429", "Too Many Requests.", BUSY),
    code("http_4xx", "Another status from 400 to 499.", "The message has the status."),
    code("http_500", "Internal Server Error.", MAYBE),
    code("http_502", "Bad Gateway: a proxy did not reach the receiver, or lost it.", MAYBE),
    code("http_503", "Service Unavailable.", BUSY),
    code("http_504", "Gateway Timeout: the receiver did not answer a proxy.", MAYBE),
    code("http_5xx", "Another status from 500 to 599.", MAYBE),
    code("http_other", "A status that HTTP does not have.", "The message has the status."),
    code("http_truncated", "The connection broke within a success.", AGAIN),
    code(
        "http_unreadable",
        "The answer's head cannot be read: its status is no number, its lengths differ, or it exceeds 64 KiB. It counts as an attempt.",
        "Correct the program that writes the answer.",
    ),
    code("http_garbage", "The answer is not HTTP.", "Check the port and whether it needs `https://`."),
    code("retry_after", "The server's pause is not over; nothing was sent.", BUSY),
    code("http_bad_path", "Path or query cannot be sent.", "Correct the template, then redrive."),
    code("http_bad_header", "A header cannot be sent.", "Correct its name or its template, then redrive."),
];
