//! The dead letters of a queue as a file.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{TOKEN, World};

const DEAD: &str = "delaybridge:dead:{due}";

/// Writes so many dead letters, each of about 350 bytes.
async fn fill(world: &World, count: usize) {
    let script = "for i = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], i .. '-1', 'id', 'x' .. i, 'element', '{\"id\":\"x' .. i .. '\"}', \
                  'reason', i % 2 == 0 and 'expired' or 'killed', 'message', string.rep('m', 300)) end";
    world.redis(&["EVAL", script, "1", DEAD, &count.to_string()]).await;
}

/// Asks for an export, and reads nothing of it yet.
async fn asked(world: &World, query: &str, token: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "GET /queues/orders/dead/export{query} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// The head of the answer, its body, and whether it came to its end.
async fn read(mut stream: TcpStream) -> (String, String, bool) {
    let mut bytes = Vec::new();
    timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes)).await.expect("it ends").unwrap();
    let answer = String::from_utf8(bytes).unwrap();
    let (head, mut rest) = answer.split_once("\r\n\r\n").unwrap();
    let mut body = String::new();
    if !head.contains("transfer-encoding: chunked") {
        return (head.to_owned(), rest.to_owned(), true);
    }
    while let Some((size, behind)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (head.to_owned(), body, true);
        }
        body.push_str(&behind[..size]);
        rest = &behind[size + 2..];
    }
    (head.to_owned(), body, false)
}

#[tokio::test]
async fn the_letters_that_fit_are_a_file_of_the_lines_that_the_command_writes() {
    let world = World::start(true).await;
    // More than one page.
    fill(&world, 12_000).await;
    let (head, body, whole) = read(asked(&world, "", TOKEN).await).await;
    assert!(whole && head.contains("200 OK") && body.ends_with("}\n"), "{head}");
    assert!(head.contains("content-disposition: attachment; filename=\"dead-orders-20"), "{head}");
    assert!(head.contains("content-type: application/x-ndjson"), "{head}");
    let lines: Vec<Value> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 12_000);
    let page = world.get("/v1/queues/orders/dead/export").await;
    assert_eq!(lines[..3], page["dead_letters"].as_array().unwrap()[..3], "the oldest first");

    let (_, body, _) = read(asked(&world, "?reason=expired&id_prefix=x11", TOKEN).await).await;
    assert!(
        body.lines().count() == 555 && body.lines().all(|line| line.contains("expired")),
        "{}",
        body.lines().count()
    );
    let page = world.ask("GET", "/queues/orders/dead?reason=expired", "").await.text();
    assert!(page.contains("href=\"dead/export?reason=expired\""), "{page}");
}

#[tokio::test]
async fn an_export_is_for_who_may_read_payloads() {
    let world = World::start(true).await;
    fill(&world, 3).await;
    for (token, status) in [(TOKEN, "200"), ("reader0123456789", "200"), ("viewer0123456789", "403")] {
        let (head, _, _) = read(asked(&world, "", token).await).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{token}: {head}");
        let bearer = format!("Bearer {token}");
        let page = world.send("GET", "/queues/orders/dead", &[("authorization", &bearer)], "").await.text();
        assert_eq!(page.contains("dead/export"), status == "200", "{token}: {page}");
    }
    assert_eq!(world.send("GET", "/queues/orders/dead/export", &[], "").await.status, 401);
}

/// What looks complete would be taken for a copy of everything, before a purge.
#[tokio::test]
async fn an_export_that_breaks_off_is_no_complete_answer() {
    let world = World::start(true).await;
    fill(&world, 12_000).await;
    let mut stream = asked(&world, "", TOKEN).await;
    let mut begin = [0; 64];
    stream.read_exact(&mut begin).await.unwrap();
    assert!(begin.starts_with(b"HTTP/1.1 200"));
    // The first page waits for its reader.
    world.redis(&["DEL", DEAD]).await;
    world.redis(&["SET", DEAD, "of another type"]).await;
    let mut rest = Vec::new();
    timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await.expect("it ends").unwrap();
    assert!(rest.len() > 3_000_000, "the first page is there: {}", rest.len());
    assert!(!rest.ends_with(b"0\r\n\r\n"), "it has no end");
}
