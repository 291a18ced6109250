//! The table of errors of webhooks: class, cause and cure of each code.

use delaybridge_core::codes::AGAIN;
use delaybridge_sink::error_table;

pub(super) const TITLE: &str = "HTTP";
pub(super) const TEXT: &str = "Statuses of webhooks, and events of the connection. A request that may have arrived is `ambiguous`; `Idempotency-Key` identifies a second copy.";

const REFUSED: &str = "See the receiver's log; correct it or the message, then redrive.";
const MAYBE: &str = "See the receiver's log; it may have taken the request, and is asked again.";
const BUSY: &str = "Nothing: delivery resumes after `Retry-After` or a growing wait. If it lasts, lower `max_rate`.";

error_table! {
    STATUS_3XX = TargetPermanent "http_3xx":
        "A redirect, which is not followed.",
        "Correct `url`; the message names the target.";
    STATUS_400 = MessagePermanent "http_400": "Bad Request.", REFUSED;
    STATUS_401 = TargetPermanent "http_401": "Unauthorized.", "Check `bearer_token_file` or `headers`.";
    STATUS_403 = TargetPermanent "http_403": "Forbidden.", "Give the sender the right, or correct `url`.";
    STATUS_404 = TargetPermanent "http_404": "Not Found.", "Correct `url` or `path`.";
    STATUS_405 = TargetPermanent "http_405": "Method Not Allowed.", "Correct `method`, `url` or `path`.";
    STATUS_408 = Backpressure "http_408": "Request Timeout.", BUSY;
    STATUS_409 = Backpressure "http_409":
        "Conflict, for an element that the receiver may still work on.",
        "Nothing: it may still work on an earlier copy. It is asked again after `Retry-After` or a growing wait, from an hour on as counted attempts.";
    STATUS_410 = TargetPermanent "http_410": "Gone.", "Correct `url` or `path`, or remove the destination.";
    STATUS_413 = MessagePermanent "http_413":
        "Content Too Large.",
        "Raise the receiver's limit, or send smaller payloads.";
    STATUS_415 = MessagePermanent "http_415":
        "Unsupported Media Type.",
        "Set `headers: { content-type: application/json }` or the like, then redrive.";
    STATUS_422 = MessagePermanent "http_422": "Unprocessable Content.", REFUSED;
    STATUS_425 = Backpressure "http_425": "Too Early.", BUSY;
    STATUS_429 = Backpressure "http_429": "Too Many Requests.", BUSY;
    STATUS_4XX = Unknown "http_4xx": "Another status from 400 to 499.", "See what the receiver means by the status.";
    STATUS_500 = Ambiguous "http_500": "Internal Server Error.", MAYBE;
    STATUS_502 = Ambiguous "http_502": "Bad Gateway: a proxy did not reach the receiver, or lost it.", MAYBE;
    STATUS_503 = Backpressure "http_503": "Service Unavailable.", BUSY;
    STATUS_504 = Ambiguous "http_504": "Gateway Timeout: the receiver did not answer a proxy.", MAYBE;
    STATUS_5XX = Ambiguous "http_5xx": "Another status from 500 to 599.", MAYBE;
    STATUS_OTHER = Unknown "http_other": "A status that HTTP does not have.", "See what the receiver means by the status.";
    TRUNCATED = Ambiguous "http_truncated": "The connection broke within a success.", AGAIN;
    UNREADABLE = Unknown "http_unreadable":
        "The answer's head cannot be read: its status is no number, its lengths differ, or it exceeds 64 KiB. It counts as an attempt.",
        "Correct the program that writes the answer.";
    GARBAGE = Ambiguous "http_garbage": "The answer is not HTTP.", "Check the port and whether it needs `https://`.";
    RETRY_AFTER = Backpressure "retry_after": "The server's pause is not over; nothing was sent.", BUSY;
    BAD_PATH = MessagePermanent "http_bad_path": "Path or query cannot be sent.", "Correct the template, then redrive.";
    BAD_HEADER = MessagePermanent "http_bad_header":
        "A header cannot be sent.",
        "Correct its name or its template, then redrive.";
}
