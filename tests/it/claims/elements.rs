//! Elements as producers offer them and Redisson's clients take them: both layouts, junk, twins.

use bytes::Bytes;
use fastrand::Rng;
use redis::aio::MultiplexedConnection;

use harness::redisson::TRANSFER;
use harness::{Layout, RedissonQueue};

/// A payload to offer.
pub fn payload(rng: &mut Rng) -> Vec<u8> {
    let length = match rng.u8(..40) {
        0 => 20_000,
        1..6 => 0,
        _ => rng.usize(..60),
    };
    let letter = rng.u8(..);
    vec![letter; length]
}

/// A new element; sometimes junk, and sometimes the twin of one of `others`: the same first 16 bytes.
pub fn element<'a>(rng: &mut Rng, others: impl Iterator<Item = &'a Bytes>) -> Bytes {
    let layout = if rng.bool() { Layout::New } else { Layout::Old };
    let id = rng.u64(..).to_le_bytes();
    let payload = payload(rng);
    let packed = Bytes::from(layout.pack(id, &payload));
    match rng.u8(..20) {
        0 => packed.slice(..rng.usize(..packed.len())),
        1 => (0..rng.usize(1..40)).map(|_| rng.u8(..)).collect(),
        2 => match rng.choice(others.cloned().collect::<Vec<_>>()) {
            Some(other) if other.len() > 16 => {
                let tail: [u8; 4] = rng.u32(..).to_le_bytes();
                [&other[..16], &other[17..], &tail].concat().into()
            }
            _ => packed,
        },
        _ => packed,
    }
}

/// Runs Redisson's transfer, `remove` or `poll` as a client of one layout, which fails half way at an element of the
/// other one. `listed` is the content of L. Returns a description.
pub async fn redisson(
    rng: &mut Rng,
    redis: &mut MultiplexedConnection,
    queue: &RedissonQueue,
    now_ms: i64,
    listed: &[Bytes],
) -> Option<String> {
    let layout = if rng.bool() { Layout::New } else { Layout::Old };
    let queue = queue.with_layout(layout);
    Some(match rng.u8(..3) {
        0 => {
            let script = queue.script(TRANSFER);
            let mut call = script.key(&queue.name);
            call.key(&queue.timeouts).key(&queue.list).arg(now_ms).arg(100);
            format!("transfer: {:?}", call.invoke_async::<Option<String>>(redis).await)
        }
        1 => format!("poll: {:?}", queue.poll(redis).await),
        _ => {
            let payloads: Vec<_> = listed.iter().filter_map(|e| Some(layout.unpack(e)?.1.to_vec())).collect();
            format!("remove: {:?}", queue.remove(redis, &rng.choice(payloads)?).await)
        }
    })
}
