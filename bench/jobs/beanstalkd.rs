//! beanstalkd, which stores jobs itself.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use brokers::process::{Process, command};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{BODY, CONSUMERS, Kept, PRODUCERS, Ran, each, gathered, own_cpu, p99};
use harness::ports::free_port;

pub(super) async fn run(count: usize, kept: Kept) -> Result<Ran> {
    let port = free_port();
    let mut program = command("beanstalkd");
    program.args(["-l", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let log = TempDir::with_prefix("delaybridge-beanstalkd-").context("make a directory")?;
    if kept == Kept::Log {
        program.arg("-b").arg(log.path()).args(["-f", "1000"]);
    }
    let server =
        Process::spawn("beanstalkd", program).context("start beanstalkd: `scripts/setup.sh bench` installs it")?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        ensure!(Instant::now() < deadline, "beanstalkd does not answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut ran = Ran::default();
    let before = server.usage().cpu;
    let own_before = own_cpu();
    let began = Instant::now();
    let producer = |_| {
        tokio::spawn(async move {
            let mut client = Beanstalk::connect(port).await;
            let mut times = Vec::new();
            let put = [format!("put 0 0 600 {BODY}\r\n").as_bytes(), &[0; BODY], b"\r\n"].concat();
            for _ in 0..count / PRODUCERS {
                let at = Instant::now();
                let answer = client.ask(&put).await;
                assert!(answer.starts_with("INSERTED"), "{answer}");
                times.push(at.elapsed());
            }
            times
        })
    };
    let times = gathered((0..PRODUCERS).map(producer).collect()).await?;
    let added = times.len();
    ran.add_rate = added as f64 / began.elapsed().as_secs_f64();
    ran.add_p99 = p99(times);
    let began = Instant::now();
    let consumer = |_| {
        tokio::spawn(async move {
            let mut client = Beanstalk::connect(port).await;
            let mut times = Vec::new();
            loop {
                let at = Instant::now();
                let answer = client.ask(b"reserve-with-timeout 0\r\n").await;
                let Some(words) = answer.strip_prefix("RESERVED ") else { return times };
                let id = words.split(' ').next().unwrap_or_default().to_owned();
                client.body().await;
                let answer = client.ask(format!("delete {id}\r\n").as_bytes()).await;
                assert!(answer.starts_with("DELETED"), "{answer}");
                times.push(at.elapsed());
            }
        })
    };
    let times = gathered((0..CONSUMERS).map(consumer).collect()).await?;
    ran.take_rate = times.len() as f64 / began.elapsed().as_secs_f64();
    ensure!(times.len() == added, "{} of {added} jobs were taken", times.len());
    ran.take_p99 = p99(times);
    ran.server_us = each(server.usage().cpu, before, added);
    ran.client_us = each(own_cpu(), own_before, added);
    Ok(ran)
}

/// A connection to beanstalkd.
struct Beanstalk(BufReader<TcpStream>);

impl Beanstalk {
    async fn connect(port: u16) -> Beanstalk {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("connect");
        stream.set_nodelay(true).expect("set TCP_NODELAY");
        Beanstalk(BufReader::new(stream))
    }

    async fn ask(&mut self, command: &[u8]) -> String {
        self.0.get_mut().write_all(command).await.expect("write");
        let mut line = String::new();
        self.0.read_line(&mut line).await.expect("read");
        line
    }

    async fn body(&mut self) {
        let mut body = [0; BODY + 2];
        self.0.read_exact(&mut body).await.expect("read");
    }
}
