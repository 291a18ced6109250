//! beanstalkd.

use std::io::Result;

use super::{BODY, Client, TTR_SECONDS, Taken, WAIT_SECONDS, body, number, unexpected};

pub(super) async fn add(client: &mut Client, number: usize, delay: u64) -> Result<()> {
    let put = format!("put 0 {delay} {TTR_SECONDS} {BODY}\r\n{}\r\n", body(number));
    client.write(put.as_bytes()).await?;
    let line = client.line().await?;
    if line.starts_with("INSERTED") { Ok(()) } else { Err(unexpected(line)) }
}

pub(super) async fn take(client: &mut Client) -> Result<Option<Taken>> {
    client.write(format!("reserve-with-timeout {WAIT_SECONDS}\r\n").as_bytes()).await?;
    let line = client.line().await?;
    if matches!(line, "TIMED_OUT" | "DEADLINE_SOON") {
        return Ok(None);
    }
    let name =
        line.strip_prefix("RESERVED ").and_then(|rest| rest.split(' ').next()).ok_or_else(|| unexpected(line))?;
    let name = name.to_owned();
    let mut body = client.bytes(BODY + 2).await?;
    body.truncate(BODY);
    Ok(Some(Taken { number: number(&String::from_utf8_lossy(&body))?, name }))
}

pub(super) async fn finish(client: &mut Client, job: &Taken) -> Result<bool> {
    client.write(format!("delete {}\r\n", job.name).as_bytes()).await?;
    match client.line().await? {
        "DELETED" => Ok(true),
        "NOT_FOUND" => Ok(false),
        line => Err(unexpected(line)),
    }
}
