//! `discover`: its output is a configuration that can be run.

use redis::AsyncCommands;

use super::{ask, well};
use crate::harness::daemon::{ConfigFile, cli};
use crate::harness::redisson::{Layout, redis_now_ms};
use crate::harness::{RedisServer, RedissonQueue, ServerOptions};

fn discover(url: &str, rest: &[&str]) -> (i32, String, String) {
    let nothing = ConfigFile::new("");
    let output = cli(&nothing, &[&["discover", "--url", url], rest].concat());
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn the_configuration_that_is_printed_can_be_run() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let (code, _, err) = discover(&server.url(), &[]);
    assert!(code == 1 && err.contains("no queue has scheduled elements"), "{err}");

    let now = redis_now_ms(&mut redis).await;
    let names = ["app:orders", "{app}:mails", "${HOME} \"odd\"", "plain", "{braced}"];
    for (n, name) in names.iter().enumerate() {
        let layout = if n == 1 { Layout::Old } else { Layout::New };
        let queue = RedissonQueue::new(name).with_layout(layout);
        queue.offer(&mut redis, now - 60_000, if n == 3 { &b"\xff"[..] } else { b"{\"a\":1}" }).await;
        queue.offer(&mut redis, now + 3_600_000, "{}").await;
    }
    // The ready list of one shows which of two names is right.
    RedissonQueue::new("{braced}").push_ready(&mut redis, &[b"x".to_vec()]).await;
    let mixed = RedissonQueue::new("mixed");
    mixed.offer(&mut redis, 1, "text").await;
    mixed.with_layout(Layout::Old).offer(&mut redis, 2, "text").await;
    let _: () = redis.zadd("redisson_delay_queue_timeout:other", "x", 1).await.unwrap();
    let mut client = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
    client.subscribe(&RedissonQueue::new("app:orders").channel).await.unwrap();

    let (code, out, err) = discover(&server.url(), &[]);
    assert!(code == 1 && err.contains("Redisson never uses: 1"), "{err}");
    for words in [
        "  app_orders:\n    # 1 scheduled, 1 due, the oldest for 1m",
        "1 Redisson client listens",
        "name: \"app:orders\" }",
        "name: \"{app}:mails\" }",
        "layout old (Redisson up to 3.21.0), all 2",
        "the keys fit the name \"{plain}\" as well",
        "name: \"{braced}\" }",
        "MIXED: 1 old, 1 new and 0 of no layout",
        "codec: json   # certain: it reads all 2 sampled payloads",
        "codec: string",
        "codec: raw   # no codec reads all 2 sampled payloads",
    ] {
        assert!(out.contains(words), "{words} in\n{out}");
    }
    assert_eq!(out.matches("as well").count(), 3, "app:orders, mixed, plain: {out}");
    let config = ConfigFile::new(&out);
    let shown = well(&config, "check");
    assert!(shown.contains("can be run") && shown.contains("${HOME} \"odd\""), "{shown}");
    well(&config, "peek mixed");

    let (_, out, _) = discover(&server.url(), &["--output", "json"]);
    let found: serde_json::Value = serde_json::from_str(&out).expect("one JSON document");
    let orders = found["queues"].as_array().unwrap().iter().find(|row| row["name"] == "app:orders").unwrap();
    assert_eq!((&orders["redisson_clients"], &orders["layouts"]["new"]), (&1.into(), &2.into()));
}

#[tokio::test]
async fn a_password_is_taken_from_a_file_and_never_printed() {
    let server = RedisServer::start_with(ServerOptions::default().acl_user("poor on >secret ~* &* +@all")).await;
    RedissonQueue::new("q").offer(&mut server.client().await, 1, "x").await;
    let file = ConfigFile::new("").write("password", "secret\n");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    crate::harness::write_secret(&file, "secret\n");
    let url = format!("redis://poor@127.0.0.1:{}/0", server.port());
    let (code, out, err) = discover(&url, &["--password-file", &file.display().to_string()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let config = ConfigFile::new(&out);
    well(&config, "check --live");
    let url = format!("redis://poor:secret@127.0.0.1:{}/0", server.port());
    let (code, out, _) = discover(&url, &[]);
    assert!(code == 0 && !out.contains("secret") && out.contains("# password:"), "{out}");
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    let (code, _, err) = discover("http://x", &[]);
    assert!(code == 2 && err.contains("read --url"), "{err}");
    // Without --url it searches the configuration's Redis.
    let (code, out, err) = ask(&super::config(&server), "discover");
    assert!(code == 0 && out.contains("  q:\n"), "{out}{err}");
}
