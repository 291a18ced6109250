//! Servers behind our clients that are hostile, or broken: what the daemon holds because of them, and how a healthy queue
//! fares beside them.

#[cfg(feature = "amqp1")]
mod amqp1;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "amqp")]
mod rabbit;
mod redis;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::faults::rig::{elements, lateness, pass, summary};
use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::turn::heavy;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, eventually};

/// What an attack may make the daemon hold beyond what its configuration allows, in bytes.
const MOST: u64 = 64 << 20;
/// Time for which an attack is endured: a client without bounds holds more than [`MOST`] within it.
const SIEGE: Duration = Duration::from_secs(3);
/// Time-out for an attack to begin, and for the healthy queue to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with one bad habit. Its connections wait until it is let loose.
struct Hostile {
    port: u16,
    loose: Arc<OnceLock<()>>,
    /// Bytes, or messages, of the attack so far.
    sent: Arc<AtomicU64>,
}

/// One connection of a hostile server. It ends when the daemon has had enough.
struct Peer {
    stream: TcpStream,
    sent: Arc<AtomicU64>,
}

impl Hostile {
    /// Serves each connection on a thread of its own, which ends with the connection.
    fn serve(connection: impl Fn(&mut Peer) -> std::io::Result<()> + Send + Sync + 'static) -> Hostile {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("an address").port();
        let loose = Arc::<OnceLock<()>>::default();
        let sent = Arc::<AtomicU64>::default();
        let hostile = Hostile { port, loose: loose.clone(), sent: sent.clone() };
        let connection = Arc::new(connection);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = connection.clone();
                let loose = loose.clone();
                let sent = sent.clone();
                thread::spawn(move || {
                    loose.wait();
                    let _ = stream.set_nodelay(true);
                    let mut peer = Peer { stream, sent };
                    // It ends with the connection, in one way or another.
                    let _ = connection(&mut peer);
                });
            }
        });
        hostile
    }
}

impl Peer {
    fn read<const N: usize>(&mut self) -> std::io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn read_many(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn say(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Writes the same bytes until the daemon has had enough.
    fn flood(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let many = bytes.repeat((64 << 10) / bytes.len().min(64 << 10));
        loop {
            self.stream.write_all(&many)?;
            self.sent.fetch_add(many.len() as u64, Ordering::Relaxed);
        }
    }
}

struct Endured {
    daemon: Daemon,
    /// Memory at its peak above what the daemon had before, in bytes.
    peak: u64,
}

/// Lets a hostile server loose on a daemon whose sink `bad` is on it, while elements of a healthy queue pass by.
async fn endure(name: &str, hostile: &Hostile, sink: &str) -> Endured {
    endure_with(name, hostile, &format!("bad: {{ {sink} }}"), "").await
}

/// The same with other sinks beside the healthy one, and further sections.
async fn endure_with(name: &str, hostile: &Hostile, sinks: &str, further: &str) -> Endured {
    let _turn = heavy().await;
    let server = RedisServer::start().await;
    let yaml = format!(
        "redis: {{ url: '{url}' }}\n\
         sinks: {{ good: {{ redis: {{ url: '{url}', timeout: 5s }} }}, {sinks} }}\n\
         queues: {{\n\
         well: {{ source: {{ redisson: {{ name: well }} }}, to: [{{ sink: good, stream: out }}] }},\n\
         ill: {{ source: {{ redisson: {{ name: ill }} }}, to: [{{ sink: bad }}] }} }}\n{further}",
        url = server.url(),
    );
    let mut daemon = Daemon::start_with_sinks_down(&yaml).await;
    // Whatever it says of the server is right; panics and the end of the process are not.
    daemon.expect_log("\"level\":");
    let before = daemon.usage().resident;
    let mut redis = server.client().await;
    let well = RedissonQueue::new("well");
    let ill = RedissonQueue::new("ill");
    let now = redis_now_ms(&mut redis).await;
    ill.offer_bulk(&mut redis, &elements(&ill, "ill", 200, now, 1)).await;
    // Once: each attack has a server of its own.
    hostile.loose.set(()).expect("it is let loose once");
    eventually("the attack to begin", PATIENCE, async || match hostile.sent.load(Ordering::Relaxed) {
        0 => Err("nothing was sent".to_owned()),
        _ => Ok(()),
    })
    .await;
    let mut oracle = Oracle::new();
    let spread = i64::try_from(SIEGE.as_millis()).expect("a short time");
    let offered = elements(&well, "well", 300, redis_now_ms(&mut redis).await + 200, spread);
    oracle.offered(&offered);
    well.offer_bulk(&mut redis, &offered).await;
    pass(SIEGE).await;
    let usage = daemon.usage();
    let found = eventually("the healthy queue to be delivered", PATIENCE, async || {
        let found = read_stream(&mut server.client().await, "out").await;
        oracle.judge(&found).complete().map(|_| found)
    })
    .await;
    let late = lateness(&found);
    let peak = daemon.usage().peak.saturating_sub(before);
    println!(
        "{name}: {} MiB above {} MiB, {} MB sent; the healthy queue: {}; CPU {:?}",
        peak >> 20,
        before >> 20,
        hostile.sent.load(Ordering::Relaxed) / 1_000_000,
        summary(&late),
        usage.cpu
    );
    Endured { daemon, peak }
}

/// The same, and the daemon holds no more than it may.
async fn withstand(name: &str, hostile: &Hostile, sink: &str) -> Daemon {
    let Endured { daemon, peak } = endure(name, hostile, sink).await;
    assert!(peak < MOST, "{name}: the daemon held {} MiB more than before", peak >> 20);
    daemon
}
