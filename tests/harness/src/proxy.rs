//! A TCP proxy before a Redis that causes faults on request: it stalls, refuses, drops, and loses single replies.
//!
//! A lost reply means: the command reached the server and ran, its reply came back to this proxy, and then the
//! connection was cut. This does not work for connections that subscribe with version 2 of the protocol, because their
//! messages look like replies.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::least;
use super::resp::{Frame, Scanner};
use super::toxic::{self, Toxic};
use brokers::ports::free_port;

/// The treatment of connections and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Everything goes through.
    Pass,
    /// Connections are accepted and stay open, but no byte passes in either direction, as with a stuck load balancer.
    Freeze,
    /// Commands reach the server, but replies do not come back.
    Mute,
    /// New connections are refused and existing ones dropped, as with a stopped server.
    Refuse,
}

/// A rule for lost replies; made by [`Cut::script`] or [`Cut::command`], passed to [`Proxy::cut`].
pub struct Cut {
    matches: Box<dyn Fn(&Frame) -> bool + Send>,
    skip: u64,
    every: u64,
    times: u64,
}

impl Cut {
    /// Selects the replies to an `EVALSHA` with this SHA1.
    pub fn script(sha: &str) -> Self {
        let sha = sha.to_ascii_lowercase();
        Cut::matching(move |command| command.script().as_deref() == Some(&sha))
    }

    /// Selects the replies to this command.
    pub fn command(name: &str) -> Self {
        let name = name.to_ascii_uppercase();
        Cut::matching(move |command| command.command() == name)
    }

    /// Selects the replies to commands by a predicate on their first strings.
    pub fn matching(predicate: impl Fn(&Frame) -> bool + Send + 'static) -> Self {
        Cut { matches: Box::new(predicate), skip: 0, every: 1, times: 1 }
    }

