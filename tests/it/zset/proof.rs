//! The comparison with the usual loops: 5,000 elements, or 100,000 with `DELAYBRIDGE_LONG=1`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{PATIENCE, now_ms, produce};
use harness::daemon::Daemon;
use harness::{RedisServer, eventually};

fn elements() -> usize {
    if std::env::var_os("DELAYBRIDGE_LONG").is_some() { 100_000 } else { 5_000 }
}

/// Payloads of some elements, due within two seconds.
fn offers(now_ms: i64, what: &str) -> Vec<(i64, String)> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..elements()).map(|n| (now_ms + random.i64(-500..1_500), format!("{{\"{what}\":{n}}}"))).collect()
}

/// The usual script, which removes the element that it returns.
const POP: &str = "local first = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1)\n\
    if first[1] then redis.call('ZREM', KEYS[1], first[1]) return first[1] end return ''";

/// One look of a consumer with `ZRANGEBYSCORE` and `ZREM`; returns the element that it got.
async fn by_zrem(redis: &mut MultiplexedConnection) -> Option<String> {
    let until = now_ms(redis).await;
    let first: Vec<String> = redis.zrangebyscore_limit("due", "-inf", until, 0, 1).await.expect("the server answers");
    let member = first.into_iter().next()?;
    let removed: usize = redis.zrem("due", &member).await.expect("the server answers");
    // The consumer that removes the element has it.
    (removed == 1).then_some(member)
}

/// The same with the usual script.
async fn by_script(redis: &mut MultiplexedConnection) -> Option<String> {
    let until = now_ms(redis).await;
    let mut pop = redis::cmd("EVAL");
    let popped: String =
        pop.arg(POP).arg(1).arg("due").arg(until).query_async(redis).await.expect("the server answers");
    Some(popped).filter(|popped| !popped.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_two_consumers_nothing_is_lost_and_nothing_comes_twice() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let stop = Arc::new(AtomicBool::new(false));
    let consumer = |script: bool, mut redis: MultiplexedConnection| {
        let stop = stop.clone();
        tokio::spawn(async move {
            let mut got = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let found = if script { by_script(&mut redis).await } else { by_zrem(&mut redis).await };
                match found {
                    Some(member) => {
                        got.push(member);
                        // They sometimes pause, so that each of the three has a share.
                        if got.len() % 10 == 0 {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                    None => tokio::task::yield_now().await,
                }
            }
            got
        })
    };
    let consumers = [consumer(false, server.client().await), consumer(true, server.client().await)];
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: {} }}\nsinks: {{ out: {{ redis: {{ list: out }} }} }}\n\
         queues: {{ q: {{ source: {{ zset: {{ key: due, score: ms }} }}, to: [{{ sink: out }}] }} }}\n",
        server.url()
    ))
    .await;
    let offered = offers(now_ms(&mut redis).await, "order");
    produce(&mut redis, "due", &offered).await;
    eventually("the set to be empty, and nothing to be in flight", PATIENCE, async || {
        let mut redis = redis.clone();
        let (scheduled, leases): (usize, usize) = redis::pipe()
            .zcard("due")
            .zcard("delaybridge:leases:{due}")
            .query_async(&mut redis)
            .await
            .map_err(|error| error.to_string())?;
        if (scheduled, leases) == (0, 0) { Ok(()) } else { Err(format!("{scheduled} scheduled, {leases} leases")) }
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let mut got: HashMap<String, usize> = HashMap::new();
    let mut shares = Vec::new();
    for consumer in consumers {
        let members = consumer.await.expect("the consumer ends");
        shares.push(members.len());
        members.into_iter().for_each(|member| *got.entry(member).or_default() += 1);
    }
    let delivered: Vec<String> = redis.lrange("out", 0, -1).await.expect("a list");
    shares.push(delivered.len());
    delivered.into_iter().for_each(|member| *got.entry(member).or_default() += 1);
    println!("of {}: ZREM {}, script {}, delaybridge {}", offered.len(), shares[0], shares[1], shares[2]);
    assert!(shares[2] > 0, "delaybridge got none: the test shows nothing");
    let lost = offered.iter().filter(|(_, member)| !got.contains_key(member)).count();
    let twice = got.values().filter(|times| **times > 1).count();
    assert_eq!((lost, twice, got.len()), (0, 0, offered.len()));
    daemon.stop().await;
}

/// A sink that refuses every tenth request.
struct Flaky {
    port: u16,
    requests: AtomicU64,
    refused: AtomicU64,
    /// The accepted bodies, by path.
    taken: Mutex<HashMap<String, Vec<String>>>,
}

impl Flaky {
    async fn start() -> Arc<Flaky> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let counters = (AtomicU64::new(0), AtomicU64::new(0));
        let flaky = Arc::new(Flaky { port, requests: counters.0, refused: counters.1, taken: Mutex::default() });
        let sink = flaky.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(sink.clone().serve(stream));
            }
        });
        flaky
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut read = Vec::new();
        loop {
            let head = loop {
                if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                    break end + 4;
                }
                if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                    return;
                }
            };
            let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let (length, path): (usize, _) =
                (length.unwrap_or(0), text.split(' ').nth(1).unwrap_or_default().to_owned());
            while read.len() < head + length {
                if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let body = String::from_utf8_lossy(&read[head..head + length]).into_owned();
            read.drain(..head + length);
            let status = if self.takes(path, body) { "200 OK" } else { "500 Internal Server Error" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn takes(&self, path: String, body: String) -> bool {
        if self.requests.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.taken.lock().entry(path).or_default().push(body);
        true
    }

    fn taken(&self, path: &str) -> Vec<String> {
        self.taken.lock().get(path).cloned().unwrap_or_default()
    }
}

/// Posts like a consumer that considers only the status of the response.
async fn post(stream: &mut TcpStream, path: &str, body: &str) -> bool {
    let request = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.expect("the sink reads");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut answer).await.expect("the sink answers"), 0, "the sink is gone");
    }
    answer.starts_with(b"HTTP/1.1 200")
}

