//! The streams of a NATS server, and their problems.
//!
//! Daemons log in, with rights that can be removed. The run itself has no login, and may do everything.

use std::sync::Arc;
use std::time::Duration;

use brokers::{Nats, NatsOptions};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::offers::QUEUES;
use crate::target::{blocking, place};
use crate::what::Ailment;
use harness::nats::{ask, make_stream, read_stream};
use harness::oracle::Delivery;

const USER: &str = "daemon";

/// The interval between looks for what is stored.
const LOOK: Duration = Duration::from_millis(100);
/// Number of looks without a new message after which nothing is under way.
const LOOKS: usize = 5;

/// The server.
pub struct NatsStreams {
    nats: Nats,
}

/// The users of the server, of whom the daemons have these rights.
fn users(rights: &str) -> String {
    format!(
        "max_payload: 8MB\n\
         authorization {{ users: [ {{ user: run, password: run }}, {{ user: {USER}, password: {USER}, {rights} }} ] }}\n\
         no_auth_user: run\n"
    )
}

fn stream(queue: &str) -> String {
    format!("S-{queue}")
}

/// The subject of a queue's stream while it does not listen to its own.
fn elsewhere(queue: &str) -> String {
    format!("elsewhere-{queue}")
}

fn info(nats: &Nats, queue: &str) -> Value {
    asked(nats, "INFO", queue, &json!({}))
}

fn asked(nats: &Nats, action: &str, queue: &str, body: &Value) -> Value {
    let answer = ask(nats, &format!("STREAM.{action}.{}", stream(queue)), body);
    answer.unwrap_or_else(|e| panic!("{action} of the stream of {queue}: {e}"))
}

impl NatsStreams {
    /// Starts the server, and creates a stream for each queue.
    pub async fn start() -> Arc<NatsStreams> {
        let nats = blocking(|| {
            let nats = Nats::start_with(&NatsOptions { config: users(""), ..NatsOptions::default() })?;
            for queue in QUEUES {
                make_stream(&nats, &stream(queue), &place(queue), &json!({}));
            }
            Ok(nats)
        });
        Arc::new(NatsStreams { nats: nats.await })
    }

    /// The keys of the sink under `nats` that name the server and the user.
    pub fn login(&self) -> String {
        // The password is short: whoever reaches this port may do everything without it.
        format!("servers: ['127.0.0.1:{}'], username: {USER}, password: {USER}", self.nats.port())
    }

    /// The arrivals from this queue.
    pub async fn deliveries(self: &Arc<Self>, queue: usize) -> Vec<Delivery> {
        let queue = QUEUES[queue];
        self.work(move |nats| {
            let first = info(nats, queue)["state"]["first_seq"].clone();
            assert!(
                first == 1 || first == 0,
                "the server has removed what was in the stream of {queue} before {first}"
            );
            Ok(read_stream(nats, &stream(queue)).unwrap_or_else(|e| panic!("read the stream of {queue}: {e}")))
        })
        .await
    }

    /// Causes a problem of the server, and undoes it.
    pub async fn suffer(self: &Arc<Self>, ailment: Ailment, lasts: Duration) {
        match ailment {
            Ailment::Freeze => {
                self.nats.freeze();
                sleep(lasts).await;
                self.nats.thaw();
            }
            Ailment::Kill => {
                self.nats.kill();
                sleep(lasts).await;
                self.work(|server| server.restart()).await;
            }
            Ailment::Full => {
                // A limit below what is there would remove it, so nothing comes while that is counted. Not `max_bytes`: the
                // server does not count all bytes of the last message that it takes, and then removes the first.
                self.update(|queue, _| json!({ "subjects": [elsewhere(queue)] })).await;
                self.quiet().await;
                self.update(|queue, messages| json!({ "subjects": [place(queue)], "max_msgs": messages.max(1) })).await;
                sleep(lasts).await;
                self.update(|_, _| json!({ "max_msgs": -1 })).await;
            }
            Ailment::Gone => {
                self.update(|queue, _| json!({ "subjects": [elsewhere(queue)] })).await;
                sleep(lasts).await;
                self.update(|queue, _| json!({ "subjects": [place(queue)] })).await;
            }
            Ailment::Rights => {
                self.work(|nats| nats.reload(&users("permissions: { publish: { deny: \"out-*\" } }"))).await;
                sleep(lasts).await;
                self.work(|nats| nats.reload(&users(""))).await;
            }
            Ailment::Disconnect | Ailment::Disk | Ailment::Half { .. } | Ailment::NameServer | Ailment::Refuse => {
                panic!("a fault of another broker, for NATS")
            }
        }
    }

    /// Waits until the server has stored what was under way.
    async fn quiet(self: &Arc<Self>) {
        let mut before = Vec::new();
        let mut quiet = 0;
        while quiet < LOOKS {
            sleep(LOOK).await;
            let now = self.work(|nats| Ok(QUEUES.map(|queue| info(nats, queue)["state"]["last_seq"].clone()))).await;
            quiet = if before == now { quiet + 1 } else { 0 };
            before = now.to_vec();
        }
    }

    /// Changes settings of every stream, by its queue and the number of messages in it.
    async fn update(self: &Arc<Self>, change: impl Fn(&str, u64) -> Value + Send + 'static) {
        self.work(move |nats| {
            for queue in QUEUES {
                let info = info(nats, queue);
                let mut config = info["config"].clone();
                let change = change(queue, info["state"]["messages"].as_u64().unwrap_or(0));
                config.as_object_mut().expect("an object").extend(change.as_object().cloned().unwrap_or_default());
                asked(nats, "UPDATE", queue, &config);
            }
            Ok(())
        })
        .await;
    }

    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Nats) -> brokers::Result<T> + Send + 'static,
    ) -> T {
        let streams = Arc::clone(self);
        blocking(move || work(&streams.nats)).await
    }
}
