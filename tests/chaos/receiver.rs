//! A webhook that misbehaves: it records every request whose body it has read, whatever its response is.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use crate::offers::now_ms;
use harness::oracle::Delivery;
use harness::proxy::{Mode, Proxy};

/// The header of a [`Delivery`] with the receiver's response.
const ANSWER: &str = "answer";

/// The behaviour of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// The response to every n-th request is late.
    Slow {
        /// The delay, in ms.
        ms: u64,
        /// The n.
        nth: u64,
    },
    /// The response to every n-th request has this status, after which the receiver may have acted.
    Fail {
        /// 500, 502 or 504.
        status: u16,
        /// The n.
        nth: u64,
    },
    /// Every n-th request is refused.
    Busy {
        /// 429 or 503.
        status: u16,
        /// The seconds in `Retry-After`; 0 omits it.
        seconds: u64,
        /// The n.
        nth: u64,
    },
    /// The connection of every n-th request is closed after its body was read.
    Cut {
        /// The n.
        nth: u64,
    },
    /// No response.
    Mute,
    /// No connection.
    Refuse,
}

pub struct Receiver {
    desk: Arc<Desk>,
    /// The proxy before the receiver, for behaviours of whole connections.
    door: Proxy,
    listening: JoinHandle<()>,
}

#[derive(Default)]
struct Desk {
    manner: Mutex<Option<Manner>>,
    received: Mutex<Vec<Delivery>>,
    requests: AtomicU64,
    /// Fails three requests of ten, and delays every second response by up to this time, independently of the
    /// behaviour.
    fails: Mutex<Option<Duration>>,
    struck: AtomicU64,
}

/// The response to a request.
enum Answer {
    /// A status, and the seconds in `Retry-After`.
    Status(u16, u64),
    /// The end of the connection.
    Cut,
}

impl Receiver {
    /// Starts the receiver on a free port.
    pub async fn start() -> Receiver {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("listen for webhooks");
        let door = Proxy::start(listener.local_addr().expect("an address").port()).await;
        let desk = Arc::new(Desk::default());
        let behind = Arc::clone(&desk);
        let listening = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let desk = Arc::clone(&behind);
                let service = service_fn(move |request| answer(Arc::clone(&desk), request));
                let server = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                connections.spawn(server);
                // Remove the ended ones.
                while connections.try_join_next().is_some() {}
            }
        });
        Receiver { desk, door, listening }
    }

    /// The port for the daemons.
    pub fn port(&self) -> u16 {
        self.door.port()
    }

    /// Fails three requests of ten, and delays every second response by up to this time; `None` ends that.
    pub fn fails(&self, late: Option<Duration>) {
        *lock(&self.desk.fails) = late;
    }

    /// Behaves like this for some time; returns how often that struck.
    pub async fn behave(&self, manner: Manner, lasts: Duration) -> u64 {
        match manner {
            Manner::Mute | Manner::Refuse => {
                let before = self.door.received();
                self.door.set_mode(if manner == Manner::Mute { Mode::Mute } else { Mode::Refuse });
                sleep(lasts).await;
                self.door.set_mode(Mode::Pass);
                u64::from(manner == Manner::Refuse || self.door.received() > before)
            }
            _ => {
                let before = self.desk.struck.load(Ordering::Relaxed);
                *lock(&self.desk.manner) = Some(manner);
                sleep(lasts).await;
                *lock(&self.desk.manner) = None;
                self.desk.struck.load(Ordering::Relaxed) - before
            }
        }
    }

    /// The requests read at this path, except those refused before they had any effect.
    pub fn deliveries(&self, path: &str) -> Vec<Delivery> {
        let received = lock(&self.desk.received);
        received.iter().filter(|delivery| delivery.key.as_deref() == Some(path.as_bytes())).cloned().collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Whether the receiver confirmed the delivery. Deliveries to other kinds of destinations are confirmed.
pub fn is_confirmed(delivery: &Delivery) -> bool {
    delivery.headers.get(ANSWER).is_none_or(|status| status == b"204")
}

async fn answer(desk: Arc<Desk>, request: Request<Incoming>) -> Result<Response<String>, std::io::Error> {
    let cut = || std::io::Error::other("cut");
    let (head, mut incoming) = request.into_parts();
    // The begin of the request, which precedes its effects.
    let arrived_ms = now_ms();
    let mut body = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut incoming).poll_frame(context)).await {
        body.extend_from_slice(&frame.map_err(|_| cut())?.into_data().unwrap_or_default());
    }
    let probe = head.method == Method::OPTIONS;
    let answer = desk.decide(probe).await;
    if !probe && !matches!(answer, Answer::Status(429 | 503, _)) {
        let mut headers: BTreeMap<String, Vec<u8>> =
            head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        let text = |name: &str| Some(String::from_utf8_lossy(headers.get(name)?).into_owned());
        let id = text("delaybridge-id");
        let queue = text("delaybridge-queue");
        let due_ms = text("delaybridge-due-ms").and_then(|due| due.parse().ok());
        let attempt = text("delaybridge-attempt").and_then(|attempt| attempt.parse().ok());
        let status = match answer {
            Answer::Status(status, _) => status,
            Answer::Cut => 0,
        };
        headers.insert(ANSWER.to_owned(), status.to_string().into_bytes());
        let key = Some(head.uri.path().as_bytes().to_vec());
        let arrived_ms = Some(arrived_ms);
        let delivery =
            Delivery { id, payload: body, queue, due_ms, attempt, arrived_ms, headers, key, ..Delivery::default() };
        lock(&desk.received).push(delivery);
    }
    let Answer::Status(status, seconds) = answer else { return Err(cut()) };
    let mut response = Response::new(String::new());
    *response.status_mut() = status.try_into().expect("a status");
    if seconds > 0 {
        response.headers_mut().insert(hyper::header::RETRY_AFTER, seconds.into());
    }
    Ok(response)
}

impl Desk {
    /// Decides on the response, after its delay. A probe does not count as a request.
    async fn decide(&self, probe: bool) -> Answer {
        let well = Answer::Status(204, 0);
        let fails = *lock(&self.fails);
        if let Some(late) = fails.filter(|_| !probe) {
            if fastrand::bool() {
                sleep(late.mul_f64(fastrand::f64())).await;
            }
            if fastrand::u8(..10) < 3 {
                return Answer::Status(500, 0);
            }
        }
        let Some(manner) = *lock(&self.manner) else { return well };
        let (Manner::Slow { nth, .. } | Manner::Fail { nth, .. } | Manner::Busy { nth, .. } | Manner::Cut { nth }) =
            manner
        else {
            return well;
        };
        if !probe && !(self.requests.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(nth) {
            return well;
        }
        self.struck.fetch_add(u64::from(!probe), Ordering::Relaxed);
        match manner {
            Manner::Slow { ms, .. } => {
                sleep(Duration::from_millis(ms)).await;
                well
            }
            Manner::Fail { status, .. } => Answer::Status(status, 0),
            Manner::Busy { status, seconds, .. } => Answer::Status(status, seconds),
            _ => Answer::Cut,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
