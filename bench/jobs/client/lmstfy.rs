//! lmstfy, over HTTP.

use std::io::Result;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::http::{ask, json, text};
use super::{Client, TRIES, TTR_SECONDS, Taken, WAIT_SECONDS, body, number, unexpected};

pub(super) async fn add(client: &mut Client, number: usize, delay: u64) -> Result<()> {
    let path = format!("/api/bench/bench?tries={TRIES}&delay={delay}");
    match ask(client, "PUT", &path, Some(&body(number))).await? {
        (201, _) => Ok(()),
        (_, answer) => Err(unexpected(String::from_utf8_lossy(&answer))),
    }
}

pub(super) async fn take(client: &mut Client) -> Result<Option<Taken>> {
    let path = format!("/api/bench/bench?ttr={TTR_SECONDS}&timeout={WAIT_SECONDS}");
    let answer = match ask(client, "GET", &path, None).await? {
        (200, answer) => json(&answer)?,
        (404, _) => return Ok(None),
        (_, answer) => return Err(unexpected(String::from_utf8_lossy(&answer))),
    };
    let body = BASE64_STANDARD.decode(text(&answer, "data")?).map_err(unexpected)?;
    let number = number(&String::from_utf8_lossy(&body))?;
    Ok(Some(Taken { number, name: text(&answer, "job_id")?.to_owned() }))
}

/// lmstfy does not say whether the job was still this consumer's.
pub(super) async fn finish(client: &mut Client, job: &Taken) -> Result<bool> {
    match ask(client, "DELETE", &format!("/api/bench/bench/job/{}", job.name), None).await? {
        (204, _) => Ok(true),
        (_, answer) => Err(unexpected(String::from_utf8_lossy(&answer))),
    }
}
