//! What a stranger sends to a real daemon: pages of the web, broken records, tenants without measure. With the daemon of
//! commit bfc2755 each of these tests fails; bench/results/2026-11-25-strangers.txt has its output.

mod answers;
mod operators;
mod prefixes;
mod records;
mod tenants;
mod web;

use std::time::Duration;

use tempfile::TempDir;

use harness::http::{self, Answer};
use harness::{RedisServer, ServerOptions, eventually};

const PATIENCE: Duration = Duration::from_secs(60);
const JSON: (&str, &str) = ("content-type", "application/json");
/// A token of at least 16 characters, as a header.
const WITH_TOKEN: (&str, &str) = ("authorization", "Bearer geheim-geheim-geheim");

/// A server on which every daemon may do everything: an earlier one needs other rights.
async fn server() -> RedisServer {
    RedisServer::start_with(ServerOptions::default().acl_user("guest on >guest ~* &* +@all")).await
}

/// Sends a request such as `POST /v1/topics`.
async fn ask(port: u16, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let answer = http::send(port, method, path, headers, body.as_bytes(), PATIENCE).await;
    answer.unwrap_or_else(|error| panic!("{error}"))
}

async fn add(port: u16, topic: &str, job: &str) -> Answer {
    ask(port, &format!("POST /v1/topics/{topic}/jobs"), &[JSON], job).await
}

/// A file with one line, in a directory that only its owner can enter.
fn file(line: &str) -> (TempDir, String) {
    let dir = TempDir::with_prefix("delaybridge-tokens-").expect("make a directory");
    let path = dir.path().join("tokens");
    std::fs::write(&path, format!("{line}\n")).expect("write the tokens");
    let path = path.to_str().expect("a path in UTF-8").to_owned();
    (dir, path)
}
