//! Ways to connect to Redis: users with few rights, changing passwords, databases, TLS.

use std::time::Instant;

use aws_lc_rs::digest::{SHA256, digest};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use delaybridge_config::load_str;
use delaybridge_ops::acl::{AclPurpose, AclVersion, users};

use crate::faults::rig::pass;
use harness::daemon::{ConfigFile, cli};
use harness::oracle::{read_list, read_stream};
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, ServerOptions};

use super::{dead_letters, emptied, list_of, overdue, settled, stream_of, unready};

/// The least rights of the only user that this configuration needs, with the password `secret`; its name comes first.
fn least_rights(yaml: &str) -> String {
    let config = load_str(yaml, "delaybridge.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}")).config;
    let [user] = &users(&config, AclPurpose::Run)[..] else { panic!("one server, one user") };
    let name = user.target.servers().username.as_deref().expect("a name");
    format!("{name} reset {} >secret", user.rules(AclVersion::Seven).join(" "))
}

async fn acl(redis: &mut MultiplexedConnection, rules: &str) {
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg(rules.split_whitespace().collect::<Vec<_>>());
    let () = command.query_async(redis).await.unwrap_or_else(|e| panic!("ACL SETUSER {rules}: {e}"));
}

/// The commands that the server has refused, one per line.
async fn refused(redis: &mut MultiplexedConnection) -> Vec<String> {
    let log: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query_async(redis).await.expect("read the ACL log");
    log.iter().map(|entry| format!("{entry:?}")).collect()
}

