//! A real NATS server for the tests of this sink, and what is in its streams.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use brokers::{Nats, NatsOptions};
use serde_json::{Value, json};

use crate::{NatsDestination, NatsLogin, NatsSpec};
use delaybridge_sink::Destination;

/// A server of a test's own.
pub(super) struct Server(Arc<Nats>);

/// A message in a stream.
pub(super) struct Stored {
    pub(super) subject: String,
    pub(super) body: Vec<u8>,
    pub(super) header: Vec<String>,
}

impl Server {
    pub(super) async fn start() -> Server {
        Server::start_with(NatsOptions::default()).await
    }

    pub(super) async fn start_with(options: NatsOptions) -> Server {
        let nats = tokio::task::spawn_blocking(move || Nats::start_with(&options)).await.unwrap().unwrap();
        Server(Arc::new(nats))
    }

    pub(super) async fn cluster() -> Vec<Server> {
        let cluster = tokio::task::spawn_blocking(|| Nats::start_cluster(3)).await.unwrap().unwrap();
        cluster.into_iter().map(|nats| Server(Arc::new(nats))).collect()
    }

    /// Does something that takes its time.
    pub(super) async fn does<T: Send + 'static>(&self, what: impl FnOnce(&Nats) -> T + Send + 'static) -> T {
        let nats = self.0.clone();
        tokio::task::spawn_blocking(move || what(&nats)).await.unwrap()
    }

    pub(super) fn port(&self) -> u16 {
        self.0.port()
    }

    pub(super) fn name(&self) -> String {
        self.0.name()
    }

    pub(super) fn certificates(&self) -> &brokers::tls::Certificates {
        self.0.certificates()
    }

    /// What the sink needs to reach it.
    pub(super) fn spec(&self) -> NatsSpec {
        spec_on(&[self.port()])
    }

    pub(super) async fn ask(&self, subject: String, body: Value) -> Result<Value, String> {
        self.does(move |nats| {
            let mut client = nats.client().map_err(|e| e.to_string())?;
            let answer = client.request(&format!("$JS.API.{subject}"), body.to_string().as_bytes());
            let answer: Value = serde_json::from_slice(&answer.map_err(|e| e.to_string())?).unwrap();
            match answer.get("error") {
                Some(error) => Err(error.to_string()),
                None => Ok(answer),
            }
        })
        .await
    }

    /// Makes a stream; `more` are further settings.
    pub(super) async fn stream(&self, name: &str, subjects: &str, more: &str) {
        let mut config = json!({
            "name": name, "subjects": [subjects], "retention": "limits", "storage": "file", "max_consumers": -1,
            "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msg_size": -1, "discard": "old", "num_replicas": 1,
            "duplicate_window": 120_000_000_000_u64,
        });
        let more: Value = serde_json::from_str(&format!("{{{more}}}")).unwrap();
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask(format!("STREAM.CREATE.{name}"), config).await.unwrap();
    }

    /// Everything in a stream, in its order.
    pub(super) async fn stored(&self, stream: &str) -> Vec<Stored> {
        let info = self.ask(format!("STREAM.INFO.{stream}"), json!({})).await.unwrap();
        let first = &info["state"]["first_seq"];
        let last = &info["state"]["last_seq"];
        let range = first.as_u64().unwrap().max(1)..=last.as_u64().unwrap();
        let subject = format!("$JS.API.STREAM.MSG.GET.{stream}");
        self.does(move |nats| {
            let mut client = nats.client().unwrap();
            let text = |bytes: &Value| STANDARD.decode(bytes.as_str().unwrap_or_default()).unwrap();
            range
                .map(|number| {
                    let answer = client.request(&subject, json!({ "seq": number }).to_string().as_bytes()).unwrap();
                    let answer: Value = serde_json::from_slice(&answer).unwrap();
                    let message = &answer["message"];
                    let header = String::from_utf8(text(&message["hdrs"])).unwrap();
                    Stored {
                        subject: message["subject"].as_str().unwrap().to_owned(),
                        body: text(&message["data"]),
                        header: header.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect(),
                    }
                })
                .collect()
        })
        .await
    }

    pub(super) async fn bodies(&self, stream: &str) -> Vec<Vec<u8>> {
        self.stored(stream).await.into_iter().map(|message| message.body).collect()
    }
}

pub(super) fn spec_on(ports: &[u16]) -> NatsSpec {
    NatsSpec {
        servers: ports.iter().map(|port| ("127.0.0.1".to_owned(), *port)).collect(),
        tls: None,
        login: NatsLogin::Anonymous,
        inbox_prefix: "_INBOX".to_owned(),
        connect_timeout: Duration::from_secs(5),
        ping_interval: Duration::from_secs(5),
        max_unconfirmed: 1000,
    }
}

pub(super) fn subject(subject: &str) -> Destination {
    NatsDestination { subject: subject.into() }.into()
}
