//! A TCP proxy in front of a Redis that breaks things on demand: stalls, refuses, drops, and loses single replies.
//!
//! Losing a reply means: the command reached the server and ran, its reply came back as far as this proxy, and then the
//! connection was cut. Connections that subscribe with version 2 of the protocol cannot be cut this way, since their
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
use super::ports::free_port;
use super::resp::{Frame, Scanner};
use super::toxic::{self, Toxic};

/// What the proxy does with connections and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Everything goes through.
    Pass,
    /// Connections are accepted and stay open, and not a byte passes in either direction: a stuck load balancer.
    Freeze,
    /// Commands reach the server, replies do not come back.
    Mute,
    /// New connections are refused and existing ones dropped: a stopped server.
    Refuse,
}

/// Which replies are lost; made by [`Cut::script`] or [`Cut::command`], passed to [`Proxy::cut`].
pub struct Cut {
    matches: Box<dyn Fn(&Frame) -> bool + Send>,
    skip: u64,
    every: u64,
    times: u64,
}

impl Cut {
    /// Replies to an `EVALSHA` of this SHA1.
    pub fn script(sha: &str) -> Self {
        let sha = sha.to_ascii_lowercase();
        Cut::matching(move |command| command.script().as_deref() == Some(&sha))
    }

    /// Replies to this command.
    pub fn command(name: &str) -> Self {
        let name = name.to_ascii_uppercase();
        Cut::matching(move |command| command.command() == name)
    }

    /// Replies to commands that the predicate picks by their first strings.
    pub fn matching(predicate: impl Fn(&Frame) -> bool + Send + 'static) -> Self {
        Cut { matches: Box::new(predicate), skip: 0, every: 1, times: 1 }
    }

