//! The daemon into a stream of a real NATS server, compared with a bare publisher with the same window; and its lateness.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use brokers::Nats;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use crate::daemon::Daemon;
use crate::lateness::offer;
use crate::passage::{Stock, costs, each, median};
use crate::report::{Row, quantiles};
use harness::fill::payload;
use harness::nats::{ask, make_stream, read_stream};
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

const ELEMENTS: usize = 100_000;
/// Maximum number of unconfirmed messages: what the daemon's sink waits for at most.
const WINDOW: usize = 1_024;
/// Number of rounds; each measures both.
const ROUNDS: usize = 3;

/// Measures the rows of `ROWS=nats`.
pub async fn measure() -> Result<Vec<Row>> {
    let nats = tokio::task::spawn_blocking(Nats::start).await?.context("start NATS")?;
    let pids: Vec<u32> = nats.pid().into_iter().collect();
    let mut bares = Vec::new();
    let mut passages = Vec::new();
    for round in 0..=ROUNDS {
        make_stream(&nats, "BARE", "bare", &json!({}));
        let rate = bare(nats.port(), ELEMENTS, 256).await?;
        remove(&nats, "BARE")?;
        if round == 0 {
            // The first round is not counted: the server allocates memory.
            continue;
        }
        bares.push(rate);

        make_stream(&nats, "OUT", "out", &json!({}));
        let mut stock = Stock::of(ELEMENTS).await?;
        passages.push(stock.pass(&sink(&nats), "subject: out", &pids).await?);
        stock.judge(&read(&nats)?)?;
        remove(&nats, "OUT")?;
    }
    let rates = || passages.iter().map(|passage| passage.rate);
    let rate = median(rates());
    let bare = median(bares.clone());
    let row = |of: &str, found: String, bar| Row { what: format!("{ELEMENTS} to a stream of NATS{of}"), found, bar };
    Ok(vec![
        row("", format!("{rate:.0}/s ({}), every id once", each(rates())), "every id once"),
        row(", bare publisher", format!("{bare:.0}/s ({})", each(bares)), ""),
        row(", share", format!("{:.0} % of the bare publisher", rate / bare * 100.0), ">= 80 %"),
        row(", CPU each", costs(&passages, "NATS"), ""),
        lateness(&nats).await?,
    ])
}

/// Measures 1,000 elements/s, by the server's time in its messages.
async fn lateness(nats: &Nats) -> Result<Row> {
    make_stream(nats, "OUT", "out", &json!({}));
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("steady");
    let sink = sink(nats);
    let mut daemon = Daemon::spawn(
        &server.url(),
        &format!(
            "sinks: {{ out: {sink} }}\nqueues: {{ q: {{ source: {{ redisson: {{ name: steady }} }}, to: [{{ sink: out, subject: out }}] }} }}\n"
        ),
    )?;
    daemon.ready().await?;
    let count = offer(&mut server.client().await, std::slice::from_ref(&queue)).await?;
    let until = Instant::now() + Duration::from_secs(600);
    while ask(nats, "STREAM.INFO.OUT", &json!({})).is_ok_and(|info| info["state"]["messages"] != count) {
        ensure!(Instant::now() < until, "not all of {count} arrived within ten minutes");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let found = read(nats)?;
    daemon.stop().await;
    let late = found.iter().filter_map(|delivery| Some(delivery.arrived_ms? - delivery.due_ms?)).collect();
    let what = "lateness at 1,000/s for 20 s, to a stream of NATS".to_owned();
    Ok(Row { what, found: quantiles(late), bar: "p50 <= 3 ms, p99 <= 20 ms" })
}

fn sink(nats: &Nats) -> String {
    format!("{{ nats: {{ servers: ['127.0.0.1:{}'] }} }}", nats.port())
}

fn read(nats: &Nats) -> Result<Vec<harness::oracle::Delivery>> {
    read_stream(nats, "OUT").map_err(|error| anyhow::anyhow!("read the stream: {error}"))
}

fn remove(nats: &Nats, stream: &str) -> Result<()> {
    let removed = ask(nats, &format!("STREAM.DELETE.{stream}"), &json!({}));
    removed.map(drop).map_err(|error| anyhow::anyhow!("delete the stream {stream}: {error}"))
}

/// Measures the messages/s of a publisher that does nothing else.
async fn bare(port: u16, count: usize, size: usize) -> Result<f64> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.context("connect a publisher")?;
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    writer.write_all(b"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true}\r\nSUB inbox.* 1\r\n").await?;
    let mut sent = 0;
    let mut confirmed = 0;
    let mut text = String::new();
    let started = Instant::now();
    while confirmed < count {
        text.clear();
        while sent < count && sent - confirmed < WINDOW {
            message(&mut text, sent, size)?;
            sent += 1;
        }
        writer.write_all(text.as_bytes()).await?;
        // All confirmations that are there.
        confirmed += confirmation(&mut reader).await?;
        while reader.buffer().windows(2).any(|two| two == b"\r\n") && confirmed < sent {
            confirmed += confirmation(&mut reader).await?;
        }
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// Adds the headers that the daemon sets, and a body.
fn message(text: &mut String, n: usize, size: usize) -> Result<()> {
    let headers = format!(
        "NATS/1.0\r\nNats-Msg-Id: {n:016x}-1700000000000-0123456789abcdef\r\ndelaybridge-id: {n:016x}\r\n\
         delaybridge-queue: q\r\ndelaybridge-due-ms: 1700000000000\r\ndelaybridge-attempt: 1\r\n\r\n"
    );
    let body = payload(n, size);
    let head = headers.len();
    let total = headers.len() + body.len();
    write!(text, "HPUB bare inbox.{n} {head} {total}\r\n{headers}{body}\r\n").context("write a message")
}

/// Reads a line and what belongs to it. Returns the number of messages that it confirms.
async fn confirmation(reader: &mut BufReader<OwnedReadHalf>) -> Result<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    let Some(rest) = line.strip_prefix("MSG ") else {
        ensure!(!line.is_empty() && !line.starts_with("-ERR"), "a bare message was not confirmed: {line}");
        return Ok(0);
    };
    let length: usize = rest.trim_end().rsplit(' ').next().unwrap_or_default().parse().context("read a length")?;
    let mut body = vec![0; length + 2];
    reader.read_exact(&mut body).await?;
    if !body.starts_with(b"{\"stream\"") {
        bail!("a bare message was not confirmed: {}", String::from_utf8_lossy(&body));
    }
    Ok(1)
}
