//! The login: an access key, whose secret signs every request.

use secrecy::ExposeSecret;
use serde::{Serialize, Serializer};

use delaybridge_settings::Secret;
use delaybridge_settings::keys::{Key, Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::secrets;

pub(super) const ACCESS_KEY: Key =
    key("access_key", Kind::Text, "Access key, with `acl` or authentication on the brokers.");
pub(super) const SECRET_KEY: Key = key("secret_key", Kind::Secret, "Secret of the access key, preferably as `${VAR}`.");
pub(super) const SECRET_KEY_FILE: Key =
    key("secret_key_file", Kind::File, "File with the secret in its first line, read at every connect.");

/// An access key and its secret. Shown as the keys that they were read from.
#[derive(Debug, Clone)]
pub struct RocketMqLogin {
    /// The access key.
    pub access_key: String,
    /// The secret.
    pub secret: Secret,
}

impl Serialize for RocketMqLogin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (key, shown) = match &self.secret {
            Secret::Literal(_) => (SECRET_KEY.name, "(hidden)".to_owned()),
            Secret::File(path) => (SECRET_KEY_FILE.name, path.display().to_string()),
        };
        serializer.collect_map([(ACCESS_KEY.name, self.access_key.clone()), (key, shown)])
    }
}

impl RocketMqLogin {
    /// Reads the secret. Blocks: the file is read at every connect, because it is rotated. An error names the file, and
    /// never has its content.
    pub(super) fn read_secret(&self) -> Result<String, String> {
        self.secret.read(SECRET_KEY_FILE.name).map(|secret| secret.expose_secret().trim().to_owned())
    }
}

pub(super) fn read(section: &Section<'_>) -> Option<RocketMqLogin> {
    let access_key = section.text(&ACCESS_KEY).map(|text| text.value);
    let secret = secrets::either(section, &SECRET_KEY, &SECRET_KEY_FILE, "ROCKETMQ_SECRET_KEY");
    let has_secret = section.has(&SECRET_KEY) || section.has(&SECRET_KEY_FILE);
    let report = &section.cx.report;
    match (section.has(&ACCESS_KEY), has_secret) {
        (true, false) => {
            let help = "write `secret_key_file: PATH`, or `secret_key: ${ROCKETMQ_SECRET_KEY}`";
            report.problem(&section.spot(&ACCESS_KEY), "there is an access key, but no secret", help);
        }
        (false, true) => {
            report.problem(&section.spot, "there is a secret, but no access key", "write `access_key: NAME`")
        }
        _ => {}
    }
    let (access_key, secret) = access_key.zip(secret)?;
    Some(RocketMqLogin { access_key, secret })
}
