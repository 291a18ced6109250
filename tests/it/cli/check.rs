//! `check` and `check --live`: problems are reported before the first delivery.

use redis::AsyncCommands;

use super::{ask, config, yaml};
use harness::daemon::ConfigFile;
use harness::{RedisServer, RedissonQueue, ServerOptions};

#[tokio::test]
async fn a_server_that_has_everything_is_well_and_nothing_is_changed() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    RedissonQueue::new("app:texts").offer(&mut redis, 4_000_000_000_000, "x").await;
    let text = ask(&config, "check --live").well();
    for line in
        ["queue texts", "1 scheduled, 0 due", "queue docs: rights", "complete", "sink out", "Nothing was changed"]
    {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let mut keys: Vec<String> = redis.keys("*").await.unwrap();
    keys.sort();
    assert_eq!(keys, ["redisson_delay_queue:{app:texts}", "redisson_delay_queue_timeout:{app:texts}"]);
    let json = ask(&config, "check --live --output json").json();
    assert_eq!((&json["ok"], &json["live"][0]["state"]), (&true.into(), &"ok".into()));
    assert_eq!(json["settings"]["queues"]["texts"]["codec"], "string");
}

#[tokio::test]
async fn all_problems_are_reported_at_once() {
    let options = ServerOptions::default()
        .line("maxmemory", "100mb")
        .line("maxmemory-policy", "allkeys-lru")
        .acl_user("poor on >secret ~* &* +@all -xadd -rpush");
    let server = RedisServer::start_with(options).await;
    let mut redis = server.client().await;
    let _: () = redis.set("app:docs", "mine").await.unwrap();
    let url = format!("redis://poor:secret@127.0.0.1:{}/0", server.port());
    let config = ConfigFile::new(&yaml(&url).replace("\" } }", "\", list_cleanup: exact } }"));
    let answer = ask(&config, "check --live");
    assert_eq!(answer.code, 1, "{}{}", answer.out, answer.err);
    for words in [
        "none: a restart of Redis loses every element",
        "evicts elements",
        "xadd",
        "rpush",
        "app:docs holds a string",
        "list_cleanup: exact costs about 0us",
    ] {
        assert!(answer.out.contains(words), "{words} in\n{}", answer.out);
    }
    assert!(!answer.out.contains("secret"), "{}", answer.out);
}

#[tokio::test]
async fn a_full_server_and_a_taken_port_are_reported() {
    let server = RedisServer::start_with(ServerOptions::default().max_memory("100kb")).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("take a port");
    let address = taken.local_addr().expect("its address");
    let listen = format!("http: {{ listen: '{address}' }}");
    let config = ConfigFile::new(&yaml(&server.url()).replace("http: none", &listen));
    let answer = ask(&config, "check --live");
    assert_eq!(answer.code, 1, "{}{}", answer.out, answer.err);
    for words in ["the limit is reached, and every offer is refused", &format!("http {address}"), "taken: by a daemon"]
    {
        assert!(answer.out.contains(words), "{words} in\n{}", answer.out);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_the_look_but_not_the_file() {
    let port = harness::ports::free_port();
    let config = ConfigFile::new(&yaml(&format!("redis://127.0.0.1:{port}/0")));
    ask(&config, "check").well();
    let answer = ask(&config, "check --live");
    assert_eq!(answer.code, 1);
    assert!(answer.out.contains("the connection was refused") && answer.out.contains("sink out"), "{}", answer.out);
    ask(&config, "queues").failed(1, &["connect to Redis", "the connection was refused"]);
}

#[test]
fn a_wrong_file_ends_every_command_with_2_and_its_place() {
    let config = ConfigFile::new("redis: { url: redis://h, passwort: x }\nsinks: {}\nqueues: {}\n");
    let answer = ask(&config, "check");
    assert_eq!(answer.code, 2);
    assert!(answer.out.contains("delaybridge.yaml:1:26: redis.passwort"), "{}", answer.out);
    for line in ["run", "queues", "peek q", "offer q --delay 1s --payload x", "dead ls q"] {
        ask(&config, line).failed(2, &["delaybridge.yaml:1:26: redis.passwort", "did you mean `password`"]);
    }
}
