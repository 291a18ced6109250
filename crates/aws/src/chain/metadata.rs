//! Credentials that a container or an instance is given by a server beside it.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;

use crate::questions::{LIMIT, read_file, refused, unavailable};
use crate::{AwsCredentials, AwsVariables};
use delaybridge_core::message::Failure;
use delaybridge_http_client::{ExchangeError, HttpAnswer, HttpOrigin, HttpPeer, split};
use delaybridge_settings::TlsFiles;

/// The server of ECS's credentials.
const ECS: &str = "http://169.254.170.2";
/// Hosts that may be asked without TLS: those beside the container, of ECS and of EKS.
const BESIDE: &[&str] = &["169.254.170.2", "169.254.170.23", "fd00:ec2::23", "127.0.0.1", "::1", "localhost"];
/// The server of an instance's metadata.
const INSTANCE: &str = "http://169.254.169.254";
/// Time-out of a request for the metadata of an instance. Outside of AWS there is no response.
const NEAR: Duration = Duration::from_secs(2);
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
/// Largest answer.
const ANSWER: usize = 64 << 10;

/// Returns the address that the variables of a container name.
pub(super) fn container_url(variables: &AwsVariables) -> Option<String> {
    let relative = variables.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{ECS}{path}"));
    relative.or_else(|| variables.get("AWS_CONTAINER_CREDENTIALS_FULL_URI").map(str::to_owned))
}

/// Asks for the credentials of the container: a task of ECS, or a pod with an identity of EKS.
pub(super) async fn of_container(variables: &AwsVariables) -> Result<AwsCredentials, Failure> {
    let what = "ask the container's server for credentials of AWS";
    let url = container_url(variables)
        .ok_or_else(|| refused(&format!("{what}: no variable `AWS_CONTAINER_CREDENTIALS_...` names it")))?;
    let (origin, path) = split(&url).map_err(|(why, _)| refused(&format!("{what}: {why}")))?;
    if !origin.tls && !BESIDE.contains(&origin.host.as_str()) {
        return Err(refused(&format!("{what}: {origin} is not beside the container, and is not `https`")));
    }
    let token = match variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => Some(read_file(file).await.map_err(|why| refused(&format!("{what}: {why}")))?),
        None => variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned),
    };
    let mut request = Request::get(path).header("accept", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", token.trim());
    }
    let answer = ask(what, &origin, request, LIMIT).await?;
    read(what, &origin, answer)
}

/// Asks for the credentials of the instance, by version 2 of its metadata. `Ok(None)` without a response: this is no
/// instance.
pub(super) async fn of_instance(variables: &AwsVariables) -> Result<Option<AwsCredentials>, Failure> {
    let what = "ask the instance for credentials of AWS";
    if variables.get("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let url = variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(INSTANCE);
    let (origin, _) = split(url).map_err(|(why, _)| refused(&format!("{what}: {why}")))?;
    let request = Request::put("/latest/api/token").header("x-aws-ec2-metadata-token-ttl-seconds", "21600");
    let Ok(session) = exchange(&origin, request, NEAR).await else { return Ok(None) };
    let session = text(what, &origin, session)?;
    let get = |path: &str| Request::get(path.to_owned()).header("x-aws-ec2-metadata-token", session.trim());
    let roles = ask(what, &origin, get(ROLES), NEAR).await?;
    if roles.status == 404 {
        return Err(refused(&format!("{what}: it has no role: give it one")));
    }
    let role = text(what, &origin, roles)?;
    let role = role.lines().next().unwrap_or_default().trim();
    let answer = ask(what, &origin, get(&format!("{ROLES}{role}")), NEAR).await?;
    read(what, &origin, answer).map(Some)
}

async fn ask(
    what: &str,
    origin: &HttpOrigin,
    request: hyper::http::request::Builder,
    limit: Duration,
) -> Result<HttpAnswer, Failure> {
    exchange(origin, request, limit).await.map_err(|error| unavailable(&format!("{what}: {origin}: {error}")))
}

async fn exchange(
    origin: &HttpOrigin,
    request: hyper::http::request::Builder,
    limit: Duration,
) -> Result<HttpAnswer, ExchangeError> {
    let request = request.body(Full::new(Bytes::new()));
    let request = request.map_err(|_| ExchangeError::Broken("the request cannot be written".to_owned()))?;
    HttpPeer::new(origin.clone(), TlsFiles::default()).exchange(request, limit, ANSWER).await
}

fn text(what: &str, origin: &HttpOrigin, answer: HttpAnswer) -> Result<String, Failure> {
    let status = answer.status;
    match (status, String::from_utf8(answer.body.to_vec())) {
        (200..=299, Ok(text)) => Ok(text),
        (429 | 500..=599, _) => Err(unavailable(&format!("{what}: {origin} answered {status}"))),
        _ => Err(refused(&format!("{what}: {origin} answered {status}: check the role, and who may ask"))),
    }
}

fn read(what: &str, origin: &HttpOrigin, answer: HttpAnswer) -> Result<AwsCredentials, Failure> {
    let text = text(what, origin, answer)?;
    AwsCredentials::of_json(text.into()).map_err(|why| refused(&format!("{what}: {origin}: {why}")))
}
