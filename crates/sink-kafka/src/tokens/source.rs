//! Asks a provider for a token, by the grant *client credentials* (RFC 6749, 4.4; RFC 7523 for a signed proof), or reads one of a
//! file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use form_urlencoded::{Serializer, byte_serialize};
use http_body_util::Full;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use secrecy::ExposeSecret;
use serde::Deserialize;

use super::token::{LONGEST, LoginToken, now};
use crate::login::{OidcSpec, TokenSpec, TokenUrl};
use delaybridge_aws::{AwsLogin, AwsSigner, AwsVariables, msk_token, unix_now};
use delaybridge_core::message::{Class, Failure};
use delaybridge_http_client::{ExchangeError, HttpPeer};
use delaybridge_settings::{Secret, TlsFiles, secrets};

/// Time for one question.
const LIMIT: Duration = Duration::from_secs(10);
/// Largest answer of a provider.
const ANSWER: usize = 2 * LONGEST;

/// The kind of proof that is a signed token (RFC 7523, 2.2).
const SIGNED: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

pub(super) enum TokenSource {
    /// The first line of a file.
    File(PathBuf),
    Endpoint(Box<TokenEndpoint>),
    /// The credentials of AWS, which sign a token.
    Aws(Box<MskSource>),
}

/// A signer of tokens for MSK.
pub(super) struct MskSource {
    login: AwsLogin,
    region: String,
}

/// A token endpoint, and what it is asked.
pub(super) struct TokenEndpoint {
    server: HttpPeer,
    url: TokenUrl,
    client: String,
    proof: ClientProof,
    scope: Option<String>,
    audience: Option<String>,
}

enum ClientProof {
    /// A secret, sent as HTTP Basic.
    Secret(Secret),
    /// The first line of a file: a signed token.
    Signed(PathBuf),
}

/// The answer of a provider (RFC 6749, 5.1 and 5.2).
#[derive(Debug, Deserialize)]
struct ProviderAnswer {
    access_token: Option<String>,
    expires_in: Option<Seconds>,
    error: Option<String>,
}

/// A number of seconds; some providers write it as a text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
}

impl Seconds {
    fn duration(&self) -> Option<Duration> {
        let seconds = match self {
            Seconds::Number(number) => *number,
            Seconds::Text(text) => text.trim().parse().ok()?,
        };
        // Ten years, so that every sum with a time is one.
        (seconds > 0.0).then(|| Duration::from_secs_f64(seconds.min(315_360_000.0)))
    }
}

impl TokenSource {
    pub(super) fn of(spec: &TokenSpec) -> TokenSource {
        match spec {
            TokenSpec::Oidc(spec) => TokenSource::of_oidc(spec),
            TokenSpec::AwsMskIam(spec) => {
                let login = AwsLogin::new(&spec.login, AwsVariables::of_process());
                TokenSource::Aws(Box::new(MskSource { login, region: spec.login.region.clone() }))
            }
        }
    }

    fn of_oidc(spec: &OidcSpec) -> TokenSource {
        let file = spec.token_file.clone().unwrap_or_default();
        let Some(url) = spec.token_url.clone() else { return TokenSource::File(file) };
        let files = TlsFiles { ca_file: spec.ca_file.clone(), client: None, ..TlsFiles::default() };
        TokenSource::Endpoint(Box::new(TokenEndpoint {
            server: HttpPeer::new(url.origin.clone(), files),
            url,
            client: spec.client_id.clone().unwrap_or_default(),
            proof: spec.client_secret.0.clone().map_or(ClientProof::Signed(file), ClientProof::Secret),
            scope: spec.scope.clone(),
            audience: spec.audience.clone(),
        }))
    }

    /// Returns whether another program renews the token.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, TokenSource::File(_))
    }

    /// Asks for a new token. The failure is `TargetPermanent` where a person has to do something, `Transient` where the
    /// provider is away. No message has a part of a proof or of a token.
    pub(super) async fn ask(&self) -> Result<LoginToken, Failure> {
        match self {
            TokenSource::File(path) => {
                let what = format!("read the token in {}", path.display());
                let refused = |why: &str| failed(Class::TargetPermanent, "token_file", &format!("{what}: {why}"));
                let text = secrets::line_of(path).map_err(|why| refused(&why))?;
                let token = LoginToken::of(text.expose_secret().trim(), None, None, now()).map_err(refused)?;
                if token.left(now()).is_zero() {
                    Err(refused("it is not valid any more: check the program that renews the file"))
                } else {
                    Ok(token)
                }
            }
            TokenSource::Endpoint(endpoint) => endpoint.ask().await,
            TokenSource::Aws(source) => source.ask().await,
        }
    }
}

