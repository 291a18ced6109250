//! Tests of the harness, which every other test relies on.

use std::time::Duration;

use redis::AsyncCommands;

use harness::oracle::read_stream;
use harness::redisson::{Element, redis_now_ms};
use harness::*;

#[tokio::test]
async fn a_server_keeps_its_port_and_its_data_over_a_restart_and_a_kill() {
    let mut server = RedisServer::start_with(ServerOptions::default().append_only()).await;
    let port = server.port();
    let () = server.client().await.set("kept", 1).await.unwrap();
    server.restart().await;
    assert_eq!(server.client().await.get::<_, i64>("kept").await.unwrap(), 1);
    let () = server.client().await.set("kept", 2).await.unwrap();
    server.kill();
    server.boot().await.unwrap();
    assert_eq!(server.client().await.get::<_, i64>("kept").await.unwrap(), 2);
    assert_eq!(server.port(), port);
}

#[tokio::test]
async fn a_paused_server_does_not_answer_until_it_is_resumed() {
    let mut server = RedisServer::start().await;
    let mut redis = server.client().await;
    server.pause();
    let asked = tokio::time::timeout(Duration::from_millis(200), redis.get::<_, Option<i64>>("x")).await;
    assert!(asked.is_err(), "a stopped server answered");
    server.resume();
    assert_eq!(redis.get::<_, Option<i64>>("x").await.unwrap(), None);
}

#[tokio::test]
async fn a_server_takes_limits_users_and_certificates() {
    let options = ServerOptions::default().max_memory("64mb").acl_user("bridge on >secret ~* &* +@all").tls(true);
    let server = RedisServer::start_with(options).await;
    let mut redis = server.client().await;
    let limit: Vec<String> = redis::cmd("CONFIG").arg("GET").arg("maxmemory").query_async(&mut redis).await.unwrap();
    assert_eq!(limit[1], (64 * 1024 * 1024).to_string());
    let users: Vec<String> = redis::cmd("ACL").arg("USERS").query_async(&mut redis).await.unwrap();
    assert!(users.contains(&"bridge".to_owned()), "{users:?}");

    // A debug build has no default provider of cryptography until one is installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (port, pki) = server.tls();
    let read = |path: &std::path::Path| Some(std::fs::read(path).unwrap());
    let client = redis::Client::build_with_tls(
        format!("rediss://127.0.0.1:{port}/0"),
        redis::TlsCertificates {
            client_tls: Some(redis::ClientTlsConfig {
                client_cert: read(&pki.client_cert).unwrap(),
                client_key: read(&pki.client_key).unwrap(),
            }),
            root_cert: read(&pki.ca),
        },
    )
    .unwrap();
    // The client's own time-outs are a second and half of one.
    let patient = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(10)))
        .set_response_timeout(Some(Duration::from_secs(10)));
    let mut secure = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
    assert_eq!(redis::cmd("PING").query_async::<String>(&mut secure).await.unwrap(), "PONG");
}

#[tokio::test]
async fn a_cut_reply_is_lost_after_its_script_ran() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let mut direct = server.client().await;
    let text = "redis.call('INCR', 'ran') return string.rep('x', tonumber(ARGV[1]))";
    let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(text).query_async(&mut direct).await.unwrap();
    let cut = proxy.cut(Cut::script(&sha).after(1).every(2).times(3));

    let client = redis::Client::open(proxy.url()).unwrap();
    let mut lost = 0;
    for call in 1..=9 {
        let mut redis = client.get_multiplexed_async_connection().await.unwrap();
        // Larger than any chunk, so that not even a part of it may pass.
        let reply: redis::RedisResult<Vec<u8>> =
            redis::cmd("EVALSHA").arg(&sha).arg(0).arg(200_000).query_async(&mut redis).await;
        lost += u64::from(reply.is_err());
        assert_eq!(direct.get::<_, i64>("ran").await.unwrap(), call);
    }
    assert_eq!((lost, cut.lost(), cut.seen()), (3, 3, 9));
}

#[tokio::test]
async fn only_the_ordered_reply_of_a_pipeline_is_lost() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let cut = proxy.cut(Cut::command("INCR").after(2));
    let mut raw = tokio::net::TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let incr = "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";
    let ping = "*1\r\n$4\r\nPING\r\n";
    let pipeline = format!("{ping}{incr}{incr}{ping}{incr}{ping}");
    tokio::io::AsyncWriteExt::write_all(&mut raw, pipeline.as_bytes()).await.unwrap();
    let mut came = Vec::new();
    // The kind of the connection's end does not matter.
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut raw, &mut came).await;
    assert_eq!(String::from_utf8(came).unwrap(), "+PONG\r\n:1\r\n:2\r\n+PONG\r\n");
    assert_eq!(server.client().await.get::<_, i64>("n").await.unwrap(), 3);
    assert_eq!(cut.lost(), 1);
}

