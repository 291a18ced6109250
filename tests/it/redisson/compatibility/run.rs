//! One version with every codec: out, cancelled on both sides, and in.

use std::collections::HashSet;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::super::{LATER, PATIENCE, ask, make_due, scheduled, taken};
use super::codecs::{CODECS, Codec, Kind, without_types};
use crate::faults::rig::tolerate_stalls;
use harness::daemon::{ConfigFile, cli};
use harness::oracle::read_stream;
use harness::{Daemon, JavaClient, Layout, RedisServer, RedissonQueue, eventually};

/// The result of one codec in one version. A failure has already failed the test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The version has no such class.
    Absent,
    /// Delivered, offered back and cancelled.
    Works {
        /// The decoded values.
        decoded: Decoded,
        /// The values that Java's codec cannot read itself, and so cannot get back.
        unreadable: Vec<Kind>,
    },
}

/// The values that the daemon could decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// There is nothing to decode.
    Bytes,
    /// The daemon has no codec with that name.
    NoCodec,
    /// The decoded values, and those passed on as bytes.
    Of { values: Vec<Kind>, opaque: Vec<Kind> },
}

/// One codec with its queue and Java's encodings of the values.
struct Lane {
    codec: &'static Codec,
    queue: RedissonQueue,
    payloads: Vec<Vec<u8>>,
    /// The values that this version writes but cannot read.
    unreadable: Vec<Kind>,
}

impl Lane {
    /// The encodings that Java can get back.
    fn readable(&self) -> impl Iterator<Item = &Vec<u8>> {
        let kinds = self.codec.kinds.iter().zip(&self.payloads);
        kinds.filter(|(kind, _)| !self.unreadable.contains(kind)).map(|(_, payload)| payload)
    }
}

/// All codecs in the order of [`CODECS`]; `known` contains the words for `codec:`.
pub async fn run(version: &'static str, known: &HashSet<&str>) -> Vec<Outcome> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let java = JavaClient::connect(version, &server.url()).await;
    let mut lanes = Vec::new();
    for (place, codec) in CODECS.iter().enumerate() {
        let mut payloads = Vec::new();
        let mut unreadable = Vec::new();
        for kind in codec.kinds {
            payloads.extend(java.encode(codec.class, &kind.value()).await);
            if !java.reads(codec.class, &kind.value()).await {
                unreadable.push(*kind);
            }
        }
        let queue = RedissonQueue::new(&format!("q{place}")).with_layout(java.layout());
        lanes.push((!payloads.is_empty()).then_some(Lane { codec, queue, payloads, unreadable }));
    }
    let there: Vec<&Lane> = lanes.iter().flatten().collect();
    let yaml = yaml(&server, &there, known);
    let config = ConfigFile::new(&format!("http: none\n{yaml}"));
    offered_back(&config, &mut redis, &java, &there).await;
    cancelled(&config, &mut redis, &java, &there).await;
    delivered(&yaml, &mut redis, &java, &there).await;
    let mut outcomes = Vec::new();
    for lane in &lanes {
        outcomes.push(match lane {
            None => Outcome::Absent,
            Some(lane) => {
                let decoded = decoded(&mut redis, lane, known).await;
                Outcome::Works { decoded, unreadable: lane.unreadable.clone() }
            }
        });
    }
    outcomes
}

/// A queue for each, which delivers the bytes to one stream and, if it knows the codec, the value to another.
fn yaml(server: &RedisServer, lanes: &[&Lane], known: &HashSet<&str>) -> String {
    let mut yaml = format!(
        "redis: {{ url: {}, connect_timeout: 30s, command_timeout: 14s }}\n\
         sinks: {{ raw: {{ redis: {{ timeout: 20s }} }}, decoded: {{ redis: {{ timeout: 20s }} }} }}\nqueues:\n",
        server.url()
    );
    for Lane { codec, queue, .. } in lanes {
        let name = &queue.name;
        let (codec, decoded) = match codec.ours.filter(|ours| known.contains(ours)) {
            Some(ours) => (ours, format!(", {{ sink: decoded, stream: {name}-decoded, envelope: decoded }}")),
            None => ("raw", String::new()),
        };
        yaml.push_str(&format!(
            "  {name}: {{ source: {{ redisson: {{ name: {name} }} }}, codec: {codec}, on_decode_error: forward_raw, on_opaque: forward_raw, \
             to: [{{ sink: raw, stream: {name}-raw }}{decoded}] }}\n"
        ));
    }
    yaml
}

/// Offers the exact bytes with `delaybridge offer`, and takes them through Redisson's own transfer and consumer.
async fn offered_back(config: &ConfigFile, redis: &mut MultiplexedConnection, java: &JavaClient, lanes: &[&Lane]) {
    let file = config.path().with_file_name("payload");
    let layout = match java.layout() {
        Layout::Old => "old",
        Layout::New => "new",
    };
    for lane in lanes {
        let Lane { codec, queue, .. } = lane;
        let seen = java.queue(&queue.name, codec.class);
        seen.listen().await;
        for payload in lane.readable() {
            std::fs::write(&file, payload).expect("write the payload");
            let file = file.to_str().expect("a path of text");
            ask(config, &["offer", &queue.name, "--delay", "0s", "--layout", layout, "--file", file]);
        }
    }
    for lane in lanes {
        let Lane { codec, queue, .. } = lane;
        let seen = java.queue(&queue.name, codec.class);
        let readable = lane.readable().cloned().collect::<Vec<_>>();
        let mut back = Vec::new();
        for _ in &readable {
            let value = taken(redis, queue, &seen).await;
            back.push(java.encode(codec.class, &value).await.expect("the codec"));
        }
        assert!(same(&back, &readable), "{}: Java took other values than were offered", codec.class);
    }
}

