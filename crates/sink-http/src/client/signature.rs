//! Signatures by the Standard Webhooks scheme: HMAC-SHA256 over `id.timestamp.body`, one for each secret.
//!
//! A receiver accepts a request when one of its signatures fits, so that a secret can be changed without a gap.

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::secrets;

/// The keys of a sink, the current one first. At least one.
pub(super) struct Signer(Vec<hmac::Key>);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.0.len())
    }
}

impl Signer {
    /// Reads the text of a secret file. An error names the line that is no secret, and never has what is in it.
    pub(super) fn parse(text: &str) -> Result<Signer, String> {
        let keys = secrets::keys(text)?;
        Ok(Signer(keys.iter().map(|key| hmac::Key::new(hmac::HMAC_SHA256, key)).collect()))
    }

    /// Returns the value of `webhook-signature`: `v1,` and the signature in base64, for each secret, separated by a
    /// space.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let one = |key: &hmac::Key| {
            let mut context = hmac::Context::with_key(key);
            for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
                context.update(part);
            }
            format!("v1,{}", STANDARD.encode(context.sign()))
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}
