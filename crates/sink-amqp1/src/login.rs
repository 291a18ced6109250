//! The ways to log in (SASL), and what the broker is told. Pure, but for the files.

use secrecy::ExposeSecret;
use serde::{Serialize, Serializer};

use delaybridge_settings::Secret;

/// A login to AMQP 1.0. Shown as the keys that it was read from.
#[derive(Debug, Clone)]
pub enum Amqp1Login {
    /// Mechanism ANONYMOUS.
    Anonymous,
    /// Mechanism PLAIN.
    Plain {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// Mechanism EXTERNAL: the client certificate identifies the daemon.
    External,
}

impl Serialize for Amqp1Login {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct ShownLogin<'a> {
            login: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            username: Option<&'a str>,
            #[serde(flatten)]
            password: Option<&'a Secret>,
        }
        let none = ShownLogin { login: "anonymous", username: None, password: None };
        let shown = match self {
            Amqp1Login::Anonymous => none,
            Amqp1Login::Plain { username, password } => {
                ShownLogin { login: "plain", username: Some(username), password: Some(password) }
            }
            Amqp1Login::External => ShownLogin { login: "external", ..none },
        };
        shown.serialize(serializer)
    }
}

impl Amqp1Login {
    pub(super) fn mechanism(&self) -> &'static str {
        match self {
            Amqp1Login::Anonymous => "ANONYMOUS",
            Amqp1Login::Plain { .. } => "PLAIN",
            Amqp1Login::External => "EXTERNAL",
        }
    }

    /// Builds the first answer of the mechanism. Blocks: the file is read at every connect, because it is rotated. An
    /// error names the file, and never has its content.
    pub(super) fn response(&self) -> Result<Vec<u8>, String> {
        match self {
            Amqp1Login::Anonymous => Ok(b"delaybridge".to_vec()),
            Amqp1Login::External => Ok(Vec::new()),
            Amqp1Login::Plain { username, password } => {
                let password = password.read("password_file")?;
                Ok([b"\0", username.as_bytes(), b"\0", password.expose_secret().as_bytes()].concat())
            }
        }
    }
}
