//! delaybridge over HTTP.

use std::io::Result;

use super::http::{ask, json, text};
use super::{Client, Taken, WAIT_SECONDS, body, number, unexpected};

pub(super) async fn add(client: &mut Client, number: usize, delay: u64) -> Result<()> {
    let path = match delay {
        0 => "/v1/topics/bench/jobs".to_owned(),
        delay => format!("/v1/topics/bench/jobs?delay={delay}s"),
    };
    match ask(client, "POST", &path, Some(&body(number))).await? {
        (201, _) => Ok(()),
        (_, answer) => Err(unexpected(String::from_utf8_lossy(&answer))),
    }
}

pub(super) async fn take(client: &mut Client) -> Result<Option<Taken>> {
    let path = format!("/v1/topics/bench/pop?wait={WAIT_SECONDS}s");
    let answer = match ask(client, "POST", &path, None).await? {
        (200, answer) => json(&answer)?,
        (204, _) => return Ok(None),
        (_, answer) => return Err(unexpected(String::from_utf8_lossy(&answer))),
    };
    let job = &answer["jobs"][0];
    let name = format!("{}/finish?token={}", text(job, "id")?, text(job, "token")?);
    Ok(Some(Taken { number: number(text(job, "body")?)?, name }))
}

pub(super) async fn finish(client: &mut Client, job: &Taken) -> Result<bool> {
    match ask(client, "PUT", &format!("/v1/jobs/{}", job.name), None).await? {
        (204, _) => Ok(true),
        (404 | 409, _) => Ok(false),
        (_, answer) => Err(unexpected(String::from_utf8_lossy(&answer))),
    }
}
