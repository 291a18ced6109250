//! Tests of the server, by a client that speaks plain HTTP/1.1 over a socket.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::*;

fn start() -> (Events, SocketAddr, HttpServer) {
    let events = Events::default();
    let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.address.tcp().unwrap();
    let server = serve(listener, &events).unwrap();
    (events, address, server)
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
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

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn check(address: SocketAddr, request: &str, code: &str, contains: &str) {
    let answer = ask(address, request);
    assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{request}: {answer}");
    assert!(answer.contains(contains), "{request}: {contains} is missing in {answer}");
}

#[test]
fn each_route_answers_and_other_paths_list_the_routes() {
    let (events, address, _server) = start();
    check(address, "GET /metrics", "200", "delaybridge_build_info{");
    check(address, "GET /metrics", "200", "content-type: text/plain; version=0.0.4");
    check(address, "HEAD /metrics", "200", "content-length");
    check(address, "GET /livez", "200", r#""live": true"#);
    check(address, "GET /startupz", "503", r#""started": false"#);
    check(address, "GET /readyz", "503", "not connected yet");
    events.redis_up(&"default".into(), "h:1/0", "7.0.15");
    events.started(1, 1, [0; 8]);
    check(address, "GET /startupz", "200", r#""started": true"#);
    check(address, "GET /readyz", "200", r#""ready": true"#);
    check(address, "GET /", "404", "/readyz");
    check(address, "POST /metrics", "405", "read only");
}

#[test]
fn readiness_says_which_queue_and_which_sink_and_why() {
    let (events, address, _server) = start();
    events.redis_up(&"default".into(), "h:1/0", "7.0.15");
    events.started(2, 1, [0; 8]);
    events.queue(&"orders".into()).on_hold(Some("shop"), "WRONGTYPE", "push", "key x holds a hash");
    let answer = ask(address, "GET /readyz");
    let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["queues"]["reasons"]["orders"]["reason"], "sink shop: key x holds a hash");
    assert_eq!((&body["ready"], &body["redis"]["up"]), (&false.into(), &true.into()));
}

#[test]
fn it_answers_while_the_pipelines_runtime_is_blocked() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (_events, address, _server) = start();
    // The only thread of this runtime is inside `ask`, as if a task never yielded.
    runtime.block_on(async { check(address, "GET /livez", "200", "live") });
}

#[test]
fn slow_clients_block_no_others_and_the_oldest_of_a_flood_goes_first() {
    let (_events, address, _server) = start();
    let mut slow: Vec<TcpStream> = Vec::new();
    for _ in 0..CONNECTIONS + 20 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: slow").unwrap();
        slow.push(stream);
    }
    check(address, "GET /livez", "200", "live");
    slow[0].set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    match slow[0].read(&mut [0; 16]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the oldest connection is still there: {other:?}"),
    }
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let (_events, address, _server) = start();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // Refused while it is still being sent, so the write may fail midway.
    let _ = stream.write_all(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(32 * 1024)).as_bytes());
    let mut answer = [0; 12];
    if stream.read_exact(&mut answer).is_ok() {
        assert_eq!(&answer, b"HTTP/1.1 431");
    }
    check(address, "GET /livez", "200", "live");
}

#[test]
fn a_stopped_server_gives_its_port_back() {
    let (events, address, server) = start();
    server.stop(Duration::from_secs(5));
    assert!(TcpStream::connect(address).is_err());
    serve(bind(address).unwrap(), &events).unwrap();
}

#[test]
fn an_address_in_use_is_reported_with_what_to_do() {
    let (_events, address, _server) = start();
    let error = bind(address).err().unwrap();
    let text = error.to_string();
    assert!(text.starts_with("listen for HTTP on 127.0.0.1:") && text.contains("http.listen"), "{text}");
}

#[test]
fn a_connection_serves_one_scrape_after_the_other() {
    let (_events, address, _server) = start();
    let mut stream = connect(address);
    for _ in 0..3 {
        let (head, body) = ask_on(&mut stream, "/metrics", "");
        assert!(head.starts_with("HTTP/1.1 200") && !head.contains("connection: close"), "{head}");
        assert!(String::from_utf8(body).unwrap().contains("delaybridge_build_info{"));
    }
}

#[test]
fn a_stop_does_not_wait_for_connections_that_are_open() {
    let (_events, address, server) = start();
    let mut stream = connect(address);
    ask_on(&mut stream, "/livez", "");
    // Far more than the test may take: it would wait for all of it.
    let patience = Duration::from_secs(600);
    server.stop(patience);
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "closed");
}

#[test]
fn who_asks_for_gzip_gets_less_of_the_same() {
    let (_events, address, _server) = start();
    let mut stream = connect(address);
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
    let (_events, address, _server) = start();
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n";
    let (head, body) = ask_on(&mut connect(address), "/metrics", accept);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    let text = String::from_utf8(body).unwrap();
    assert!(text.ends_with("\n# EOF\n") && text.contains("# TYPE process_cpu_seconds counter\n"), "{text}");
}
