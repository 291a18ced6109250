//! The credentials of a role, from AWS's Security Token Service.

use std::path::Path;

use bytes::Bytes;
use form_urlencoded::Serializer;
use http_body_util::Full;
use hyper::Request;

use crate::credentials::unix_of;
use crate::questions::{LIMIT, read_file, refused, unavailable};
use crate::{AwsCredentials, AwsSigner, AwsVariables, XmlElement, host_of, unix_now};
use delaybridge_core::message::Failure;
use delaybridge_http_client::{ExchangeError, HttpAnswer, HttpOrigin, HttpPeer, split};
use delaybridge_settings::TlsFiles;

/// Largest answer.
const ANSWER: usize = 64 << 10;
/// The name of our sessions, which logs of AWS show.
const SESSION: &str = "delaybridge";
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

#[derive(Debug, Clone)]
pub(crate) struct AwsRole {
    pub(crate) arn: String,
    pub(crate) session: Option<String>,
    pub(crate) external_id: Option<String>,
}

/// The service in one region.
#[derive(Debug)]
pub(crate) struct StsClient {
    /// The server, or what is wrong with its address.
    server: Result<HttpPeer, &'static str>,
    region: String,
}

impl StsClient {
    /// Creates a client for the service of the region, or that of the variables of AWS's own tools.
    pub(crate) fn new(region: &str, variables: &AwsVariables) -> StsClient {
        let other = variables.get("AWS_ENDPOINT_URL_STS").or_else(|| variables.get("AWS_ENDPOINT_URL"));
        let origin = match other {
            Some(url) => split(url).map(|(origin, _)| origin).map_err(|(why, _)| why),
            None => Ok(HttpOrigin { tls: true, host: host_of("sts", region), port: 443 }),
        };
        let server = origin.map(|origin| HttpPeer::new(origin, TlsFiles::default()));
        StsClient { server, region: region.to_owned() }
    }

    /// Asks for the credentials of a role, for who has these.
    pub(crate) async fn assume(&self, own: &AwsCredentials, role: &AwsRole) -> Result<AwsCredentials, Failure> {
        let external = role.external_id.as_deref().map(|id| ("ExternalId", id));
        self.ask("AssumeRole", &role.arn, form("AssumeRole", role, external), Some(own)).await
    }

    /// Asks for the credentials of a role, for who has the token in this file.
    pub(crate) async fn with_token(&self, file: &Path, role: &AwsRole) -> Result<AwsCredentials, Failure> {
        let token = read_file(file).await.map_err(|why| refused(&format!("assume the role {}: {why}", role.arn)))?;
        let form = form("AssumeRoleWithWebIdentity", role, Some(("WebIdentityToken", token.trim())));
        self.ask("AssumeRoleWithWebIdentity", &role.arn, form, None).await
    }

    async fn ask(
        &self,
        action: &str,
        role: &str,
        form: String,
        signed_by: Option<&AwsCredentials>,
    ) -> Result<AwsCredentials, Failure> {
        let what = format!("assume the role {role}");
        let server = self.server.as_ref().map_err(|why| refused(&format!("{what}: AWS_ENDPOINT_URL: {why}")))?;
        let mut request = Request::post("/").header("content-type", FORM);
        if let Some(credentials) = signed_by {
            let signer = AwsSigner { credentials, service: "sts", region: &self.region, at: unix_now() };
            let host = server.origin().authority();
            for (name, value) in signer.headers(&host, &[("content-type", FORM)], form.as_bytes()) {
                request = request.header(name, value);
            }
        }
        let request = request.body(Full::new(Bytes::from(form)));
        let request = request.map_err(|_| refused(&format!("{what}: the request cannot be written")))?;
        let answer = server.exchange(request, LIMIT, ANSWER).await.map_err(|error| match error {
            ExchangeError::NotConnected(error) if error.needs_a_person() => {
                refused(&format!("{what}: {}: {error}", server.origin()))
            }
            other => unavailable(&format!("{what}: {}: {other}", server.origin())),
        })?;
        read(action, &what, &answer)
    }
}

