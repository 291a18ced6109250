//! The ways in and out: restore, and the programs that a team runs before and together with the daemon. The built
//! binary, a real Redis.

mod discover;
mod guide;
mod migrate;
mod rescue;
mod restore;
mod restore_model;
mod shadow;

use std::sync::Arc;

use delaybridge_core::message::{MessageId, Origin};
use delaybridge_ledger::claims::{Header, Writer};
use delaybridge_link::{Conn, Link, LinkOptions};
use delaybridge_source::redisson::ListCleanup;
use delaybridge_source::redisson::Redisson;

use harness::RedisServer;
use harness::daemon::{ConfigFile, cli};

/// The name of the queue `orders`.
const NAME: &str = "shop:orders";

/// A configuration of one queue, `orders`, on this server; `rest` has further keys of the queue.
fn yaml(server: &RedisServer, rest: &str) -> String {
    format!(
        "redis: {{ url: {}, connect_timeout: 30s, command_timeout: 14s }}\n\
         sinks: {{ out: {{ redis: {{ list: done, timeout: 20s }} }} }}\n\
         queues:\n  orders:\n    source: {{ redisson: {{ name: \"{NAME}\" }} }}\n    to: [{{ sink: out }}]\n{rest}",
        server.url()
    )
}

fn config(server: &RedisServer) -> ConfigFile {
    ConfigFile::new(&format!("http: none\n{}", yaml(server, "")))
}

/// Runs a command; returns its exit code, standard output and standard error.
fn ask(config: &ConfigFile, line: &str) -> (i32, String, String) {
    let output = cli(config, &line.split(' ').collect::<Vec<_>>());
    let text = |bytes| String::from_utf8(bytes).expect("the command line writes UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// The output of a command that must succeed.
#[track_caller]
fn well(config: &ConfigFile, line: &str) -> String {
    let (code, out, err) = ask(config, line);
    assert_eq!((code, err.as_str()), (0, ""), "{line}: {out}{err}");
    out
}

/// An entry as a daemon leaves it: first claimed at `time_ms` (ready) or due then (delayed), as the `index`-th.
pub fn entry(origin: Origin, id: [u8; 8], time_ms: i64, index: u32, confirmed: Vec<u64>, element: &[u8]) -> Vec<u8> {
    let mut header = Header::redriven(origin, MessageId(id), time_ms, confirmed);
    header.writer = Writer { owner: [3; 8], claim: 0, place: index };
    header.attempts = 2;
    let mut member = header.encode();
    member.extend_from_slice(element);
    member
}

/// The library's own access to the queue, for actions without a command.
async fn library(server: &RedisServer) -> (Link, Conn, Redisson) {
    let link = Link::start(Arc::new(server.endpoint()), LinkOptions::default());
    let conn = link.ready().await;
    (link, conn, Redisson::new(NAME, [5; 8], true, true, ListCleanup::Auto))
}
