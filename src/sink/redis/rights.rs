//! What the sink needs to be allowed on its server.

use crate::config::TargetSpec;
use crate::link::rights::command::{LPUSH, RPUSH, XADD};
use crate::link::rights::{Grant, Pattern};
use crate::message::Side;

/// What delivery to this target needs, for elements of the queue with this id. `None` where another sends the command:
/// another kind of sink, or the source in its own script.
pub fn to_deliver(target: &TargetSpec, queue: &str) -> Option<Grant> {
    let (key, command) = match target {
        TargetSpec::RedisList { exactly_once: true, .. } => return None,
        TargetSpec::RedisList { key, push: Side::Left, .. } => (key, LPUSH),
        TargetSpec::RedisList { key, push: Side::Right, .. } => (key, RPUSH),
        TargetSpec::RedisStream { key, .. } => (key, XADD),
        TargetSpec::KafkaTopic { .. } | TargetSpec::AmqpExchange { .. } | TargetSpec::Stdout => return None,
    };
    let parts: Vec<_> = key.outline(queue).collect();
    let key = match parts.iter().cloned().collect::<Option<String>>() {
        Some(name) => Pattern::exact(name),
        None => Pattern::around(parts),
    };
    Some(Grant::on([key], [command]))
}
