//! The keys of a queue: Redisson's as Redisson maps names, and ours. The only place that spells a key.

use std::sync::Arc;

use bytes::Bytes;

/// All keys of one queue. They share one hash tag, so that everything works in Redis Cluster.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Z: element -> due time in ms.
    pub delayed: Bytes,
    /// L: the same elements in the order offered.
    pub list: Bytes,
    /// The ready list: the mapped name itself.
    pub ready: Bytes,
    /// Entry -> lease deadline in ms.
    pub in_flight: Bytes,
    /// Entry -> time of the next attempt in ms.
    pub retry: Bytes,
    /// Dead letters.
    pub dead: Bytes,
    /// First 16 bytes of every entry that a claim left in L.
    pub ghosts: Bytes,
    /// Those from before the turn of the sweep that is under way.
    pub ghosts_turn: Bytes,
    /// State of the sweep and of the `LREM` budget.
    pub state: Bytes,
    /// Redisson announces the due time of a new head here.
    pub channel: Arc<str>,
    /// Every daemon that delivers from the queue listens here, so that others see that it is there. Nothing is sent.
    pub presence: Arc<str>,
}

impl Keys {
    /// The keys of the queue with this mapped name.
    ///
    /// Redisson puts braces around a name that has no `{`, and takes the name as it is otherwise
    /// (`RedissonObject.prefixName`).
    pub fn of(name: &str) -> Self {
        let tagged = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
        let key = |prefix: &str| Bytes::from(format!("{prefix}:{tagged}"));
        Keys {
            delayed: key("redisson_delay_queue_timeout"),
            list: key("redisson_delay_queue"),
            ready: Bytes::from(name.to_owned()),
            in_flight: key("delaybridge:inflight"),
            retry: key("delaybridge:retry"),
            dead: key("delaybridge:dead"),
            ghosts: key("delaybridge:ghosts"),
            ghosts_turn: key("delaybridge:ghosts-turn"),
            state: key("delaybridge:state"),
            channel: format!("redisson_delay_queue_channel:{tagged}").into(),
            presence: format!("delaybridge:presence:{tagged}").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_map_as_redisson_maps_them() {
        for (name, tagged) in [
            ("orders", "{orders}"),
            ("app:orders", "{app:orders}"),
            ("{app}:orders", "{app}:orders"),
            ("app:{orders}:q", "app:{orders}:q"),
            ("a{b", "a{b"),
        ] {
            let keys = Keys::of(name);
            assert_eq!(keys.delayed, format!("redisson_delay_queue_timeout:{tagged}"));
            assert_eq!(keys.list, format!("redisson_delay_queue:{tagged}"));
            assert_eq!(&*keys.channel, format!("redisson_delay_queue_channel:{tagged}"));
            assert_eq!(keys.ready, name);
            assert_eq!(keys.in_flight, format!("delaybridge:inflight:{tagged}"));
        }
    }
}
