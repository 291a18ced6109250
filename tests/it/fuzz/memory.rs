//! The payloads that take most memory, as found by fuzzing, with a sink that stalls: the daemon stays within the limit
//! of the shipped manifests.

use crate::faults::rig::{metric, tolerate_stalls};
use harness::redisson::{Element, redis_now_ms};
use harness::turn::heavy;
use harness::{Daemon, RedisServer, RedissonQueue};

/// Maximum size of a decoded value, in bytes.
const BOUND: usize = 16 << 20;
/// The bytes that a value counts in addition to its text.
const VALUE: usize = 128;

/// Number of elements of each kind: decoded, they exceed the limit in flight.
fn each() -> usize {
    if std::env::var_os("DELAYBRIDGE_LONG").is_some() { 20 } else { 3 }
}

/// Number of elements that are large themselves, and that no sink gets.
fn refused() -> usize {
    if std::env::var_os("DELAYBRIDGE_LONG").is_some() { 4 } else { 2 }
}

/// JSON of 16 MiB that would take much more memory: it is read, refused, and stored as a dead letter.
fn zeros() -> Vec<u8> {
    [&b"["[..], &b"0,".repeat(BOUND / 2 - 2), b"0]"].concat()
}

/// Zstandard's blocks of one repeated byte, as `ZStdCodec` writes them: a few hundred bytes that decompress to the
/// maximum size.
fn unpacking() -> Vec<u8> {
    const BLOCK: usize = 100_000;
    let size = u32::try_from(BOUND).expect("a length");
    let mut packed = size.to_be_bytes().to_vec();
    packed.extend([0x28, 0xb5, 0x2f, 0xfd, 0xa0]);
    packed.extend(size.to_le_bytes());
    for at in (0..BOUND).step_by(BLOCK) {
        let length = BLOCK.min(BOUND - at);
        let header = length << 3 | 1 << 1 | usize::from(at + length == BOUND);
        packed.extend(&u32::try_from(header).expect("a header").to_le_bytes()[..3]);
        packed.push(b'a');
    }
    packed
}

/// An array of one long text and references to it, each of which is printed.
fn references() -> Vec<u8> {
    const TEXT: u16 = u16::MAX;
    let count = BOUND / 2 / (usize::from(TEXT) + VALUE);
    let class = b"\xac\xed\0\x05\x75\x72\0\x13[Ljava.lang.Object;\x90\xce\x58\x9f\x10\x73\x29\x6c\x02\0\0\x78\x70";
    let mut payload = class.to_vec();
    payload.extend(u32::try_from(count).expect("a length").to_be_bytes());
    payload.push(0x74);
    payload.extend(TEXT.to_be_bytes());
    payload.extend([b'a'].repeat(usize::from(TEXT)));
    payload.extend(b"\x71\0\x7e\0\x02".repeat(count - 1));
    payload
}

/// The maximum number of small values in a payload.
fn values(head: &[u8], value: &[u8], tail: &[u8]) -> Vec<u8> {
    [head, &value.repeat(BOUND / VALUE - 1), tail].concat()
}

/// The codecs with their worst payloads.
fn worst() -> [(&'static str, Vec<u8>); 5] {
    let count = u32::try_from(BOUND / VALUE - 1).expect("a length");
    let arrays = [&[0xdd][..], &count.to_be_bytes()].concat();
    [
        ("zstd+string", unpacking()),
        ("java", references()),
        ("cbor", values(&[0x9f], &[0xa0], &[0xff])),
        ("msgpack", values(&arrays, &[0x90], &[])),
        ("smile", values(&[0x3a, 0x29, 0x0a, 0x03, 0xf8], &[0xf8, 0xf9], &[0xf9])),
    ]
}

fn name(codec: &str) -> String {
    codec.replace('+', "-")
}

/// A value of the daemon's `/proc/…/status`, in bytes.
fn status(daemon: &Daemon, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("its status");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// `memory` under `limits` in the manifest of the pods.
fn limit() -> u64 {
    let manifest = include_str!("../../../deploy/kubernetes/base/deployment.yaml");
    let (_, text) = manifest.split_once("limits: { memory: ").expect("a limit");
    let (mib, _) = text.split_once("Mi }").expect("in Mi");
    mib.parse::<u64>().expect("a number") << 20
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worst_payloads_stay_within_the_memory_of_the_shipped_manifests() {
    let _turn = heavy().await;
    let server = RedisServer::start().await;
    let mut target = RedisServer::start().await;
    let worst = worst();
    let queue = |(codec, _): &(&str, Vec<u8>)| {
        format!(
            "{name}: {{ source: {{ redisson: {{ name: {name} }} }}, codec: {codec}, \
             to: [{{ sink: out, stream: out, envelope: decoded }}] }}",
            name = name(codec)
        )
    };
    let large = ("json", zeros());
    let queues = worst.iter().chain([&large]).map(queue).collect::<Vec<_>>().join(", ");
    let yaml = format!(
        "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ url: '{}', timeout: 2s }} }} }}\nqueues: {{ {queues} }}\n",
        server.url(),
        target.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("destination in trouble").expect_log("dead letter stored");
    // The pages of the program itself do not count for the limit; a debug build has many.
    let program = status(&daemon, "RssFile:");

    target.pause();
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let all = worst.iter().map(|kind| (kind, each())).chain([(&large, refused())]);
    for ((codec, payload), count) in all {
        let queue = RedissonQueue::new(&name(codec));
        for _ in 0..count {
            queue.offer_bulk(&mut redis, &[Element::new(queue.layout, now, payload.clone())]).await;
        }
    }
    // Wait until the first elements have timed out.
    metric(&daemon, "delaybridge_delivery_attempts_total", |attempts| attempts > 0.0).await;
    let stalled = status(&daemon, "VmHWM:") - program;

    target.resume();
    metric(&daemon, "delaybridge_delivered_messages_total", |all| all == (worst.len() * each()) as f64).await;
    metric(&daemon, "delaybridge_dead_lettered_messages_total", |all| all == refused() as f64).await;
    let peak = status(&daemon, "VmHWM:") - program;
    println!("at most {} MiB while the sink stalled, {} MiB in all, of {}", stalled >> 20, peak >> 20, limit() >> 20);
    assert!(peak < limit(), "{} MiB at the peak, and the pods have {}", peak >> 20, limit() >> 20);
}
