//! The route of a topic: its queues, in the order in which the Java client knows them, each with the address of its master.
//!
//! The queue of a sharding key is the one that the Java client's `SelectMessageQueueByHash` chooses.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::NotRemoting;
use delaybridge_core::json::Json;

/// Brokers of a route, and of a cluster.
const MAX_BROKERS: usize = 4096;
/// Queues of a topic, over all of its brokers.
const MAX_QUEUES: usize = 65_536;
/// Members of an object that are looked at.
const MAX_MEMBERS: usize = 64;
/// The bit of a right to write.
const WRITE: u64 = 2;
/// The number of a master among the servers of a broker.
const MASTER: &str = "0";

/// The queues of a topic that take messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TopicRoute {
    pub(crate) queues: Vec<RouteQueue>,
    /// A broker has queues, but no master now.
    pub(crate) lacks_master: bool,
}

/// A queue of a topic at a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteQueue {
    pub(crate) broker: Arc<str>,
    /// Number of the queue there.
    pub(crate) number: u32,
    /// `host:port` of the broker's master; absent where an ordered topic has a broker that is away.
    pub(crate) master: Option<Arc<str>>,
}

impl TopicRoute {
    pub(crate) fn place(&self, sharding_key: &str) -> usize {
        let hash =
            sharding_key.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
        let count = i64::try_from(self.queues.len()).unwrap_or(1).max(1);
        (i64::from(hash) % count).unsigned_abs() as usize
    }

    /// Reads what a name server answers.
    pub(crate) fn read(body: &Bytes) -> Result<TopicRoute, NotRemoting> {
        let unreadable = NotRemoting("a route that cannot be read");
        let route = members(&Json::read(quoted(body)).map_err(|_| unreadable)?)?;
        let masters = masters(&route)?;
        let master = |broker: &str| masters.iter().find(|(name, _)| **name == *broker);
        let mut read = TopicRoute::default();
        let order = member(&route, "orderTopicConf").and_then(text).filter(|order| !order.is_empty());
        if let Some(order) = order {
            for part in order.split(';').filter(|part| !part.is_empty()) {
                let (broker, count) = part.split_once(':').ok_or(unreadable)?;
                let count = count.parse().map_err(|_| unreadable)?;
                let found = master(broker).and_then(|(_, address)| address.clone());
                read.add(&Arc::from(broker), count, found)?;
            }
            return Ok(read);
        }
        let mut queues = Vec::new();
        for queue in items(&route, "queueDatas")? {
            let queue = members(&queue)?;
            let number = |name: &str| member(&queue, name).and_then(Json::number).ok_or(unreadable);
            let broker = member(&queue, "brokerName").and_then(text).ok_or(unreadable)?;
            queues.push((broker, number("perm")?, number("writeQueueNums")?));
        }
        queues.sort();
        for (broker, rights, count) in queues {
            let Some((broker, address)) = master(&broker) else { continue };
            match address {
                _ if rights & WRITE == 0 => {}
                Some(address) => read.add(broker, count, Some(address.clone()))?,
                None => read.lacks_master = true,
            }
        }
        Ok(read)
    }

    fn add(&mut self, broker: &Arc<str>, count: u64, master: Option<Arc<str>>) -> Result<(), NotRemoting> {
        if count > (MAX_QUEUES - self.queues.len()) as u64 {
            return Err(NotRemoting("a topic with more than 65536 queues"));
        }
        let queue = |number| RouteQueue { broker: broker.clone(), number, master: master.clone() };
        self.queues.extend((0..count as u32).map(queue));
        Ok(())
    }
}

/// Returns whether the cluster that a name server describes has any broker.
pub(crate) fn has_brokers(body: &Bytes) -> Result<bool, NotRemoting> {
    let unreadable = NotRemoting("a cluster that cannot be read");
    let cluster = members(&Json::read(quoted(body)).map_err(|_| unreadable)?)?;
    let table = member(&cluster, "brokerAddrTable").ok_or(unreadable)?;
    table.members(MAX_BROKERS).map(|brokers| !brokers.is_empty()).map_err(|_| unreadable)
}

/// A broker with the address of its master.
type BrokerMaster = (Arc<str>, Option<Arc<str>>);

fn masters(route: &[(String, Json)]) -> Result<Vec<BrokerMaster>, NotRemoting> {
    let unreadable = NotRemoting("a broker that cannot be read");
    let read = |broker: Json| {
        let broker = members(&broker)?;
        let name = member(&broker, "brokerName").and_then(text).ok_or(unreadable)?;
        let addresses = member(&broker, "brokerAddrs").ok_or(unreadable)?;
        let addresses = addresses.members(MAX_BROKERS).map_err(|_| unreadable)?;
        let master = member(&addresses, MASTER).and_then(text).map(Arc::from);
        Ok((Arc::from(name), master))
    };
    items(route, "brokerDatas")?.into_iter().map(read).collect()
}

fn members(value: &Json) -> Result<Vec<(String, Json)>, NotRemoting> {
    value.members(MAX_MEMBERS).map_err(|_| NotRemoting("an object that cannot be read"))
}

fn member<'a>(members: &'a [(String, Json)], name: &str) -> Option<&'a Json> {
    members.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

fn items(members: &[(String, Json)], name: &str) -> Result<Vec<Json>, NotRemoting> {
    match member(members, name) {
        Some(list) if !list.is_null() => list.items(MAX_BROKERS).map_err(|_| NotRemoting("a list that cannot be read")),
        _ => Ok(Vec::new()),
    }
}

