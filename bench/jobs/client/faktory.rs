//! faktory: lines of its own, answers as of Redis, jobs in JSON.

use std::io::Result;
use std::time::{Duration, Instant, SystemTime};

use super::http::{json, text};
use super::{Client, TTR_SECONDS, Taken, body, number, unexpected};

/// The interval of signs of life; without one for a minute a worker is forgotten.
const BEAT: Duration = Duration::from_secs(10);

pub(super) async fn greet(client: &mut Client) -> Result<()> {
    let line = client.line().await?;
    if !line.starts_with("+HI") {
        return Err(unexpected(line));
    }
    let hello = format!(r#"HELLO {{"hostname":"bench","wid":"{}","pid":1,"labels":[],"v":2}}"#, client.worker);
    ok(client, &hello).await
}

#[expect(clippy::disallowed_methods, reason = "faktory takes the time of its client")]
pub(super) async fn add(client: &mut Client, number: usize, delay: u64) -> Result<()> {
    let at = match delay {
        0 => String::new(),
        delay => {
            let at = SystemTime::now() + Duration::from_secs(delay);
            format!(r#","at":"{}""#, humantime::format_rfc3339_nanos(at))
        }
    };
    let body = body(number);
    let job = format!(
        r#"PUSH {{"jid":"{number:024}","jobtype":"bench","queue":"bench","args":["{body}"],"reserve_for":{TTR_SECONDS}{at}}}"#
    );
    ok(client, &job).await
}

pub(super) async fn take(client: &mut Client) -> Result<Option<Taken>> {
    if client.beat.elapsed() > BEAT {
        client.beat = Instant::now();
        let beat = format!(r#"BEAT {{"wid":"{}"}}"#, client.worker);
        ok(client, &beat).await?;
    }
    client.write(b"FETCH bench\r\n").await?;
    let line = client.line().await?;
    let length =
        line.strip_prefix('$').and_then(|length| length.parse::<i64>().ok()).ok_or_else(|| unexpected(line))?;
    let Ok(length) = usize::try_from(length) else { return Ok(None) };
    let mut answer = client.bytes(length + 2).await?;
    answer.truncate(length);
    let job = json(&answer)?;
    let body = job["args"][0].as_str().ok_or_else(|| unexpected(&job))?;
    Ok(Some(Taken { number: number(body)?, name: text(&job, "jid")?.to_owned() }))
}

/// faktory does not say whether the job was still this consumer's.
pub(super) async fn finish(client: &mut Client, job: &Taken) -> Result<bool> {
    let ack = format!(r#"ACK {{"jid":"{}"}}"#, job.name);
    ok(client, &ack).await.map(|()| true)
}

async fn ok(client: &mut Client, command: &str) -> Result<()> {
    client.write(format!("{command}\r\n").as_bytes()).await?;
    match client.line().await? {
        "+OK" => Ok(()),
        line => Err(unexpected(line)),
    }
}