#[tokio::test]
async fn an_error_is_not_a_lost_reply_since_nothing_ran() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let sha = "0000000000000000000000000000000000000000";
    let cut = proxy.cut(Cut::script(sha));
    let mut redis = redis::Client::open(proxy.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let reply: redis::RedisResult<i64> = redis::cmd("EVALSHA").arg(sha).arg(0).query_async(&mut redis).await;
    assert!(reply.unwrap_err().to_string().contains("NoScript"));
    assert_eq!((cut.seen(), cut.lost()), (1, 0));
}

#[tokio::test]
async fn the_proxy_freezes_mutes_drops_and_refuses() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let client = redis::Client::open(proxy.url()).unwrap();
    let mut direct = server.client().await;
    let patience = Duration::from_millis(200);
    let connect = async || client.get_multiplexed_async_connection().await;

    let mut redis = connect().await.unwrap();
    proxy.set_mode(Mode::Freeze);
    assert!(tokio::time::timeout(patience, redis.incr::<_, _, i64>("frozen", 1)).await.is_err());
    assert_eq!(direct.get::<_, Option<i64>>("frozen").await.unwrap(), None);
    proxy.set_mode(Mode::Pass);
    eventually("the frozen command to arrive", Duration::from_secs(5), async || {
        match direct.get::<_, Option<i64>>("frozen").await.unwrap() {
            Some(1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    let mut redis = connect().await.unwrap();
    proxy.set_mode(Mode::Mute);
    assert!(tokio::time::timeout(patience, redis.incr::<_, _, i64>("muted", 1)).await.is_err());
    assert_eq!(direct.get::<_, i64>("muted").await.unwrap(), 1);
    proxy.set_mode(Mode::Pass);

    let mut redis = connect().await.unwrap();
    proxy.drop_connections();
    assert!(redis.get::<_, Option<i64>>("x").await.is_err(), "a dropped connection answered");
    let mut redis = connect().await.unwrap();

    proxy.set_mode(Mode::Refuse);
    eventually("connections to be refused", Duration::from_secs(5), async || {
        let tried = tokio::net::TcpStream::connect(("127.0.0.1", proxy.port())).await;
        if tried.is_err() { Ok(()) } else { Err("accepted".to_owned()) }
    })
    .await;
    assert!(redis.get::<_, Option<i64>>("x").await.is_err(), "a refused connection answered");
    proxy.set_mode(Mode::Pass);
    eventually("connections to be accepted again", Duration::from_secs(5), async || {
        connect().await.map(|_| ()).map_err(|e| e.to_string())
    })
    .await;
}

#[tokio::test]
async fn a_connection_is_frozen_from_the_bytes_that_trip_it() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let mut direct = server.client().await;
    let trip = proxy.trip(b"POISON");
    let mut raw = tokio::net::TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let commands = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6\r\nPOISON\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut raw, commands.as_bytes()).await.unwrap();
    eventually("the trip", Duration::from_secs(5), async || match trip.count() {
        1 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    assert_eq!(direct.get::<_, Option<String>>("a").await.unwrap(), None);
    let mut other = redis::Client::open(proxy.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let () = other.set("b", 1).await.unwrap();
    assert_eq!(trip.count(), 1);
}

#[test]
fn the_writer_packs_as_the_layouts_say() {
    let check = |layout: Layout, id: [u8; 8], expected: &str| {
        let member = layout.pack(id, b"hello");
        assert_eq!(hex::encode(&member), expected);
        assert_eq!(layout.unpack(&member), Some((id, &b"hello"[..])));
    };
    check(Layout::New, *b"RANDOM8B", "0852414e444f4d3842050000000000000068656c6c6f");
    check(Layout::Old, [0xd3, 0xc2, 0x2b, 0x07, 0xbf, 0x87, 0xd2, 0x43], "d3c22b07bf87d243050000000000000068656c6c6f");
    assert_eq!(Layout::New.unpack(b"\x08RANDOM8B\x05\0\0\0\0\0\0\0hell"), None);
    assert_eq!(Layout::Old.unpack(b"short"), None);
}

#[test]
fn companion_keys_are_named_as_redisson_names_them() {
    let check = |name: &str, tag: &str| {
        let queue = RedissonQueue::new(name);
        assert_eq!(queue.timeouts, format!("redisson_delay_queue_timeout:{tag}"));
        assert_eq!(queue.list, format!("redisson_delay_queue:{tag}"));
        assert_eq!(queue.channel, format!("redisson_delay_queue_channel:{tag}"));
        assert_eq!(queue.bridge_key("dead"), format!("delaybridge:dead:{tag}"));
        assert_eq!(queue.name, name);
    };
    check("orders", "{orders}");
    check("{app}:orders", "{app}:orders");
    check("app:{orders}:q", "app:{orders}:q");
    check("a}b", "{a}b}");
}

#[tokio::test]
async fn the_clients_scripts_behave_like_redissons_in_both_layouts() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    for layout in [Layout::Old, Layout::New] {
        let queue = RedissonQueue::new(&format!("scripts-{layout:?}")).with_layout(layout);
        let now = redis_now_ms(&mut redis).await;
        // The script packs each of them again and compares, so this covers the ids of the old layout as well.
        for (index, delay) in [(0, -20), (1, 60_000), (2, -10), (3, 70_000)] {
            queue.offer(&mut redis, now + delay, format!("payload-{index}")).await;
        }
        assert!(queue.contains(&mut redis, b"payload-3").await.unwrap());
        assert_eq!(queue.transfer(&mut redis, now).await.unwrap(), Some(now + 60_000));
        let ready: Vec<String> = redis.lrange(&queue.name, 0, -1).await.unwrap();
        assert_eq!(ready, ["payload-0", "payload-2"]);
        assert!(queue.remove(&mut redis, b"payload-3").await.unwrap());
        assert!(!queue.remove(&mut redis, b"payload-3").await.unwrap());
        assert_eq!(queue.poll(&mut redis).await.unwrap(), Some(b"payload-1".to_vec()));
        assert_eq!(queue.poll(&mut redis).await.unwrap(), None);
        assert_eq!(queue.transfer(&mut redis, now).await.unwrap(), None);
        for key in [&queue.timeouts, &queue.list] {
            assert!(!redis.exists::<_, bool>(key).await.unwrap(), "{key} is left");
        }
    }
}

#[tokio::test]
async fn an_element_of_the_other_layout_jams_the_transfer_as_in_redisson() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("mixed");
    queue.offer(&mut redis, 1, "good").await;
    // Not a random id: one old element in 256 looks like a new one to Redisson.
    let member = Layout::Old.pack(*b"RANDOM8B", b"old");
    let () = redis.zadd(&queue.timeouts, &member, 2).await.unwrap();
    let () = redis.rpush(&queue.list, &member).await.unwrap();
    assert!(queue.transfer(&mut redis, 10).await.is_err());
    assert!(queue.transfer(&mut redis, 10).await.is_err());
    assert_eq!(redis.lrange::<_, Vec<String>>("mixed", 0, -1).await.unwrap(), ["good", "good"]);
}

#[tokio::test]
async fn bulk_offers_and_single_offers_leave_the_same_structures() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("bulk");
    let elements: Vec<Element> =
        (0..25_000).map(|n| Element::new(Layout::New, 1_000_000 - n, format!("payload-{n}"))).collect();
    queue.offer_bulk(&mut redis, &elements).await;
    assert_eq!(redis.zcard::<_, usize>(&queue.timeouts).await.unwrap(), elements.len());
    let list: Vec<Vec<u8>> = redis.lrange(&queue.list, 0, -1).await.unwrap();
    assert!(list.iter().eq(elements.iter().map(|element| &element.member)));
    let head: Vec<(Vec<u8>, i64)> = redis.zrange_withscores(&queue.timeouts, 0, 0).await.unwrap();
    assert_eq!(head, [(elements[24_999].member.clone(), 975_001)]);
    queue.push_ready(&mut redis, &vec![b"same".to_vec(); 12_000]).await;
    assert_eq!(redis.llen::<_, usize>("bulk").await.unwrap(), 12_000);
}

#[test]
fn every_recorded_element_has_the_exact_length_of_the_layout_that_it_names() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 5113);
    for vector in vectors {
        let (id, payload) = vector.parts();
        assert_eq!(vector.layout().pack(id, &payload), vector.member(), "{vector:?}");
        assert!(vector.due_ms() > 1_700_000_000_000, "{vector:?}");
    }
}

