//! A port of Youzan's design, written anew: a pool, buckets with a timer each, ready lists, consumers. Every step is a
//! command of its own, as in the ports in use, and every key and value is a serialized Java object, as in the
//! reference.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Commands, Connection};

const TOPIC: &str = "order";
pub const BUCKETS: usize = 3;
/// The time to run of a job, in ms.
const TTR_MS: i64 = 2_000;

/// A name as Java serializes it.
pub fn java(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("a short name");
    [b"\xac\xed\0\x05t", &length.to_be_bytes()[..], text.as_bytes()].concat()
}

/// The key of a bucket.
pub fn bucket(n: usize) -> Vec<u8> {
    java(&format!("bucket{n}"))
}

/// The key of the pool.
pub fn pool() -> Vec<u8> {
    java("job.pool")
}

/// The field of a job: a `Long`.
pub fn field(id: i64) -> Vec<u8> {
    let long = hex::decode(
        "aced00057372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565787200106a6176612e6c616e672e4e75\
         6d62657286ac951d0b94e08b0200007870",
    );
    [&long.expect("hex")[..], &id.to_be_bytes()].concat()
}

/// A job, recorded with JDK 17, with another id, message and status.
pub fn job(id: i64, message: &str, status: &str) -> Vec<u8> {
    let before_id = "aced00057372000864656d6f2e4a6f62857c36a0e6fcfc5d0200074a000964656c617954696d6549000a7265747279436f756e744a00\
        0774747254696d654c000269647400104c6a6176612f6c616e672f4c6f6e673b4c00076d6573736167657400124c6a6176612f6c616e672f537472\
        696e673b4c00067374617475737400104c64656d6f2f4a6f625374617475733b4c0005746f70696371007e00027870000000000000753000000003\
        00000000000013887372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565787200106a6176612e6c616e672e\
        4e756d62657286ac951d0b94e08b0200007870";
    let status_class = "7e72000e64656d6f2e4a6f6253746174757300000000000000001200007872000e6a6176612e6c616e672e456e756d0000000000\
        00000012000078707400";
    let text =
        |text: &str| [&u16::try_from(text.len()).expect("a short text").to_be_bytes()[..], text.as_bytes()].concat();
    let hex = |digits: &str| hex::decode(digits.replace([' ', '\n'], "")).expect("hex");
    let mut status_head = hex(status_class);
    // The digits above end within the length of the constant's name.
    status_head.pop();
    [&hex(before_id)[..], &id.to_be_bytes(), b"t", &text(message), &status_head, &text(status), b"t", &text(TOPIC)]
        .concat()
}

/// A member of a bucket or of a ready list.
pub fn delay_job(id: i64, at_ms: i64) -> Vec<u8> {
    let head = hex::decode(
        "aced00057372000d64656d6f2e44656c61794a6f626ba0f6d389893ad70200034a000964656c6179446174654a00056a6f6449644c0005746f\
         7069637400124c6a6176612f6c616e672f537472696e673b7870",
    );
    [&head.expect("hex")[..], &at_ms.to_be_bytes(), &id.to_be_bytes(), b"t\0\x05order"].concat()
}

fn id_of(delay_job: &[u8]) -> i64 {
    let at = delay_job.len() - 16;
    i64::from_be_bytes(delay_job[at..at + 8].try_into().expect("eight bytes"))
}

#[allow(clippy::disallowed_methods, reason = "the port goes by its own clock, which is one of its flaws")]
fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_millis() as i64
}

/// Runs the timer of a bucket, which looks at its head.
fn timer(redis: &mut Connection, n: usize) -> redis::RedisResult<()> {
    let bucket = bucket(n);
    let ready = java(&format!("process.queue{TOPIC}"));
    loop {
        let head: Vec<(Vec<u8>, f64)> = redis.zrange_withscores(&bucket, 0, 0)?;
        let Some((member, _)) = head.into_iter().next().filter(|(_, at)| *at <= now_ms() as f64) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        if redis.hexists::<_, _, bool>(pool(), field(id_of(&member)))? {
            let _: i64 = redis.lpush(&ready, &member)?;
        }
        let _: i64 = redis.zrem(&bucket, &member)?;
    }
}

/// Runs a consumer, which takes a job, reserves it, handles it, and finishes it.
fn consumer(redis: &mut Connection) -> redis::RedisResult<()> {
    let ready = java(&format!("process.queue{TOPIC}"));
    loop {
        let Some(member) = redis.lpop::<_, Option<Vec<u8>>>(&ready, None)? else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let id = id_of(&member);
        let Some(_) = redis.hget::<_, _, Option<Vec<u8>>>(pool(), field(id))? else { continue };
        let _: i64 = redis.hset(pool(), field(id), job(id, &message(id), "RESERVED"))?;
        let at_ms = now_ms() + TTR_MS;
        let _: i64 = redis.zadd(bucket(id as usize % BUCKETS), delay_job(id, at_ms), at_ms)?;
        let _: i64 = redis.rpush("handled", id)?;
        let _: i64 = redis.hdel(pool(), field(id))?;
    }
}

/// The message of a job.
pub fn message(id: i64) -> String {
    format!("{{\"orderId\":{id}}}")
}

/// The variables that make a process of this test binary a part of the port: the part, and the address of Redis.
pub const PART: &str = "DELAYBRIDGE_TEST_PART_OF_PORT";
pub const REDIS: &str = "DELAYBRIDGE_TEST_PORT_REDIS";

/// Not a test: a process of the port, which another test starts and kills.
#[test]
#[ignore = "a process that another test starts"]
fn a_process() {
    let (Ok(part), Ok(address)) = (std::env::var(PART), std::env::var(REDIS)) else { return };
    let client = redis::Client::open(address).expect("an address");
    let mut connection = client.get_connection().expect("a connection");
    let ended = match part.split_once(' ') {
        Some(("timer", n)) => timer(&mut connection, n.parse().expect("a number")),
        _ => consumer(&mut connection),
    };
    panic!("{part} ended: {ended:?}");
}

#[test]
fn the_bytes_are_those_of_the_recording() {
    let recorded =
        include_str!("../../vectors/job_pools.jsonl").lines().find(|line| line.contains("JDK 17")).expect("a line");
    let vector: serde_json::Value = serde_json::from_str(recorded).expect("JSON");
    let hex = |bytes: Vec<u8>| hex::encode(bytes);
    let due_ms = vector["due_ms"].as_i64().expect("a time");
    assert_eq!(
        hex(job(1_234_567_890_123, r#"{"orderId":7}"#, "DELAY")),
        vector["job"]["hex"].as_str().expect("digits")
    );
    assert_eq!(hex(delay_job(1_234_567_890_123, due_ms)), vector["member"]["hex"].as_str().expect("digits"));
    assert_eq!(hex(field(1_234_567_890_123)), vector["field"]["hex"].as_str().expect("digits"));
    assert_eq!(
        (hex(pool()), hex(bucket(0))),
        (
            vector["key"]["hex"].as_str().expect("digits").into(),
            vector["bucket"]["hex"].as_str().expect("digits").into()
        )
    );
    assert_eq!(id_of(&delay_job(77, 5)), 77);
}
