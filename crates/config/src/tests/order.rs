//! `order`, and what cannot keep one.

use super::*;

#[test]
fn an_order_that_cannot_be_kept_is_refused_in_words() {
    check("codec: json", "order: queue", &[]);
    check("codec: json", "codec: json\n    order: key\n    order_key: '${payload.orderId}'", &[]);
    check(
        "codec: json",
        "order: key",
        &[
            "15:12 queues.mails.order: `order: key` needs a key, and the messages have none | write `order_key: \"${payload.orderId}\"`",
        ],
    );
    check(
        "codec: json",
        "codec: raw\n    order: key\n    order_key: '${payload.orderId}'",
        &["17:16 queues.mails.order_key: the template asks for the payload, and codec raw does not look into it"],
    );
    check(
        "codec: json",
        "codec: json\n    order_key: '${payload.orderId}'",
        &["16:16 queues.mails.order_key: `order_key` has no effect without `order: key`"],
    );
    check(
        "codec: json",
        "order: queue\n    claim_ahead: 1s",
        &["15:12 queues.mails.order: `order` cannot be kept with `claim_ahead`: an element that is offered later"],
    );
    check(
        "codec: json",
        "order: queue\n    mode: shadow",
        &[
            "15:12 queues.mails.order: `order` cannot be kept with `mode: shadow`, which delivers nothing | remove `order`",
        ],
    );
    check(
        "redisson: { name: mails } }\n    codec: json",
        "job_pool: { preset: ouqiang } }\n    codec: json\n    order: queue",
        &["16:12 queues.mails.order: `order` cannot be kept over several buckets: each has an order of its own"],
    );
    check("codec: json", "order: sometimes", &["15:12 queues.mails.order:"]);
}