#[tokio::test]
async fn a_stream_is_read_back_with_its_fields() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let mut pipeline = redis::pipe();
    for n in 0..6000 {
        let fields: [(&str, &[u8]); 6] = [
            ("payload", &[0xff, 0]),
            ("id", &[b'a'; 16]),
            ("queue", b"q"),
            ("due_ms", b"17"),
            ("attempt", b"2"),
            ("tenant", b"t"),
        ];
        pipeline.xadd("out", format!("{}-1", n + 1), &fields).ignore();
    }
    pipeline.exec_async(&mut redis).await.unwrap();
    let deliveries = read_stream(&mut redis, "out").await;
    assert_eq!(deliveries.len(), 6000);
    let expected = Delivery {
        id: Some("a".repeat(16)),
        payload: vec![0xff, 0],
        queue: Some("q".into()),
        due_ms: Some(17),
        attempt: Some(2),
        late_ms: None,
        arrived_ms: Some(6000),
        headers: [("tenant".to_owned(), b"t".to_vec())].into(),
        ..Delivery::default()
    };
    assert_eq!(deliveries[5999], expected);
}

#[tokio::test]
#[should_panic(expected = "waited 20ms for the moon; seen last: clouds")]
async fn a_wait_that_fails_says_what_was_awaited_and_what_was_seen() {
    eventually("the moon", Duration::from_millis(20), async || Err::<(), _>("clouds".to_owned())).await;
}

#[tokio::test]
async fn a_process_is_killed_and_reaped_on_drop() {
    let mut command = process::command("sleep");
    command.arg("1000");
    let process = process::Process::spawn("sleep", command).unwrap();
    let pid = process.pid();
    assert!(process.usage().resident > 0);
    drop(process);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is still there");
}