    /// Lets the first `count` pass.
    pub fn after(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Loses only every `nth` of those that follow.
    pub fn every(mut self, nth: u64) -> Self {
        self.every = nth.max(1);
        self
    }

    /// Loses at most `times` replies; 1 by default.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

/// The counts of a [`Cut`].
#[derive(Debug, Clone)]
pub struct CutCount(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    seen: AtomicU64,
    lost: AtomicU64,
}

impl CutCount {
    /// Number of commands that matched.
    pub fn seen(&self) -> u64 {
        self.0.seen.load(Ordering::Relaxed)
    }

    /// Number of replies that were lost after the command had run.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }
}

/// Bytes that must not reach the server: a connection with them is frozen from there on.
#[derive(Debug, Clone)]
pub struct Trip(Arc<AtomicU64>);

impl Trip {
    /// Number of connections that it has frozen.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The running proxy, whose connections end on drop.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

struct Shared {
    target: Mutex<SocketAddr>,
    mode: watch::Sender<Mode>,
    /// The number of times that all connections were dropped.
    generation: watch::Sender<u64>,
    rules: Mutex<Vec<Rule>>,
    trips: Mutex<Vec<(Vec<u8>, Arc<AtomicU64>)>>,
    toxic: Mutex<Option<Toxic>>,
    connections: AtomicU64,
    /// Number of bytes that clients have sent, forwarded or not.
    received: AtomicU64,
}

struct Rule {
    cut: Cut,
    /// Number of matches, and of ordered cuts.
    matched: u64,
    ordered: u64,
    counts: Arc<Counts>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 before `target_port`.
    pub async fn start(target_port: u16) -> Self {
        let (port, listener) = loop {
            let port = free_port();
            // Another process may have taken this port.
            if let Ok(listener) = listen(port) {
                break (port, listener);
            }
        };
        least::leads_to(port, target_port);
        let shared = Arc::new(Shared {
            target: Mutex::new(SocketAddr::from(([127, 0, 0, 1], target_port))),
            mode: watch::Sender::new(Mode::Pass),
            generation: watch::Sender::new(0),
            rules: Mutex::default(),
            trips: Mutex::default(),
            toxic: Mutex::default(),
            connections: AtomicU64::new(0),
            received: AtomicU64::new(0),
        });
        let acceptor = tokio::spawn(accept(listener, port, Arc::clone(&shared)));
        Proxy { port, shared, acceptor }
    }

    /// The port of the proxy.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The `redis://` URL of the proxy.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Number of bytes that clients have sent so far. A frozen proxy reads a little, and forwards nothing.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Sets the mode, for open connections as well.
    pub fn set_mode(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
        if mode == Mode::Refuse {
            self.drop_connections();
        }
    }

    /// Directs new connections to another server on 127.0.0.1.
    pub fn set_target(&self, port: u16) {
        *lock(&self.shared.target) = SocketAddr::from(([127, 0, 0, 1], port));
    }

    /// Slows or disturbs all traffic in both directions from now on; `None` ends that.
    pub fn set_toxic(&self, toxic: Option<Toxic>) {
        *lock(&self.shared.toxic) = toxic;
    }

    /// Closes all open connections.
    pub fn drop_connections(&self) {
        self.shared.generation.send_modify(|generation| *generation += 1);
    }

    /// Number of connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Adds a rule for lost replies, from the next command on.
    pub fn cut(&self, cut: Cut) -> CutCount {
        let counts = Arc::new(Counts::default());
        let rule = Rule { cut, matched: 0, ordered: 0, counts: Arc::clone(&counts) };
        lock(&self.shared.rules).push(rule);
        CutCount(counts)
    }

    /// Removes all rules of [`cut`](Proxy::cut).
    pub fn stop_cutting(&self) {
        lock(&self.shared.rules).clear();
    }
}

impl Proxy {
    /// Freezes, from now on, a connection with these bytes from its client: neither they nor later ones are forwarded.
    /// For payloads that kill their sender.
    pub fn trip(&self, bytes: &[u8]) -> Trip {
        let count = Arc::new(AtomicU64::new(0));
        lock(&self.shared.trips).push((bytes.to_vec(), Arc::clone(&count)));
        Trip(count)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.drop_connections();
        self.acceptor.abort();
    }
}

/// Listens with a buffer for the data that clients send on a frozen connection: data beyond the buffer is
/// unacknowledged, and a client's kernel gives up a connection with such data after its own time-out.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_recv_buffer_size(1 << 20)?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
    socket.listen(1024)
}

async fn accept(listener: TcpListener, port: u16, shared: Arc<Shared>) {
    let mut mode = shared.mode.subscribe();
    let mut listener = Some(listener);
    loop {
        if *mode.borrow_and_update() == Mode::Refuse {
            // Only a closed listener causes "connection refused".
            listener = None;
            if mode.wait_for(|mode| *mode != Mode::Refuse).await.is_err() {
                return;
            }
        }
        let Some(open) = &listener else {
            match listen(port) {
                Ok(again) => listener = Some(again),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
            continue;
        };
        // Order does not matter: both branches can be dropped at any time without a loss.
        tokio::select! {
            changed = mode.changed() => if changed.is_err() { return },
            accepted = open.accept() => if let Ok((client, _)) = accepted {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(connection(client, Arc::clone(&shared)));
            },
        }
    }
}

/// The shared state of the two directions of a connection.
#[derive(Default)]
struct Pending {
    /// The numbers of the replies to lose, each with the rule that counts it.
    cuts: Vec<(u64, Arc<Counts>)>,
}

async fn connection(client: TcpStream, shared: Arc<Shared>) {
    let mut generation = shared.generation.subscribe();
    generation.mark_unchanged();
    let _ = client.set_nodelay(true);
    let relay = async {
        // The proxy does not even connect: a frozen proxy must not show that the server exists.
        open(&shared, &[Mode::Freeze]).await;
        let target = *lock(&shared.target);
        let Ok(server) = TcpStream::connect(target).await else { return };
        let _ = server.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let pending = Mutex::new(Pending::default());
        // Order does not matter: the direction that ends first ends the connection.
        tokio::select! {
            () = commands(from_client, to_server, &shared, &pending) => {},
            () = replies(from_server, to_client, &shared, &pending) => {},
        }
    };
    // Order does not matter: a dropped relay closes both sockets.
    tokio::select! {
        _ = generation.changed() => {},
        () = relay => {},
    }
}

/// Waits until the mode does not stop this direction.
async fn open(shared: &Shared, stopping: &[Mode]) {
    // The sender is in `shared`, so this cannot fail.
    let _ = shared.mode.subscribe().wait_for(|mode| !stopping.contains(mode)).await;
}

async fn commands(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, pending: &Mutex<Pending>) {
    let mut scanner = Scanner::new();
    let mut count = 0_u64;
    let mut buffer = vec![0; 64 * 1024];
    let mut tail = Vec::new();
    let mut passed = 0;
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        shared.received.fetch_add(read as u64, Ordering::Relaxed);
        open(shared, &[Mode::Freeze]).await;
        if tripped(&lock(&shared.trips), &mut tail, &buffer[..read]) {
            return std::future::pending().await;
        }
        // Before the bytes are forwarded, so that the order exists when the reply arrives.
        scanner.feed(&buffer[..read], |_, command| {
            if let Some(counts) = ordered_cut(&mut lock(&shared.rules), &command) {
                lock(pending).cuts.push((count, counts));
            }
            count += 1;
        });
        let toxic = *lock(&shared.toxic);
        if toxic::write(&mut to, &buffer[..read], toxic, &mut passed).await.is_err() {
            return;
        }
    }
}

/// Whether a chunk completes one of the sequences; `tail` is the end of the previous chunks, which may be the beginning
/// of one.
fn tripped(trips: &[(Vec<u8>, Arc<AtomicU64>)], tail: &mut Vec<u8>, piece: &[u8]) -> bool {
    let Some(longest) = trips.iter().map(|(bytes, _)| bytes.len()).max() else { return false };
    tail.extend_from_slice(piece);
    let hit = trips.iter().find(|(bytes, _)| tail.windows(bytes.len()).any(|window| window == bytes));
    if let Some((_, count)) = hit {
        count.fetch_add(1, Ordering::Relaxed);
    }
    tail.drain(..tail.len().saturating_sub(longest - 1));
    hit.is_some()
}

/// The counts if the reply to this command is to be lost; every rule counts it, and the first due one decides.
fn ordered_cut(rules: &mut [Rule], command: &Frame) -> Option<Arc<Counts>> {
    let mut due = None;
    for rule in rules {
        if !(rule.cut.matches)(command) {
            continue;
        }
        rule.counts.seen.fetch_add(1, Ordering::Relaxed);
        rule.matched += 1;
        let past_skipped = rule.matched.saturating_sub(rule.cut.skip);
        let is_turn = past_skipped > 0 && past_skipped.is_multiple_of(rule.cut.every);
        if due.is_none() && is_turn && rule.ordered < rule.cut.times {
            rule.ordered += 1;
            due = Some(Arc::clone(&rule.counts));
        }
    }
    due
}

async fn replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, pending: &Mutex<Pending>) {
    let mut relay = ReplyRelay::new();
    let mut passed = 0;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        open(shared, &[Mode::Freeze, Mode::Mute]).await;
        let orders: HashSet<u64> = lock(pending).cuts.iter().map(|(number, _)| *number).collect();
        let (pass, lost) = relay.take(&buffer[..read], &orders);
        let toxic = *lock(&shared.toxic);
        if !pass.is_empty() && toxic::write(&mut to, &pass, toxic, &mut passed).await.is_err() {
            return;
        }
        if let Some(lost) = lost {
            if let Some((_, counts)) = lock(pending).cuts.iter().find(|(number, _)| *number == lost) {
                counts.lost.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
    }
}

/// The decision which bytes of the server are forwarded to the client.
struct ReplyRelay {
    scanner: Scanner,
    count: u64,
    /// The beginning of a reply that may be an error, which is forwarded because its command did not run.
    held: Vec<u8>,
}

impl ReplyRelay {
    fn new() -> Self {
        ReplyRelay { scanner: Scanner::new(), count: 0, held: Vec::new() }
    }

    /// Takes a chunk; returns the bytes to forward, and the number of the reply that was lost, if any.
    fn take(&mut self, piece: &[u8], orders: &HashSet<u64>) -> (Vec<u8>, Option<u64>) {
        // Everything before this offset belongs to replies that may pass.
        let mut safe_until = 0;
        let mut lost = None;
        let count = &mut self.count;
        self.scanner.feed(piece, |end, reply| {
            if lost.is_some() {
                return;
            }
            if !reply.is_push() {
                let number = *count;
                *count += 1;
                if orders.contains(&number) && !reply.is_error() {
                    lost = Some(number);
                    return;
                }
            }
            safe_until = end;
        });
        let stops = lost.is_some() || orders.contains(&self.count);
        let passes = if stops { safe_until } else { piece.len() };
        let mut pass = Vec::new();
        if passes > 0 {
            pass.append(&mut self.held);
            pass.extend_from_slice(&piece[..passes]);
        }
        if self.scanner.under_way() == Some(b'-') {
            self.held.extend_from_slice(&piece[passes..]);
        }
        (pass, lost)
    }
}

/// Locks data that is never left inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_trip_in_whatever_pieces_they_come() {
        let check = |pieces: &[&str], expected: bool| {
            let trips = vec![(b"POISON".to_vec(), Arc::default())];
            let mut tail = Vec::new();
            let hit = pieces.iter().any(|piece| tripped(&trips, &mut tail, piece.as_bytes()));
            assert_eq!(hit, expected, "{pieces:?}");
        };
        check(&["a POISON b"], true);
        check(&["a POI", "SO", "N"], true);
        check(&["a POI", "", "zON"], false);
        check(&["POISO", "POISON"], true);
        check(&["POISO"], false);
    }
}
