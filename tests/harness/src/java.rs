//! Real Redisson clients: one Java process per version, started at first use and shared by all tests of this run.
//!
//! The program in it (`tests/brokers/redisson/Client.java`) answers with one JSON object per line. Answers are matched
//! with their commands by a number, so a waiting `take` does not block other tests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::logs::Lines;
use super::redisson::Layout;
use brokers::process::Process;

pub use brokers::redisson::VERSIONS;

/// Time-out of an answer: Redisson starts slowly, and the machine runs other tests as well.
const PATIENCE: Duration = Duration::from_secs(120);

/// The process of one version.
struct Java {
    version: &'static str,
    input: Mutex<ChildStdin>,
    waiting: Waiting,
    numbers: AtomicU64,
    complaints: Lines,
    /// Killed by the kernel when this process ends, because a `static` is never dropped.
    _process: Process,
}

/// The waiting callers by number; `None` once the process has ended.
type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Value>>>>>;

/// The answer of the program.
enum Answer {
    Done(Value),
    /// The class that this version does not have.
    Missing(String),
}

impl Java {
    /// The process of that version, started at first use.
    fn of(version: &'static str) -> &'static Java {
        static ALL: [OnceLock<Java>; VERSIONS.len()] = [const { OnceLock::new() }; VERSIONS.len()];
        let place = VERSIONS.iter().position(|known| *known == version).expect("one of VERSIONS");
        ALL[place].get_or_init(|| Java::start(version))
    }

    fn start(version: &'static str) -> Java {
        let mut command =
            brokers::redisson::command(version).unwrap_or_else(|e| panic!("start Redisson {version}: {e}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = format!("Redisson {version}");
        let mut process = Process::spawn(&name, command).unwrap_or_else(|e| panic!("start {name}: {e}"));
        let child = process.child_mut();
        let input = Mutex::new(child.stdin.take().expect("piped"));
        let complaints = Lines::collect(child.stderr.take().expect("piped"));
        let output = child.stdout.take().expect("piped");
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let answers = waiting.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{name} wrote {line}: {e}"));
                let number = answer["id"].as_u64().expect("the number of the question");
                let asked = lock(&answers).as_mut().and_then(|waiting| waiting.remove(&number));
                // The caller may have given up.
                let _ = asked.map(|asked| asked.send(answer));
            }
            // Waiting callers see the end of the channel.
            lock(&answers).take();
        });
        Java { version, input, waiting, numbers: AtomicU64::new(0), complaints, _process: process }
    }