    /// The first `count` pass.
    pub fn after(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Of those that follow, each `nth` is lost.
    pub fn every(mut self, nth: u64) -> Self {
        self.every = nth.max(1);
        self
    }

    /// At most this many are lost; one by default.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

/// How far a [`Cut`] has come.
#[derive(Debug, Clone)]
pub struct CutCount(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    seen: AtomicU64,
    lost: AtomicU64,
}

impl CutCount {
    /// Commands that matched.
    pub fn seen(&self) -> u64 {
        self.0.seen.load(Ordering::Relaxed)
    }

    /// Replies that were lost after the command had run.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }
}

/// Bytes that must not reach the server: a connection with them is frozen from there on.
#[derive(Debug, Clone)]
pub struct Trip(Arc<AtomicU64>);

impl Trip {
    /// Connections that have been stopped by it.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The running proxy; dropping it ends its connections.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

struct Shared {
    target: Mutex<SocketAddr>,
    mode: watch::Sender<Mode>,
    /// Grows by one when all connections are to be dropped.
    generation: watch::Sender<u64>,
    rules: Mutex<Vec<Rule>>,
    trips: Mutex<Vec<(Vec<u8>, Arc<AtomicU64>)>>,
    toxic: Mutex<Option<Toxic>>,
    connections: AtomicU64,
    /// Bytes that clients have sent, forwarded or not.
    received: AtomicU64,
}

struct Rule {
    cut: Cut,
    /// Matches so far, and cuts ordered so far.
    matched: u64,
    ordered: u64,
    counts: Arc<Counts>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 in front of `target_port`.
    pub async fn start(target_port: u16) -> Self {
        let (port, listener) = loop {
            let port = free_port();
            // Another process can be faster with this port.
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

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://` address of the proxy.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Bytes that clients have sent so far. A frozen proxy reads a little and forwards nothing of it.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Switches; takes effect for open connections too.
    pub fn set_mode(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
        if mode == Mode::Refuse {
            self.drop_connections();
        }
    }

    /// New connections lead to another server on 127.0.0.1.
    pub fn set_target(&self, port: u16) {
        *lock(&self.shared.target) = SocketAddr::from(([127, 0, 0, 1], port));
    }

    /// Slows or spoils what passes from now on, in both directions; `None`: not any more.
    pub fn set_toxic(&self, toxic: Option<Toxic>) {
        *lock(&self.shared.toxic) = toxic;
    }

    /// Closes every connection that is open now.
    pub fn drop_connections(&self) {
        self.shared.generation.send_modify(|generation| *generation += 1);
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Orders replies to be lost, from the next command on.
    pub fn cut(&self, cut: Cut) -> CutCount {
        let counts = Arc::new(Counts::default());
        let rule = Rule { cut, matched: 0, ordered: 0, counts: Arc::clone(&counts) };
        lock(&self.shared.rules).push(rule);
        CutCount(counts)
    }

    /// Forgets all orders of [`cut`](Proxy::cut).
    pub fn stop_cutting(&self) {
        lock(&self.shared.rules).clear();
    }
}

impl Proxy {
    /// From now on a connection with these bytes from its client is frozen: they are not forwarded, and
    /// nothing after them. For payloads that kill their sender.
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

/// Listens with room for what clients send to a frozen connection: data without room is unacknowledged, and a client's
/// kernel gives up a connection with such data after its own time-out.
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
            // Only a closed listener answers with "connection refused".
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
        // Unordered: both branches can be dropped at any time without losing anything.
        tokio::select! {
            changed = mode.changed() => if changed.is_err() { return },
            accepted = open.accept() => if let Ok((client, _)) = accepted {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(connection(client, Arc::clone(&shared)));
            },
        }
    }
}

/// What the two directions of a connection know together.
#[derive(Default)]
struct Pending {
    /// Numbers of the replies that are to be lost, each with the order that it counts for.
    cuts: Vec<(u64, Arc<Counts>)>,
}

async fn connection(client: TcpStream, shared: Arc<Shared>) {
    let mut generation = shared.generation.subscribe();
    generation.mark_unchanged();
    let _ = client.set_nodelay(true);
    let relay = async {
        // Connecting waits, too: a frozen proxy must not even show that the server is there.
        open(&shared, &[Mode::Freeze]).await;
        let target = *lock(&shared.target);
        let Ok(server) = TcpStream::connect(target).await else { return };
        let _ = server.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let pending = Mutex::new(Pending::default());
        // Unordered: whichever direction ends first ends the connection.
        tokio::select! {
            () = commands(from_client, to_server, &shared, &pending) => {},
            () = replies(from_server, to_client, &shared, &pending) => {},
        }
    };
    // Unordered: a dropped relay closes both sockets, which is all that is asked for.
    tokio::select! {
        _ = generation.changed() => {},
        () = relay => {},
    }
}

/// Waits until the mode is none of those that stop this direction.
async fn open(shared: &Shared, stopping: &[Mode]) {
    // The sender lives in `shared`, so this cannot fail.
    let _ = shared.mode.subscribe().wait_for(|mode| !stopping.contains(mode)).await;
}

async fn commands(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, pending: &Mutex<Pending>) {
    let mut scanner = Scanner::new();
    let mut count = 0_u64;
    let mut buffer = vec![0; 64 * 1024];
    let (mut tail, mut passed) = (Vec::new(), 0);
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        shared.received.fetch_add(read as u64, Ordering::Relaxed);
        open(shared, &[Mode::Freeze]).await;
        if tripped(&lock(&shared.trips), &mut tail, &buffer[..read]) {
            return std::future::pending().await;
        }
        // Before the bytes are forwarded, so that the order is there when the reply comes.
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

/// Whether a piece completes one of the sequences; `tail` is what of the pieces before may be the beginning of one.
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

/// Whether the reply to this command is to be lost; every rule counts it, the first that is due decides.
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
    let (mut relay, mut passed) = (ReplyRelay::new(), 0);
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

/// Decides which bytes of the server are forwarded to the client.
struct ReplyRelay {
    scanner: Scanner,
    /// Replies that have ended.
    count: u64,
    /// The beginning of a reply that may turn out to be an error, which is passed on: its command did not run.
    held: Vec<u8>,
}

impl ReplyRelay {
    fn new() -> Self {
        ReplyRelay { scanner: Scanner::new(), count: 0, held: Vec::new() }
    }

    /// The bytes to pass on, and the number of the reply that was lost, if that has happened.
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

/// Takes a lock of data that is never left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_trip_in_whatever_pieces_they_come() {
        let check = |pieces: &[&str], expected: bool| {
            let (trips, mut tail) = (vec![(b"POISON".to_vec(), Arc::default())], Vec::new());
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
