//! TLS: what is checked, which version of HTTP is chosen, and what an operator reads when it fails.

use std::future::pending;
use std::sync::Arc;

use hyper::Version;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::raw::Raw;
use super::server::{Options, Pki, Server};
use super::*;
use delaybridge_dial::Proxy;

#[tokio::test]
async fn the_newest_version_that_the_server_offers_is_used() {
    let rows = [
        (vec!["h2", "http/1.1"], Version::HTTP_2),
        (vec!["h2"], Version::HTTP_2),
        (vec!["http/1.1"], Version::HTTP_11),
        (vec![], Version::HTTP_11),
    ];
    for (alpn, version) in rows {
        let server = Server::tls(&alpn).await;
        assert_eq!(deliver(&sink(server.spec()), "/a?b=c").await, Ok(()), "{alpn:?}");
        let seen = server.seen().remove(0);
        assert_eq!((seen.version, seen.path.as_str()), (version, "/a?b=c"));
    }
}

#[tokio::test]
async fn a_certificate_of_a_stranger_is_refused() {
    let server = Server::tls(&["h2", "http/1.1"]).await;
    let dir = tempfile::tempdir().unwrap();
    let stranger = TlsFiles { ca_file: Some(Pki::new(dir.path()).ca), client: None, ..TlsFiles::default() };
    let refused = failure(&sink(HttpSpec { tls: Some(stranger), ..server.spec() }), "/").await;
    assert_failed(&refused, Class::TargetPermanent, "tls", "set `ca_file`");
    let origin = HttpOrigin { host: "127.0.0.1".to_owned(), ..server.spec().origin };
    let refused = failure(&sink(HttpSpec { origin, ..server.spec() }), "/").await;
    assert_failed(&refused, Class::TargetPermanent, "tls", "for another name");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    for alpn in ["h2", "http/1.1"] {
        let options = Options { alpn: Some(vec![alpn]), client_certificates: true, ..Options::default() };
        let server = Server::with(options).await;
        // TLS 1.3 refuses after the handshake, when the request is written: it was not looked at.
        let refused = failure(&sink(server.spec()), "/").await;
        assert_failed(&refused, Class::TargetPermanent, "tls", "set `cert_file` and `key_file`");
    }
    let options = Options { alpn: Some(vec!["h2"]), client_certificates: true, ..Options::default() };
    let server = Server::with(options).await;
    let files = TlsFiles {
        ca_file: Some(server.pki.ca.clone()),
        client: Some(server.pki.client.clone()),
        ..TlsFiles::default()
    };
    let tls = Some(files);
    let sink = sink(HttpSpec { tls, ..server.spec() });
    assert_eq!(sink.check(&[]).await, Ok(Vec::new()));
    assert!(server.seen().is_empty(), "a check sends no request");
    assert_eq!(deliver(&sink, "/").await, Ok(()));
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named() {
    let server = Server::tls(&["h2"]).await;
    let tls = Some(TlsFiles { ca_file: Some("/nowhere/ca.pem".into()), client: None, ..TlsFiles::default() });
    let refused = failure(&sink(HttpSpec { tls, ..server.spec() }), "/").await;
    assert_failed(&refused, Class::TargetPermanent, "tls", "read ca_file /nowhere/ca.pem");
}

#[tokio::test]
async fn tls_on_a_plain_port_and_the_other_way_round_are_reported() {
    let plain_server = Server::start().await;
    let origin = HttpOrigin { tls: true, ..plain_server.spec().origin };
    let refused = failure(&sink(HttpSpec { origin, ..plain_server.spec() }), "/").await;
    assert_failed(&refused, Class::TargetPermanent, "tls", "does not speak TLS");
    let secure = Server::tls(&["http/1.1"]).await;
    let refused = failure(&sink(plain(secure.port)), "/").await;
    assert_eq!(refused.class, Class::Ambiguous, "{refused}");
}

#[tokio::test]
async fn a_handshake_that_does_not_come_to_an_end_sends_nothing() {
    let silent = Raw::start(|talk| async move {
        let _open = talk;
        pending().await
    })
    .await;
    let origin = HttpOrigin { tls: true, ..plain(silent.port).origin };
    let spec = HttpSpec { origin, connect_timeout: Duration::from_millis(200), ..plain(silent.port) };
    let refused = failure(&sink(spec.clone()), "/").await;
    assert_failed(
        &refused,
        Class::Transient,
        Failure::NOT_CONNECTED.as_str(),
        "timed out after 200ms while opening the TLS connection",
    );
    // All who wait share one attempt.
    let sink = sink(spec);
    let all = futures_util::future::join_all((0..30).map(|_| failure(&sink, "/"))).await;
    assert!(all.iter().all(Failure::is_unsent), "{all:?}");
    assert!(silent.connections() <= 4, "{}", silent.connections());
    let closing = Raw::start(|_talk| async {}).await;
    let origin = HttpOrigin { tls: true, ..plain(closing.port).origin };
    let refused = failure(&super::sink(HttpSpec { origin, ..plain(closing.port) }), "/").await;
    assert_failed(&refused, Class::Transient, Failure::NOT_CONNECTED.as_str(), "connect to https://127.0.0.1");
}

#[tokio::test]
async fn a_stream_that_the_server_refuses_was_not_processed() {
    let server = Server::tls(&["h2"]).await;
    let acceptor = server.pki.acceptor(&["h2"], false);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let refusing = async move {
        let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let reasons = [h2::Reason::REFUSED_STREAM, h2::Reason::INTERNAL_ERROR];
        for reason in reasons {
            connection.accept().await.unwrap().unwrap().1.send_reset(reason);
        }
        while let Some(Ok(_)) = connection.accept().await {}
    };
    let origin = HttpOrigin { port, ..server.spec().origin };
    let sink = sink(HttpSpec { origin, ..server.spec() });
    let requests = async {
        let refused = failure(&sink, "/").await;
        assert_failed(&refused, Class::Transient, Failure::NOT_SENT.as_str(), "refused the stream");
        let reset = failure(&sink, "/").await;
        assert_failed(&reset, Class::Ambiguous, "connection_lost", "broke before the answer");
    };
    tokio::select! {
        () = requests => {}
        () = refusing => unreachable!("the client keeps its connection"),
    }
}

#[tokio::test]
async fn a_server_that_says_goodbye_is_left() {
    let server = Server::tls(&["h2"]).await;
    let acceptor = server.pki.acceptor(&["h2"], false);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let one_each = async move {
        loop {
            let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            // A handle to the stream would keep the connection open.
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            let _ = respond.send_response(hyper::Response::new(()), true).unwrap();
            drop(respond);
            connection.graceful_shutdown();
            while let Some(Ok(_)) = connection.accept().await {}
        }
    };
    let origin = HttpOrigin { port, ..server.spec().origin };
    let sink = sink(HttpSpec { origin, ..server.spec() });
    let requests = async {
        for _ in 0..5 {
            assert_eq!(deliver(&sink, "/").await, Ok(()));
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    tokio::select! {
        () = requests => {}
        () = one_each => {}
    }
}

#[tokio::test]
async fn a_request_goes_through_a_proxy_that_sees_only_where_to() {
    let server = Server::tls(&["h2"]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://user:geheim@{}", listener.local_addr().unwrap());
    let port = server.port;
    let (asked, mut seen) = tokio::sync::mpsc::channel(4);
    let proxy = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        asked.send(String::from_utf8(head).unwrap()).await.unwrap();
        let mut beyond = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut beyond).await;
    });
    let proxied = ProxyChoice::Through(Arc::new(Proxy::parse(&url).unwrap()));
    let sink = sink(HttpSpec { proxy: proxied, ..server.spec() });
    assert_eq!(deliver(&sink, "/").await, Ok(()));
    let head = seen.recv().await.unwrap();
    assert!(head.starts_with(&format!("CONNECT localhost:{port} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains("\r\nProxy-Authorization: Basic "), "{head}");
    assert_eq!(server.seen().len(), 1);
    proxy.abort();
}