    /// Sends a command; the answer can be awaited or not.
    fn send(&self, mut command: Value) -> oneshot::Receiver<Value> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        command["id"] = number.into();
        let (sender, answer) = oneshot::channel();
        if let Some(waiting) = lock(&self.waiting).as_mut() {
            waiting.insert(number, sender);
        }
        // Fails only if the process has ended, which closes the channel.
        let _ = writeln!(lock(&self.input), "{command}");
        answer
    }

    async fn ask(&self, command: Value) -> Answer {
        let what = format!("Redisson {}: {} on {}", self.version, command["do"], command["queue"]);
        let mut answer = match tokio::time::timeout(PATIENCE, self.send(command)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => panic!("{what}: the process is gone:\n{}", self.complaints.all().join("\n")),
            Err(_) => panic!("{what}: no answer within {PATIENCE:?}:\n{}", self.complaints.all().join("\n")),
        };
        if let Some(error) = answer.get("error") {
            panic!("{what}: {error}");
        }
        match answer.get("missing") {
            Some(reason) => Answer::Missing(reason.as_str().unwrap_or_default().to_owned()),
            None => Answer::Done(answer["ok"].take()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A `RedissonClient` of one version on one server, shut down on drop.
pub struct JavaClient {
    java: &'static Java,
    name: String,
}

impl JavaClient {
    /// Connects to a server by its URL, `cluster:PORT,PORT` or `sentinel:MASTER:PORT,PORT`. Each client has connections
    /// and transfer tasks of its own.
    pub async fn connect(version: &'static str, url: &str) -> Self {
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let java = tokio::task::spawn_blocking(move || Java::of(version)).await.expect("start Java");
        let name = CLIENTS.fetch_add(1, Ordering::Relaxed).to_string();
        // Redisson accepts no database in the address.
        let url = url.trim_end_matches("/0");
        let client = JavaClient { java, name };
        client.ask(json!({ "do": "connect", "url": url })).await;
        client
    }

    /// The layout that this version writes and reads.
    pub fn layout(&self) -> Layout {
        match self.java.version {
            "3.16.8" | "3.20.1" => Layout::Old,
            _ => Layout::New,
        }
    }

    /// A queue with this codec: the name of the codec's class, with the wrapped one in parentheses.
    pub fn queue(&self, name: &str, codec: &str) -> JavaQueue<'_> {
        JavaQueue { client: self, name: name.to_owned(), codec: codec.to_owned() }
    }

    /// Encodes the value with this version; the error says that it has no such codec.
    pub async fn encode(&self, codec: &str, value: &Value) -> Result<Vec<u8>, String> {
        match self.ask(json!({ "do": "encode", "codec": codec, "value": value })).await {
            Answer::Done(payload) => Ok(hex::decode(payload.as_str().expect("bytes")).expect("hexadecimal digits")),
            Answer::Missing(reason) => Err(reason),
        }
    }

    /// Whether this version's codec can decode its own encoding of the value.
    pub async fn reads(&self, codec: &str, value: &Value) -> bool {
        let answer = self.ask(json!({ "do": "reads", "codec": codec, "value": value })).await;
        matches!(answer, Answer::Done(Value::Bool(true)))
    }

    async fn ask(&self, mut command: Value) -> Answer {
        command["client"] = self.name.as_str().into();
        self.java.ask(command).await
    }
}

impl Drop for JavaClient {
    fn drop(&mut self) {
        // It is sent at once; the answer is not waited for.
        drop(self.java.send(json!({ "do": "disconnect", "client": self.name })));
    }
}

/// An `RDelayedQueue` with its ready list. Every method except [`take`](JavaQueue::take) starts the transfer task of
/// its client, as in Java, which then runs until [`destroy`](JavaQueue::destroy).
pub struct JavaQueue<'a> {
    client: &'a JavaClient,
    name: String,
    codec: String,
}

impl JavaQueue<'_> {
    /// Calls `offer(value, delay)`.
    pub async fn offer(&self, value: &Value, delay: Duration) {
        self.offer_all(&[(value.clone(), delay)]).await;
    }

    /// Offers each element separately; returns which of the offers were acknowledged.
    pub async fn offer_each(&self, elements: &[(Value, Duration)]) -> Vec<bool> {
        let element =
            |(value, delay): &(Value, Duration)| json!({ "value": value, "delay_ms": delay.as_millis() as u64 });
        let elements: Vec<Value> = elements.iter().map(element).collect();
        let answer = self.ask("offer_each", json!({ "elements": elements })).await;
        answer.as_array().expect("a list").iter().map(|done| done.as_bool().expect("yes or no")).collect()
    }

    /// Offers many elements, hundreds at a time.
    pub async fn offer_all(&self, elements: &[(Value, Duration)]) {
        let element =
            |(value, delay): &(Value, Duration)| json!({ "value": value, "delay_ms": delay.as_millis() as u64 });
        let elements: Vec<Value> = elements.iter().map(element).collect();
        self.ask("offer", json!({ "elements": elements })).await;
    }

    /// Calls `remove(value)`; returns whether an element was removed.
    pub async fn remove(&self, value: &Value) -> bool {
        self.ask("remove", json!({ "value": value })).await.as_bool().expect("yes or no")
    }

    /// Calls `contains(value)`.
    pub async fn contains(&self, value: &Value) -> bool {
        self.ask("contains", json!({ "value": value })).await.as_bool().expect("yes or no")
    }

    /// Calls `size()`.
    pub async fn size(&self) -> u64 {
        self.ask("size", json!({})).await.as_u64().expect("a number")
    }

    /// Calls `readAll()`.
    pub async fn read_all(&self) -> Vec<Value> {
        let Value::Array(all) = self.ask("read_all", json!({})).await else { panic!("readAll answers a list") };
        all
    }

    /// Calls `poll()` of the delayed queue, which returns the element that was offered first, due or not.
    pub async fn poll(&self) -> Option<Value> {
        let polled = self.ask("poll", json!({})).await;
        (!polled.is_null()).then_some(polled)
    }

    /// Calls `poll(wait)` of the blocking queue, as a Java consumer does.
    pub async fn take(&self, wait: Duration) -> Option<Value> {
        let taken = self.ask("take", json!({ "wait_ms": wait.as_millis() as u64 })).await;
        (!taken.is_null()).then_some(taken)
    }

    /// Calls `trySetCapacity(capacity)` of the ready list as an `RBoundedBlockingQueue`.
    pub async fn bound(&self, capacity: u32) -> bool {
        self.ask("bound", json!({ "capacity": capacity })).await.as_bool().expect("yes or no")
    }

    /// Calls `remainingCapacity()`.
    pub async fn free(&self) -> i64 {
        self.ask("free", json!({})).await.as_i64().expect("a number")
    }

    /// Calls `offer(value, wait)` of the bounded queue; returns whether there was room.
    pub async fn put(&self, value: &Value, wait: Duration) -> bool {
        let put = json!({ "value": value, "wait_ms": wait.as_millis() as u64 });
        self.ask("put", put).await.as_bool().expect("yes or no")
    }

    /// Calls `getDelayedQueue()`, which starts the transfer task.
    pub async fn listen(&self) {
        self.ask("listen", json!({})).await;
    }

    /// Calls `destroy()`, which stops the transfer task of this client.
    pub async fn destroy(&self) {
        self.ask("destroy", json!({})).await;
    }

    async fn ask(&self, command: &str, mut fields: Value) -> Value {
        fields["do"] = command.into();
        fields["queue"] = self.name.as_str().into();
        fields["codec"] = self.codec.as_str().into();
        match self.client.ask(fields).await {
            Answer::Done(value) => value,
            Answer::Missing(reason) => panic!("{command}: {reason}"),
        }
    }
}