impl MskSource {
    async fn ask(&self) -> Result<LoginToken, Failure> {
        let credentials = self.login.current().await?;
        let signer =
            AwsSigner { credentials: &credentials, service: "kafka-cluster", region: &self.region, at: unix_now() };
        let (token, valid) = msk_token(signer);
        let token = LoginToken::of(token.expose_secret(), Some(valid), Some(credentials.key_id()), now());
        token.map_err(|why| failed(Class::TargetPermanent, "token_refused", &format!("sign a token for MSK: {why}")))
    }
}

impl TokenEndpoint {
    async fn ask(&self) -> Result<LoginToken, Failure> {
        let what = format!("ask {} for a token", self.url.shown());
        let request = self.request()?;
        let answer = self.server.exchange(request, LIMIT, ANSWER).await.map_err(|error| match error {
            ExchangeError::NotConnected(error) if error.needs_a_person() => {
                failed(Class::TargetPermanent, "token_refused", &format!("{what}: {error}"))
            }
            other => failed(Class::Transient, "token_unavailable", &format!("{what}: {other}")),
        })?;
        let body = serde_json::from_slice::<ProviderAnswer>(&answer.body).ok();
        self.token(&what, answer.status, body)
    }

    fn token(&self, what: &str, status: u16, body: Option<ProviderAnswer>) -> Result<LoginToken, Failure> {
        // Of the words of RFC 6749 only: what else a provider writes may repeat the request.
        let word = body.as_ref().and_then(|body| body.error.as_deref()).filter(|word| is_word(word));
        let word = word.map(|word| format!(", {word}")).unwrap_or_default();
        let token = body.and_then(|body| Some((body.access_token?, body.expires_in)));
        match (status, token) {
            (200..=299, Some((text, expires_in))) => {
                let left = expires_in.as_ref().and_then(Seconds::duration);
                let token = LoginToken::of(&text, left, Some(&self.client), now());
                token.map_err(|why| failed(Class::TargetPermanent, "token_refused", &format!("{what}: {why}")))
            }
            (200..=299, None) => Err(failed(
                Class::TargetPermanent,
                "token_refused",
                &format!("{what}: the answer has no `access_token`; check that `token_url` is the token endpoint"),
            )),
            (408 | 425 | 429 | 500..=599, _) => Err(failed(
                Class::Transient,
                "token_unavailable",
                &format!("{what}: the provider answered {status}{word}"),
            )),
            (300..=399, _) => Err(failed(
                Class::TargetPermanent,
                "token_refused",
                &format!("{what}: the provider answered {status}; write the URL that it redirects to"),
            )),
            _ => Err(failed(
                Class::TargetPermanent,
                "token_refused",
                &format!(
                    "{what}: the provider refused with {status}{word}; check `client_id`, its secret, `scope` and `audience`"
                ),
            )),
        }
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, Failure> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        for (name, value) in [("scope", &self.scope), ("audience", &self.audience)] {
            if let Some(value) = value {
                form.append_pair(name, value);
            }
        }
        let unreadable = |path: &Path, why: &str| {
            failed(Class::TargetPermanent, "secret", &format!("log in to Kafka: read {}: {why}", path.display()))
        };
        let of_file = |path: &Path| match secrets::line_of(path) {
            Ok(line) => Ok(line.expose_secret().trim().to_owned()),
            Err(why) => Err(unreadable(path, &why)),
        };
        let mut basic = None;
        match &self.proof {
            ClientProof::Signed(path) => {
                form.append_pair("client_id", &self.client);
                form.append_pair("client_assertion_type", SIGNED);
                form.append_pair("client_assertion", &of_file(path)?);
            }
            ClientProof::Secret(secret) => {
                let secret = match secret {
                    Secret::Literal(text) => text.expose_secret().to_owned(),
                    Secret::File(path) => of_file(path)?,
                };
                // Both are form-encoded before they are joined (RFC 6749, 2.3.1).
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                basic = Some(STANDARD.encode(format!("{}:{}", encoded(&self.client), encoded(&secret))));
            }
        }
        let mut request = Request::post(&self.url.path)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        if let Some(basic) = basic
            && let Ok(mut value) = HeaderValue::try_from(format!("Basic {basic}"))
        {
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.body(Full::new(form.finish().into())).map_err(|_| {
            failed(
                Class::TargetPermanent,
                "token_refused",
                "ask for a token for Kafka: `token_url` has characters that no URL has",
            )
        })
    }
}

/// Returns whether a text is a word as those of RFC 6749 are: `invalid_client`.
fn is_word(text: &str) -> bool {
    text.len() <= 40 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn failed(class: Class, code: &'static str, text: &str) -> Failure {
    Failure::new(class, code, text)
}

#[cfg(test)]
mod tests;
