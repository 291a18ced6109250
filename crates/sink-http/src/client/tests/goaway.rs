//! A server of HTTP/2 that closes: what it says of the streams that it did not look at.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use super::server::Pki;
use super::*;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// Flags: of settings, that they are taken; of headers, that this is the whole answer.
const ACK: u8 = 1;
const WHOLE: u8 = 5;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The kind and the stream of the next frame.
async fn next(stream: &mut TlsStream<TcpStream>) -> Option<(u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
}

/// On the first connection it answers a request, waits for three more, says that it looks at the first of them only, answers that one,
/// and closes. On later ones it answers all.
async fn serve(mut stream: TlsStream<TcpStream>, is_first: bool) -> Option<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.ok()?;
    // A hundred streams at once.
    let settings = frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]);
    stream.write_all(&settings).await.ok()?;
    stream.flush().await.ok()?;
    let mut requests = Vec::new();
    let mut is_taken = false;
    loop {
        let (kind, number) = next(&mut stream).await?;
        // The client's settings come once; after that, it takes ours.
        if kind == SETTINGS && !std::mem::replace(&mut is_taken, true) {
            stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await.ok()?;
            stream.flush().await.ok()?;
        }
        if kind != HEADERS {
            continue;
        }
        requests.push(number);
        // `:status: 200`, by its number in the table of HPACK.
        let taken = |number: u32| frame(HEADERS, WHOLE, number, &[0x88]);
        if !is_first || requests.len() == 1 {
            stream.write_all(&taken(number)).await.ok()?;
            stream.flush().await.ok()?;
        } else if let [_, first, _, _] = requests[..] {
            let last = [first.to_be_bytes(), 0u32.to_be_bytes()].concat();
            stream.write_all(&[frame(GOAWAY, 0, 0, &last), taken(first)].concat()).await.ok()?;
            stream.shutdown().await.ok()?;
            return Some(());
        }
    }
}

#[tokio::test]
async fn streams_above_the_last_one_of_a_goaway_were_not_sent() {
    delaybridge_dial::init();
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    let acceptor = pki.acceptor(&["h2"], false);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _running = AbortOnDropHandle::new(tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let stream = acceptor.accept(stream).await.unwrap();
            tokio::spawn(serve(stream, number == 0));
        }
    }));
    let sink = sink(HttpSpec {
        origin: HttpOrigin { tls: true, host: "localhost".to_owned(), port },
        tls: Some(TlsFiles { ca_file: Some(pki.ca.clone()), client: None, ..TlsFiles::default() }),
        ..plain(port)
    });
    // The number of streams is known to the sink with its second request.
    assert_eq!(deliver(&sink, "/0").await, Ok(()));
    let outcomes = futures_util::future::join_all(["/1", "/2", "/3"].map(|path| deliver(&sink, path))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    for failure in outcomes.into_iter().filter_map(Result::err) {
        assert_failed(&failure, Class::Transient, Failure::NOT_SENT.as_str(), "before it looked at the request");
        assert!(failure.is_unsent(), "no attempt");
    }
    assert_eq!(deliver(&sink, "/4").await, Ok(()), "on another connection");
}
