//! Tests of the server, by a client that speaks plain HTTP/1.1 over a socket.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::*;
use crate::events::Events;

fn start() -> (Events, HttpServer) {
    let events = Events::default();
    let any_port = ([127, 0, 0, 1], 0).into();
    let server = serve(any_port, events.metrics().clone(), events.status().clone()).unwrap();
    (events, server)
}

fn ask(server: &HttpServer, request: &str) -> String {
    let mut stream = TcpStream::connect(server.local_addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// One request with these headers on an open connection: the head of the answer, and its body.
fn ask_on(stream: &mut TcpStream, path: &str, headers: &str) -> (String, Vec<u8>) {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\n{headers}\r\n").unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

fn connect(server: &HttpServer) -> TcpStream {
    let stream = TcpStream::connect(server.local_addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn check(server: &HttpServer, request: &str, code: &str, contains: &str) {
    let answer = ask(server, request);
    assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{request}: {answer}");
    assert!(answer.contains(contains), "{request}: {contains} is missing in {answer}");
}

#[test]
fn each_route_answers_and_other_paths_list_the_routes() {
    let (events, server) = start();
    check(&server, "GET /metrics", "200", "delaybridge_build_info{");
    check(&server, "GET /metrics", "200", "content-type: text/plain; version=0.0.4");
    check(&server, "HEAD /metrics", "200", "content-length");
    check(&server, "GET /livez", "200", r#""live": true"#);
    check(&server, "GET /startupz", "503", r#""started": false"#);
    check(&server, "GET /readyz", "503", "not connected yet");
    events.redis_up(&"default".into(), "h:1/0", "7.0.15");
    events.started(1, 1, [0; 8]);
    check(&server, "GET /startupz", "200", r#""started": true"#);
    check(&server, "GET /readyz", "200", r#""ready": true"#);
    check(&server, "GET /", "404", "/readyz");
    check(&server, "POST /metrics", "405", "read only");
}

#[test]
fn readiness_says_which_queue_and_which_sink_and_why() {
    let (events, server) = start();
    events.redis_up(&"default".into(), "h:1/0", "7.0.15");
    events.started(2, 1, [0; 8]);
    events.queue(&"orders".into()).on_hold(Some("shop"), "WRONGTYPE", "push", "key x holds a hash");
    let answer = ask(&server, "GET /readyz");
    let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["queues"]["reasons"]["orders"]["reason"], "sink shop: key x holds a hash");
    assert_eq!((&body["ready"], &body["redis"]["up"]), (&false.into(), &true.into()));
}

#[test]
fn it_answers_while_the_pipelines_runtime_is_blocked() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (_events, server) = start();
    // The only thread of this runtime is inside `ask`, as if a task never yielded.
    runtime.block_on(async { check(&server, "GET /livez", "200", "live") });
}

#[test]
fn slow_clients_block_no_others_and_the_oldest_of_a_flood_goes_first() {
    let (_events, server) = start();
    let mut slow: Vec<TcpStream> = Vec::new();
    for _ in 0..CONNECTIONS + 20 {
        let mut stream = TcpStream::connect(server.local_addr()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: slow").unwrap();
        slow.push(stream);
    }
    check(&server, "GET /livez", "200", "live");
    slow[0].set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    match slow[0].read(&mut [0; 16]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the oldest connection is still there: {other:?}"),
    }
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let (_events, server) = start();
    let mut stream = TcpStream::connect(server.local_addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // Refused while it is still being sent, so the write may fail midway.
    let _ = stream.write_all(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(2 * HEAD_BYTES)).as_bytes());
    let mut answer = [0; 12];
    if stream.read_exact(&mut answer).is_ok() {
        assert_eq!(&answer, b"HTTP/1.1 431");
    }
    check(&server, "GET /livez", "200", "live");
}

#[test]
fn a_stopped_server_gives_its_port_back() {
    let (events, server) = start();
    let address = server.local_addr();
    server.stop(Duration::from_secs(5));
    assert!(TcpStream::connect(address).is_err());
    serve(address, events.metrics().clone(), events.status().clone()).unwrap();
}

#[test]
fn an_address_in_use_is_reported_with_what_to_do() {
    let (events, server) = start();
    let error = serve(server.local_addr(), events.metrics().clone(), events.status().clone()).err().unwrap();
    let text = error.to_string();
    assert!(text.starts_with("listen for HTTP on 127.0.0.1:") && text.contains("http.listen"), "{text}");
}

#[test]
fn a_connection_serves_one_scrape_after_the_other() {
    let (_events, server) = start();
    let mut stream = connect(&server);
    for _ in 0..3 {
        let (head, body) = ask_on(&mut stream, "/metrics", "");
        assert!(head.starts_with("HTTP/1.1 200") && !head.contains("connection: close"), "{head}");
        assert!(String::from_utf8(body).unwrap().contains("delaybridge_build_info{"));
    }
}

#[test]
fn a_stop_does_not_wait_for_connections_that_are_open() {
    let (_events, server) = start();
    let mut stream = connect(&server);
    ask_on(&mut stream, "/livez", "");
    // Far more than the test may take: it would wait for all of it.
    let patience = Duration::from_secs(600);
    server.stop(patience);
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "closed");
}

#[test]
fn who_asks_for_gzip_gets_less_of_the_same() {
    let (_events, server) = start();
    let mut stream = connect(&server);
    let (head, plain) = ask_on(&mut stream, "/metrics", "");
    assert!(!head.contains("content-encoding") && head.contains("vary: accept, accept-encoding"), "{head}");
    let (head, packed) = ask_on(&mut stream, "/metrics", "Accept-Encoding: gzip\r\n");
    assert!(head.contains("content-encoding: gzip") && packed.len() < plain.len() / 2, "{head}");
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut unpacked).unwrap();
    assert!(unpacked.contains("delaybridge_build_info{") && unpacked.contains("process_cpu_seconds_total "));
    // A packet more or less is not worth it.
    let (head, _) = ask_on(&mut stream, "/livez", "Accept-Encoding: gzip\r\n");
    assert!(!head.contains("content-encoding"), "{head}");
}

#[test]
fn who_asks_for_openmetrics_gets_it() {
    let (_events, server) = start();
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n";
    let (head, body) = ask_on(&mut connect(&server), "/metrics", accept);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    let text = String::from_utf8(body).unwrap();
    assert!(text.ends_with("\n# EOF\n") && text.contains("# TYPE process_cpu_seconds counter\n"), "{text}");
}
