//! The API and the page over real connections and a real Redis.

mod api;
mod audit;
mod chosen;
mod doors;
mod events;
mod everywhere;
mod export;
mod fleet;
mod lists;
mod night;
mod pages;
mod proxy;
mod roles;
mod topics;
mod why;

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::Admin;
use super::openapi::document;
use delaybridge_config::load_str;
use delaybridge_http_server::listener::ApiListener;
use delaybridge_http_server::server::serve;
use delaybridge_http_server::testing::{Answer, Client, check as conforms};
use delaybridge_link::test_server::TestServer;
use delaybridge_model::Config;
use delaybridge_ops::reload::{ReloadHandle, ReloadRequest};
use delaybridge_telemetry::events::Events;

pub(super) const TOKEN: &str = "0123456789abcdef";

/// Tokens with roles, beside that which may do everything.
const ROLES: &str = "vic viewer0123456789 viewer\nrea reader0123456789 reader orders\nopa operator0123456789 operator orders*,audit\n\
                     adi admin0123456789ab admin orders\n";

/// A running listener with a Redis of its own.
pub(super) struct World {
    pub(super) redis: TestServer,
    pub(super) events: Events,
    pub(super) address: SocketAddr,
    pub(super) stop: CancellationToken,
    pub(super) wishes: Receiver<ReloadRequest>,
    pub(super) config: Config,
    _tokens: tempfile::NamedTempFile,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub(super) async fn start(tokens: bool) -> World {
        World::with(tokens, "").await
    }

    pub(super) async fn with(tokens: bool, more: &str) -> World {
        delaybridge_dial::init();
        let redis = TestServer::start();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("ann {TOKEN} admin\n{ROLES}")).unwrap();
        let tokens = if tokens { format!(", tokens_file: {}", file.path().display()) } else { String::new() };
        let yaml = format!(
            "http: {{ admin: {{ listen: '127.0.0.1:0'{tokens}{more} }} }}\nredis: {{ url: '{}' }}\njobs: {{ topics: {{ audit: {{ ttr: 5s }} }} }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\n\
             queues:\n  orders: {{ source: {{ zset: {{ key: due, score: ms, id: '${{payload.id}}' }} }}, codec: json, to: [{{ sink: out }}] }}\n  \
             mails: {{ source: {{ redisson: {{ name: mails }} }}, to: [{{ sink: out, list: sent }}] }}\n",
            format_args!("redis://127.0.0.1:{}", redis.port())
        );
        let loaded = load_str(&yaml, "c.yaml", &|_| None).unwrap();
        let config = loaded.config.clone();
        let events = Events::default();
        let stop = CancellationToken::new();
        let spec = loaded.config.admin.clone().unwrap();
        let (reload, wishes) = ReloadHandle::new(Arc::new(loaded.config), loaded.parts);
        let admin = Arc::new(Admin::new(&spec, reload, &events, stop.clone()).unwrap());
        let listener = ApiListener::bind(&spec.listen).unwrap();
        let address = listener.address.tcp().unwrap();
        tokio::spawn(admin.clone().keep());
        tokio::spawn(serve(listener, admin, None));
        World { redis, events, address, stop, wishes, config, _tokens: file }
    }

    /// One request with these headers on a connection of its own.
    pub(super) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let answer = Client::connect(self.address).await.ask(method, path, headers, body.as_bytes()).await;
        conforms(&document(), method, path, &answer);
        answer
    }

    /// One request to the API with the token.
    pub(super) async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let token = format!("Bearer {TOKEN}");
        self.send(method, path, &[("authorization", &token)], body).await
    }

    /// The answer to a `GET` with the token, which has to be well.
    pub(super) async fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    pub(super) async fn redis(&self, words: &[&str]) {
        self.redis.command(words).await;
    }
}