fn form(action: &str, role: &AwsRole, more: Option<(&str, &str)>) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("Action", action).append_pair("Version", "2011-06-15");
    form.append_pair("RoleArn", &role.arn);
    form.append_pair("RoleSessionName", role.session.as_deref().unwrap_or(SESSION));
    form.extend_pairs(more);
    form.finish()
}

fn read(action: &str, what: &str, answer: &HttpAnswer) -> Result<AwsCredentials, Failure> {
    let document = std::str::from_utf8(&answer.body).ok().and_then(XmlElement::read);
    let status = answer.status;
    if (200..=299).contains(&status) {
        let result = format!("{action}Result");
        let found = document.as_ref().and_then(|document| document.at(&[result.as_str(), "Credentials"]));
        let text = |name| found.and_then(|found| found.text_of(name));
        let parts = text("AccessKeyId").zip(text("SecretAccessKey"));
        let (key_id, secret) =
            parts.ok_or_else(|| refused(&format!("{what}: the answer has no credentials; is it the service STS?")))?;
        let until = text("Expiration").and_then(unix_of);
        return AwsCredentials::new(key_id, secret, text("SessionToken"), until)
            .map_err(|why| refused(&format!("{what}: {why}")));
    }
    // Its word only: the text may repeat the token.
    let code = document.as_ref().and_then(|document| document.at(&["Error"])).and_then(|error| error.text_of("Code"));
    let code = code.filter(|code| code.len() <= 60 && code.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let word = code.map(|code| format!(", {code}")).unwrap_or_default();
    match (status, code) {
        (429 | 500..=599, _) | (_, Some("Throttling" | "ThrottlingException" | "IDPCommunicationError")) => {
            Err(unavailable(&format!("{what}: STS answered {status}{word}")))
        }
        _ => Err(refused(&format!("{what}: STS refused with {status}{word}: check the role, and whom it trusts"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::Class;

    fn answer(status: u16, body: &'static str) -> Result<AwsCredentials, Failure> {
        let answer = HttpAnswer { status, headers: hyper::HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) };
        read("AssumeRole", "ask", &answer)
    }

    #[test]
    fn every_answer_has_its_class_and_shows_no_secret() {
        let good = "<AssumeRoleResponse xmlns=\"https://sts\"><AssumeRoleResult><Credentials><AccessKeyId>ASIA1</AccessKeyId>\
            <SecretAccessKey>geheim/+</SecretAccessKey><SessionToken>token==</SessionToken>\
            <Expiration>2026-11-25T12:34:56Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
        let read = answer(200, good).unwrap();
        assert_eq!((read.key_id(), read.secret(), read.token()), ("ASIA1", "geheim/+", Some("token==")));
        assert!(read.left().is_some());
        let rows = [
            (200, "", "credentials_refused"),
            (200, "<a/>", "credentials_refused"),
            (
                403,
                "<ErrorResponse><Error><Code>AccessDenied</Code><Message>geheim</Message></Error></ErrorResponse>",
                "credentials_refused",
            ),
            (
                400,
                "<ErrorResponse><Error><Code>ExpiredTokenException</Code></Error></ErrorResponse>",
                "credentials_refused",
            ),
            (
                400,
                "<ErrorResponse><Error><Code>IDPCommunicationError</Code></Error></ErrorResponse>",
                "credentials_unavailable",
            ),
            (400, "<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>", "credentials_unavailable"),
            (503, "<html>geheim", "credentials_unavailable"),
            (302, "", "credentials_refused"),
        ];
        for (status, body, code) in rows {
            let failure = answer(status, body).unwrap_err();
            assert_eq!(failure.code, code, "{status} {body}");
            assert_eq!(failure.class == Class::Transient, code == "credentials_unavailable");
            assert!(!failure.message.contains("geheim"), "{failure}");
        }
    }
}