/// A queue on this server for the user `bridge`, to a stream; the password is in a file.
fn as_bridge(server: &RedisServer, name: &str, password_file: &std::path::Path, to: &str) -> String {
    format!(
        "
redis: {{ url: redis://127.0.0.1:{}, username: bridge, password_file: {}, connect_timeout: 30s }}
sinks: {{ same: {{ redis: {{}} }} }}
queues:
  q:
    source: {{ redisson: {{ name: {name}, ghost_max_age: 1s }} }}
    to: [{{ sink: same, {to} }}]
",
        server.port(),
        password_file.display()
    )
}

fn password(text: &str) -> (ConfigFile, std::path::PathBuf) {
    let dir = ConfigFile::new("");
    let path = dir.write("password", text);
    (dir, path)
}

#[tokio::test]
async fn under_the_least_rights_nothing_is_refused() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("few");
    let (_dir, file) = password("secret\n");
    let yaml = as_bridge(&server, "few", &file, "stream: out");
    acl(&mut redis, &least_rights(&yaml)).await;
    let now = redis_now_ms(&mut redis).await;
    // In random order, so that ghosts are left and swept; one element is junk; the ready list as well.
    let mut elements = overdue(now, (0..6_000).map(|n| format!("{n}")));
    fastrand::shuffle(&mut elements);
    queue.offer_bulk(&mut redis, &elements).await;
    let _: () = redis.zadd(&queue.timeouts, "junk", now - 5).await.unwrap();
    let _: () = redis.rpush(&queue.list, "junk").await.unwrap();
    let ready = vec![b"ready".to_vec(); 10];
    queue.push_ready(&mut redis, &ready).await;
    // A destination of the wrong type at first: claimed elements are released and claimed again.
    let _: () = redis.set("out", "not a stream").await.unwrap();

    let mut daemon = Daemon::spawn(&yaml);
    daemon.expect_log("queue on hold").expect_log("dead letter stored");
    unready(&daemon, "WRONGTYPE").await;
    let _: () = redis.del("out").await.unwrap();
    stream_of(&mut redis, "out", 6_010).await;
    emptied(&mut redis, &queue).await;
    daemon.wait_ready().await;
    // Later elements are announced.
    let last = queue.offer(&mut redis, now, "announced").await;
    stream_of(&mut redis, "out", 6_011).await;

    let mut oracle = Oracle::new();
    oracle.offered(elements.iter().chain([&last]));
    oracle.pushed_ready(&ready);
    oracle.judge(&read_stream(&mut redis, "out").await).assert_complete(0);
    assert_eq!(dead_letters(&mut redis, &queue).await.len(), 1);
    assert_eq!(daemon.stop().await, 0);
    assert_eq!(refused(&mut redis).await, Vec::<String>::new());
}

/// The rules without one command.
fn without(rules: &str, right: &str) -> String {
    rules.replace(&format!(" +{right})"), ")").replace(&format!(" +{right} "), " ")
}

#[tokio::test]
async fn a_missing_right_is_named_at_the_start_and_loses_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    // Rights that every claim of these elements, or every verdict on the junk, needs; those that depend on the content
    // of the list are in claims::missing_rights.
    let missing = ["zadd", "zrangestore", "zremrangebyrank", "ltrim", "zrem", "unlink", "xadd"];
    let mut running = Vec::new();
    for right in missing {
        let queue = RedissonQueue::new(&format!("no-{right}"));
        let now = redis_now_ms(&mut redis).await;
        let mut elements = overdue(now, (0..300).map(|n| format!("{right} {n}")));
        fastrand::shuffle(&mut elements);
        queue.offer_bulk(&mut redis, &elements).await;
        let ready: Vec<Vec<u8>> = (0..20).map(|n| format!("{right} ready {n}").into_bytes()).collect();
        queue.push_ready(&mut redis, &ready).await;
        let (dir, file) = password("secret");
        let junk = redis.zadd::<_, _, _, ()>(&queue.timeouts, "junk", now - 2_000);
        junk.await.unwrap();
        let _: () = redis.lpush(&queue.list, "junk").await.unwrap();
        let yaml = as_bridge(&server, &queue.name, &file, &format!("list: out-{right}"));
        let yaml = yaml.replace("username: bridge", &format!("username: {right}"));
        // Where claims are confirmed by their names, which is done only if the lease lasts longer than a command may take.
        let lease = if right == "unlink" { "30s" } else { "3s" };
        let yaml = yaml.replace(", ghost_max_age: 1s } }", &format!(" }} }}\n    lease: {lease}"));
        let yaml = yaml.replace("redis: {}", "redis: { timeout: 1s }");
        acl(&mut redis, &without(&least_rights(&yaml), right)).await;
        let mut daemon = Daemon::spawn(&yaml);
        daemon.expect_log("queue on hold").expect_log("rights are missing").expect_log("dead letter stored");
        // Deliberate, so that the elements of an interrupted claim come back soon.
        daemon.expect_log("not longer than twice redis.command_timeout");
        running.push((right, queue, elements, ready, dir, daemon));
    }
    for (right, queue, elements, ready, _dir, daemon) in &mut running {
        harness::eventually("the missing right to be named", super::PATIENCE, async || {
            let named = daemon.log().all().into_iter().find(|line| line.contains("rights are missing"));
            named.filter(|line| line.contains(&**right)).ok_or_else(|| daemon.log().all().join("\n"))
        })
        .await;
        // The junk has left its claim in another way than by a confirmation, so its neighbours are confirmed one by one. A claim of
        // one element ends by its name.
        if right == &"unlink" {
            let late = Instant::now() + super::PATIENCE;
            while Instant::now() < late && daemon.get("/readyz").await.is_ok_and(|ready| ready.status == 200) {
                let one = overdue(redis_now_ms(&mut redis).await, [format!("one more {}", elements.len())]);
                queue.offer_bulk(&mut redis, &one).await;
                elements.extend(one);
                pass(std::time::Duration::from_millis(100)).await;
            }
        }
        unready(daemon, "NOPERM").await;
        // The cure that the check prints works.
        let look = cli(daemon.config(), &["check", "--live"]);
        let text = String::from_utf8(look.stdout).expect("text");
        let cures: Vec<_> = text.lines().filter_map(|line| line.split_once("fix it with: ACL SETUSER ")).collect();
        assert!(look.status.code() == Some(1) && !cures.is_empty(), "{text}");
        for (_, rules) in cures {
            acl(&mut redis, rules).await;
        }
        let look = cli(daemon.config(), &["check", "--live"]);
        assert!(!String::from_utf8_lossy(&look.stdout).contains("ACL SETUSER"), "{look:?}");
        list_of(&mut redis, &format!("out-{right}"), elements.len() + ready.len()).await;
        daemon.expect_log("no claim recorded them");
        settled(&mut redis, queue).await;
        daemon.wait_ready().await;
        let mut oracle = Oracle::new();
        oracle.offered(elements.iter());
        oracle.pushed_ready(ready.iter());
        let report = oracle.judge_payloads(&read_list(&mut redis, &format!("out-{right}")).await);
        println!("without {right}: {report}");
        report.assert_complete(0);
        assert_eq!(dead_letters(&mut redis, queue).await.len(), 1, "{right}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_waited_for_until_the_file_is_corrected() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("guarded");
    acl(&mut redis, "bridge on >secret ~* &* +@all").await;
    let now = redis_now_ms(&mut redis).await;
    queue.offer_bulk(&mut redis, &overdue(now, ["one"])).await;
    let (dir, file) = password("wrong\n");
    let mut daemon = Daemon::spawn(&as_bridge(&server, "guarded", &file, "stream: out"));
    daemon.expect_log("cannot reach Redis").expect_log("subscription").expect_log("sink down");
    unready(&daemon, "password of user `bridge` is wrong").await;
    assert_eq!(daemon.get("/livez").await.unwrap().status, 200);
    assert_eq!(daemon.get("/startupz").await.unwrap().status, 503);
    dir.write("password", "secret\n");
    daemon.wait_ready().await;
    stream_of(&mut redis, "out", 1).await;
    assert!(daemon.log().all().iter().all(|line| !line.contains("secret") && !line.contains("wrong\\n")));

    // A password is revoked while the daemon runs; it continues with the new one.
    dir.write("password", "second");
    acl(&mut redis, "bridge resetpass >second").await;
    let _: i64 = redis::cmd("CLIENT").arg("KILL").arg("USER").arg("bridge").query_async(&mut redis).await.unwrap();
    queue.offer(&mut redis, now, "two").await;
    stream_of(&mut redis, "out", 2).await;
}

#[tokio::test]
async fn the_database_of_the_url_is_used_for_source_and_sink_each() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let () = redis::cmd("SELECT").arg(3).query_async(&mut redis).await.unwrap();
    let queue = RedissonQueue::new("third");
    let now = redis_now_ms(&mut redis).await;
    queue.offer_bulk(&mut redis, &overdue(now, ["one", "two"])).await;
    let _daemon = Daemon::start(&format!(
        "
redis: {{ url: redis://127.0.0.1:{port}/3, connect_timeout: 30s }}
sinks: {{ fifth: {{ redis: {{ url: redis://127.0.0.1:{port}/5, stream: out }} }} }}
queues:
  q: {{ source: {{ redisson: {{ name: third }} }}, to: [{{ sink: fifth }}] }}
",
        port = server.port()
    ))
    .await;
    let mut fifth = server.client().await;
    let () = redis::cmd("SELECT").arg(5).query_async(&mut fifth).await.unwrap();
    stream_of(&mut fifth, "out", 2).await;
    emptied(&mut redis, &queue).await;
    // Announcements are independent of databases.
    queue.offer(&mut redis, now, "three").await;
    stream_of(&mut fifth, "out", 3).await;
    assert_eq!(redis.exists::<_, usize>("out").await.unwrap(), 0);
}

#[tokio::test]
async fn tls_with_a_private_authority_and_a_client_certificate_carries_everything() {
    let server = RedisServer::start_with(ServerOptions::default().tls(true)).await;
    let mut redis = server.client().await;
    let (port, pki) = server.tls();
    let queue = RedissonQueue::new("sealed");
    let now = redis_now_ms(&mut redis).await;
    let elements: Vec<Element> = overdue(now, (0..500).map(|n| format!("{n}")));
    queue.offer_bulk(&mut redis, &elements).await;
    let yaml = |tls: &str| {
        format!(
            "
redis:
  url: rediss://127.0.0.1:{port}
  connect_timeout: 30s
  tls: {tls}
sinks: {{ same: {{ redis: {{}} }} }}
queues:
  q: {{ source: {{ redisson: {{ name: sealed }} }}, to: [{{ sink: same, stream: out }}] }}
"
        )
    };
    let ca = pki.ca.display();
    {
        let mut stranger = Daemon::spawn(&yaml(&format!("{{ ca_file: {ca} }}")));
        stranger.expect_log("cannot reach Redis").expect_log("subscription").expect_log("sink down");
        unready(&stranger, "certificate").await;
        println!("without a client certificate: {}", stranger.get("/readyz").await.unwrap().body);
    }
    let cert = pki.client_cert.display();
    let key = pki.client_key.display();
    let _daemon = Daemon::start(&yaml(&format!("{{ ca_file: {ca}, cert_file: {cert}, key_file: {key} }}"))).await;
    stream_of(&mut redis, "out", 500).await;
    emptied(&mut redis, &queue).await;
    let last = queue.offer(&mut redis, now, "announced").await;
    stream_of(&mut redis, "out", 501).await;
    let mut oracle = Oracle::new();
    oracle.offered(elements.iter().chain([&last]));
    oracle.judge(&read_stream(&mut redis, "out").await).assert_complete(0);
}

/// The authority of the server is unknown here.
#[tokio::test]
async fn a_redis_is_known_by_the_fingerprint_of_its_certificate() {
    let server = RedisServer::start_with(ServerOptions::default().tls(false)).await;
    let mut redis = server.client().await;
    let (port, pki) = server.tls();
    let queue = RedissonQueue::new("pinned");
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now, "one").await;
    let yaml = |certificate: &std::path::Path| {
        let pem = std::fs::read(certificate).expect("read the certificate");
        let certificate = CertificateDer::from_pem_slice(&pem).expect("a certificate");
        let fingerprint = hex::encode(digest(&SHA256, &certificate));
        format!(
            "
redis:
  url: rediss://127.0.0.1:{port}
  connect_timeout: 30s
  tls: {{ fingerprints: ['{fingerprint}'] }}
sinks: {{ same: {{ redis: {{}} }} }}
queues:
  q: {{ source: {{ redisson: {{ name: pinned }} }}, to: [{{ sink: same, stream: out }}] }}
"
        )
    };
    {
        let mut stranger = Daemon::spawn(&yaml(&pki.client_cert));
        stranger.expect_log("cannot reach Redis").expect_log("subscription").expect_log("sink down");
        unready(&stranger, "which is not in `fingerprints`").await;
    }
    let _daemon = Daemon::start(&yaml(&pki.server_cert)).await;
    stream_of(&mut redis, "out", 1).await;
    emptied(&mut redis, &queue).await;
}