fn text(value: &Json) -> Option<String> {
    String::from_utf8(value.text()?.to_vec()).ok()
}

/// Returns the text with its keys in quotes: name servers before 4.9.4 write numbers as keys without them.
fn quoted(body: &Bytes) -> Bytes {
    let mut out = BytesMut::with_capacity(body.len() + 16);
    let mut in_text = false;
    let mut escaped = false;
    let mut key = false;
    let mut rest = &body[..];
    while let Some((&byte, tail)) = rest.split_first() {
        if key && byte.is_ascii_digit() {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if rest.get(digits) == Some(&b':') {
                out.put_u8(b'"');
                out.put_slice(&rest[..digits]);
                out.put_u8(b'"');
                (rest, key) = (&rest[digits..], false);
                continue;
            }
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ => {}
        }
        key = !in_text && matches!(byte, b'{' | b',');
        out.put_u8(byte);
        rest = tail;
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TopicRoute, NotRemoting> {
        TopicRoute::read(&Bytes::copy_from_slice(text.as_bytes()))
    }

    fn shown(route: &TopicRoute) -> Vec<String> {
        let show = |queue: &RouteQueue| {
            format!("{}-{} {}", queue.broker, queue.number, queue.master.as_deref().unwrap_or("away"))
        };
        route.queues.iter().map(show).collect()
    }

    const BROKERS: &str = r#""brokerDatas":[
        {"brokerAddrs":{0:"127.0.0.1:1",1:"127.0.0.1:2"},"brokerName":"b","cluster":"c"},
        {"brokerAddrs":{"0":"127.0.0.1:3"},"brokerName":"a","cluster":"c"},
        {"brokerAddrs":{1:"127.0.0.1:4"},"brokerName":"slave","cluster":"c"}]"#;

    #[test]
    fn queues_are_those_of_brokers_with_a_master_and_the_right_to_write() {
        let queue = |broker: &str, perm: u64, count: u64| {
            format!(
                r#"{{"brokerName":"{broker}","perm":{perm},"readQueueNums":9,"topicSysFlag":0,"writeQueueNums":{count}}}"#
            )
        };
        let queues = [queue("b", 6, 2), queue("a", 2, 1), queue("unknown", 6, 4)].join(",");
        let route = read(&format!(r#"{{{BROKERS},"filterServerTable":{{}},"queueDatas":[{queues}]}}"#)).unwrap();
        assert_eq!(shown(&route), ["a-0 127.0.0.1:3", "b-0 127.0.0.1:1", "b-1 127.0.0.1:1"]);
        assert!(!route.lacks_master);
        let queues = [queue("slave", 6, 2), queue("a", 4, 1)].join(",");
        let route = read(&format!(r#"{{{BROKERS},"queueDatas":[{queues}]}}"#)).unwrap();
        assert_eq!((shown(&route), route.lacks_master), (Vec::new(), true));
        let many = queue("a", 6, 65_537);
        assert!(read(&format!(r#"{{{BROKERS},"queueDatas":[{many}]}}"#)).is_err());
    }

    #[test]
    fn an_ordered_topic_keeps_the_queues_of_a_broker_that_is_away() {
        let route = read(&format!(r#"{{{BROKERS},"orderTopicConf":"b:1;gone:2","queueDatas":[]}}"#)).unwrap();
        assert_eq!(shown(&route), ["b-0 127.0.0.1:1", "gone-0 away", "gone-1 away"]);
        assert!(read(r#"{"orderTopicConf":"b:9999999999999","queueDatas":[]}"#).is_err());
    }

    #[test]
    fn what_is_no_route_is_refused() {
        for text in
            ["", "[]", "{", r#"{"queueDatas":[{}]}"#, r#"{"brokerDatas":[{"brokerName":1}]}"#, "{\"queueDatas\":7}"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("{}").unwrap(), TopicRoute::default());
        let brokers = |text: &'static str| has_brokers(&Bytes::from_static(text.as_bytes()));
        assert_eq!(brokers(r#"{"brokerAddrTable":{"a":{"brokerAddrs":{0:"x"}}},"clusterAddrTable":{}}"#), Ok(true));
        assert_eq!(brokers(r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#), Ok(false));
        assert!(brokers("{}").is_err());
    }

    #[test]
    fn only_keys_get_quotes() {
        let check = |text: &'static str, expected: &str| {
            assert_eq!(quoted(&Bytes::from_static(text.as_bytes())), expected.as_bytes(), "{text}");
        };
        check(r#"{0:"a:1",12:[1,2:3]}"#, r#"{"0":"a:1","12":[1,"2":3]}"#);
        check(r#"{"a":",1:","b\",1:":1}"#, r#"{"a":",1:","b\",1:":1}"#);
    }

    #[test]
    fn a_sharding_key_has_the_queue_that_the_java_client_chooses() {
        let queue = |number| RouteQueue { broker: "a".into(), number, master: None };
        let route = TopicRoute { queues: (0..8).map(queue).collect(), lacks_master: false };
        // Math.abs(key.hashCode() % 8); the hash of the last one is the smallest integer.
        let hash = |key: &str| route.place(key);
        assert_eq!((hash(""), hash("a"), hash("ab")), (0, 97 % 8, 3105 % 8));
        assert_eq!((hash("order-1"), hash("polygenelubricants")), (1_207_111_310 % 8, 0));
    }
}