/// The elements of the usual loop and of delaybridge, with the same sink.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_fails_every_tenth_costs_the_loop_elements_and_delaybridge_none() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let sink = Flaky::start().await;
    let count = elements();

    let offered = offers(now_ms(&mut redis).await - 2_000, "by-hand");
    produce(&mut redis, "due", &offered).await;
    let mut stream = TcpStream::connect(("127.0.0.1", sink.port)).await.expect("the sink listens");
    while let Some(member) = by_script(&mut redis).await {
        post(&mut stream, "/loop", &member).await;
    }
    let by_loop = sink.taken("/loop").len();
    let lost_by_loop = count - by_loop;
    let refused = sink.refused.load(Ordering::Relaxed);
    assert_eq!(lost_by_loop as u64, refused, "what was refused is gone");
    assert!(lost_by_loop >= count / 11, "{lost_by_loop}");

    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: {} }}\n\
         retry: {{ patient: {{ max_attempts: 1000, initial_interval: 10ms, max_interval: 200ms }} }}\n\
         sinks: {{ out: {{ http: {{ url: 'http://127.0.0.1:{}/bridge', timeout: 10s }} }} }}\n\
         queues: {{ q: {{ source: {{ zset: {{ key: due, score: ms }} }}, retry: patient, to: [{{ sink: out }}] }} }}\n",
        server.url(),
        sink.port
    ))
    .await;
    // One element in ten fails: sometimes enough of them in a row for a short break.
    daemon.expect_log("sink down");
    let offered = offers(now_ms(&mut redis).await, "bridged");
    produce(&mut redis, "due", &offered).await;
    eventually("every element at the sink", 4 * PATIENCE, async || {
        let taken = sink.taken("/bridge");
        let different: std::collections::HashSet<&String> = taken.iter().collect();
        if different.len() == count { Ok(()) } else { Err(format!("{} of {count}", different.len())) }
    })
    .await;
    let refused = sink.refused.load(Ordering::Relaxed) - refused;
    println!("of {count}: the loop lost {lost_by_loop}; delaybridge lost 0, and was refused {refused} times");
    assert!(refused >= count as u64 / 10, "{refused}");
    eventually("nothing to be left", PATIENCE, async || {
        let mut redis = redis.clone();
        let left: (usize, usize, usize) = redis::pipe()
            .zcard("due")
            .zcard("delaybridge:retry:{due}")
            .xlen("delaybridge:dead:{due}")
            .query_async(&mut redis)
            .await
            .map_err(|error| error.to_string())?;
        if left == (0, 0, 0) { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let mut taken = sink.taken("/bridge");
    taken.sort();
    let mut expected: Vec<String> = offered.into_iter().map(|(_, member)| member).collect();
    expected.sort();
    assert_eq!(taken, expected, "nothing twice: every answer arrived");
    tokio::time::timeout(Duration::from_secs(60), daemon.stop()).await.expect("it stops");
}
