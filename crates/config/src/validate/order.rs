//! `order`, and what cannot keep one.

use redisson_codecs::Coding;

use super::destination::{DestinationDraft, Goods};
use crate::tables::queue;
use delaybridge_core::template::Template;
use delaybridge_model::{Mode, Order, Ordered, RouteSpec};
use delaybridge_settings::reader::Section;
use delaybridge_source::SourceConfig;

/// Reads the order, and reports combinations that cannot keep it.
pub(super) fn read(
    section: &Section<'_>,
    (order, template): (Order, Option<Template>),
    source: &SourceConfig,
    mode: Mode,
    codec: Coding,
    to: &[RouteSpec],
) -> Option<Ordered> {
    let report = &section.cx.report;
    let spot = section.spot(&queue::ORDER);
    let own_key = section.has(&queue::ORDER_KEY);
    if own_key && order != Order::Key {
        let help = "write `order: key`, or remove `order_key`";
        report.problem(&section.spot(&queue::ORDER_KEY), "`order_key` has no effect without `order: key`", help);
    }
    if order == Order::None {
        return None;
    }
    if let Some(template) = &template {
        let of = Goods::Elements;
        let at = DestinationDraft { section, codec, slot: "", order_key: None, alone: false, of };
        at.fits(template, &section.spot(&queue::ORDER_KEY));
    }
    let has_key = to.first().is_some_and(|route| {
        // Of all messages only a Kafka record has a key, that of SQS and SNS a group, and that of RocketMQ a text for its queue.
        let keys = route.target.keys();
        let kafka = keys.contains_key("topic") && keys.contains_key("key");
        kafka || keys.contains_key("group_id") || keys.contains_key("sharding_key")
    });
    if order == Order::Key && !own_key && !has_key && !to.is_empty() {
        let help = "write `order_key: \"${payload.orderId}\"`, or a `key` at a Kafka destination that is the first under `to`, a `sharding_key` at one of RocketMQ, or a `group_id` in its sink of SQS or SNS";
        report.problem(&spot, "`order: key` needs a key, and the messages have none", help);
    }
    let refuse = |what: &str, help: &str| report.problem(&spot, format!("`order` cannot be kept {what}"), help);
    if mode != Mode::Deliver {
        refuse(&format!("with `mode: {}`, which delivers nothing", mode.as_str()), "remove `order`");
    }
    if section.has(&queue::CLAIM_AHEAD) && !section.duration(&queue::CLAIM_AHEAD).is_zero() {
        let why =
            "with `claim_ahead`: an element that is offered later, and due earlier, would come after one that is held";
        refuse(why, "remove `claim_ahead`");
    }
    let pushes =
        |route: &RouteSpec| route.target.redis_write().is_some_and(|write| write.push_with_verdict().is_some());
    if to.iter().any(pushes) {
        refuse("with `exactly_once`: these pushes are written together with other verdicts", "remove `exactly_once`");
    }
    if let Some(pool) = source.job_pool() {
        if pool.buckets.len() > 1 {
            refuse("over several buckets: each has an order of its own", "name one bucket, or remove `order`");
        }
        if !pool.ready.is_empty() {
            refuse("with `ready` lists: their jobs have no due time", "remove `ready`, or `order`");
        }
    }
    Some(match order {
        Order::Queue => Ordered::Queue,
        _ => Ordered::Key(template.map(Box::new)),
    })
}
