//! A token and the time that it is valid for. Pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// Returns the time by the calendar of this host, which is what librdkafka compares the end of a token with.
#[expect(clippy::disallowed_methods, reason = "nothing is due by it")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Longest token that is taken; those of real providers have a few KB.
pub(super) const LONGEST: usize = 64 << 10;

/// A token, which is never shown.
#[derive(Debug, Clone)]
pub struct LoginToken {
    text: SecretString,
    /// The name of who logs in, as far as it is known: brokers take it from the token itself.
    principal: String,
    until: SystemTime,
}

impl LoginToken {
    /// Reads a token from its text. `expires_in`: the time that the provider gives it from now on; without it the token
    /// says so itself.
    pub(super) fn of(
        text: &str,
        expires_in: Option<Duration>,
        client: Option<&str>,
        now: SystemTime,
    ) -> Result<LoginToken, &'static str> {
        let text = text.trim();
        if text.is_empty() || text.len() > LONGEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it is no token: it is empty, too long, or has characters that no token has");
        }
        let claims = TokenClaims::of(text).unwrap_or_default();
        let told = claims
            .exp
            .filter(|exp| exp.is_finite() && *exp > 0.0)
            .map(|exp| UNIX_EPOCH + Duration::from_secs_f64(exp.min(1e11)));
        let until = match (expires_in, told) {
            // By our own clock, if there is a choice.
            (Some(left), _) => now + left,
            (None, Some(until)) => until,
            (None, None) => return Err("neither the answer nor the token says how long it is valid"),
        };
        let principal = claims.sub.or_else(|| client.map(str::to_owned)).unwrap_or_else(|| "delaybridge".to_owned());
        Ok(LoginToken { text: text.into(), principal, until })
    }

    /// Returns the letters.
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }

    /// Returns the name of who logs in.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Returns the end of its validity, in ms since the epoch.
    pub fn until_ms(&self) -> i64 {
        let since = self.until.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the time that is left; zero if it is over.
    pub fn left(&self, now: SystemTime) -> Duration {
        self.until.duration_since(now).unwrap_or_default()
    }
}

/// The claims that matter here (RFC 7519). They are not verified: the broker does it.
#[derive(Debug, Default, Deserialize)]
struct TokenClaims {
    exp: Option<f64>,
    sub: Option<String>,
}

impl TokenClaims {
    /// Reads the claims of a signed token; `None` for a token of another form.
    fn of(text: &str) -> Option<TokenClaims> {
        let mut parts = text.split('.');
        let (_head, claims, _signature, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
            return None;
        };
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn signed(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_provider_says_how_long_it_is_valid_or_the_token_does() {
        let told = signed(r#"{"sub":"alice","exp":1060.5,"other":[1]}"#);
        let token = LoginToken::of(&format!("{told}\n"), None, Some("me"), at(1_000)).unwrap();
        assert_eq!((token.left(at(1_000)), token.until_ms()), (Duration::from_millis(60_500), 1_060_500));
        assert_eq!((token.principal(), token.expose()), ("alice", &*told));
        assert_eq!(token.left(at(2_000)), Duration::ZERO);
        let token = LoginToken::of(&told, Some(Duration::from_secs(20)), None, at(5_000)).unwrap();
        assert_eq!(token.until_ms(), 5_020_000, "the clock of the provider may be another");
        let opaque = LoginToken::of("a1b2", Some(Duration::from_secs(20)), Some("me"), at(0)).unwrap();
        assert_eq!(opaque.principal(), "me");
        assert!(!format!("{opaque:?}").contains("a1b2"));
    }

    #[test]
    fn what_is_no_token_is_refused_without_being_shown() {
        for text in ["", " \n", "two words", "geh\u{1}eim", &"x".repeat(LONGEST + 1)] {
            assert!(LoginToken::of(text, Some(Duration::from_secs(1)), None, at(0)).unwrap_err().contains("no token"));
        }
        let endless =
            ["opaque".to_owned(), signed("{}"), signed("[]"), signed(r#"{"exp":"soon"}"#), signed(r#"{"exp":-1}"#)];
        for text in endless {
            assert!(LoginToken::of(&text, None, None, at(0)).unwrap_err().contains("how long"), "{text}");
        }
        LoginToken::of(&signed(r#"{"exp":1e300}"#), None, None, at(0)).expect("however far it is");
    }
}
