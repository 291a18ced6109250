//! `discover`: its output is a configuration that can be run.

use std::time::Duration;

use delaybridge_core::clock::utc;
use redis::AsyncCommands;
use serde_json::Value;

use super::{NAME, ask, well, yaml};
use crate::delivery::PATIENCE;
use harness::daemon::{ConfigFile, cli};
use harness::redisson::{Layout, redis_now_ms};
use harness::{Daemon, RedisServer, RedissonQueue, ServerOptions, eventually};

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
    harness::write_secret(&file, "secret\n");
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

#[tokio::test]
async fn a_daemon_notes_since_when_no_transfer_task_is_subscribed() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME);
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now + 3_600_000, "x").await;
    let url = server.url();
    let (_, out, _) = discover(&url, &[]);
    assert!(
        out.contains("no Redisson client listens") && out.contains("# not known since when: no daemon has watched\n"),
        "{out}"
    );
    let watch = || {
        let (_, out, _) = discover(&url, &["--output", "json"]);
        serde_json::from_str::<Value>(&out).expect("one JSON document")["queues"][0]["watch"].clone()
    };
    assert_eq!(watch(), Value::Null);

    let mut daemon = Daemon::start(&yaml(&server, "")).await;
    let since = eventually("the watch begins", PATIENCE, async || {
        watch()["no_client_since_ms"].as_i64().ok_or("not yet".to_owned())
    })
    .await;
    let (_, out, _) = discover(&url, &[]);
    assert!(out.contains(&format!("# no transfer task subscribed since {}\n", utc(since))), "{out}");

    let mut client = redis::Client::open(url.clone()).unwrap().get_async_pubsub().await.unwrap();
    client.subscribe(&queue.channel).await.unwrap();
    let (_, out, _) = discover(&url, &[]);
    assert!(out.contains("1 Redisson client listens") && !out.contains("since"), "{out}");
    let reader = redis.clone();
    let noted = async |field: usize| -> i64 {
        let state: String = reader.clone().hget(format!("delaybridge:state:{{{NAME}}}"), "others").await.unwrap();
        state.split(' ').nth(field).and_then(|ms| ms.parse().ok()).unwrap_or(0)
    };
    let seen = async || Some(noted(1).await).filter(|seen| *seen > since).ok_or("not yet".to_owned());
    let seen = eventually("it is seen", PATIENCE, seen).await;
    // Looks see it again and note nothing, as a change would be; its end is noted at once, with the last of these looks.
    crate::faults::rig::pass(Duration::from_secs(3)).await;
    drop(client);
    let later = async || watch()["no_client_since_ms"].as_i64().filter(|ms| *ms > seen).ok_or("not yet".to_owned());
    let gone = eventually("its end is noted", Duration::from_secs(25), later).await;
    assert!(gone <= redis_now_ms(&mut redis).await && noted(0).await == since, "{gone}, seen at {seen}");

    // A watch goes on across a restart; what nobody has seen is not told.
    assert_eq!((daemon.stop().await, watch()["ended_ms"].clone()), (0, Value::Null));
    let state = format!("delaybridge:state:{{{NAME}}}");
    let _: i64 = redis.hset(&state, "others", "1000000000000  1000000060000").await.unwrap();
    let (_, out, _) = discover(&url, &[]);
    let told = "# no transfer task subscribed from 2001-09-09T01:46:40Z to 2001-09-09T01:47:40Z, and not known since: no daemon watches";
    assert!(out.contains(told), "{out}");
    let _daemon = Daemon::start(&yaml(&server, "")).await;
    let anew = async || watch()["no_client_since_ms"].as_i64().filter(|ms| *ms > gone).ok_or("not yet".to_owned());
    eventually("another watch begins", PATIENCE, anew).await;
}
