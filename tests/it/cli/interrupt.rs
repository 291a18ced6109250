//! Commands that are ended early by a signal: what was done is printed, and the exit code is that of the signal.

use std::process::{Child, Command, Stdio};

use redis::AsyncCommands;
use rustix::process::Signal;

use super::{PATIENCE, as_default_user, end, signal};
use harness::daemon::ConfigFile;
use harness::fill::{Load, Order, fill};
use harness::proxy::{Mode, Proxy};
use harness::{Layout, RedisServer, RedissonQueue, eventually};

fn start(config: &ConfigFile, line: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_delaybridge"))
        .args(line.split(' '))
        .env("DELAYBRIDGE_CONFIG", config.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the binary")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_ctrl_c_ends_prints_what_it_has_and_ends_with_130() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    // More than one part of the search looks at.
    let load = Load { count: 12_000, size: 16, order: Order::Random, last_in_ms: 86_400_000 };
    fill(&mut redis, &queue, load, |_| {}).await.expect("the server takes them");
    let proxy = Proxy::start(server.port()).await;
    proxy.set_mode(Mode::Freeze);
    let config = as_default_user(&proxy.url());
    let child = start(&config, "find texts --field a=b");
    // It catches signals before it connects.
    eventually("the command to connect", PATIENCE, async || match proxy.connections() {
        0 => Err("no connection".to_owned()),
        _ => Ok(()),
    })
    .await;
    signal(&child, Signal::INT);
    proxy.set_mode(Mode::Pass);
    let ended = end(child).await;
    assert_eq!(ended.code, 130, "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("0 elements found in 10000 elements looked at; 2000 of 12000"), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_a_signal_ends_says_what_it_has_done() {
    let server = RedisServer::start().await;
    let redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    let config = as_default_user(&server.url());
    for (round, which, code) in [(1, Signal::INT, 130), (2, Signal::TERM, 143)] {
        for n in 0..50_u64 {
            let id = (round * 100 + n).to_be_bytes();
            let element = Layout::New.pack(id, b"x");
            let id = hex::encode(id).into_bytes();
            let letter = [
                ("id", id),
                ("origin", b"delayed".to_vec()),
                ("due_ms", b"5".to_vec()),
                ("died_ms", b"6".to_vec()),
                ("element", element),
            ];
            let _: String = redis.clone().xadd(queue.bridge_key("dead"), "*", &letter).await.expect("a dead letter");
        }
        let before: usize = redis.clone().zcard(queue.bridge_key("retry")).await.expect("a count");
        let child = start(&config, "dead redrive texts --all --rate 1/s");
        eventually("the first letter to be redriven", PATIENCE, async || {
            match redis.clone().zcard::<_, usize>(queue.bridge_key("retry")).await.expect("a count") {
                n if n > before => Ok(()),
                n => Err(format!("{n} redriven")),
            }
        })
        .await;
        signal(&child, which);
        end(child).await.failed(code, &["dead letters: ended after", "run the same command again"]);
    }
}
