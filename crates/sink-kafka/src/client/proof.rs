//! What a producer logs in with, as it was when it started.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::client::OAuthToken;
use secrecy::{ExposeSecret, SecretString};

use crate::login::KafkaLogin;
use crate::tokens::LoginTokens;
use crate::{KafkaSasl, KafkaSpec};
use delaybridge_core::message::{Class, Failure};
use delaybridge_settings::Secret;

/// Returns the tokens of a sink that logs in with them. They begin to be asked for.
pub(crate) fn tokens(spec: &KafkaSpec) -> Option<Arc<LoginTokens>> {
    match &spec.sasl.as_ref()?.login {
        KafkaLogin::Tokens(spec) => Some(LoginTokens::begin(spec)),
        KafkaLogin::Password { .. } => None,
    }
}

/// The proof that a producer logs in with.
#[derive(Debug, Clone)]
pub(crate) enum Proof {
    None,
    Password(SecretString),
    /// The token of the moment.
    Token(Arc<LoginTokens>),
}

impl Proof {
    /// Reads the proof to be used now: the password of a file is read each time, because files are rotated; a first
    /// token is waited for, at most for so long. Blocks.
    pub(crate) fn now(spec: &KafkaSpec, tokens: Option<&Arc<LoginTokens>>, limit: Duration) -> Result<Proof, Failure> {
        let Some(KafkaSasl { login, .. }) = &spec.sasl else { return Ok(Proof::None) };
        match (login, tokens) {
            (KafkaLogin::Password { password, .. }, _) => read(password).map(Proof::Password),
            (KafkaLogin::Tokens(_), Some(tokens)) => tokens.wait(limit).map(|_token| Proof::Token(tokens.clone())),
            (KafkaLogin::Tokens(spec), None) => {
                let tokens = LoginTokens::begin(spec);
                tokens.wait(limit).map(|_token| Proof::Token(tokens))
            }
        }
    }

    pub(crate) fn password(&self) -> Option<&SecretString> {
        match self {
            Proof::Password(password) => Some(password),
            Proof::None | Proof::Token(_) => None,
        }
    }

    pub(crate) fn tokens(&self) -> Option<&Arc<LoginTokens>> {
        match self {
            Proof::Token(tokens) => Some(tokens),
            Proof::None | Proof::Password(_) => None,
        }
    }

    /// Returns the current token, as librdkafka takes it.
    pub(crate) fn oauth_token(&self) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        let token = self.tokens().and_then(|tokens| tokens.current()).ok_or("there is no valid token")?;
        let lifetime_ms = token.until_ms();
        let principal_name = token.principal().to_owned();
        Ok(OAuthToken { token: token.expose().to_owned(), principal_name, lifetime_ms })
    }

    /// Returns whether the password's file has another one by now.
    pub(crate) fn is_outdated(&self, spec: &KafkaSpec) -> bool {
        let (Proof::Password(used), Some(KafkaSasl { login: KafkaLogin::Password { password, .. }, .. })) =
            (self, &spec.sasl)
        else {
            return false;
        };
        // A file that cannot be read is no new password.
        read(password).is_ok_and(|now| now.expose_secret() != used.expose_secret())
    }
}

fn read(password: &Secret) -> Result<SecretString, Failure> {
    let failure = |what: String| Failure::new(Class::TargetPermanent, "secret", format!("log in to Kafka: {what}"));
    password.read("password_file").map_err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_file_is_read_again_and_reported_when_it_cannot_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let password = Secret::File(path.clone());
        let failure = read(&password).unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "secret"));
        for word in ["first", "second"] {
            std::fs::write(&path, format!("{word}\nrest\n")).unwrap();
            assert_eq!(read(&password).unwrap().expose_secret(), word);
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(read(&password).unwrap_err().message.contains("first line is empty"));
    }
}
