//! Error codes of webhooks with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, code};

pub(super) const TITLE: &str = "HTTP";
pub(super) const TEXT: &str = "Statuses of webhooks, and what the connection tells. A request that may have arrived is \
     `ambiguous`; the receiver recognises a second copy by `Idempotency-Key`.";

const REFUSED: &str = "See the receiver's log; correct the message or the receiver, then redrive.";
const MAYBE: &str = "See the receiver's log. It is tried again.";
const BUSY: &str =
    "Nothing: delivery resumes after `Retry-After`, or after a growing wait. Lower `max_rate` if it lasts.";

pub(super) const CODES: &[Code] = &[
    code(
        "http_3xx",
        "The server redirects, and redirects are not followed.",
        "Correct `url`; the message names the server that it points to.",
    ),
    code("http_400", "Bad Request: the receiver does not take this message.", REFUSED),
    code(
        "http_401",
        "Unauthorized: the receiver does not accept the sender.",
        "Check `bearer_token_file` or `headers`.",
    ),
    code("http_403", "Forbidden: the sender may not do this.", "Give the sender the right, or correct `url`."),
    code("http_404", "Not Found: there is nothing at this path.", "Correct `url` or `path`."),
    code("http_405", "Method Not Allowed.", "Correct `method`, `url` or `path`."),
    code("http_408", "Request Timeout: the server stopped waiting for the request.", BUSY),
    code(
        "http_409",
        "Conflict, for an element that the receiver may have had before: it may still work on that request.",
        "Nothing: the element is sent again after `Retry-After`, or after a growing wait. After an hour it counts as an attempt.",
    ),
    code("http_410", "Gone: the path was removed.", "Correct `url` or `path`, or remove the destination."),
    code("http_413", "Content Too Large.", "Raise the limit of the receiver, or keep payloads smaller."),
    code(
        "http_415",
        "Unsupported Media Type.",
        "Name the type, as `headers: { content-type: application/json }`, then redrive.",
    ),
    code("http_422", "Unprocessable Content: the receiver does not take this message.", REFUSED),
    code("http_425", "Too Early.", BUSY),
    code("http_429", "Too Many Requests.", BUSY),
    code("http_4xx", "Another status from 400 to 499.", "The message has the status."),
    code("http_500", "Internal Server Error.", MAYBE),
    code("http_502", "Bad Gateway: a proxy could not reach the receiver, or lost the connection.", MAYBE),
    code("http_503", "Service Unavailable.", BUSY),
    code("http_504", "Gateway Timeout: a proxy got no answer from the receiver in time.", MAYBE),
    code("http_5xx", "Another status from 500 to 599.", MAYBE),
    code("http_other", "A status that HTTP does not have.", "The message has the status."),
    code("http_truncated", "The connection broke within an answer of success.", AGAIN),
    code(
        "http_unreadable",
        "The answer is HTTP, and its head cannot be read: a status that is no number, two different lengths, more than 64 KiB. It counts as an attempt, since the element may have arrived.",
        "See the receiver's log, and correct the program that writes the answer.",
    ),
    code("http_garbage", "The answer is not HTTP.", "Check the port, and whether it wants `https://`."),
    code("retry_after", "The server asked for a pause that is not over; nothing was sent.", BUSY),
    code("http_bad_path", "Path or query cannot be sent.", "Correct the template, then redrive."),
    code(
        "http_bad_header",
        "A header cannot be sent.",
        "Correct its name, or the template of its value, then redrive.",
    ),
];
