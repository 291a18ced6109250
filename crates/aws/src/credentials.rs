//! A key with its secret, and the time that they are valid for.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use secrecy::{ExposeSecret, SecretString};

use delaybridge_core::json::Json;

/// Members of an answer that are looked at, at most.
const MEMBERS: usize = 64;

/// A key of AWS. Nothing but the key's id is ever shown.
#[derive(Clone)]
pub struct AwsCredentials {
    key_id: String,
    secret: SecretString,
    token: Option<SecretString>,
    /// The end of their time, in seconds since the epoch; absent for keys that have none.
    until: Option<u64>,
}

impl AwsCredentials {
    /// Creates credentials from these texts.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn new(
        key_id: &str,
        secret: &str,
        token: Option<&str>,
        until: Option<u64>,
    ) -> Result<AwsCredentials, &'static str> {
        let key_id = key_id.trim();
        let secret = secret.trim();
        let token = token.map(str::trim).filter(|token| !token.is_empty());
        let fits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits(key_id) || !fits(secret) {
            return Err("the key or its secret is empty, or has characters that no key has");
        }
        if token.is_some_and(|token| !fits(token)) {
            return Err("the session token has characters that no token has");
        }
        Ok(AwsCredentials {
            key_id: key_id.to_owned(),
            secret: secret.into(),
            token: token.map(SecretString::from),
            until,
        })
    }

    /// Reads the credentials in an answer of the metadata of a container or an instance. An error never has its
    /// content.
    pub(crate) fn of_json(text: Bytes) -> Result<AwsCredentials, &'static str> {
        let members = Json::read(text).ok().and_then(|json| json.members(MEMBERS).ok());
        let members = members.ok_or("the answer is no JSON object")?;
        let member = |name: &str| {
            let found = members.iter().find(|(other, _)| other == name).and_then(|(_, value)| value.text())?;
            String::from_utf8(found.to_vec()).ok()
        };
        let (Some(key_id), Some(secret)) = (member("AccessKeyId"), member("SecretAccessKey")) else {
            return Err("the answer has no `AccessKeyId` and `SecretAccessKey`");
        };
        let until = member("Expiration").map(|text| unix_of(&text).ok_or("its `Expiration` is no time")).transpose()?;
        AwsCredentials::new(&key_id, &secret, member("Token").as_deref(), until)
    }

    /// Returns the id of the key, which is no secret.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    pub(crate) fn secret(&self) -> &str {
        self.secret.expose_secret()
    }

    /// Returns the token that goes with a key of limited time.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.expose_secret())
    }

    /// Returns the time that is left; `None` without an end.
    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| Duration::from_secs(until.saturating_sub(unix_now())))
    }
}

impl fmt::Debug for AwsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AwsCredentials");
        shown.field("key_id", &self.key_id).field("until", &self.until).finish_non_exhaustive()
    }
}

/// Returns the seconds since the epoch by the clock of this host: AWS refuses a proof that is more than some minutes
/// off.
pub fn unix_now() -> u64 {
    delaybridge_core::clock::calendar_seconds() as u64
}

/// Returns the seconds since the epoch of a time as `2026-11-25T12:00:00Z`.
pub(crate) fn unix_of(text: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339_weak(text.trim()).ok()?;
    Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_metadata_is_read() {
        let text = r#"{"Code":"Success","AccessKeyId":"AKIA1","SecretAccessKey":"geheim/1","Token":"t+t==",
            "Expiration":"2026-11-25T12:34:56Z","Type":"AWS-HMAC"}"#;
        let read = AwsCredentials::of_json(text.into()).unwrap();
        assert_eq!((read.key_id(), read.secret(), read.token()), ("AKIA1", "geheim/1", Some("t+t==")));
        assert_eq!(read.until, Some(1_795_610_096));
        let shown = format!("{read:?}");
        assert!(shown.contains("AKIA1") && !shown.contains("geheim") && !shown.contains("t+t"), "{shown}");
        for text in [
            "",
            "[]",
            "{}",
            r#"{"AccessKeyId":"a"}"#,
            r#"{"AccessKeyId":"a","SecretAccessKey":""}"#,
            r#"{"AccessKeyId":"a b","SecretAccessKey":"s"}"#,
            r#"{"AccessKeyId":"a","SecretAccessKey":"s","Expiration":"soon"}"#,
            r#"{"AccessKeyId":"a","SecretAccessKey":"s","Token":"x\r\ny"}"#,
        ] {
            AwsCredentials::of_json(text.into()).expect_err(text);
        }
    }

    #[test]
    fn the_time_that_is_left_ends_at_zero() {
        let of = |until| AwsCredentials::new("a", "s", None, until).unwrap().left();
        assert_eq!((of(None), of(Some(1))), (None, Some(Duration::ZERO)));
        assert!(of(Some(unix_now() + 100)).unwrap() > Duration::from_secs(90));
    }
}