/// Cancels one of two equal elements with Java's `remove`, and the other with `delaybridge cancel`.
async fn cancelled(config: &ConfigFile, redis: &mut MultiplexedConnection, java: &JavaClient, lanes: &[&Lane]) {
    for Lane { codec, queue, .. } in lanes {
        let seen = java.queue(&queue.name, codec.class);
        let value = codec.kinds[0].value();
        seen.offer_all(&[(value.clone(), LATER), (value.clone(), LATER)]).await;
        assert!(seen.remove(&value).await, "{}: Java removes an element", codec.class);
        let left = scheduled(redis, queue).await;
        let [(member, _)] = &left[..] else { panic!("{}: {} elements are left", codec.class, left.len()) };
        let (id, _) = queue.layout.unpack(member).expect("an element of this version's layout");
        ask(config, &["cancel", &queue.name, &hex::encode(id)]);
        assert_eq!((seen.size().await, seen.contains(&value).await), (0, false), "{}", codec.class);
    }
}

/// Delivers elements offered by Java: the same bytes, with the same ids.
async fn delivered(yaml: &str, redis: &mut MultiplexedConnection, java: &JavaClient, lanes: &[&Lane]) {
    let mut offered = Vec::new();
    for Lane { codec, queue, .. } in lanes {
        let seen = java.queue(&queue.name, codec.class);
        let elements: Vec<_> = codec.kinds.iter().map(|kind| (kind.value(), LATER)).collect();
        seen.offer_all(&elements).await;
        seen.destroy().await;
        make_due(redis, queue).await;
        offered.push(scheduled(redis, queue).await);
    }
    let mut daemon = Daemon::start(yaml).await;
    tolerate_stalls(&mut daemon);
    // A refusal by a codec is logged, and the bytes are passed on.
    daemon.expect_log("decode");
    for (Lane { codec, queue, payloads, .. }, offered) in lanes.iter().zip(offered) {
        eventually("the deliveries", PATIENCE, async || {
            let mut left = redis::pipe();
            left.atomic().zcard(&queue.timeouts).add_command(queue.count_in_flight()).zcard(queue.bridge_key("retry"));
            let left: [usize; 3] = left.query_async(redis).await.map_err(|e| e.to_string())?;
            if left == [0; 3] { Ok(()) } else { Err(format!("scheduled, in flight, retry: {left:?}")) }
        })
        .await;
        assert_eq!(redis.xlen::<_, usize>(queue.bridge_key("dead")).await.expect("count"), 0, "{}", codec.class);
        let deliveries = read_stream(redis, &format!("{}-raw", queue.name)).await;
        let bytes: Vec<_> = deliveries.iter().map(|delivery| delivery.payload.clone()).collect();
        assert!(same(&bytes, payloads), "{}: other bytes arrived than Java encodes", codec.class);
        for (member, due_ms) in offered {
            let (id, payload) = queue.layout.unpack(&member).expect("an element of this version's layout");
            let delivery = deliveries.iter().find(|delivery| delivery.id == Some(hex::encode(id))).expect("its id");
            assert_eq!((&delivery.payload[..], delivery.due_ms), (payload, Some(due_ms)), "{}", codec.class);
        }
    }
    assert_eq!(daemon.stop().await, 0);
}

/// The content of the stream of decoded values.
async fn decoded(redis: &mut MultiplexedConnection, lane: &Lane, known: &HashSet<&str>) -> Decoded {
    let Some(ours) = lane.codec.ours else { return Decoded::Bytes };
    if !known.contains(ours) {
        return Decoded::NoCodec;
    }
    let bodies = read_stream(redis, &format!("{}-decoded", lane.queue.name)).await;
    let shown = |kind: &Kind| bodies.iter().any(|body| shows(&body.payload, *kind));
    let (values, opaque) = lane.codec.kinds.iter().partition(|kind| shown(kind));
    Decoded::Of { values, opaque }
}

/// Whether a body is the value: its JSON, or the text itself.
fn shows(body: &[u8], kind: Kind) -> bool {
    let expected = kind.decoded();
    let text = expected.as_str().is_some_and(|text| text.as_bytes() == body);
    text || serde_json::from_slice(body).is_ok_and(|body| without_types(body) == expected)
}

fn same(some: &[Vec<u8>], others: &[Vec<u8>]) -> bool {
    let sorted = |payloads: &[Vec<u8>]| {
        let mut payloads = payloads.to_vec();
        payloads.sort_unstable();
        payloads
    };
    sorted(some) == sorted(others)
}

/// The words that this version accepts for `codec:`.
pub fn known_codecs() -> HashSet<&'static str> {
    let takes = |ours: &&str| {
        let config = ConfigFile::new(&format!(
            "redis: {{ url: redis://127.0.0.1 }}\nsinks: {{ out: {{ stdout: {{}} }} }}\n\
             queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, codec: {ours}, to: [{{ sink: out }}] }} }}\n"
        ));
        cli(&config, &["check"]).status.success()
    };
    let words: HashSet<&str> = CODECS.iter().filter_map(|codec| codec.ours).collect();
    words.into_iter().filter(takes).collect()
}
